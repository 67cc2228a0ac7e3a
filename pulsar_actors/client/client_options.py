"""What `Client` takes: the official keyword arguments and defaults, some more of our own, checked.

One default is not the official client's: `tls_validate_hostname` is on, for a certificate of anybody else's is
otherwise as good as the broker's. And `use_tls`, which never did anything there, is refused where it says that the
connection is encrypted and the service URL says that it is not.
"""

from dataclasses import dataclass, field
from logging import Logger

from pulsar_actors.client.arguments import (
    LONGEST_MS,
    LONGEST_SECONDS,
    check_fields,
    check_size,
    flag,
    optional,
    path,
    refusal_of,
    seconds,
    text,
    whole_number,
)
from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.loggers import ConsoleLogger, FileLogger
from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfoProvider, service_url
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, InvalidUrl
from pulsar_actors.wire.service_url import ServiceUrl

__all__ = ["ClientOptions"]

_MOST_THREADS = 1024
_SHORTEST = 0.001
"""In seconds: none at all would be over before it began."""


def _service(name: str, value: object) -> object:
    """Take a service URL, or who says which one."""
    if isinstance(value, (AutoClusterFailover, ServiceInfoProvider)):
        return value
    if not isinstance(value, str):
        takes = "a str, an AutoClusterFailover or a ServiceInfoProvider"
        raise InvalidUrl(f"a service URL is {takes}, not {type(value).__name__}")
    return service_url(name, value)


def _authentication(name: str, value: object) -> object:
    """Take an Authentication; what comes in its place may be a secret, and is not repeated."""
    if value is not None and not isinstance(value, Authentication):
        raise InvalidArgument(f"{name} takes an Authentication or None, got an object of type {type(value).__name__}")
    return value


def _logger(name: str, value: object) -> object:
    if value is not None and not isinstance(value, (Logger, ConsoleLogger, FileLogger)):
        raise refusal_of(name, value, "a logging.Logger, a ConsoleLogger, a FileLogger or None")
    return value


_CHECKS = {
    "service_url": _service,
    "authentication": _authentication,
    "operation_timeout_seconds": seconds(_SHORTEST),
    "io_threads": whole_number(1, _MOST_THREADS),
    "message_listener_threads": whole_number(1, _MOST_THREADS),
    "concurrent_lookup_requests": whole_number(1),
    "log_conf_file_path": optional(path),
    "stats_interval_in_seconds": whole_number(0, LONGEST_SECONDS),
    "use_tls": flag,
    "tls_trust_certs_file_path": optional(path),
    "tls_allow_insecure_connection": flag,
    "tls_validate_hostname": flag,
    "logger": _logger,
    "connection_timeout_ms": whole_number(1, LONGEST_MS),
    "listener_name": optional(text),
    "tls_private_key_file_path": optional(path),
    "tls_certificate_file_path": optional(path),
    "connections_per_broker": whole_number(1, _MOST_THREADS),
    "keep_alive_interval_seconds": seconds(_SHORTEST),
    "connection_max_idle_seconds": seconds(0),
    "tcp_no_delay": flag,
    "initial_backoff_interval_ms": whole_number(1, LONGEST_MS),
    "max_backoff_interval_ms": whole_number(1, LONGEST_MS),
    "memory_limit_bytes": whole_number(0, 2**63 - 1),
    "partitions_update_interval": seconds(0),
}


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The options of one client. They pickle if the authentication does, and the logger, which goes by its name."""

    service_url: str | AutoClusterFailover | ServiceInfoProvider
    authentication: Authentication | None = field(default=None, repr=False)
    operation_timeout_seconds: float = 30
    io_threads: int = 1
    message_listener_threads: int = 1
    concurrent_lookup_requests: int = 50_000
    log_conf_file_path: str | None = None
    """Without effect."""
    stats_interval_in_seconds: int = 600
    """Without effect."""
    use_tls: bool = False
    tls_trust_certs_file_path: str | None = None
    tls_allow_insecure_connection: bool = False
    tls_validate_hostname: bool = True
    logger: Logger | ConsoleLogger | FileLogger | None = None
    connection_timeout_ms: int = 10_000
    listener_name: str | None = None
    tls_private_key_file_path: str | None = None
    tls_certificate_file_path: str | None = None
    connections_per_broker: int = 1
    keep_alive_interval_seconds: float = 30
    connection_max_idle_seconds: float = 60
    """0: idle connections stay."""
    tcp_no_delay: bool = True
    initial_backoff_interval_ms: int = 100
    max_backoff_interval_ms: int = 60_000
    memory_limit_bytes: int = 0
    """0: none."""
    partitions_update_interval: float = 60
    """0: new partitions are not looked for."""

    def __post_init__(self) -> None:
        check_fields(self, _CHECKS)
        check_size(self, "listener_name")
        if not isinstance(self.service_url, str):
            self._refuse_what_belongs_to_each_service()
        elif self.use_tls and not ServiceUrl.parse(self.service_url).is_tls:
            raise InvalidConfiguration("use_tls=True encrypts nothing: write pulsar+ssl:// or https:// in service_url")
        if self.tls_private_key_file_path and not self.tls_certificate_file_path:
            raise InvalidConfiguration("tls_private_key_file_path needs its tls_certificate_file_path as well")
        if self.initial_backoff_interval_ms > self.max_backoff_interval_ms:
            raise InvalidConfiguration(
                f"initial_backoff_interval_ms={self.initial_backoff_interval_ms:,} is more than "
                f"max_backoff_interval_ms={self.max_backoff_interval_ms:,}"
            )

    def _refuse_what_belongs_to_each_service(self) -> None:
        """Refuse what would hold for whichever cluster comes, where each has its own."""
        for name in ("authentication", "tls_trust_certs_file_path"):
            if getattr(self, name) is not None:
                kind = type(self.service_url).__name__
                raise InvalidConfiguration(f"{name} does not go with {kind}: give each ServiceInfo its own")
