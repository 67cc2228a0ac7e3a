"""Where a client's producers and consumers are put together: the ledgers, the machine, the queues, the actor.

The guardian decides whether there is to be one, and on which loop; the parts that depend on that are made there. What
can be shared with callers is made here, so that a handle has it whatever becomes of the actor.
"""

import sys
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from google.protobuf.message import Message as Command

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.common import Common
from pulsar_actors.client.connecting import entrance
from pulsar_actors.client.consuming import consumer_machine
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming.listener import Pump
from pulsar_actors.client.consuming.news import News, news_of
from pulsar_actors.client.consuming.receiving_parts import AnyReceivingParts
from pulsar_actors.client.living import Living
from pulsar_actors.client.parts import Parts
from pulsar_actors.client.producing import producer_machine
from pulsar_actors.client.producing.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.producing.producer_parts import ProducerParts
from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.exceptions import Interrupted, PulsarException, Timeout
from pulsar_actors.machines.topic_set import TopicSet
from pulsar_actors.machines.topic_set_settings import TopicSetSettings
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_messages import CloseHandle, Place
from pulsar_actors.runtime.client_actor import Admit, ClientActor, ClientSettings
from pulsar_actors.runtime.connections import Manner
from pulsar_actors.runtime.consumer_actor import ConsumerActor, DeadLetterBox, Wiring
from pulsar_actors.runtime.debts import Debts
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.hand_off import HandOff
from pulsar_actors.runtime.lookup_actor import LookupSettings, Question
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.memory_gate import MemoryGate
from pulsar_actors.runtime.producer_actor import ProducerActor
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.runtime.topic_set_actor import Crew, Search, TopicSetActor
from pulsar_actors.wire.service_url import ServiceUrl
from pulsar_actors.wire.topic_name import TopicName

NEVER = 10.0**9
"""Seconds."""

P = TypeVar("P", bound=Parts[Any])
S = TypeVar("S", bound=Parts[TopicSet])
T = TypeVar("T")


def _nothing(*_: object) -> None:
    """Do nothing, where there is no listener, or nobody asked."""


class Workshop:
    """The making of one client's producers and consumers."""

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
        self._common = Common(timeout, url.is_tls, first, longest)
        limit = options.memory_limit_bytes
        self._gate = MemoryGate(limit, engine.interleaving) if limit else None
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
        parts = self.producer_parts(options)
        reports = parts.reports
        parts.interceptors = ProducerInterceptors.of(
            options.interceptors, reports, reports.topic, self.engine.workers[0]
        )
        return self.start_producer(parts, options, initial_subscription=initial_subscription)

    def producer_parts(self, options: ProducerOptions) -> ProducerParts:
        """Make what callers of a producer need, before there is one."""
        topic = TopicName.parse(options.topic)
        reports = Reports(str(topic), topic.partition_index)
        pending = producer_machine.pending_of(options, self._gate)
        outbox = producer_machine.outbox_of(options, pending, reports, self.engine.interleaving, self._gate)
        return ProducerParts(self.engine, outbox, reports, waits=options.block_if_queue_full)

    def start_producer(
        self,
        parts: ProducerParts,
        options: ProducerOptions,
        *,
        initial_subscription: str = "",
        name: str = "",
        placed: Callable[[Address], object] = _nothing,
    ) -> SlimFuture[ProducerParts]:
        """Begin to make the producer of these parts. `name` is one that a broker chose for others of its set."""

        def make(loop: Loop, place: Place) -> Address:
            command = producer_machine.command_of(options, place.id, initial_subscription)
            parts.machine = producer_machine.machine_of(command, parts.outbox.pending, options, self._common, loop)
            parts.machine.identity.name = options.producer_name or name
            manner = producer_machine.manner_of(options)
            parts.placed(ProducerActor.start(loop, place, parts.ties, parts.machine, parts.outbox, manner))
            placed(parts.address)
            return parts.address

        return self._admit("producer", parts, make)

    def consumer(
        self,
        options: ConsumerOptions,
        start: consumer_machine.Start | None,
        dead_letters: DeadLetterBox | None,
    ) -> SlimFuture[ConsumerParts]:
        """Begin to make a consumer or a reader."""
        parts = self.consumer_parts(options, start, HandOff)
        news = self.news(parts, options, str(TopicName.parse(options.topics[0])))
        return self.start_consumer(parts, options, start, dead_letters, news)

    def consumer_parts(
        self, options: ConsumerOptions, start: consumer_machine.Start | None, queue: Callable[..., HandOff]
    ) -> ConsumerParts:
        """Make what callers of a consumer need, before there is one; `queue` makes its queue."""
        parts = ConsumerParts(self.engine, options, self.operation_timeout)
        terms = consumer_machine.terms_of(options, start, sys.intern(str(TopicName.parse(options.topics[0]))))

        def report(message: object) -> None:
            tell(parts.address, message)

        interleaving = self.engine.interleaving
        parts.hand_off = queue(terms, report, interleaving)
        parts.acks = consumer_machine.box_of(options, report, interleaving)
        return parts

    def news(self, parts: AnyReceivingParts, options: ConsumerOptions, name: str) -> News:
        """Set up whom a consumer tells what, on a worker of its own choice; and the pump, if there is a listener."""
        self._serial += options.message_listener is not None or options.hears_news
        worker = self.engine.workers[self._serial % len(self.engine.workers)]
        news = news_of(parts, options, name, worker)
        if news.listener is not None:
            parts.pump = Pump(parts.hand_off, worker, news.listener, name)
        return news

    def start_consumer(
        self,
        parts: ConsumerParts,
        options: ConsumerOptions,
        start: consumer_machine.Start | None,
        dead_letters: DeadLetterBox | None,
        news: News,
        *,
        may_create: bool = True,
        placed: Callable[[Address], object] = _nothing,
    ) -> SlimFuture[ConsumerParts]:
        """Begin to make the consumer of these parts; its topic too, if it `may_create` it."""
        topic = TopicName.parse(options.topics[0])

        def make(loop: Loop, place: Place) -> Address:
            command = consumer_machine.command_of(options, place.id, start)
            command.force_topic_creation = may_create
            parts.machine = consumer_machine.machine_of(options, command, start, self._common, loop)
            arrived = _nothing if parts.pump is None else parts.pump.arrived
            told = news.active_change(topic), arrived, news.wanted_again(topic)
            wiring = Wiring(parts.hand_off, parts.acks, dead_letters, *told)
            parts.address = ConsumerActor.start(loop, place, parts.ties, parts.machine, wiring)
            placed(parts.address)
            return parts.address

        return self._admit("consumer", parts, make)

    def topic_set(self, parts: S, settings: TopicSetSettings, crew: Crew, search: Search) -> SlimFuture[S]:
        """Begin to make a set of producers or consumers."""

        def make(loop: Loop, place: Place) -> Address:
            parts.machine = TopicSet(settings)
            parts.address = TopicSetActor.start(loop, place, parts.ties, parts.machine, crew, search)
            return parts.address

        return self._admit("topic set", parts, make)

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
