"""The options of a client: the arguments of `Client`, each with its type, check and default.

Two of them differ from the official client. `tls_validate_hostname` is on by default: without it, a certificate for any
other host is as good as the broker's. `use_tls` has no effect in the official client; here True is refused together
with a service URL that does not encrypt.
"""

from logging import Logger
from typing import TYPE_CHECKING, Annotated

from pulsar_actors.client import validation as check
from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.options import Options
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration, InvalidUrl
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.service_url import ServiceUrl

if TYPE_CHECKING:
    from pulsar_actors.client.logger_options import ConsoleLogger, FileLogger
    from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfoProvider
    from pulsar_actors.client.telemetry import ClientTelemetry

__all__ = ["SHORTEST_TIMEOUT", "ClientOptions"]


_MOST_THREADS = 1024
SHORTEST_TIMEOUT = 0.001
"""In seconds: a timeout of 0 would leave no time for any call."""


def _service(_: str, value: object) -> object:
    """Take a service URL, or an object that provides one."""
    if isinstance(value, str):
        ServiceUrl.parse(value)
        return value
    from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfoProvider  # noqa: PLC0415

    if isinstance(value, (AutoClusterFailover, ServiceInfoProvider)):
        return value
    takes = "a str, an AutoClusterFailover or a ServiceInfoProvider"
    raise InvalidUrl(f"a service URL is {takes}, not {type(value).__name__}")


def _authentication(name: str, value: object) -> object:
    """Take an Authentication. Any other value may be a secret, so the error does not quote it."""
    if value is not None and not isinstance(value, Authentication):
        raise InvalidArgument(f"{name} takes an Authentication or None, got an object of type {type(value).__name__}")
    return value


def _logger(name: str, value: object) -> object:
    if value is None or isinstance(value, Logger):
        return value
    from pulsar_actors.client.logger_options import ConsoleLogger, FileLogger  # noqa: PLC0415

    if isinstance(value, (ConsoleLogger, FileLogger)):
        return value
    raise check.refusal_of(name, value, "a logging.Logger, a ConsoleLogger, a FileLogger or None")


def _telemetry(name: str, value: object) -> object:
    if value is None:
        return None
    from pulsar_actors.client.telemetry import ClientTelemetry  # noqa: PLC0415 - few clients have one

    if isinstance(value, ClientTelemetry):
        return value
    raise check.refusal_of(name, value, "a pulsar_actors.otel.Telemetry or None")


class ClientOptions(Options):
    """The checked options of one client. They pickle if the authentication does; a logger is pickled by its name."""

    service_url: Annotated["str | AutoClusterFailover | ServiceInfoProvider", _service]
    authentication: Annotated[Authentication | None, _authentication] = None
    operation_timeout_seconds: Annotated[float, check.seconds(SHORTEST_TIMEOUT)] = 30
    io_threads: Annotated[int, check.whole_number(1, _MOST_THREADS)] = 1
    message_listener_threads: Annotated[int, check.whole_number(1, _MOST_THREADS)] = 1
    concurrent_lookup_requests: Annotated[int, check.whole_number(1)] = 50_000
    log_conf_file_path: Annotated[str | None, check.optional(check.path)] = None
    """Without effect."""
    stats_interval_in_seconds: Annotated[int, check.whole_number(0, check.LONGEST_SECONDS)] = 600
    """Without effect."""
    use_tls: Annotated[bool, check.flag] = False
    tls_trust_certs_file_path: Annotated[str | None, check.optional(check.path)] = None
    tls_allow_insecure_connection: Annotated[bool, check.flag] = False
    tls_validate_hostname: Annotated[bool, check.flag] = True
    logger: Annotated["Logger | ConsoleLogger | FileLogger | None", _logger] = None
    connection_timeout_ms: Annotated[int, check.whole_number(1, check.LONGEST_MS)] = 10_000
    listener_name: Annotated[str | None, check.optional(check.text)] = None
    tls_private_key_file_path: Annotated[str | None, check.optional(check.path)] = None
    tls_certificate_file_path: Annotated[str | None, check.optional(check.path)] = None
    connections_per_broker: Annotated[int, check.whole_number(1, _MOST_THREADS)] = 1
    keep_alive_interval_seconds: Annotated[float, check.seconds(SHORTEST_TIMEOUT)] = 30
    connection_max_idle_seconds: Annotated[float, check.seconds(0)] = 60
    """0: idle connections stay."""
    tcp_no_delay: Annotated[bool, check.flag] = True
    initial_backoff_interval_ms: Annotated[int, check.whole_number(1, check.LONGEST_MS)] = 100
    max_backoff_interval_ms: Annotated[int, check.whole_number(1, check.LONGEST_MS)] = 60_000
    memory_limit_bytes: Annotated[int, check.whole_number(0, 2**63 - 1)] = 0
    """0: no limit."""
    partitions_update_interval: Annotated[float, check.seconds(0)] = 60
    """0: there are no checks for new partitions."""
    telemetry: Annotated["ClientTelemetry | None", _telemetry] = None

    def check_all(self) -> None:
        """Check each option, and those that must go together."""
        super().check_all()
        check.check_size(self, "listener_name")
        if not isinstance(self.service_url, str):
            self._refuse_what_belongs_to_each_service()
        elif self.use_tls and not ServiceUrl.parse(self.service_url).is_tls:
            raise InvalidConfiguration(
                f"use_tls=True encrypts nothing for {excerpt(self.service_url)}: write pulsar+ssl:// or https://"
            )
        if self.tls_private_key_file_path and not self.tls_certificate_file_path:
            raise InvalidConfiguration("tls_private_key_file_path needs its tls_certificate_file_path as well")
        if self.initial_backoff_interval_ms > self.max_backoff_interval_ms:
            raise InvalidConfiguration(
                f"initial_backoff_interval_ms={self.initial_backoff_interval_ms:,} is more than "
                f"max_backoff_interval_ms={self.max_backoff_interval_ms:,}"
            )

    def _refuse_what_belongs_to_each_service(self) -> None:
        """Refuse options that belong to each ServiceInfo, if the client is given an object with several."""
        for name in ("authentication", "tls_trust_certs_file_path"):
            if getattr(self, name) is not None:
                kind = type(self.service_url).__name__
                raise InvalidConfiguration(f"{name} does not go with {kind}: give each ServiceInfo its own")
