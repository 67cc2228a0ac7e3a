"""How producers and consumers of several topics are put together: options into a machine, a crew, and their parts."""

import math
import re
from typing import Any

from pulsar_actors.client.consuming.consumer_machine import Start
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.enums import ProducerAccessMode, RegexSubscriptionMode
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.client.producing.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.producing.producer_parts import ProducerParts
from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.client.sets.consumer_crew import ConsumerCrew, Dead
from pulsar_actors.client.sets.consumer_set_parts import ConsumerSetParts
from pulsar_actors.client.sets.message_router import router_of
from pulsar_actors.client.sets.partitioned_producer import PartitionedProducer
from pulsar_actors.client.sets.producer_crew import ProducerCrew
from pulsar_actors.client.sets.producer_set_parts import ProducerSetParts
from pulsar_actors.client.sets.switchboard import Switchboard
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.machines.ledgers.topic_pattern import TopicPattern
from pulsar_actors.machines.topic_set_settings import TopicSetSettings
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.topic_set_actor import Search
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetTopicsOfNamespace
from pulsar_actors.wire.topic_name import TopicName

_MODES = {
    RegexSubscriptionMode.PersistentOnly: CommandGetTopicsOfNamespace.PERSISTENT,
    RegexSubscriptionMode.NonPersistentOnly: CommandGetTopicsOfNamespace.NON_PERSISTENT,
    RegexSubscriptionMode.AllTopics: CommandGetTopicsOfNamespace.ALL,
}
"""A message that says nothing of itself, for a router to choose the first partition by."""


def producer_set(
    workshop: Workshop, options: ProducerOptions, partitions: int, initial_subscription: str = ""
) -> SlimFuture[ProducerSetParts]:
    """Begin to make the producer of a topic with so many partitions."""
    engine, topic = workshop.engine, str(TopicName.parse(options.topic))
    route = router_of(options, engine.loops[0].chance, engine.now, topic)
    is_lazy = options.lazy_start_partitioned_producers and options.access_mode is ProducerAccessMode.Shared
    crew, reports = ProducerCrew(workshop, options, initial_subscription), Reports(topic, -1)
    parts = ProducerSetParts(engine, crew, Switchboard(crew, route), reports)
    parts.interceptors = ProducerInterceptors.of(options.interceptors, reports, topic, engine.workers[0])
    crew.interceptors = parts.interceptors
    first = None
    if is_lazy or not options.producer_name:  # the others get the name that a broker chooses for the first
        first = 0 if options.message_router is not None else route(b"", None, partitions)
    settings = TopicSetSettings(
        what=f"the producer on {topic}",
        topics={topic: partitions},
        look_again=workshop.partitions_update_interval,
        first=first,
        lazy=is_lazy,
    )
    return workshop.topic_set(parts, settings, crew, Search())


def begin_producer(
    workshop: Workshop, options: ProducerOptions, partitions: int, initial_subscription: str = ""
) -> SlimFuture[Any]:
    """Begin to make what `producer_with` makes a handle of; of 0 partitions is a topic that has none."""
    if partitions:
        return producer_set(workshop, options, partitions, initial_subscription)
    return workshop.producer(options, initial_subscription)


def producer_with(parts: ProducerParts | ProducerSetParts, options: ProducerOptions, client: object = None) -> Producer:
    """Make the handle of what is there."""
    if isinstance(parts, ProducerSetParts):
        return PartitionedProducer(parts, options, client)
    return Producer(parts, options, client)


def consumer_set(
    workshop: Workshop,
    options: ConsumerOptions,
    start: Start | None,
    dead: Dead,
    partitions: int | None,
) -> SlimFuture[ConsumerSetParts]:
    """Begin to make the consumer or reader of several topics, or of one that has so many `partitions`.

    Where messages are put off, there is one for these as well.
    """
    parts = ConsumerSetParts(workshop.engine, options, workshop.operation_timeout)
    topic = name_of(options)
    news = workshop.news(parts, options, topic)
    pattern = TopicPattern(options.topic) if isinstance(options.topic, re.Pattern) else None
    names = [TopicName.parse(name) for name in options.known_topics]
    interval = workshop.partitions_update_interval
    if pattern is not None:
        interval = min(float(options.pattern_auto_discovery_period), interval or math.inf)
    settings = TopicSetSettings(
        what=f"{'the consumer' if start is None else 'the reader'} of {topic}",
        topics={str(name): 0 if name.partition_index >= 0 else partitions for name in names},
        has_pattern=pattern is not None,
        watches=pattern is not None and options.regex_subscription_mode is not RegexSubscriptionMode.NonPersistentOnly,
        look_again=interval,
    )
    crew = ConsumerCrew(workshop, parts, start, dead, news)
    search = Search(pattern, _MODES[options.regex_subscription_mode], workshop.operation_timeout)
    return workshop.topic_set(parts, settings, crew, search)


def name_of(options: ConsumerOptions) -> str:
    """Give what a consumer calls its topic: all of their names if there are several, or the pattern."""
    if isinstance(options.topic, re.Pattern):
        return TopicPattern(options.topic).text
    return ", ".join(str(TopicName.parse(name)) for name in options.topics)
