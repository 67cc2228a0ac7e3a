"""How the consumer or reader of several topics is put together: options into a machine, a crew, and their parts."""

import math
import re

from pulsar_actors.client.consuming.consumer_machine import Start
from pulsar_actors.client.consuming.consumer_making import news_for
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.enums import RegexSubscriptionMode
from pulsar_actors.client.sets.consumer_crew import ConsumerCrew, Dead
from pulsar_actors.client.sets.consumer_set_parts import ConsumerSetParts
from pulsar_actors.client.sets.topic_set_making import begin_topic_set
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


def begin_consumer_set(
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
    news = news_for(workshop, parts, options, topic)
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
    return begin_topic_set(workshop, parts, settings, crew, search)


def name_of(options: ConsumerOptions) -> str:
    """Give what a consumer calls its topic: all of their names if there are several, or the pattern."""
    if isinstance(options.topic, re.Pattern):
        return TopicPattern(options.topic).text
    return ", ".join(str(TopicName.parse(name)) for name in options.topics)
