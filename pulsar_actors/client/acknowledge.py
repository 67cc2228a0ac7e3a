"""The acknowledgements of callers: of messages or ids, one or several, with a future if receipts are enabled.

All arguments are checked before any of them is queued for the actor. An id that a program has made itself lacks the
size of its batch: the consumer has it, if the batch is unacknowledged. With receipts, each acknowledgement has a
future, which ends with the broker's answer. Without receipts, an acknowledgement is done when it is queued.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final, Protocol, cast

from pulsar_actors.client.consumer_interceptors import ConsumerInterceptors
from pulsar_actors.client.consumer_state import ConsumerState
from pulsar_actors.client.message import Message, ack_key_of, by_entry
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.ack_queue import AckQueue
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.opened_entry import OpenedEntry
from pulsar_actors.wire.message_id import MessageId as WireMessageId


class Acknowledger:
    """Queues the acknowledgements of one consumer, without a reference to the consumer. Any thread may use it."""

    __slots__ = ("_interceptors", "_receipts", "is_plain")

    def __init__(self, interceptors: ConsumerInterceptors | None, *, receipts: bool) -> None:
        self._interceptors = interceptors
        self._receipts = receipts
        self.is_plain = interceptors is None and not receipts

    def acknowledge(
        self, handle: "AcknowledgingHandle", given: object, *, cumulative: bool, waits: bool
    ) -> "Future[None]":
        """Acknowledge each of these messages, or all up to this one. With `waits`, the caller waits for the receipt."""
        items = [given] if cumulative else as_sequence(given)
        if self._interceptors is None:
            return self._enqueue_all(handle, items, cumulative=cumulative, waits=waits)
        ids = [ack_id_of(one) for one in items]
        try:
            done = self._enqueue_all(handle, items, cumulative=cumulative, waits=waits)
        except Exception as error:
            self._interceptors.acknowledged(handle, ids, error, cumulative=cumulative)
            raise
        self._interceptors.acknowledged(handle, ids, None, cumulative=cumulative)
        return done

    def acknowledge_forwarded(self, handle: "AcknowledgingHandle", message: Message) -> "Future[None]":
        """Acknowledge a message that was sent to another topic. Called on a loop, where interceptors are not called."""
        done = self._enqueue([ack_target_in(handle, message)], cumulative=False, waits=True)
        if self._interceptors is not None:
            self._interceptors.acknowledged_elsewhere(message.message_id())
        return done

    def _enqueue_all(
        self, handle: "AcknowledgingHandle", items: Sequence[object], *, cumulative: bool, waits: bool
    ) -> "Future[None]":
        if not self._receipts and not cumulative and _enqueue_received(handle, items):
            return when_all_done([])
        return self._enqueue([ack_target_in(handle, one) for one in items], cumulative=cumulative, waits=waits)

    def _enqueue(self, found: "Sequence[AckTarget | None]", *, cumulative: bool, waits: bool) -> "Future[None]":
        futures: list[Future[None]] = []
        owners: dict[AckQueue, None] = {}
        for owner, message_id, generation in filter(None, found):
            future: SlimFuture[None] | None = None
            if self._receipts:
                future = owner.link.pending_calls.track(SlimFuture())
                futures.append(future)
                owners[owner.ack_queue] = None
            enqueue = owner.ack_queue.acknowledge_up_to if cumulative else owner.ack_queue.acknowledge
            enqueue(message_id, generation, future)
        if waits:
            for acks in owners:
                acks.flush()
        return futures[0] if len(futures) == 1 else when_all_done(futures)


_ONLY_MESSAGES: Final = {Message}


def _enqueue_received(handle: "AcknowledgingHandle", items: Sequence[object]) -> bool:
    """Acknowledge received messages, entry by entry; return False if there are others among them, or ids."""
    if set(map(type, items)) != _ONLY_MESSAGES:
        return False
    found: list[tuple[ConsumerState | None, OpenedEntry, list[int]]] = []
    for entry, indexes in by_entry(cast("Sequence[Message]", items)):
        if not isinstance(entry, OpenedEntry):
            return False
        found.append((handle.owner_of(entry.topic, entry.message_id), entry, indexes))
    for owner, opened, indexes in found:
        if owner is not None:
            owner.ack_queue.acknowledge_many(opened, indexes)
    return True


class AckTarget(NamedTuple):
    """The target of an acknowledgement, also a negative one: a consumer, and its id and generation of the message."""

    owner: ConsumerState
    message_id: WireMessageId
    generation: Generation


class AcknowledgingHandle(Protocol):
    """The part of a consumer that `Acknowledger` needs."""

    def owner_of(self, topic: str | None, message_id: WireMessageId) -> ConsumerState | None:
        """Return the state of the consumer of a message, by its topic, or by its id if the topic is not known.

        Raises if the consumer is closed, or if the message belongs to another consumer. Returns None if the topic was
        one of the consumer's and was deleted: its messages will not be delivered again.
        """
        ...


def ack_target_in(handle: "AcknowledgingHandle", given: object) -> AckTarget | None:
    """Return the target of an acknowledgement; None if its topic was deleted.

    Raises InvalidArgument for an id that names no message, or no message that the consumer knows.
    """
    target = target_in(handle, given)
    if target is None or isinstance(given, Message):
        return target
    return target._replace(message_id=target.owner.machine.acks.known_id(target.message_id))


def target_in(handle: "AcknowledgingHandle", given: object) -> AckTarget | None:
    """Return the target of a message or an id; None if its topic was deleted."""
    if isinstance(given, Message):
        message_id, generation, topic = ack_key_of(given)
        owner = handle.owner_of(topic, message_id)
        return None if owner is None else AckTarget(owner, message_id, generation)
    known = ack_id_of(given)
    owner = handle.owner_of(known.topic_name(), known.wire)
    return None if owner is None else AckTarget(owner, known.wire, owner.receiver_queue.generation)


def when_all_done(futures: Sequence["Future[Any]"]) -> "Future[None]":
    """Return a future that ends when all futures have ended, with the error of one of them if any failed."""
    whole: SlimFuture[None] = SlimFuture()
    if not futures:
        whole.set_result(None)
        return whole
    lock, left, errors = threading.Lock(), [len(futures)], list[Exception]()

    def done(future: "Future[Any]") -> None:
        error = future.exception()
        with lock:
            left[0] -= 1
            errors.extend([error] if isinstance(error, Exception) else [])
            is_last = not left[0]
        if is_last:
            settle(whole, errors[0] if errors else None)

    for future in futures:
        future.add_done_callback(done)
    return whole


def as_sequence(given: object) -> Sequence[object]:
    """Return a list or tuple as it is, and anything else as the only item of a list."""
    return cast("Sequence[object]", given) if isinstance(given, (list, tuple)) else [given]


def ack_id_of(given: object) -> MessageId:
    """Return the id of what a caller acknowledges."""
    if isinstance(given, Message):
        return given.message_id()
    if not isinstance(given, MessageId):
        raise TypeError(f"a Message or a MessageId is acknowledged, not {type(given).__name__}")
    return given
