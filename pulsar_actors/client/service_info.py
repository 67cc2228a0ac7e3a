"""Which cluster a client is with, and who may change that while it runs.

A `ServiceInfo` is a service URL with the credentials and the trusted certificates that belong to it. Instead of a URL a
client can be given an `AutoClusterFailover`, which goes to another cluster when its own cannot be reached, or a
`ServiceInfoProvider`, with which a program decides for itself. Producers, consumers and readers go along: what is
pending is sent to the new cluster, and what was not acknowledged in the old one stays there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from pulsar_actors.client.arguments import (
    LARGEST_COUNT,
    LONGEST_MS,
    check_fields,
    instance_of,
    optional,
    refusal_of,
    text,
    whole_number,
)
from pulsar_actors.client.authentication import Authentication
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.service_url import ServiceUrl

__all__ = ["AutoClusterFailover", "ServiceInfo", "ServiceInfoProvider"]


def service_url(_: str, value: object) -> object:
    """Take a service URL; what is wrong with it is for InvalidUrl to say, which repeats no secret."""
    ServiceUrl.parse(cast("str", value))
    return value


@dataclass(frozen=True, slots=True, repr=False)
class ServiceInfo:
    """One cluster: where it is, who the client is there, and whose certificates are trusted.

    service_url
        As `Client` takes it.
    authentication = None
        As `Client` takes it.
    tls_trust_certs_file_path = None
        As `Client` takes it.
    """

    service_url: str
    authentication: Authentication | None = None
    tls_trust_certs_file_path: str | None = None

    def __post_init__(self) -> None:
        check_fields(
            self,
            {
                "service_url": service_url,
                "authentication": optional(instance_of(Authentication)),
                "tls_trust_certs_file_path": optional(text),
            },
        )

    @property
    def use_tls(self) -> bool:
        """Whether connections are encrypted, as the scheme of the URL says."""
        return ServiceUrl.parse(self.service_url).is_tls

    def __repr__(self) -> str:
        return (
            f"ServiceInfo(service_url={self.service_url!r}, use_tls={self.use_tls!r}, "
            f"tls_trust_certs_file_path={self.tls_trust_certs_file_path!r})"
        )


class ServiceInfoProvider:
    """The base of your own: it says where a client begins, and at any time where it is to go.

    `Client` calls `initial_service_info` and then `initialize`, on the thread that makes it. What they raise is raised
    there, and no client is made.
    """

    def initial_service_info(self) -> ServiceInfo:
        """Say where to begin."""
        raise NotImplementedError("a ServiceInfoProvider says where to begin: give it an initial_service_info")

    def initialize(self, on_service_info_update: Callable[[ServiceInfo], None]) -> None:
        """Keep the function: called with a `ServiceInfo`, on any thread, it has the client go there.

        Do not wait here for what may take long: start a thread for it. A call after the end of the client does nothing.
        """
        raise NotImplementedError("a ServiceInfoProvider is told whom to call: give it an initialize")

    def close(self) -> None:
        """End what `initialize` began. The client calls this once when it ends; what it raises is logged."""
        return


def _infos(name: str, value: object) -> object:
    given = cast("list[object]", value)
    if not isinstance(value, list) or not given:
        raise refusal_of(name, given, "a list of at least one ServiceInfo")
    for index, each in enumerate(given):
        if not isinstance(each, ServiceInfo):
            raise refusal_of(f"{name}[{index}]", each, "a ServiceInfo")
    return list(given)


@dataclass(frozen=True, slots=True)
class AutoClusterFailover:
    """The first of several clusters that can be reached, and the primary again when it can be.

    primary
        The cluster to use if it is there.
    secondary
        A list of others, in the order in which they are tried when it is not.
    check_interval_ms = 5000
        Every so many milliseconds the cluster in use is probed, and the primary if that is another one. A probe is a
        TCP connection to any of the hosts, for as long as `connection_timeout_ms` allows.
    failover_threshold = 1
        So many probes in a row have to fail before the others are tried.
    switch_back_threshold = 1
        So many probes of the primary in a row have to succeed before it is used again.
    """

    primary: ServiceInfo
    secondary: list[ServiceInfo]
    check_interval_ms: int = 5000
    failover_threshold: int = 1
    switch_back_threshold: int = 1

    def __post_init__(self) -> None:
        check_fields(
            self,
            {
                "primary": instance_of(ServiceInfo),
                "secondary": _infos,
                "check_interval_ms": whole_number(1, LONGEST_MS),
                "failover_threshold": whole_number(1, LARGEST_COUNT),
                "switch_back_threshold": whole_number(1, LARGEST_COUNT),
            },
        )

    @property
    def clusters(self) -> tuple[ServiceInfo, ...]:
        """All of them, the primary first."""
        return (self.primary, *self.secondary)


def checked(info: object) -> ServiceInfo:
    """Take what a provider gives, if it is one."""
    if not isinstance(info, ServiceInfo):
        raise InvalidArgument(f"a ServiceInfoProvider gives a ServiceInfo, not an object of type {type(info).__name__}")
    return info
