"""A Pulsar broker inside your program, for demonstrations and for tests of programs that use Pulsar.

    with EmbeddedBroker() as broker:
        client = Client(broker.service_url)
        ...

It keeps everything in memory and forgets it when it stops, unless it has a data folder. Without other options it
listens on free ports of the loopback address. It has its own loop and thread, and shares none with a client. Any Pulsar
client can connect to it.

`broker.faults` scripts faults (see `broker/faults.py`). `broker.call` reads or changes the broker from another thread:

    backlog = broker.call(lambda inside: inside.cluster.find_topic(name).subscriptions["s"].backlog())
"""

import ssl
import threading
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.faults import Faults
from pulsar_actors.broker.model.interfaces import Address
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.options import BrokerOptions, OpenToOthersWarning
from pulsar_actors.broker.session.directory import Node
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.exceptions import AlreadyClosed, InvalidArgument
from pulsar_actors.runtime.thread_loop import ThreadLoop
from pulsar_actors.runtime.tls import server_context

if TYPE_CHECKING:
    from pulsar_actors.inspector.server import Inspector
    from pulsar_actors.inspector.snapshot import Snapshot

__all__ = ["EmbeddedBroker"]


T = TypeVar("T")

_STOP_SECONDS = 10.0
_CALL_SECONDS = 30.0


