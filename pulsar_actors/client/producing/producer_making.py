"""Where a producer of one topic is put together: the ledgers, the machine, the queue, the actor."""

from collections.abc import Callable

from pulsar_actors.client.producing import producer_machine
from pulsar_actors.client.producing.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.producing.producer_parts import ProducerParts
from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.runtime.actor import Address
from pulsar_actors.runtime.binding_messages import Place
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.producer_actor import ProducerActor
from pulsar_actors.wire.topic_name import TopicName


def begin_one_producer(
    workshop: Workshop, options: ProducerOptions, initial_subscription: str = ""
) -> SlimFuture[ProducerParts]:
    """Begin to make a producer."""
    parts, engine = producer_parts(workshop, options), workshop.engine
    reports = parts.reports
    parts.interceptors = ProducerInterceptors.of(options.interceptors, reports, reports.topic, engine.workers[0])
    return start_producer(workshop, parts, options, initial_subscription=initial_subscription)


def producer_parts(workshop: Workshop, options: ProducerOptions) -> ProducerParts:
    """Make what callers of a producer need, before there is one."""
    topic, engine, gate = TopicName.parse(options.topic), workshop.engine, workshop.gate
    reports = Reports(str(topic), topic.partition_index)
    pending = producer_machine.pending_of(options, gate)
    outbox = producer_machine.outbox_of(options, pending, reports, engine.interleaving, gate)
    return ProducerParts(engine, outbox, reports, waits=options.block_if_queue_full)


def start_producer(
    workshop: Workshop,
    parts: ProducerParts,
    options: ProducerOptions,
    *,
    initial_subscription: str = "",
    name: str = "",
    placed: Callable[[Address], object] | None = None,
) -> SlimFuture[ProducerParts]:
    """Begin to make the producer of these parts. `name` is one that a broker chose for others of its set."""

    def make(loop: Loop, place: Place) -> Address:
        command = producer_machine.command_of(options, place.id, initial_subscription)
        parts.machine = producer_machine.machine_of(command, parts.outbox.pending, options, workshop.common, loop)
        parts.machine.identity.name = options.producer_name or name
        manner = producer_machine.manner_of(options)
        parts.placed(ProducerActor.start(loop, place, parts.ties, parts.machine, parts.outbox, manner))
        if placed is not None:
            placed(parts.address)
        return parts.address

    return workshop.admit("producer", parts, make)
