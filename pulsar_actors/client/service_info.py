"""The services that a client can use: one cluster, several with failover, or those of a provider.

A `ServiceInfo` is a service URL with the credentials and the trusted certificates that belong to it. Instead of a URL a
client can be given an `AutoClusterFailover`, which moves to another cluster when the current one cannot be reached, or
a `ServiceInfoProvider`, with which the program decides. Producers, consumers and readers move with the client: pending
messages are sent to the new cluster; messages that were not acknowledged in the old one stay there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.validation import (
    LARGEST_COUNT,
    LONGEST_MS,
    check_fields,
    instance_of,
    optional,
    refusal_of,
    text,
    whole_number,
)
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.service_url import ServiceUrl

__all__ = ["AutoClusterFailover", "ServiceInfo", "ServiceInfoProvider"]


def service_url(_: str, value: object) -> object:
    """Check a service URL. InvalidUrl says what is wrong with it, and quotes no secret."""
    ServiceUrl.parse(cast("str", value))
    return value


@dataclass(frozen=True, slots=True, repr=False)
class ServiceInfo:
    """One cluster: its URL, the client's credentials for it, and the certificates to trust.

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
        """True if connections are encrypted, by the scheme of the URL."""
        return ServiceUrl.parse(self.service_url).is_tls

    def __repr__(self) -> str:
        return (
            f"ServiceInfo(service_url={self.service_url!r}, use_tls={self.use_tls!r}, "
            f"tls_trust_certs_file_path={self.tls_trust_certs_file_path!r})"
        )


class ServiceInfoProvider:
    """The base of your own provider: it returns the first cluster of a client, and can move the client at any time.

    `Client` calls `initial_service_info` and then `initialize`, on the thread that makes it. If they raise, no
    client is made. Each service URL counts as a cluster: after a move between two URLs of one cluster, readers and
    table views begin again, too.
    """

    def initial_service_info(self) -> ServiceInfo:
        """Return the first cluster."""
        raise NotImplementedError("a ServiceInfoProvider says where to begin: give it an initial_service_info")

    def initialize(self, on_service_info_update: Callable[[ServiceInfo], None]) -> None:
        """Keep the function: called with a `ServiceInfo`, on any thread, it moves the client there.

        If that service cannot be used, for example because its file of certificates is missing, the function raises,
        and the client stays where it is. After the end of the client the function does nothing.

        Do not block here for long: start a thread instead.
        """
        raise NotImplementedError("a ServiceInfoProvider is told whom to call: give it an initialize")

    def close(self) -> None:
        """Stop the provider. The client calls this once when it ends; an exception is logged."""
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
    """Automatic failover: the client uses the first cluster that can be reached, and returns to the primary one.

    primary
        The cluster to use while it can be reached.
    secondary
        A list of other clusters, in the order in which they are tried.
    check_interval_ms = 5000
        Milliseconds between two probes of the cluster in use; if that is not the primary one, the primary is probed,
        too. A probe is a TCP connection to any of the hosts, with `connection_timeout_ms` for each.
    failover_threshold = 1
        The number of consecutive failed probes after which the other clusters are tried.
    switch_back_threshold = 1
        The number of consecutive successful probes of the primary after which it is used again.
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
        """All clusters, the primary first."""
        return (self.primary, *self.secondary)


def checked_service_info(info: object) -> ServiceInfo:
    """Check that a provider has returned a ServiceInfo."""
    if not isinstance(info, ServiceInfo):
        raise InvalidArgument(f"a ServiceInfoProvider gives a ServiceInfo, not an object of type {type(info).__name__}")
    return info
