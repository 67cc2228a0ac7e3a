"""The service that a client uses, and its moves to another one.

It resolves `service_url`, which is a text, an AutoClusterFailover or a ServiceInfoProvider, to a `ServiceInfo`, and
tells the client's actor when the service changes. It has no reference to the client: a provider keeps `switch_to`,
which must not keep the client alive. An exception of a provider's `close` is only logged, because the caller who closes
a client cannot handle it.
"""

import contextlib
import threading
from typing import TYPE_CHECKING, cast

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.transport_config import usable_service_access
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.client_actor import Registrations, UseService
from pulsar_actors.runtime.connection_actor import ServiceAccess
from pulsar_actors.runtime.handle_link import ClientCounters
from pulsar_actors.runtime.interrupts import is_for_main
from pulsar_actors.runtime.log import LOG
from pulsar_actors.wire.service_url import ServiceUrl

if TYPE_CHECKING:
    from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo, ServiceInfoProvider

__all__ = ["ServiceSwitch"]


class ServiceSwitch:
    """The service of one client. Any thread may use it."""

    def __init__(self, given: ClientOptions) -> None:
        self._given = given
        self._provider: ServiceInfoProvider | None = None
        self._guardian: ActorRef | None = None
        self._counters: ClientCounters | None = None
        self._lock = threading.Lock()
        self._closed = False
        self._info: ServiceInfo | None = None  # None if the client was given the URL of one cluster
        self.options = given
        if not isinstance(given.service_url, str):
            self._info = self._first(given.service_url)
            self.options = self._options_at(self._info)

    @property
    def info(self) -> "ServiceInfo":
        """The service in use."""
        from pulsar_actors.client.service_info import ServiceInfo  # noqa: PLC0415

        if self._info is not None:
            return self._info
        given = self.options
        return ServiceInfo(str(given.service_url), given.authentication, given.tls_trust_certs_file_path)

    def start(self, guardian: ActorRef, registrations: Registrations, counters: ClientCounters) -> None:
        """Start the failover or the provider. An exception of the provider is raised."""
        self._guardian, self._counters = guardian, counters
        service = self._given.service_url
        if self._provider is not None:
            self._provider.initialize(self.switch_to)
        elif not isinstance(service, str):
            self._start_failover(cast("AutoClusterFailover", service), registrations)

    def _first(self, service: "AutoClusterFailover | ServiceInfoProvider") -> "ServiceInfo":
        """Return the cluster to begin with."""
        from pulsar_actors.client.service_info import AutoClusterFailover, checked_service_info  # noqa: PLC0415

        if isinstance(service, AutoClusterFailover):
            return service.primary
        self._provider = service
        return checked_service_info(service.initial_service_info())

    def switch_to(self, info: "ServiceInfo") -> None:
        """Move the client to a service, unless it is there already or has ended. Raises if it cannot be used."""
        from pulsar_actors.client.service_info import checked_service_info  # noqa: PLC0415

        self._move(info, self._access_to(checked_service_info(info)))

    def _move(self, info: "ServiceInfo", there: ServiceAccess) -> None:
        with self._lock:
            if self._closed or self._guardian is None or self._counters is None or info == self._info:
                return
            self._info = info
            tell(self._guardian, UseService(ServiceUrl.parse(info.service_url), there))
            self._counters.moves += 1  # last: what is asked from now on, the new service answers

    def close(self) -> None:
        """Stop moving the client, and close the provider, once."""
        with self._lock:
            provider, self._provider = self._provider, None
            self._closed = True
        if provider is not None:
            _close_provider(provider)

    def close_in_background(self) -> None:
        """Close without blocking, for the garbage collector: the provider, user code, is closed in a new thread."""
        if self._provider is not None:
            with contextlib.suppress(RuntimeError):  # at the end of the interpreter no thread can be started
                threading.Thread(target=self.close, name="pulsar_actors-let-go", daemon=True).start()

    def forget_everything(self) -> None:
        """Stop moving the client, in a forked child. The provider belongs to the parent."""
        self._lock = threading.Lock()
        self._closed, self._provider = True, None

    def _start_failover(self, given: "AutoClusterFailover", registrations: Registrations) -> None:
        from pulsar_actors.machines.auto_cluster_failover import AutoClusterFailoverMachine, FailoverSettings  # noqa: PLC0415
        from pulsar_actors.runtime.auto_cluster_failover_actor import (  # noqa: PLC0415 - few clients have several clusters
            FAILOVER,
            AutoClusterFailoverActor,
            FailoverTargets,
        )

        move = self._move
        services = tuple((each, self._access_to(each)) for each in given.clusters)  # here, where a caller can be told
        settings = FailoverSettings(
            len(services), given.check_interval_ms / 1000, given.failover_threshold, given.switch_back_threshold
        )
        urls = tuple(ServiceUrl.parse(each.service_url) for each, _ in services)
        timeout = self._given.connection_timeout_ms / 1000

        def use(cluster: int) -> None:
            move(*services[cluster])

        targets = FailoverTargets(urls, timeout, use)
        AutoClusterFailoverActor.start(registrations.new(FAILOVER), AutoClusterFailoverMachine(settings), targets)

    def _access_to(self, info: "ServiceInfo") -> ServiceAccess:
        """Make the access to a service, outside of the lock: a user's authentication may raise, or call any method."""
        return usable_service_access(self._options_at(info))

    def _options_at(self, info: "ServiceInfo") -> ClientOptions:
        """Return the options of a client for this cluster."""
        return self._given.replace(
            service_url=info.service_url,
            authentication=info.authentication,
            tls_trust_certs_file_path=info.tls_trust_certs_file_path,
        )


def _close_provider(provider: "ServiceInfoProvider") -> None:
    try:
        provider.close()
    except BaseException as raised:  # user code may raise anything
        if is_for_main(raised):
            raise
        LOG.exception("the ServiceInfoProvider has failed to close")
