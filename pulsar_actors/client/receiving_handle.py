"""What consumers and readers are alike in, as users hold them: they receive, they seek, and tell how that goes."""

from collections.abc import Iterator
from typing import Any

from pulsar_actors.client.anew import anew
from pulsar_actors.client.consumer_parts import ConsumerParts
from pulsar_actors.client.handle import Handle
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.receiving import Receiving
from pulsar_actors.client.stats import ConsumerStats
from pulsar_actors.exceptions import AlreadyClosed, InvalidArgument, TopicTerminated
from pulsar_actors.machines.consumer_events import AskForLast, LastMessage, Seek


class ReceivingHandle(Handle[ConsumerParts]):
    """The base of Consumer and Reader."""

    def __init__(self, parts: ConsumerParts, what: str, client: object) -> None:
        super().__init__(parts, parts.options.topics[0], what, client)
        self._hand_off = parts.hand_off
        self._refused = 0
        has_listener = parts.pump is not None
        self._receiving = Receiving(parts.engine, self._hand_off, self._address, what, has_listener=has_listener)

    def seek(self, messageid: MessageId | int) -> None:
        """Go to a message, or to the first one published at a time (milliseconds since 1970) or later.

        What was received before counts for nothing any longer: acknowledgements of it that are still on their way are
        void, and what is in the queue is dropped. Without a connection to a broker it waits for one, for as long as
        `operation_timeout_seconds` allows; then ConnectError says that nothing was done.
        """
        target = _seek_target(messageid)
        self._parts.engine.refuse_inside("seek()", "another thread")
        self._refuse_if_closed()
        self._call(lambda done: Seek(done, target), f"seek() of {self._what}")

    def stats(self) -> ConsumerStats:
        """Return how things stand: what is queued, what came, how fast, and the last thing that went wrong."""
        self._refuse_if_forked()
        parts, hand_off = self._parts, self._hand_off
        queued, opened = hand_off.queued, hand_off.opened_messages
        received = max(0, opened - hand_off.left_open)
        vitals = parts.ties.vitals
        return ConsumerStats(
            topic=self._topic,
            subscription_name=parts.options.subscription_name,
            consumer_name=parts.options.consumer_name or "",
            connected=self.is_connected(),
            queued=queued,
            permits=max(0, parts.machine.deliveries.ledgers.permits.at_broker),
            received=received,
            received_bytes=hand_off.opened_bytes,
            acknowledged=parts.acks.emptied,
            refused=self._refused,
            rates=self._meter.rates(received, hand_off.opened_bytes, parts.engine.now()),
            reconnects=vitals.reconnects,
            last_error=vitals.last_error_text,
        )

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                yield self._receiving.receive(None)
            except (AlreadyClosed, TopicTerminated):
                return

    def _ask_for_last(self) -> LastMessage:
        parts = self._parts
        parts.engine.refuse_inside("asking for the last message", "another thread")
        self._refuse_if_closed()
        deadline = parts.engine.now() + parts.operation_timeout
        return self._call(lambda done: AskForLast(done, deadline), f"asking {self._what} for the last message")

    def _refuse_if_closed(self) -> None:
        if self._hand_off.closed is not None:
            raise anew(self._hand_off.closed)


def _seek_target(given: object) -> Any:  # noqa: ANN401 - an id of the wire or a time
    if isinstance(given, MessageId):
        return given.wire
    if isinstance(given, int) and not isinstance(given, bool):
        return given
    raise InvalidArgument(f"messageid takes a MessageId or milliseconds since 1970, got {type(given).__name__}")
