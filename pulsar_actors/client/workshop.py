"""Where a client's producers and consumers are put together: the ledgers, the machine, the queues, the actor.

The guardian decides whether there is to be one, and on which loop; the parts that depend on that are made there. What
can be shared with callers is made here, so that a handle has it whatever becomes of the actor.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from google.protobuf.message import Message as Command

from pulsar_actors.client import consuming, producing
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.common import Common
from pulsar_actors.client.connecting import entrance
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.consumer_parts import ConsumerParts
from pulsar_actors.client.listener import Pump
from pulsar_actors.client.living import Living
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.producer_parts import ProducerParts
from pulsar_actors.client.reports import Reports
from pulsar_actors.exceptions import Interrupted, PulsarException, Timeout
from pulsar_actors.runtime.ack_box import AckBox
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_messages import CloseHandle, Place
from pulsar_actors.runtime.client_actor import Admit, ClientActor, ClientSettings
from pulsar_actors.runtime.consumer_actor import ConsumerActor, DeadLetterBox, Wiring
from pulsar_actors.runtime.debts import Debts
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.hand_off import HandOff
from pulsar_actors.runtime.lookup_actor import LookupSettings, Question
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.outbox import Outbox
from pulsar_actors.runtime.producer_actor import ProducerActor
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.wire.service_url import ServiceUrl
from pulsar_actors.wire.topic_name import TopicName

NEVER = 10.0**9
"""Seconds."""

P = TypeVar("P", ProducerParts, ConsumerParts)
T = TypeVar("T")


class Workshop:
    """The making of one client's producers and consumers."""

    def __init__(self, engine: Engine, options: ClientOptions, version: str) -> None:
        self.engine = engine
        self.open: Living[ProducerParts | ConsumerParts] = Living()
        self.debts = Debts(engine.interleaving)  # what callers wait for that no handle owes
        self.tally = Tally()
        url = ServiceUrl.parse(options.service_url)
        timeout = float(options.operation_timeout_seconds)
        first, longest = options.initial_backoff_interval_ms / 1000, options.max_backoff_interval_ms / 1000
        self._common = Common(timeout, url.is_tls, first, longest)
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

    def producer(self, options: ProducerOptions, initial_subscription: str = "") -> SlimFuture[ProducerParts]:
        """Begin to make a producer."""
        topic = TopicName.parse(options.topic)
        reports = Reports(str(topic), topic.partition_index)
        pending = producing.pending_of(options)
        outbox = Outbox(pending, producing.limits_of(options), reports, self.engine.interleaving)
        parts = ProducerParts(self.engine, outbox, reports)

        def make(loop: Loop, place: Place) -> Address:
            command = producing.command_of(options, place.id, initial_subscription)
            parts.machine = producing.machine_of(command, pending, options, self._common, loop)
            manner = producing.manner_of(options)
            parts.address = ProducerActor.start(loop, place, parts.ties, parts.machine, outbox, manner)
            return parts.address

        return self._admit("producer", parts, make)

    def consumer(
        self,
        options: ConsumerOptions,
        start: consuming.Start | None,
        listener: Callable[[Any, Any], object] | None,
        dead_letters: DeadLetterBox | None,
    ) -> SlimFuture[ConsumerParts]:
        """Begin to make a consumer or a reader."""
        parts = ConsumerParts(self.engine, options, self._common.operation_timeout)
        topic = str(TopicName.parse(options.topics[0]))
        terms = consuming.terms_of(options, start, topic)

        def report(message: object) -> None:
            tell(parts.address, message)

        interleaving = self.engine.interleaving
        parts.hand_off, parts.acks = HandOff(terms, report, interleaving), AckBox(report, interleaving)
        if listener is not None:
            self._serial += 1
            worker = self.engine.workers[self._serial % len(self.engine.workers)]
            parts.pump = Pump(parts.hand_off, worker, listener, topic)

        def make(loop: Loop, place: Place) -> Address:
            command = consuming.command_of(options, place.id, start)
            parts.machine = consuming.machine_of(options, command, start, self._common, loop)
            arrived = _nothing if parts.pump is None else parts.pump.arrived
            wiring = Wiring(parts.hand_off, parts.acks, dead_letters, _nobody_cares, arrived)
            parts.address = ConsumerActor.start(loop, place, parts.ties, parts.machine, wiring)
            return parts.address

        return self._admit("consumer", parts, make)

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

    def _admit(self, kind: str, parts: P, make: Callable[[Loop, Place], Address]) -> SlimFuture[P]:
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
    lookup = LookupSettings(timeout, url.is_tls, options.listener_name, options.concurrent_lookup_requests)
    return ClientSettings(
        service_url=url,
        client_version=version,
        lookup=lookup,
        entrance=entrance(options),
        tally=tally,
        connection_timeout=options.connection_timeout_ms / 1000,
        keepalive_interval=float(options.keep_alive_interval_seconds),
        connections_per_broker=options.connections_per_broker,
        idle_after=max(float(options.connection_max_idle_seconds), timeout)
        if options.connection_max_idle_seconds
        else NEVER,
    )


def _close_unwanted(made: "Future[P]") -> None:
    """Close what came into being after its caller was interrupted."""
    if made.exception() is None:
        tell(made.result().address, CloseHandle())


def _nothing() -> None:
    """Do nothing, where there is no listener."""


def _nobody_cares(_: bool) -> None:
    """Do nothing, where nobody asked whether the consumer is the active one."""