class EmbeddedBroker:
    """One broker, from `start` to `stop`, or for its `with` block."""

    def __init__(  # noqa: PLR0913 - each is an option of the broker
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        web_port: int = 0,
        *,
        certificate_file: str | None = None,
        private_key_file: str | None = None,
        tls_port: int = 0,
        web_tls_port: int = 0,
        trust_certs_file: str | None = None,
        tokens: Tokens | None = None,
        passwords: Mapping[str, str] | None = None,
        settings: Settings | None = None,
        broker_entry_metadata: bool = False,
        keepalive_seconds: float = 30.0,
        data_folder: str | Path | None = None,
    ) -> None:
        """Set the options; `start` or the `with` block starts the broker.

        host = "127.0.0.1"
            The address to listen on. Only with one of the loopback can no other machine connect.
        port = 0
            For the binary protocol; 0 takes a free one.
        web_port = 0
            For HTTP lookups and the admin calls; 0 takes a free one.
        certificate_file = None
            In PEM; with it and its key the broker listens for TLS as well.
        private_key_file = None
            In PEM.
        tls_port = 0
            For the binary protocol over TLS; 0 takes a free one.
        web_tls_port = 0
            For HTTPS; 0 takes a free one.
        trust_certs_file = None
            In PEM, certificates of authorities. Clients with a certificate signed by one of them may
            connect, under the name in it.
        tokens = None
            Clients with a token of these may connect.
        passwords = None
            Clients with a name and its password may connect. Without tokens, passwords and trusted
            certificates everybody may connect; with several of them, one is enough.
        settings = None
            Limits and defaults, as in a broker's configuration file: `Settings(deduplication=True)` stores
            only once what a producer sends twice.
        broker_entry_metadata = False
            Whether clients that can read it get the broker's own time and index with each entry.
        keepalive_seconds = 30.0
            After how many silent seconds a client gets a PING. The connection ends after as many without an
            answer.
        data_folder = None
            Where topics, subscriptions, schemas and transactions are stored, so that the next broker with
            this folder has them; it is created if it is not there. What was confirmed to a client is
            stored, also if the program is killed. All of it is held in memory, too. If the disk fails, the
            broker ends.
        """
        self._options = BrokerOptions(
            host=host,
            port=port,
            web_port=web_port,
            tls_port=tls_port,
            web_tls_port=web_tls_port,
            certificate_file=certificate_file,
            private_key_file=private_key_file,
            trust_certs_file=trust_certs_file,
            tokens=tokens,
            passwords=passwords,
            settings=settings or Settings(),
            broker_entry_metadata=broker_entry_metadata,
            keepalive_seconds=keepalive_seconds,
            data_folder=data_folder,
        )
        self._loop: ThreadLoop | None = None
        self._broker: Broker | None = None
        self._has_ended = threading.Event()

    def start(self) -> None:
        """Start the thread and listen; OSError names a port that is taken, or a data folder that cannot be used.

        InvalidArgument if the data folder has something else in it, or another broker uses it. An address that is not
        of the loopback gives an OpenToOthersWarning.
        """
        if self._loop is not None:
            raise InvalidArgument("this broker has been started before; make another one")
        if not self._options.is_on_loopback:
            warnings.warn(_open_to_others(self._options), OpenToOthersWarning, stacklevel=2)
        context = _context(self._options)
        loop = self._loop = ThreadLoop("pulsar-broker")
        loop.start()
        try:
            self._broker = _on(loop, lambda: Broker(loop, self._options, context, self._has_ended.set), None)
            self.call(lambda inside: inside.listen())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every connection, close every port and end the thread. A second call does nothing."""
        loop, broker, self._broker = self._loop, self._broker, None
        if loop is None:
            return
        if broker is not None:
            loop.post(lambda _: broker.close(), None)
        loop.stop(_STOP_SECONDS)
        self._has_ended.set()

    def wait(self) -> None:
        """Wait until the broker is stopped; OSError if it has ended because its data cannot be stored."""
        broker = self._running()
        self._has_ended.wait()
        if broker.failure is not None:
            raise OSError(broker.failure)

    def __enter__(self) -> "EmbeddedBroker":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def service_url(self) -> str:
        """The URL for clients: `pulsar://…`."""
        return self._first().service_url

    @property
    def service_url_tls(self) -> str:
        """The URL for clients over TLS: `pulsar+ssl://…`; empty without a certificate."""
        return self._first().service_url_tls

    @property
    def web_url(self) -> str:
        """The URL for HTTP lookups and the admin calls: `http://…`."""
        return self._first().web_url

    @property
    def web_url_tls(self) -> str:
        """The URL for the same over TLS: `https://…`; empty without a certificate."""
        return self._first().web_url_tls

    @property
    def faults(self) -> Faults:
        """The scripted faults. May be used from any thread."""
        return self._running().faults

    def create_topic(self, topic: str, partitions: int = 0) -> None:
        """Create a topic, with so many partitions or with none.

        InvalidArgument if it exists already, or if its namespace does not. A producer or consumer creates a missing
        topic without partitions, too.
        """
        self.call(lambda inside: inside.create_topic(topic, partitions))

    def add_listener(self) -> Node:
        """Add a second address, as if the cluster had one more broker: lookups redirect between the two.

        It serves the topics that are assigned to it, and those that are assigned to none.
        """
        return self.call(lambda inside: inside.add_listener())

    def assign(self, topic: str, node: Node) -> None:
        """Assign a topic to the broker behind an address; connected clients are sent there."""
        self.call(lambda inside: inside.assign(topic, node))

    def advertise(self, listener: str, service_url: str, service_url_tls: str = "") -> None:
        """Advertise another address of the broker to clients that name this listener (`listener_name`)."""
        self.call(lambda inside: inside.advertise(listener, Address(service_url, service_url_tls)))

    def migrate(self, topic: str, service_url: str, service_url_tls: str = "") -> None:
        """Move a topic to another cluster, permanently: producers at once, consumers when their backlog is empty."""
        self.call(lambda inside: inside.migrate(topic, service_url, service_url_tls))

    def cut_connections(self) -> None:
        """End every connection of a client, as a network failure does. The ports stay open."""
        self.call(lambda inside: inside.cut_connections())

    def inspect(self, *, port: int = 0) -> "Inspector":
        """Serve a page for your browser that shows connections, topics and subscriptions, with faults to click.

        Return it; `url` is its address, which has a secret in it. It is served on the loopback address, at a free port
        or the given one.
        """
        from pulsar_actors.broker import inspection, session  # noqa: PLC0415 - few programs look at it
        from pulsar_actors.inspector.server import Inspector  # noqa: PLC0415 - the same
        from pulsar_actors.inspector.site import Site  # noqa: PLC0415 - the same

        def snapshot() -> "Snapshot":
            loop = self._loop
            assert loop is not None  # noqa: S101 - there is one after the start
            return self.call(lambda inside: inspection.snapshot(inside, loop))

        self._running()
        return Inspector(Site(snapshot, (session,), self.offered_faults()), port)

    def offered_faults(self) -> dict[str, Callable[[], object]]:
        """Return faults to click, by their labels: for the page of a client, `client.inspect(broker=broker)`."""
        from pulsar_actors.broker.inspection import OFFERED  # noqa: PLC0415 - few programs look at it

        return {label: partial(self.call, fault) for label, fault in OFFERED.items()}

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call a function with the broker on the broker's loop; returns its result, or raises its error.

        Objects of the broker belong to that loop: return numbers and texts, no live objects.
        """
        broker, loop = self._running(), self._loop
        assert loop is not None  # noqa: S101 - a running broker has one
        if loop.is_here():
            return function(broker)

        def stored() -> T:
            result = function(broker)
            broker.commit()
            return result

        return _on(loop, stored, _CALL_SECONDS)

    def _running(self) -> Broker:
        if self._broker is None:
            raise AlreadyClosed("the broker is not running: use it in a `with` block, or between `start` and `stop`")
        return self._broker

    def _first(self) -> Node:
        return self._running().nodes[0]


def _on(loop: ThreadLoop, function: Callable[[], T], seconds: float | None) -> T:
    """Call a function on a loop, and wait for it."""
    answer: Future[T] = Future()

    def run(_: None) -> None:
        try:
            answer.set_result(function())
        except BaseException as error:  # noqa: BLE001 - any error belongs to the caller
            answer.set_exception(error)

    loop.post(run, None)
    return answer.result(seconds)


def _open_to_others(options: BrokerOptions) -> str:
    who = "whoever has credentials" if options.wants_credentials else "anyone"
    return (
        f"the embedded broker listens on {options.host}: {who} that can reach this machine may read, change and delete "
        "everything in it; it is made for tests and for one machine"
    )


def _context(options: BrokerOptions) -> ssl.SSLContext | None:
    if options.certificate_file is None or options.private_key_file is None:
        return None
    trusted = options.trust_certs_file
    context = server_context(options.certificate_file, options.private_key_file, trust_certs_file=trusted)
    if trusted is not None:
        context.verify_mode = ssl.CERT_OPTIONAL  # a client without a certificate may have a token
    return context
