"""Where a consumer or a reader of one topic is put together: the ledgers, the machine, the queues, the actor."""

import sys
from collections.abc import Callable

from pulsar_actors.client.consuming import consumer_machine
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming.listener import Pump
from pulsar_actors.client.consuming.news import News, news_of
from pulsar_actors.client.consuming.receiving_parts import AnyReceivingParts
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_messages import Place
from pulsar_actors.runtime.consumer_actor import ConsumerActor, DeadLetterBox, Wiring
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.hand_off import HandOff
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.wire.topic_name import TopicName


def begin_one_consumer(
    workshop: Workshop,
    options: ConsumerOptions,
    start: consumer_machine.Start | None,
    dead_letters: DeadLetterBox | None,
    *,
    may_create: bool = True,
) -> SlimFuture[ConsumerParts]:
    """Begin to make a consumer or a reader; its topic too, if it `may_create` it."""
    parts = consumer_parts(workshop, options, start, HandOff)
    news = news_for(workshop, parts, options, str(TopicName.parse(options.topics[0])))
    return start_consumer(workshop, parts, options, start, dead_letters, news, may_create=may_create)


def consumer_parts(
    workshop: Workshop,
    options: ConsumerOptions,
    start: consumer_machine.Start | None,
    queue: Callable[..., HandOff],
) -> ConsumerParts:
    """Make what callers of a consumer need, before there is one; `queue` makes its queue."""
    parts = ConsumerParts(workshop.engine, options, workshop.operation_timeout)
    terms = consumer_machine.terms_of(options, start, sys.intern(str(TopicName.parse(options.topics[0]))))

    def report(message: object) -> None:
        tell(parts.address, message)

    interleaving = workshop.engine.interleaving
    parts.hand_off = queue(terms, report, interleaving)
    parts.acks = consumer_machine.box_of(options, report, interleaving)
    return parts


def news_for(workshop: Workshop, parts: AnyReceivingParts, options: ConsumerOptions, name: str) -> News:
    """Set up whom a consumer tells what, on a worker of its own choice; and the pump, if there is a listener."""
    if options.message_listener is None and not options.hears_news:
        return News(None)
    worker = workshop.next_worker()
    news = news_of(parts, options, name, worker)
    if news.listener is not None:
        parts.pump = Pump(parts.hand_off, worker, news.listener, name)
    return news


def start_consumer(
    workshop: Workshop,
    parts: ConsumerParts,
    options: ConsumerOptions,
    start: consumer_machine.Start | None,
    dead_letters: DeadLetterBox | None,
    news: News,
    *,
    may_create: bool = True,
    placed: Callable[[Address], object] | None = None,
) -> SlimFuture[ConsumerParts]:
    """Begin to make the consumer of these parts; its topic too, if it `may_create` it."""
    topic = TopicName.parse(options.topics[0])

    def make(loop: Loop, place: Place) -> Address:
        command = consumer_machine.command_of(options, place.id, start)
        command.force_topic_creation = may_create
        parts.machine = consumer_machine.machine_of(options, command, start, workshop.common, loop)
        arrived = _nothing if parts.pump is None else parts.pump.arrived
        told = news.active_change(topic), arrived, news.wanted_again(topic)
        wiring = Wiring(parts.hand_off, parts.acks, dead_letters, *told)
        parts.address = ConsumerActor.start(loop, place, parts.ties, parts.machine, wiring)
        if placed is not None:
            placed(parts.address)
        return parts.address

    return workshop.admit("consumer", parts, make)


def _nothing() -> None:
    """Do nothing, where there is no listener to be called with what arrived."""
