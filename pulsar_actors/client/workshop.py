"""What the making of producers, consumers and sets has in common: the guardian is asked, and somebody waits.

The guardian decides whether there is to be one, and on which loop; the parts that depend on that are made there. What
can be shared with callers is made before it is asked, so that a handle has it whatever becomes of the actor.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from google.protobuf.message import Message as Command

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.common import Common
from pulsar_actors.client.connecting import entrance
from pulsar_actors.client.living import Living
from pulsar_actors.client.parts import Parts
from pulsar_actors.exceptions import Interrupted, PulsarException, Timeout
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_messages import CloseHandle, Place
from pulsar_actors.runtime.client_actor import Admit, ClientActor, ClientSettings
from pulsar_actors.runtime.connections import Manner
from pulsar_actors.runtime.debts import Debts
from pulsar_actors.runtime.engine import Engine, Worker
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.lookup_actor import LookupSettings, Question
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.memory_gate import MemoryGate
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.wire.service_url import ServiceUrl

NEVER = 10.0**9
"""Seconds."""

P = TypeVar("P", bound=Parts[Any])
T = TypeVar("T")


class Workshop:
    """What one client makes its producers, consumers and sets with. Any thread may use it."""

    def __init__(self, engine: Engine, options: ClientOptions, version: str) -> None:
        self.engine = engine
        self.open: Living[Parts[Any]] = Living()
        self.debts = Debts(engine.interleaving)  # what callers wait for that no handle owes
        self.tally = Tally()
        url = ServiceUrl.parse(str(options.service_url))
        timeout = float(options.operation_timeout_seconds)
        first, longest = options.initial_backoff_interval_ms / 1000, options.max_backoff_interval_ms / 1000
        self.operation_timeout = timeout
        self.partitions_update_interval = float(options.partitions_update_interval)
        self.common = Common(timeout, url.is_tls, first, longest)
        limit = options.memory_limit_bytes
        self.gate = MemoryGate(limit, engine.interleaving) if limit else None
        self._serial = 0
        self.guardian: Address = ClientActor.start(engine.loops, _settings(options, url, version, self.tally))

    def ask(self, command: Command) -> SlimFuture[Any]:
        """Ask a broker of the service URL."""
        answer: SlimFuture[Any] = self.debts.owe(SlimFuture())

        def answered(outcome: Any) -> None:  # noqa: ANN401 - an answer or an error
            if isinstance(outcome, Exception):
                self.debts.fail(answer, outcome)
            else:
                self.debts.pay(answer, outcome)

        tell(self.guardian, Question(command, answered))
        return answer

    def next_worker(self) -> Worker:
        """Give the listener thread whose turn it is."""
        self._serial += 1
        return self.engine.workers[self._serial % len(self.engine.workers)]

    def wait(self, made: SlimFuture[P], what: str) -> P:
        """Wait until it is there; if nobody waits to the end, let it go as soon as it is."""
        try:
            return self.wait_for(made, what)
        except Interrupted:
            made.add_done_callback(_close_unwanted)
            raise

    def wait_for(self, future: Future[T], what: str) -> T:
        """Wait, for as long as it takes; what was not done in time is named."""
        try:
            return self.engine.block(future, None, what)
        except Timeout as error:
            raise Timeout(f"{what}: {error}") from None

    def admit(self, kind: str, parts: P, make: Callable[[Loop, Place], Address]) -> SlimFuture[P]:
        """Ask the guardian; the parts are whole once the broker has accepted."""
        whole: SlimFuture[P] = SlimFuture()

        def done(created: Future[None]) -> None:
            self.debts.pay(parts.ties.created, None)
            error = created.exception()
            settle(whole, error if isinstance(error, Exception) else parts)

        def refuse(error: PulsarException) -> None:
            settle(parts.ties.created, error)

        parts.ties.created.add_done_callback(done)
        self.open.add(parts)
        self.debts.owe(parts.ties.created)
        tell(self.guardian, Admit(kind, make, refuse))
        return whole


def _settings(options: ClientOptions, url: ServiceUrl, version: str, tally: Tally) -> ClientSettings:
    timeout = float(options.operation_timeout_seconds)
    lookup = LookupSettings(timeout, options.listener_name, options.concurrent_lookup_requests)
    manner = Manner(
        client_version=version,
        connection_timeout=options.connection_timeout_ms / 1000,
        keepalive_interval=float(options.keep_alive_interval_seconds),
        idle_after=max(float(options.connection_max_idle_seconds), timeout)
        if options.connection_max_idle_seconds
        else NEVER,
        tcp_no_delay=options.tcp_no_delay,
    )
    way_in = entrance(options)
    if url.is_tls:
        way_in.make_context()  # a file of certificates that is of no use is refused here, where it was named
    return ClientSettings(
        service_url=url,
        lookup=lookup,
        manner=manner,
        entrance=way_in,
        tally=tally,
        connections_per_broker=options.connections_per_broker,
    )


def _close_unwanted(made: "Future[P]") -> None:
    """Close what came into being after its caller was interrupted."""
    if made.exception() is None:
        tell(made.result().address, CloseHandle())
