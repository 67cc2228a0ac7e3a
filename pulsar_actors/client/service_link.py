"""Where a client is, and how it gets elsewhere: between its service URL, in whatever form it came, and its guardian.

It knows of no handle: the function that a provider keeps leads here, and must not keep a client alive that nobody else
holds. What a provider raises at its end is logged, for whoever closes a client can do nothing about it.
"""

import contextlib
import threading
from dataclasses import replace

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.connecting import entrance
from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo, ServiceInfoProvider, checked
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.client_actor import UseService
from pulsar_actors.runtime.interrupts import is_for_main
from pulsar_actors.runtime.log import LOG
from pulsar_actors.wire.service_url import ServiceUrl

__all__ = ["ServiceLink"]


class ServiceLink:
    """That of one client. Any thread may use it."""

    def __init__(self, given: ClientOptions) -> None:
        self._given = given
        self._provider: ServiceInfoProvider | None = None
        self._guardian: Address | None = None
        self._lock = threading.Lock()
        self._closed = False
        match given.service_url:
            case AutoClusterFailover(primary=primary):
                self.info = primary
            case ServiceInfoProvider() as provider:
                self._provider = provider
                self.info = checked(provider.initial_service_info())
            case url:
                self.info = ServiceInfo(url, given.authentication, given.tls_trust_certs_file_path)
        self.options = self._at(self.info)

    def begin(self, guardian: Address) -> None:
        """Have whoever watches over the clusters begin; what a provider raises is raised."""
        self._guardian = guardian
        if isinstance(self._given.service_url, AutoClusterFailover):
            from pulsar_actors.client.failing_over import watch_over  # noqa: PLC0415 - few clients need it

            tell(guardian, watch_over(self._given.service_url, self._given.connection_timeout_ms / 1000, self.go_to))
        elif self._provider is not None:
            self._provider.initialize(self.go_to)

    def go_to(self, info: ServiceInfo) -> None:
        """Have the client go there, unless it is there already or has ended; what makes no sense is refused."""
        there = entrance(self._at(checked(info)))  # a user's authentication may raise here, and call anything
        with self._lock:
            if self._closed or self._guardian is None or info == self.info:
                return
            self.info = info
            tell(self._guardian, UseService(ServiceUrl.parse(info.service_url), there))

    def close(self) -> None:
        """Go nowhere any longer, and tell the provider, once."""
        with self._lock:
            provider, self._provider = self._provider, None
            self._closed = True
        if provider is not None:
            _end(provider)

    def let_go(self) -> None:
        """Close likewise, for the garbage collector: a provider is the user's, and runs on no thread of ours."""
        if self._provider is not None:
            with contextlib.suppress(RuntimeError):  # no more threads can be had, at the end of the interpreter
                threading.Thread(target=self.close, name="pulsar_actors-let-go", daemon=True).start()

    def forget_everything(self) -> None:
        """Go nowhere any longer, in a forked child, where the provider is the parent's."""
        self._lock = threading.Lock()
        self._closed, self._provider = True, None

    def _at(self, info: ServiceInfo) -> ClientOptions:
        """Give the options as if the client had been made for this cluster."""
        return replace(
            self._given,
            service_url=info.service_url,
            authentication=info.authentication,
            tls_trust_certs_file_path=info.tls_trust_certs_file_path,
        )


def _end(provider: ServiceInfoProvider) -> None:
    try:
        provider.close()
    except BaseException as raised:  # it is the user's, whatever it is
        if is_for_main(raised):
            raise
        LOG.exception("the ServiceInfoProvider has failed to close")
