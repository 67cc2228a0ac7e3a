"""The way of a message that has failed too often: to the dead letter topic, as a message of its own.

The producer for it is made when the first one comes, and anew if it ended for good; it ends with the consumer, which
has its only reference. Only when the dead letter topic has all messages of an entry is the original acknowledged; if
anything goes wrong on the way, the broker delivers it again, later.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.producer_parts import ProducerParts
from pulsar_actors.client.roll import Roll
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.machines.entry_intake import Delivery
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.machines.ledgers.retry_topic import Origin, dead_letter_properties, dead_letter_topic
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.opened import Opened, open_entry
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.topic_name import TopicName

Report = Callable[[Exception | None], None]


class DeadLetterSender:
    """The dead letters of one consumer. Called on its loop."""

    __slots__ = ("_limit", "_make_producer", "_producer", "_subscription", "_topic")

    def __init__(
        self, make_producer: Callable[[], "Future[Producer]"], topic: str, subscription: str, limit: int
    ) -> None:
        self._make_producer = make_producer
        self._producer: Future[Producer] | None = None
        self._topic = topic
        self._subscription = subscription
        self._limit = limit

    def __call__(self, delivery: Delivery, generation: Generation, report: Report) -> None:
        """Send an entry, and report how that went."""
        opened = Opened(delivery, generation, self._topic, bytes)
        try:
            messages: list[Message] = open_entry(delivery, opened, Message, self._limit, compacted=False).messages
        except EntryError as fault:
            report(fault)
            return
        if self._producer is None or _has_ended(self._producer):
            self._producer = self._make_producer()
        self._producer.add_done_callback(lambda made: _send_with(made, messages, self._origin, report))

    def _origin(self, message: Message) -> Origin:
        return Origin(self._topic, self._subscription, str(message.message_id()))


def dead_letter_sender(
    policy: ConsumerDeadLetterPolicy, options: ConsumerOptions, workshop: Workshop, roll: Roll
) -> DeadLetterSender:
    """Make the sender of a consumer with a policy. Its actor will keep it, so it keeps neither consumer nor client."""
    topic, subscription = str(TopicName.parse(options.topics[0])), options.subscription_name
    target = ProducerOptions(
        topic=policy.dead_letter_topic or dead_letter_topic(topic, subscription), max_pending_messages=0
    )

    def make_producer() -> "Future[Producer]":
        made: SlimFuture[Producer] = SlimFuture()

        def done(parts: "Future[ProducerParts]") -> None:
            error = parts.exception()
            if isinstance(error, Exception):
                settle(made, error)
            else:
                producer = Producer(parts.result(), target, None)
                roll.producers.add(producer)
                settle(made, producer)

        workshop.producer(target, policy.initial_subscription_name or "").add_done_callback(done)
        return made

    return DeadLetterSender(make_producer, topic, subscription, DEFAULT_MAX_MESSAGE_SIZE)


def _has_ended(made: "Future[Producer]") -> bool:
    """Tell whether there will be no producer, or is none any longer: its topic was deleted or fenced, for example."""
    return made.done() and (made.exception() is not None or not made.result().is_open)


def _send_with(
    made: "Future[Producer]", messages: list[Message], origin: Callable[[Message], Origin], report: Report
) -> None:
    error = made.exception()
    if error is not None:
        report(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        return
    producer, left, problems = made.result(), [len(messages)], list[Exception]()

    def sent(result: Any, _: MessageId) -> None:  # noqa: ANN401 - a Result
        left[0] -= 1
        if result:
            problems.append(RuntimeError(f"the dead letter topic did not take a message: {result}"))
        if not left[0]:
            report(problems[0] if problems else None)

    for message in messages:
        producer.forward(message, dead_letter_properties(message.properties(), origin(message)), sent)
    if not messages:
        report(None)
