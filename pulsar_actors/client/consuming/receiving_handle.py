"""What consumers and readers are alike in, as users hold them: they receive, they seek, and tell how that goes."""

import weakref
from collections.abc import Collection, Iterator
from enum import Enum
from typing import Any, cast

from pulsar_actors.client.anew import anew
from pulsar_actors.client.arguments import whole_number
from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming.intercepted_receiving import InterceptedReceiving
from pulsar_actors.client.consuming.receiving import Receiving
from pulsar_actors.client.consuming.receiving_parts import AnyReceivingParts
from pulsar_actors.client.handle import Handle
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.stats import ConsumerStats
from pulsar_actors.exceptions import AlreadyClosed, InvalidArgument, TopicTerminated
from pulsar_actors.machines.consumer_events import AskForLast, LastMessage, Seek
from pulsar_actors.runtime.supply import Supply
from pulsar_actors.wire.topic_name import TopicName

_milliseconds = whole_number(0, 2**63 - 1, "milliseconds since 1970")


class ReceivingHandle(Handle[AnyReceivingParts]):
    """The base of Consumer and Reader."""

    def __init__(self, parts: AnyReceivingParts, what: str, client: object, topic: str | None = None) -> None:
        super().__init__(parts, topic or str(TopicName.parse(parts.options.topics[0])), what, client)
        self._hand_off: Supply = parts.hand_off
        self._refused: int = 0
        has_listener = parts.pump is not None
        make = Receiving if parts.interceptors is None else InterceptedReceiving
        self._receiving = make(parts.engine, self._hand_off, self._address, what, has_listener=has_listener)
        if isinstance(self._receiving, InterceptedReceiving):
            self._receiving.intercept(parts, weakref.ref(self))

    def seek(self, messageid: MessageId | int) -> None:
        """Go to a message, or to the first one published at a time (milliseconds since 1970) or later.

        What comes next after a message's id is the message behind it; or that message itself, with
        `start_message_id_inclusive`. After `MessageId.earliest` all of them come, after `MessageId.latest` new ones.

        What was received before counts for nothing any longer: acknowledgements of it that are still on their way are
        void, and what is in the queue is dropped. Without a connection to a broker it waits for one, for as long as
        `operation_timeout_seconds` allows; then ConnectError says that nothing was done.
        """
        target = seek_target(messageid)
        self._parts.engine.refuse_inside("seek()", "another thread")
        self._refuse_if_closed()
        self._call(lambda done: Seek(done, target), f"seek() of {self._what}")

    def has_reached_end_of_topic(self) -> bool:
        """Tell whether the topic was ended: after what is queued nothing will come.

        A broker says so to a consumer once everything is acknowledged.
        """
        return self._hand_off.is_at_its_end()

    def stats(self) -> ConsumerStats:
        """Return how things stand, over all topics: what is queued, what came, how fast, and what went wrong last."""
        self._refuse_if_forked()
        members, options = self._members(), self._parts.options
        queued = self._hand_off.queued
        opened = sum(parts.hand_off.opened_messages for parts in members)
        received = max(0, opened - self._hand_off.left_open)
        received_bytes = sum(parts.hand_off.opened_bytes for parts in members)
        errors = (parts.ties.vitals.last_error_text for parts in members)
        return ConsumerStats(
            topic=self._topic,
            subscription_name=options.subscription_name,
            consumer_name=options.consumer_name or "",
            connected=self.is_connected(),
            queued=queued,
            permits=sum(max(0, parts.machine.deliveries.ledgers.permits.at_broker) for parts in members),
            received=received,
            received_bytes=received_bytes,
            acknowledged=sum(parts.acks.emptied for parts in members),
            refused=self._refused,
            rates=self._meter.rates(received, received_bytes, self._parts.engine.now()),
            reconnects=sum(parts.ties.vitals.reconnects for parts in members),
            last_error=next((error for error in errors if error is not None), None),
        )

    def __iter__(self) -> Iterator[Message]:
        while True:
            try:
                yield self._receiving.receive(None)
            except (AlreadyClosed, TopicTerminated):
                return

    @property
    def _one(self) -> ConsumerParts:
        """Give the parts, of what is no set: a set is asked otherwise."""
        return cast("ConsumerParts", self._parts)

    def _members(self) -> Collection[ConsumerParts]:
        """Give the parts of all that is behind it."""
        return (self._one,)

    def _ask_for_last(self) -> LastMessage:
        parts = self._parts
        parts.engine.refuse_inside("asking for the last message", "another thread")
        self._refuse_if_closed()
        deadline = parts.engine.now() + parts.operation_timeout
        return self._call(lambda done: AskForLast(done, deadline), f"asking {self._what} for the last message")

    def _refuse_if_closed(self) -> None:
        if self._hand_off.closed is not None:
            raise anew(self._hand_off.closed)


def seek_target(given: object) -> Any:  # noqa: ANN401 - an id of the wire or a time
    """Check where somebody wants to go."""
    if isinstance(given, MessageId):
        return given.wire
    if isinstance(given, int) and not isinstance(given, (bool, Enum)):
        return _milliseconds("messageid", given)
    takes = "a MessageId, or a whole number of milliseconds since 1970"
    raise InvalidArgument(f"messageid takes {takes}, got {type(given).__name__}")


def last_in(handle: ReceivingHandle) -> LastMessage:
    """Ask the broker for the topic's last message, and how far the handle's subscription has come."""
    return handle._ask_for_last()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
