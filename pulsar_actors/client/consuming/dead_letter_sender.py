"""The way of an entry that has failed too often: to the dead letter topic, each of its messages as one of its own.

Only when the dead letter topic has all messages of an entry is the original acknowledged; if anything goes wrong on the
way, the broker delivers it again, later.
"""

from collections.abc import Callable
from concurrent.futures import Future

from pulsar_actors.client.consuming.acknowledgements import all_of
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.late_producer import LateProducer
from pulsar_actors.client.living import Living
from pulsar_actors.client.message import Message, messages_of
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.machines.entry_intake import Delivery
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.machines.ledgers.retry_topic import Origin, dead_letter_properties, dead_letter_topic
from pulsar_actors.runtime.opened import Opened, open_entry
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.topic_name import TopicName

Report = Callable[[Exception | None], None]


class DeadLetterSender:
    """The dead letters of one consumer. Called on its loop."""

    __slots__ = ("_limit", "_producer", "_subscription", "_topic")

    def __init__(self, producer: LateProducer, topic: str, subscription: str, limit: int) -> None:
        self._producer = producer
        self._topic = topic
        self._subscription = subscription
        self._limit = limit

    def __call__(self, delivery: Delivery, generation: Generation, report: Report) -> None:
        """Send an entry, and report how that went."""
        opened = Opened(delivery, generation, self._topic, bytes)
        try:
            messages = messages_of(*open_entry(delivery, opened, self._limit, compacted=False)[:4])
        except EntryError as fault:
            report(fault)
            return
        forward = self._producer.forward
        sent = [forward(one, dead_letter_properties(one.properties(), self._origin(one))) for one in messages]

        def told(done: "Future[None]") -> None:
            error = done.exception()
            report(error if isinstance(error, Exception) else None)

        all_of(sent).add_done_callback(told)

    def _origin(self, message: Message) -> Origin:
        return Origin(self._topic, self._subscription, str(message.message_id()))


def dead_letter_sender(
    policy: ConsumerDeadLetterPolicy, options: ConsumerOptions, workshop: Workshop, producers: Living[Producer]
) -> DeadLetterSender:
    """Make the sender of a consumer with a policy. Its actor will keep it, so it keeps neither consumer nor client."""
    topic, subscription = str(TopicName.parse(options.topics[0])), options.subscription_name
    target = policy.dead_letter_topic or dead_letter_topic(topic, subscription)
    producer = LateProducer(workshop, producers, target, options.schema, policy.initial_subscription_name or "")
    return DeadLetterSender(producer, topic, subscription, DEFAULT_MAX_MESSAGE_SIZE)
