"""The calls of `send_many`: each has one future for all of its messages.

A future or a callback for each message would cost more than sending it. So the tag of such a message (`send_queue.py`)
is a number: the number of the call, and the message's position in it. A range makes these numbers in C, and the garbage
collector ignores them. The producer's `SendCallbacks` find the call by its number. Consecutive messages of one call
that are stored in one entry, as most are, are noted in one step.

The messages of a partitioned producer may end on several I/O threads at once, so a call has a lock, which is held for
each entry.
"""

import threading
from collections.abc import Sequence
from functools import partial
from itertools import count, islice, repeat
from typing import Any, Final, Protocol

from pulsar_actors.client.message_id import MessageId, ids_of_batch
from pulsar_actors.exceptions import InvalidArgument, PulsarException, SendManyFailed
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.wire.message_id import MessageId as WireMessageId

__all__ = ["OpenCalls", "SendManyCall", "as_failure", "as_list", "call_number"]

_POSITION_BITS: Final = 32
_ONE_CONTENT: Final[tuple[type, ...]] = (str, bytes, bytearray, memoryview, dict)
_call_numbers = count(1)


class OpenCalls(Protocol):
    """An owner of a table of the calls that have messages in its queue."""

    calls: "dict[int, SendManyCall]"


def call_number(tag: int) -> int:
    """Return the number of the call in the tag of a message."""
    return tag >> _POSITION_BITS


class SendManyCall:
    """One call. `tags` are those of its messages. Any thread may use it."""

    __slots__ = ("_errors", "_ids", "_left", "_lock", "_number", "_open_in", "future", "tags")

    def __init__(self, messages: int, *, wants_ids: bool) -> None:
        self._number = next(_call_numbers)
        first = self._number << _POSITION_BITS
        self.tags = range(first, first + messages)
        self.future: SlimFuture[Any] = SlimFuture()
        self._ids: list[MessageId | None] | None = list(repeat(None, messages)) if wants_ids else None
        self._errors: dict[int, Exception] = {}
        self._left = messages
        self._open_in: list[OpenCalls] = []
        self._lock = threading.Lock()
        if not messages:
            self._end()

    def open_in(self, owner: OpenCalls) -> None:
        """Enter the call into the table of a queue, before its first message goes there."""
        owner.calls[self._number] = self
        self._open_in.append(owner)

    def consecutive(self, replies: Sequence[object], at: int) -> int:
        """Return how many of the replies, from one of them on, are consecutive messages of this call."""
        first: Any = replies[at]
        stop = min(len(replies), at + self.tags.stop - first)
        expected = range(first, first + stop - at)
        is_run = replies[stop - 1] == expected[-1] and list(replies[at:stop]) == list(expected)
        return len(expected) if is_run else 1

    def stored(self, tag: int, messages: int, entry: WireMessageId, topic: str, index: int) -> None:
        """Note that consecutive messages are stored in the batch of an entry, from this batch index on."""
        ids = None if self._ids is None else islice(ids_of_batch(entry, topic), index, index + messages)
        with self._lock:
            if self._ids is not None and ids is not None:
                position = tag - self.tags.start
                self._ids[position : position + messages] = ids
            is_over = self._count_down(messages)
        if is_over:
            self._end()

    def ended(self, tag: int, outcome: MessageId | Exception) -> None:
        """Note the outcome of one message."""
        position = tag - self.tags.start
        with self._lock:
            if isinstance(outcome, Exception):
                self._errors[position] = outcome
            elif self._ids is not None:
                self._ids[position] = outcome
            is_over = self._count_down(1)
        if is_over:
            self._end()

    def reply_for(self, tag: int) -> SlimFuture[MessageId]:
        """Return a future of one message, for interceptors."""
        reply: SlimFuture[MessageId] = SlimFuture()
        reply.add_done_callback(partial(self._intercepted, tag))
        return reply

    def _intercepted(self, tag: int, reply: Any) -> None:  # noqa: ANN401 - a future, which is done
        self.ended(tag, reply.exception() or reply.result())

    def _count_down(self, messages: int) -> bool:
        """Return whether these were the last. One that was queued as Ctrl-C came may count as refused, and as sent."""
        was_open = self._left > 0
        self._left -= messages
        return was_open and self._left <= 0

    def _end(self) -> None:
        for owner in self._open_in:
            owner.calls.pop(self._number, None)
        settle(self.future, self._outcome())

    def _outcome(self) -> object:
        messages, errors = len(self.tags), self._errors
        if not errors:
            return messages if self._ids is None else self._ids
        first = min(errors)
        error = SendManyFailed(
            f"{len(errors):,} of {messages:,} messages were not stored; the first of them, at position {first:,}: "
            f"{type(errors[first]).__name__}: {errors[first]}"
        )
        error.errors, error.ids = dict(sorted(errors.items())), self._ids
        error.__cause__ = errors[first]
        return error


def as_failure(error: BaseException) -> Exception:
    """Return what a message fails with whose caller was interrupted before it was queued."""
    return error if isinstance(error, Exception) else PulsarException(str(error) or type(error).__name__)


def as_list(contents: object) -> list[Any]:
    """Return what is to be sent as a list. Refuse one content that was given in place of many."""
    kind = type(contents).__name__
    if isinstance(contents, _ONE_CONTENT):
        raise InvalidArgument(f"contents takes many messages, such as a list, got one {kind}")
    try:
        return list(contents)  # type: ignore[call-overload, no-any-return] # a caller may give anything
    except TypeError:
        if hasattr(contents, "__iter__"):
            raise
        raise InvalidArgument(f"contents takes many messages, such as a list, got {kind}") from None
