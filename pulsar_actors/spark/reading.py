"""How a task reads its span: from the position where it starts, up to the one where it ends.

The message at the end belongs to somebody else, and so it is not waited for: the last one before it shows that it is
the last, by its place in its entry. Where entries are missing that would have been before the end, nothing shows that,
and the broker is asked whether there is anything left to come.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Final

from pulsar_actors.client.consuming.reader import Reader, read_some
from pulsar_actors.client.message import Message, parts_of
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import Timeout
from pulsar_actors.spark.loss import lose
from pulsar_actors.spark.options import ReadOptions
from pulsar_actors.spark.pool import POOL
from pulsar_actors.spark.position import EARLIEST, Position
from pulsar_actors.spark.span import Span

__all__ = ["messages_in"]

LOOK: Final = 500
"""Milliseconds to wait for a message before the broker is asked whether there is any."""


def messages_in(span: Span, options: ReadOptions) -> Iterator[Sequence[Message]]:
    """Read the messages of a span, many at a time."""
    with POOL.lend(options.cluster) as kept:
        reader = kept.client.create_reader(
            span.topic,
            MessageId.wrap(span.start.message_id),
            start_message_id_inclusive=True,
            subscription_role_prefix=options.prefix,
            **options.reader,
        )
        with reader:
            yield from _Reading(reader, span, options).messages()


class _Reading:
    """One span, as far as it has been read."""

    def __init__(self, reader: Reader, span: Span, options: ReadOptions) -> None:
        self._reader = reader
        self._span = span
        self._options = options
        self._next = span.start

    def messages(self) -> Iterator[Sequence[Message]]:
        """Read until the end is reached, or nothing is left before it."""
        is_first = True
        while self._next < self._span.end:
            some = self._some()
            if not some:
                return
            if is_first:
                self._check_start(_position_of(some[0]))
                is_first = False
            wanted = self._before_end(some)
            if wanted:
                self._next = _behind(wanted[-1])
                yield wanted
            if len(wanted) < len(some):
                return

    def _some(self) -> Sequence[Message]:
        """Wait for messages; none, if the topic has no more."""
        until = time.monotonic() + self._options.poll_timeout_ms / 1000
        while True:
            try:
                return read_some(self._reader, min(LOOK, self._options.poll_timeout_ms))
            except Timeout:
                if not self._reader.has_message_available():
                    self._miss()
                    return ()
                if time.monotonic() >= until:
                    raise self._late() from None

    def _before_end(self, some: Sequence[Message]) -> Sequence[Message]:
        end = self._span.end
        if _position_of(some[-1]) < end:
            return some
        return [message for message in some if _position_of(message) < end]

    def _check_start(self, first: Position) -> None:
        """See whether what was to come first may have been deleted: with the ledger that it was in."""
        start, moved = self._span.start, self._span.moved
        if moved is not None and start != EARLIEST and first.ledger_id > start.ledger_id:
            self._lose(
                f"{moved}; what was to be read next was at {start.text(-1)}, and the first there is now is at "
                f"{first.text(-1)}"
            )

    def _miss(self) -> None:
        """Say what is not there. Where the end is the beginning of a ledger, nothing need be missing before it."""
        if self._span.end.entry_id > 0 or self._span.end.place > 0:
            self._lose(
                f"messages up to {self._span.end.text(-1)} were to be read, and there is nothing from "
                f"{self._next.text(-1)} on"
            )

    def _lose(self, what: str) -> None:
        lose(f"{self._span.topic} has lost messages, it seems: {what}", fails=self._options.fails_on_loss)

    def _late(self) -> Timeout:
        return Timeout(
            f"{self._span.topic} has messages from {self._next.text(-1)} on, and none came within "
            f"{self._options.poll_timeout_ms:,} ms, which is pollTimeoutMs"
        )


def _position_of(message: Message) -> Position:
    _, stored, entry, index = parts_of(message)
    return Position(*entry.message_id.position, 0 if stored is None else index)


def _behind(message: Message) -> Position:
    """Give the position behind a message: in its batch, or behind its entry."""
    _, stored, entry, index = parts_of(message)
    ledger_id, entry_id = entry.message_id.position
    if stored is not None and index + 1 < entry.size:
        return Position(ledger_id, entry_id, index + 1)
    return Position(ledger_id, entry_id + 1)
