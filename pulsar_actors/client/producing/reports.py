"""What became of sends: the callbacks and futures of a whole batch, one after the other, and how many there were.

They are called on an I/O thread, where a callback that takes its time holds up everybody; so that is said once.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId, ids_of_batch
from pulsar_actors.runtime.future import SlimFuture, is_promise, settle
from pulsar_actors.runtime.interrupts import is_ctrl_c
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.outgoing import Ended, SentTo
from pulsar_actors.wire.message_id import MessageId as WireMessageId

Callback: TypeAlias = Callable[[Result, MessageId], object]
SLOW = 0.1
NOWHERE = MessageId()


class Reports:
    """The reports of one producer on one topic partition."""

    __slots__ = ("_said_slow", "failed", "last_failure", "partition", "sent", "sent_bytes", "topic")

    def __init__(self, topic: str, partition: int) -> None:
        self.sent = 0
        self.sent_bytes = 0
        self.failed = 0
        self.last_failure: str | None = None  # the error itself would keep alive whatever it has seen
        self.topic = topic
        self.partition = partition
        self._said_slow = False

    def __call__(self, ended: Iterable[Ended]) -> None:
        """Tell the senders of some messages what became of them."""
        began = time.monotonic()
        for replies, outcome in ended:
            if isinstance(outcome, Exception):
                self.last_failure = f"{type(outcome).__name__}: {outcome}"
                self.failed += len(replies)
                for reply in replies:
                    self.fail(reply, outcome)
            else:
                self.sent += len(replies)
                self.sent_bytes += outcome.size
                self._succeed(replies, outcome)
        took = time.monotonic() - began
        if took > SLOW and not self._said_slow:
            self._said_slow = True
            LOG.warning("the send callbacks of %s took %.1f s, for which nothing else was done", self.topic, took)

    def fail(self, reply: object, error: Exception) -> None:
        """Tell one sender that it went wrong."""
        if is_promise(reply):
            settle(reply, error)
        elif reply is not None:
            self.call(reply, Result.of(error), NOWHERE)

    def _succeed(self, replies: Sequence[object], where: SentTo) -> None:
        ledger_id, entry_id = where.positions[-1]
        if replies[0] is None and replies.count(None) == len(replies):
            return
        if not where.batched:
            first = None if len(where.positions) == 1 else WireMessageId(*where.positions[0], self.partition)
            self._tell(replies[0], WireMessageId(ledger_id, entry_id, self.partition, first_chunk=first))
            return
        entry = WireMessageId(ledger_id, entry_id, self.partition, batch_size=len(replies))
        ok = Result.Ok
        for reply, message_id in zip(replies, ids_of_batch(entry, self.topic), strict=True):
            if isinstance(reply, SlimFuture):  # and not `is_promise`, for the sake of a call
                settle(reply, message_id)  # pyright: ignore[reportUnknownArgumentType]
            elif reply is not None:
                try:
                    reply(ok, message_id)  # type: ignore[operator]
                except BaseException as raised:  # noqa: BLE001 - as in `call`, which would cost more than it does
                    self._raised(raised)

    def _tell(self, reply: object, place: WireMessageId) -> None:
        message_id = MessageId.wrap(place, self.topic)
        if is_promise(reply):
            settle(reply, message_id)
        elif reply is not None:
            self.call(reply, Result.Ok, message_id)

    def call(self, callback: object, result: Result, message_id: MessageId) -> None:
        """Call a callback; what it raises is logged."""
        try:
            callback(result, message_id)  # type: ignore[operator]
        except BaseException as raised:  # noqa: BLE001 - it is not ours, and must not keep others from their reports
            self._raised(raised)

    def _raised(self, raised: BaseException) -> None:
        if is_ctrl_c(raised):
            raise raised
        LOG.error("a send callback of %s raised", self.topic, exc_info=raised)
