"""Completes the sends of a producer: calls the callbacks and resolves the futures of a batch, and counts messages.

This happens on an I/O thread. A slow callback there holds up all producers and consumers of that thread, so the first
one is logged.
"""

from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import Any, TypeAlias, cast

from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId, new_message_id
from pulsar_actors.client.send_many import SendManyCall, call_number
from pulsar_actors.runtime.future import SlimFuture, is_slim_future, settle
from pulsar_actors.runtime.interrupts import is_ctrl_c
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.send_queue import SendOutcome, SentTo, reply_of
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.message_id import new_entry_id

SendCallback: TypeAlias = Callable[[Result, MessageId], object]
SLOW_CALLBACKS = 0.1
NO_MESSAGE_ID = MessageId()


class SendCallbacks:
    """The callbacks, and the counters, of one producer on one topic partition. `now` returns monotonic seconds."""

    __slots__ = ("_now", "_warned_slow", "calls", "failed", "partition", "refused", "sent", "sent_bytes", "topic")

    def __init__(self, topic: str, partition: int, now: Callable[[], float]) -> None:
        self.calls: dict[int, SendManyCall] = {}  # the calls of `send_many` that have messages here, by their numbers
        self.sent = 0
        self.sent_bytes = 0
        self.failed = 0  # written on the I/O thread only
        self.refused = 0  # written on the threads of callers
        self.topic = topic
        self.partition = partition
        self._now = now
        self._warned_slow = False

    def __call__(self, ended: Iterable[SendOutcome]) -> None:
        """Complete the sends of messages that have ended."""
        began = self._now()
        for replies, outcome in ended:
            if isinstance(outcome, Exception):
                self.failed += len(replies)
                for reply in replies:
                    self.fail(reply, outcome)
            else:
                self.sent += len(replies)
                self.sent_bytes += outcome.size
                self._succeed(replies, outcome)
        took = self._now() - began
        if took > SLOW_CALLBACKS and not self._warned_slow:
            self._warned_slow = True
            LOG.warning(
                "the send callbacks of %s took %.1f s, for which nothing else was done",
                self.topic,
                took,
                about={"pulsar_topic": self.topic},
            )

    def refuse(self, tags: Sequence[object], error: Exception) -> None:
        """Fail messages that no queue has taken, on their caller's thread."""
        count = len(tags)
        self.refused += count  # without a call in it, this is one step for other threads
        for tag in tags:
            self.fail(reply_of(tag), error)

    def fail(self, reply: object, error: Exception) -> None:
        """Complete one send with an error."""
        if is_slim_future(reply):
            settle(reply, error)
        elif type(reply) is int:
            self._end_one(reply, error)
        elif reply is not None:
            self.call(reply, Result.of(error), NO_MESSAGE_ID)

    def _succeed(self, replies: Sequence[Any], where: SentTo) -> None:
        ledger_id, entry_id = where.positions[-1]
        if replies[0] is None and replies.count(None) == len(replies):
            return
        if not where.batched:
            is_one_place = len(where.positions) == 1 or entry_id < 0  # chunks of a message that was there already
            first = None if is_one_place else WireMessageId(*where.positions[0], self.partition)
            self._complete(replies[0], new_entry_id((ledger_id, entry_id, self.partition, -1, 0, first)))
            return
        entry = WireMessageId(ledger_id, entry_id, self.partition, batch_size=len(replies))
        if self.calls and int in map(type, replies):
            self._succeed_many(replies, entry)
        else:
            self._succeed_batch(replies, entry)

    def _succeed_batch(self, replies: Sequence[Any], entry: WireMessageId) -> None:
        """Complete the sends of a batch, each with an id of its own."""
        ok, topic, new, kind = Result.Ok, self.topic, MessageId.__new__, MessageId
        message_id = new(kind)
        message_id._topic = topic  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        message_id._batch = entry  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        ours, is_kept = 0, False  # the references to an id that no callback has kept, and whether one has
        known: type[object] | None = None  # the type of the last reply: most are of the same
        is_future = False
        for index, reply in enumerate(replies):  # little but the callback is called for each message
            if not is_kept:  # the id is used again, as making one takes most of the time
                references = getrefcount(message_id)  # in one place only, as interpreters count a call differently
                if references != ours:
                    is_kept, ours = ours > 0, references
            if is_kept:
                message_id = new(kind)
                message_id._topic = topic  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                message_id._batch = entry  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            message_id._index = index  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            message_id._wire = None  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            if type(reply) is not known:
                known = cast("type[object]", type(reply))
                is_future = isinstance(reply, SlimFuture)
            if is_future:
                settle(reply, message_id)
            elif reply is not None:
                try:
                    reply(ok, message_id)
                except BaseException as raised:  # noqa: BLE001 - as in `call`
                    self._raised(raised)

    def _succeed_many(self, replies: Sequence[object], entry: WireMessageId) -> None:
        """Complete the sends of a batch that has messages of `send_many`: if possible, many in one step."""
        at = 0
        while at < len(replies):
            reply, messages = replies[at], 1
            if type(reply) is not int:
                self._complete(reply, entry._replace(batch_index=at))
            elif (call := self.calls.get(call_number(reply))) is not None:
                messages = call.consecutive(replies, at)
                call.stored(reply, messages, entry, self.topic, at)
            at += messages

    def _end_one(self, number: int, outcome: MessageId | Exception) -> None:
        call = self.calls.get(call_number(number))
        if call is not None:  # otherwise its caller was interrupted
            call.ended(number, outcome)

    def _complete(self, reply: object, stored: WireMessageId) -> None:
        message_id = new_message_id(stored, self.topic)
        if isinstance(reply, SlimFuture):
            settle(reply, message_id)  # pyright: ignore[reportUnknownArgumentType]
        elif type(reply) is int:
            self._end_one(reply, message_id)
        elif reply is not None:
            self.call(reply, Result.Ok, message_id)

    def call(self, callback: object, result: Result, message_id: MessageId) -> None:
        """Call a callback, and log an error that it raises."""
        try:
            callback(result, message_id)  # type: ignore[operator]
        except BaseException as raised:  # noqa: BLE001 - a user's error must not keep other sends from being completed
            self._raised(raised)

    def _raised(self, raised: BaseException) -> None:
        if is_ctrl_c(raised):
            raise raised
        LOG.error("a send callback of %s raised", self.topic, exc_info=raised, about={"pulsar_topic": self.topic})
