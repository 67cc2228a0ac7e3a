"""Acknowledgements as callers make them: of messages or ids, one or several, to be waited for or not.

What is wrong with one of them is said before any of them is left for the actor. Where receipts were asked for, each has
a future, which ends with the broker's answer; where not, an acknowledgement is done when it is handed over.
"""

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, Protocol, cast

from pulsar_actors.client.consuming.consumer_interceptors import ConsumerInterceptors
from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.message import Message, place_of
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.gathered_acks import Receipt
from pulsar_actors.wire.message_id import MessageId as WireMessageId


class Place(NamedTuple):
    """Whose message it is, and what its ledgers go by."""

    owner: ConsumerParts
    message_id: WireMessageId
    generation: Generation


class Acknowledging(Protocol):
    """A handle, as far as acknowledging goes."""

    def owner_of(self, topic: str | None, message_id: WireMessageId) -> ConsumerParts | None:
        """Give the parts that a message belongs to, by its topic, or by its id where no topic is known.

        Raises where the consumer is closed, or the message is none of its own. None: its topic was among those of the
        consumer, and has gone; so it will not be delivered again.
        """
        ...


class Acknowledgements:
    """Those of one handle, which it does not keep alive. Any thread may use it."""

    __slots__ = ("_interceptors", "_receipts", "is_plain")

    def __init__(self, interceptors: ConsumerInterceptors | None, *, receipts: bool) -> None:
        self._interceptors = interceptors
        self._receipts = receipts
        self.is_plain = interceptors is None and not receipts

    def hand_in(self, handle: Acknowledging, given: object, *, cumulative: bool, waits: bool) -> "Future[None]":
        """Acknowledge each of these, or all up to this one; `waits` if the caller waits for the outcome."""
        items = [given] if cumulative else listed(given)
        if self._interceptors is None:
            return self._leave([place_in(handle, one) for one in items], cumulative=cumulative, waits=waits)
        ids = [_id_of(one) for one in items]
        try:
            done = self._leave([place_in(handle, one) for one in items], cumulative=cumulative, waits=waits)
        except Exception as error:
            self._interceptors.acknowledged(handle, ids, error, cumulative=cumulative)
            raise
        self._interceptors.acknowledged(handle, ids, None, cumulative=cumulative)
        return done

    def hand_in_for_another(self, handle: Acknowledging, message: Message) -> "Future[None]":
        """Acknowledge a message of which a loop knows that it is done with; interceptors are not called there."""
        done = self._leave([place_in(handle, message)], cumulative=False, waits=True)
        if self._interceptors is not None:
            self._interceptors.acknowledged_elsewhere(message.message_id())
        return done

    def _leave(self, found: Sequence[Place | None], *, cumulative: bool, waits: bool) -> "Future[None]":
        futures: list[Future[None]] = []
        places = [place for place in found if place is not None]
        for number, (owner, message_id, generation) in enumerate(places, 1):
            receipt = None
            if self._receipts:
                future: SlimFuture[None] = owner.ties.debts.owe(SlimFuture())
                futures.append(future)
                receipt = Receipt(future, waits and number == len(places))
            leave = owner.acks.acknowledge_up_to if cumulative else owner.acks.acknowledge
            leave(message_id, generation, receipt)
        return futures[0] if len(futures) == 1 else all_of(futures)


def place_in(handle: Acknowledging, given: object) -> Place | None:
    """Give the place of a message or an id, None if that has gone; refuse what is neither."""
    if isinstance(given, Message):
        message_id, generation, topic = place_of(given)
        owner = handle.owner_of(topic, message_id)
        return None if owner is None else Place(owner, message_id, generation)
    known = _id_of(given)
    owner = handle.owner_of(known.topic_name(), known.wire)
    return None if owner is None else Place(owner, known.wire, owner.hand_off.generation)


def all_of(futures: Sequence["Future[Any]"]) -> "Future[None]":
    """Give a future that ends when all have, with the error of one of them if there is any."""
    whole: SlimFuture[None] = SlimFuture()
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
    if not futures:
        settle(whole, None)
    return whole


def listed(given: object) -> Sequence[object]:
    """Give one or several as several."""
    return cast("Sequence[object]", given) if isinstance(given, (list, tuple)) else [given]


def _id_of(given: object) -> MessageId:
    if isinstance(given, Message):
        return given.message_id()
    if not isinstance(given, MessageId):
        raise TypeError(f"a Message or a MessageId is acknowledged, not {type(given).__name__}")
    return given
