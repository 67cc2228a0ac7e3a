"""The `Producer` of asyncio."""

import asyncio
from collections import deque
from collections.abc import Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Literal, cast, overload

from pulsar_actors.asyncio.binding import LoopBinding
from pulsar_actors.asyncio.completions import LoopReply
from pulsar_actors.asyncio.handle import Handle, sync_transaction
from pulsar_actors.client.enqueuer import SendQueueEnqueuer, Share
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer import Producer as SyncProducer
from pulsar_actors.client.send_many import as_failure
from pulsar_actors.client.stats import ProducerStats
from pulsar_actors.exceptions import LimitReached, PulsarException
from pulsar_actors.runtime.send_queue import SendQueue

if TYPE_CHECKING:
    from pulsar_actors.asyncio.transaction import Transaction

SENT_ALL_THE_SAME = "send() was cancelled after the message was queued: it is sent all the same, unless the client ends"
ALL_SENT_ALL_THE_SAME = (
    "send_many() was cancelled after the messages were queued: they are sent all the same, unless the client ends"
)
QUEUED_IN_PART = (
    "send_many() was cancelled while it waited for room in the queue: the messages that are in the queue are sent all "
    "the same, the others are not"
)
NEVER_QUEUED = "send() was cancelled while it waited for room in the queue: the message is not sent"


class Line(asyncio.Lock):
    """A lock that counts those in line. A free one may have been left to somebody who has not taken it yet."""

    def __init__(self) -> None:
        super().__init__()
        self.length = 0

    async def acquire(self) -> Literal[True]:
        """Wait for the lock, behind those who have called before."""
        self.length += 1
        try:
            return await super().acquire()
        except BaseException:
            self.length -= 1
            raise

    def release(self) -> None:
        """Leave the lock to the next in line."""
        self.length -= 1
        super().release()


