"""Producers as users hold them, made of checked options, of the kind that a topic asks for.

A topic with partitions takes a set behind the handle, one without takes one actor. What is behind a set is loaded with
the first of them: most programs have none.
"""

from typing import TYPE_CHECKING, Any

from pulsar_actors.client.partitions import partitions_of
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.client.producing.producer_making import begin_one_producer
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.producing.producer_parts import ProducerParts
from pulsar_actors.client.roll import Roll
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.wire.topic_name import TopicName

if TYPE_CHECKING:
    from pulsar_actors.client.sets.producer_set_parts import ProducerSetParts


def make_producer(workshop: Workshop, roll: Roll, options: ProducerOptions, client: object) -> Producer:
    """Make a producer, wait until it is there, and enter it on the client's roll."""
    what = f"creating a producer on {options.topic}"
    partitions = partitions_of(workshop, TopicName.parse(options.topic), what)
    parts = workshop.wait(begin_producer(workshop, options, partitions), what)
    producer = producer_with(parts, options, client)
    roll.producers.add(producer)
    return producer


def begin_producer(
    workshop: Workshop, options: ProducerOptions, partitions: int, initial_subscription: str = ""
) -> SlimFuture[Any]:
    """Begin to make what `producer_with` makes a handle of; of 0 partitions is a topic that has none."""
    if not partitions:
        return begin_one_producer(workshop, options, initial_subscription)
    from pulsar_actors.client.sets.producer_set_making import begin_producer_set  # noqa: PLC0415 - see above

    return begin_producer_set(workshop, options, partitions, initial_subscription)


def producer_with(
    parts: "ProducerParts | ProducerSetParts", options: ProducerOptions, client: object = None
) -> Producer:
    """Make the handle of what is there."""
    if isinstance(parts, ProducerParts):
        return Producer(parts, options, client)
    from pulsar_actors.client.sets.partitioned_producer import PartitionedProducer  # noqa: PLC0415 - see above

    return PartitionedProducer(parts, options, client)
