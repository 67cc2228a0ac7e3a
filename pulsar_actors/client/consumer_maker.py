"""Consumers and readers as users hold them, made of checked options, of the kind that a topic asks for.

A topic with partitions, a list of topics and a pattern take a set behind the handle; a topic without takes one actor.
How many partitions there are is asked first. What was made stands on the client's roll from then on.
"""

from pulsar_actors.client.consuming.consumer import Consumer
from pulsar_actors.client.consuming.consumer_machine import Start
from pulsar_actors.client.consuming.consumer_making import begin_one_consumer
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming.dead_letter_sender import DeadLetterSender, dead_letter_sender
from pulsar_actors.client.consuming.reader import Reader
from pulsar_actors.client.consuming.reader_as_consumer import as_consumer, start_of
from pulsar_actors.client.consuming.reader_options import ReaderOptions
from pulsar_actors.client.consuming.receiving_parts import AnyReceivingParts
from pulsar_actors.client.consuming.retries import retries_of
from pulsar_actors.client.partitions import partitions_of
from pulsar_actors.client.roll import Roll
from pulsar_actors.client.sets.consumer_set_making import begin_consumer_set, name_of
from pulsar_actors.client.sets.consumer_set_parts import ConsumerSetParts
from pulsar_actors.client.sets.topics_consumer import TopicsConsumer
from pulsar_actors.client.sets.topics_reader import TopicsReader
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.wire.topic_name import TopicName


class ConsumerMaker:
    """That of one client. What it gives to actors keeps neither the roll nor the client."""

    __slots__ = ("_roll", "_workshop")

    def __init__(self, workshop: Workshop, roll: Roll) -> None:
        self._workshop = workshop
        self._roll = roll

    def consumer(self, options: ConsumerOptions, client: object) -> Consumer:
        """Make a consumer, and wait until it is there."""
        what = f"subscribing to {', '.join(options.topics) or name_of(options)}"
        parts = self._consumer_parts(options, None, what)
        retries = retries_of(options, self._workshop, self._roll.producers)
        if isinstance(parts, ConsumerSetParts):
            consumer: Consumer = TopicsConsumer(parts, name_of(options), client, retries)
        else:
            consumer = Consumer(parts, client, retries=retries)
        self._roll.enter(consumer)
        self._begin_listening(consumer, parts)
        return consumer

    def consumer_of_existing(self, options: ConsumerOptions, client: object) -> Consumer:
        """Make a consumer of one partition, or of a topic without, that no broker makes for it: now or later."""
        made = begin_one_consumer(self._workshop, options, None, None, may_create=False)
        parts = self._workshop.wait(made, f"subscribing to {options.topics[0]}")
        consumer = Consumer(parts, client)
        self._roll.enter(consumer)
        return consumer

    def reader(self, options: ReaderOptions, client: object) -> Reader:
        """Make a reader, and wait until it is there, and where it is to begin."""
        start, as_one = start_of(options), as_consumer(options)
        what = f"creating a reader on {', '.join(as_one.topics)}"
        parts = self._consumer_parts(as_one, start, what)
        if isinstance(parts, ConsumerSetParts):
            reader: Reader = TopicsReader(parts, name_of(as_one), client)
        else:
            reader = Reader(parts, client)
        self._roll.enter(reader)
        if start.is_last:
            try:
                reader.go_to_last()
            except BaseException:
                reader.close_soon()
                raise
        self._begin_listening(reader, parts)
        return reader

    def _consumer_parts(
        self, options: ConsumerOptions, start: Start | None, what: str
    ) -> ConsumerParts | ConsumerSetParts:
        workshop, producers, partitions = self._workshop, self._roll.producers, None

        def dead(one: ConsumerOptions) -> DeadLetterSender | None:
            policy = one.dead_letter_policy
            return None if policy is None else dead_letter_sender(policy, one, workshop, producers)

        if len(options.topics) == 1 == len(options.known_topics):
            partitions = partitions_of(workshop, TopicName.parse(options.topics[0]), what)
            if not partitions:
                return workshop.wait(begin_one_consumer(workshop, options, start, dead(options)), what)
            if not options.receiver_queue_size:
                raise InvalidConfiguration(
                    f"receiver_queue_size=0 asks for one message at a time: {options.topics[0]} has partitions"
                )
        return workshop.wait(begin_consumer_set(workshop, options, start, dead, partitions), what)

    def _begin_listening(self, handle: Consumer | Reader, parts: AnyReceivingParts) -> None:
        if parts.announcer is not None:
            parts.announcer.begin(handle)
        if parts.pump is not None:
            self._roll.keep(handle, parts.ties.ended)
            parts.pump.begin(handle, paused=parts.options.start_paused)