class Producer(Handle[SyncProducer]):
    """Publishes messages to a topic. Made by `Client.create_producer`; any number of tasks of its loop may use it."""

    def __init__(self, producer: SyncProducer, binding: LoopBinding, *, waits: bool) -> None:
        super().__init__(producer, binding)
        self._waits = waits
        self._for_room = Line()  # the senders that wait for room, in the order of their calls
        self._room: tuple[SendQueue, asyncio.Future[None]] | None = None

    def producer_name(self) -> str:
        """Return the name of the producer: the one that was given, or that the broker chose."""
        return self._handle.producer_name()

    def last_sequence_id(self) -> int:
        """Return the highest sequence id that the broker has stored for this producer's name; -1 if there is none."""
        return self._handle.last_sequence_id()

    def stats(self) -> ProducerStats:
        """Return statistics of all partitions together: pending and sent messages, rates, failures, the last error."""
        return self._handle.stats()

    async def send(
        self,
        content: object,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool | None = None,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
        *,
        transaction: "Transaction | None" = None,
    ) -> MessageId:
        """Publish a message, wait until it is stored, and return its id. The arguments are the synchronous ones.

        Call it from many tasks at once: their messages go out in batches. If the queue is full, it raises
        ProducerQueueIsFull; with `block_if_queue_full` it waits for room, and the loop goes on. Messages enter the
        queue in the order in which the calls began to run.

        A cancelled send raises CancelledError. Its text says what is known. Cancelled while it waits for room, the
        message was not sent. Later it is sent all the same, and may be stored; `stats` counts it as sent or failed.
        `asyncio.shield` keeps a send whose outcome you need.
        """
        if asyncio.get_running_loop() is not self._loop:
            self._binding.completions()  # raises
        message_options = (
            properties, partition_key, ordering_key, sequence_id, replication_clusters, bool(disable_replication),
            event_timestamp, deliver_at, deliver_after,
        )  # fmt: skip
        reply: LoopReply[MessageId] | None = None
        if transaction is None:
            reply = LoopReply(self._completions)
            stored = reply.future
            enqueuer, payload, tag = self._handle.prepare(content, message_options, reply)
        else:
            in_transaction = self._handle.reply_in(sync_transaction(transaction))
            enqueuer, payload, tag = self._handle.prepare_in(in_transaction, content, message_options)
            stored = self._binding.future_of(in_transaction)
        try:
            if self._waits and self._for_room.length:
                await self._enqueue_later(enqueuer, payload, tag)
            else:
                try:
                    enqueuer.try_enqueue(payload, tag)
                except LimitReached:
                    if not self._waits:
                        raise
                    await self._enqueue_later(enqueuer, payload, tag)
        except BaseException as error:
            stored.cancel()
            self._handle.refused(tag, as_failure(error))
            raise
        try:
            return await stored
        except asyncio.CancelledError as error:
            error.args = error.args or (SENT_ALL_THE_SAME,)
            raise
        finally:
            del stored, reply, tag

    @overload
    async def send_many(
        self, contents: Iterable[object], *, ids: Literal[False] = False, transaction: "Transaction | None" = None
    ) -> int: ...

    @overload
    async def send_many(
        self, contents: Iterable[object], *, ids: Literal[True], transaction: "Transaction | None" = None
    ) -> list[MessageId]: ...

    async def send_many(
        self, contents: Iterable[object], *, ids: bool = False, transaction: "Transaction | None" = None
    ) -> int | list[MessageId]:
        """Publish many messages by one call, and wait until all are stored. The arguments are the synchronous ones.

        It returns the number of messages, or with `ids` the list of their ids. If messages are not stored, it raises
        SendManyFailed once all have ended: its `errors` has the error of each of them, by position. With
        `block_if_queue_full` it waits for room, and the loop goes on; otherwise the messages from the first without
        room on fail with ProducerQueueIsFull, on that partition.

        A cancelled call raises CancelledError. The messages that are in the queue are sent all the same, and no others.
        """
        if asyncio.get_running_loop() is not self._loop:
            self._binding.completions()  # raises
        in_transaction = None if transaction is None else sync_transaction(transaction)
        call, shares = self._handle.prepare_many(contents, ids=ids, transaction=in_transaction)
        pieces = deque(piece for share in shares for piece in share.pieces())
        try:
            if self._waits:
                async with self._for_room:  # without a step of the loop, unless others wait for room
                    await self._enqueue(pieces)
            else:
                await self._enqueue(pieces)
        except asyncio.CancelledError as error:
            for enqueuer, _, tags in pieces:
                enqueuer.refuse(tags, as_failure(error))
            error.args = error.args or (QUEUED_IN_PART,)
            raise
        try:
            return cast("int | list[MessageId]", await self._binding.wait_for(call.future))
        except asyncio.CancelledError as error:
            error.args = error.args or (ALL_SENT_ALL_THE_SAME,)
            raise

    async def flush(self) -> None:
        """Wait until everything sent so far is stored or has failed."""
        self._binding.completions()
        await self._binding.wait_for(self._handle.flush_future())

    def _room_in(self, send_queue: SendQueue) -> "asyncio.Future[None]":
        """Return a future of room in a queue; that of a cancelled sender, if there is one: a queue may stay full."""
        if self._room is not None and self._room[0] is send_queue and not self._room[1].done():
            return self._room[1]
        room: LoopReply[None] = LoopReply(self._completions)
        self._room = send_queue, room.future
        send_queue.wait_for_room(room)
        return room.future

    async def _enqueue(self, pieces: deque[Share]) -> None:
        """Enqueue the messages of `send_many`, and fail those that a queue does not take, with those behind them.

        What is left in `pieces` is not queued yet.
        """
        refused: dict[SendQueueEnqueuer, Exception] = {}
        while pieces:
            enqueuer, payloads, tags = pieces[0]
            if enqueuer in refused:
                enqueuer.refuse(tags, refused[enqueuer])
                pieces.popleft()
                continue
            try:
                taken = enqueuer.try_enqueue_many(payloads, tags)
            except PulsarException as error:
                if isinstance(error, LimitReached) and self._waits:
                    await asyncio.shield(self._room_in(enqueuer.send_queue))
                else:
                    refused[enqueuer] = error
            else:
                pieces.popleft()
                if taken < len(payloads):
                    pieces.appendleft(Share(enqueuer, payloads[taken:], tags[taken:]))

    async def _enqueue_later(self, enqueuer: SendQueueEnqueuer, payload: bytes, tag: object) -> None:
        try:
            async with self._for_room:
                while True:
                    try:
                        enqueuer.try_enqueue(payload, tag)
                    except LimitReached:
                        await asyncio.shield(self._room_in(enqueuer.send_queue))
                    else:
                        return
        except asyncio.CancelledError as error:
            error.args = error.args or (NEVER_QUEUED,)
            raise
