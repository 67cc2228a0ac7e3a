"""The `Producer` of the public API."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, cast, overload

from pulsar_actors.client.enqueuer import SendQueueEnqueuer, Share
from pulsar_actors.client.handle import Handle
from pulsar_actors.client.interceptors import MessageToSend
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_builder import MessageOptions, build_forwarded_message, build_message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.producer_state import AnySendingState, ProducerState
from pulsar_actors.client.schema import BytesSchema
from pulsar_actors.client.send_many import SendManyCall, as_failure, as_list
from pulsar_actors.client.send_path import SendPath
from pulsar_actors.client.validation import callback as callable_of
from pulsar_actors.client.validation import flag, optional
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.producer_actor import FlushAll
from pulsar_actors.runtime.send_queue import MessageHeader, new_message_header, reply_of, tag_in
from pulsar_actors.wire.topic_name import TopicName

if TYPE_CHECKING:
    from pulsar_actors.client.send_callbacks import SendCallback
    from pulsar_actors.client.stats import ProducerStats
    from pulsar_actors.client.transaction import Transaction, TransactionReply
    from pulsar_actors.runtime.transaction_work import TransactionWork

_callback = optional(callable_of("a Result and a MessageId"))
_ONLY_BYTES = {bytes}
_NO_OPTIONS: MessageOptions = (None, None, None, None, None, False, None, None, None)


class Producer(SendPath, Handle[AnySendingState]):
    """Publishes messages to a topic. Made by `Client.create_producer`; any number of threads may use it.

    `send` waits until the broker has stored the message. `send_async` does not wait, which is much faster for many
    messages; it takes a callback, or returns a future. `with` closes the producer at the end of its block.
    """

    def __init__(self, state: AnySendingState, options: ProducerOptions, client: object) -> None:
        topic = str(TopicName.parse(options.topic))
        super().__init__(state, topic, f"the producer on {topic}", client)
        self._send_callbacks = state.send_callbacks
        self._options = options
        self._enqueuer = state.enqueuer
        self._interceptors = interceptors = state.interceptors
        self._takes_bytes_as_they_are = interceptors is None and type(options.schema) is BytesSchema
        self._plain_enqueuer = None
        if self._takes_bytes_as_they_are and isinstance(self._enqueuer, SendQueueEnqueuer) and self._enqueuer.is_plain:
            self._plain_enqueuer = self._enqueuer
        if interceptors is not None:
            state.link.ended.add_done_callback(lambda _: interceptors.close())

    def producer_name(self) -> str:
        """Return the name of the producer: the one that was given, or that the broker chose."""
        return self._single_state.machine.identity.name

    def last_sequence_id(self) -> int:
        """Return the highest sequence id that the broker has stored for this producer's name; -1 if there is none."""
        return self._single_state.machine.sequence_ids.last_published

    def send(
        self,
        content: object,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
        *,
        transaction: "Transaction | None" = None,
    ) -> MessageId:
        """Publish a message, wait until it is stored, and return its id.

        content
            bytes, or a value that the producer's schema takes. None deletes the message's key on a compacted topic.
        properties = None
            Metadata of the message: a dict of str.
        partition_key = None
            The message's key. It chooses the partition, and the consumer of a KeyShared subscription.
        ordering_key = None
            A key that chooses the consumer of a KeyShared subscription, instead of `partition_key`.
        sequence_id = None
            The message's number, for deduplication at the broker. By default the number after the last one.
        replication_clusters = None
            The clusters that the message is replicated to, of those of the namespace; None: all.
        disable_replication = False
            Do not replicate the message to other clusters.
        event_timestamp = None
            A time for consumers to read, in milliseconds since 1970.
        deliver_at = None
            The time before which Shared and KeyShared subscriptions do not get the message, in milliseconds since 1970.
        deliver_after = None
            The same as a `timedelta` from now.
        transaction = None
            The transaction that the message is a part of: it is stored now, and readers see it after the commit.

        Messages that have been batched so far are sent with it, without waiting for the batching delay. An
        OutcomeUnknown means that the message may have been stored, or not. If the broker drops the message as a
        duplicate, the ledger and the entry of the id are -1.
        """
        self._state.engine.refuse_on_io_thread("send()", "send_async()")
        message_options = (
            properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
            event_timestamp, deliver_at, deliver_after,
        )  # fmt: skip
        done: SlimFuture[MessageId]
        tag: object
        if transaction is not None:
            done = reply = self.reply_in(transaction)
            payload, tag = self._message_in(reply, content, message_options)
        else:
            tag = done = SlimFuture()
            if (
                type(content) is bytes and self._takes_bytes_as_they_are
                and message_options == _NO_OPTIONS and disable_replication is False
            ):  # fmt: skip
                payload = content  # the shortcut of `send_async`
            else:
                payload, tag = self._message(content, message_options, done)
        try:
            self._enqueuer.enqueue_and_flush(payload, tag, done)
        except Exception as error:
            self._send_callbacks.refuse((tag,), error)  # an interceptor's future may have replaced the reply
            raise
        return self._state.engine.block(done, None, f"send() to {self._topic}")

    @overload
    def send_many(
        self, contents: Iterable[object], *, ids: Literal[False] = False, transaction: "Transaction | None" = None
    ) -> "Future[int]": ...

    @overload
    def send_many(
        self, contents: Iterable[object], *, ids: Literal[True], transaction: "Transaction | None" = None
    ) -> "Future[list[MessageId]]": ...

    def send_many(
        self, contents: Iterable[object], *, ids: bool = False, transaction: "Transaction | None" = None
    ) -> "Future[Any]":
        """Publish many messages by one call, without waiting until they are stored. One future is returned for all.

        contents
            The contents of the messages, as for `send`, in any iterable, which is read to its end first. A message with
            a key, properties or other options is a MessageToSend, whose fields are the arguments of `send`.
        ids = False
            The future's result is the number of messages; with True, the list of their ids.
        transaction = None
            The transaction that the messages are a part of, as for `send`.

        If messages are not stored, the future has a SendManyFailed, once all have ended: its `errors` has the error of
        each of them, by position; all others are stored. Messages keep their order, and a mistake in any of them is
        raised before any is sent. If the queue has no room, the call waits with `block_if_queue_full`, in which case
        there may be more messages than `max_pending_messages`. Otherwise the messages from the first without room on
        fail with ProducerQueueIsFull, on that partition. If the producer is closed meanwhile, the rest fails with
        AlreadyClosed. If Ctrl-C ends the wait for room, the messages that are in the queue are sent, and no others.
        """
        return self._enqueue_shares(*self.prepare_many(contents, ids=ids, transaction=transaction))

    def send_encoded(
        self,
        payloads: Sequence[bytes],
        headers: Sequence[MessageHeader | None],
        transaction: "Transaction | None" = None,
    ) -> "Future[int]":
        """Publish messages whose metadata, if they have any, is encoded. The future is that of `send_many`."""
        call = SendManyCall(len(payloads), wants_ids=False)
        tags: list[object] = list(call.tags)
        if any(headers):
            tags = [
                tag if header is None else new_message_header((*header[:5], tag, None, None))
                for header, tag in zip(headers, tags, strict=True)
            ]
        if transaction is not None:
            tags = self._tags_in(transaction, tags, call)
        return self._enqueue_shares(call, self._shares(payloads, tags, call))

    def flush(self) -> None:
        """Wait until everything sent so far is stored or has failed."""
        self._state.engine.refuse_on_io_thread("flush()", "the callbacks of send_async()")
        self._call(self._flush_request, f"flush() of {self._topic}")

    def prepare(
        self, content: object, message_options: MessageOptions, reply: object
    ) -> tuple[SendQueueEnqueuer, bytes, object]:
        """Build a message, and return its enqueuer, its payload and its tag, for callers that never block.

        Such a caller calls `refused` if the enqueuer does not take the message.
        """
        if type(content) is bytes and self._takes_bytes_as_they_are and message_options == _NO_OPTIONS:
            payload, tag = content, reply  # the shortcut of `send_async`
        else:
            payload, tag = self._message(content, message_options, reply)
        return self._enqueuer.enqueuer_for(payload, tag), payload, tag

    def prepare_in(
        self, reply: "TransactionReply", content: object, message_options: MessageOptions
    ) -> tuple[SendQueueEnqueuer, bytes, object]:
        """Build a message of a transaction, for such callers."""
        payload, tag = self._message_in(reply, content, message_options)
        try:
            return self._enqueuer.enqueuer_for(payload, tag), payload, tag
        except Exception as error:
            self._send_callbacks.refuse((tag,), error)
            raise

    def prepare_many(
        self, contents: Iterable[object], *, ids: bool, transaction: "Transaction | None" = None
    ) -> tuple[SendManyCall, list[Share]]:
        """Build the messages of `send_many`, and return the call and the share of each queue, for such callers."""
        flag("ids", ids)
        given = as_list(contents)
        call = SendManyCall(len(given), wants_ids=ids)
        payloads, tags = self._messages(given, call)
        if transaction is not None:
            tags = self._tags_in(transaction, tags, call)
        return call, self._shares(payloads, tags, call)

    def refused(self, tag: object, error: Exception) -> None:
        """Tell the sender of a message, and the interceptors, that it was not taken."""
        self._send_callbacks.refuse((tag,), error)

    def flush_future(self) -> SlimFuture[None]:
        """Return a future that is done when everything sent so far is stored or has failed."""
        done: SlimFuture[None] = SlimFuture()
        self._state.link.pending_calls.track(done)
        tell(self._address, self._flush_request(done))
        return done

    def forward(
        self, message: Message, properties: Mapping[str, str], deliver_at_ms: int | None, done: SlimFuture[MessageId]
    ) -> None:
        """Send a received message to this topic, with other properties. Called on any thread, I/O threads included."""
        try:
            self._enqueuer.try_enqueue(*build_forwarded_message(message, properties, deliver_at_ms, done))
        except PulsarException as error:
            self._send_callbacks.refuse((done,), error)

    def _members(self) -> Collection[ProducerState]:
        """Return the state of each partition that has a producer."""
        return self._state.members()

    def stats(self) -> "ProducerStats":
        """Return statistics of all partitions together: pending and sent messages, rates, failures, the last error."""
        from pulsar_actors.client.stats import ProducerStats  # noqa: PLC0415 - many programs never ask

        self._refuse_if_forked()
        members = self._state.members()
        pending = [state.send_queue.used() for state in members]
        sent = sum(state.send_callbacks.sent for state in members)
        sent_bytes = sum(state.send_callbacks.sent_bytes for state in members)
        errors = (state.link.counters.last_error_text for state in members)
        return ProducerStats(
            topic=self._topic,
            producer_name=self.producer_name(),
            connected=self.is_connected(),
            pending=sum(messages for messages, _ in pending),
            in_flight=sum(map(_in_flight, members)),
            pending_bytes=sum(size for _, size in pending),
            sent=sent,
            sent_bytes=sent_bytes,
            failed=self._state.failed(),
            rates=self._meter.rates(sent, sent_bytes, self._state.engine.now()),
            reconnects=sum(state.link.counters.reconnects for state in members),
            last_error=next((error for error in errors if error is not None), None),
        )

    def __repr__(self) -> str:
        return f"<Producer {self.producer_name()!r} on {self._topic}>"

    @property
    def _single_state(self) -> ProducerState:
        """The state of a producer that is not partitioned."""
        return cast("ProducerState", self._state)

    def _message(self, content: object, message_options: MessageOptions, reply: object) -> tuple[bytes, object]:
        if self._interceptors is not None:
            return self._intercepted(self._interceptors, content, message_options, reply)
        return build_message(self._options.schema, content, message_options, reply, self._now_ms)

    def reply_in(self, transaction: object, callback: "SendCallback | None" = None) -> "TransactionReply":
        """Begin a send in a transaction, and return its future, which calls the callback instead if there is one."""
        from pulsar_actors.client.transaction import TransactionReply  # noqa: PLC0415 - few programs have any

        work = self._begin_in(transaction)
        work.begin()
        return TransactionReply(work, self._send_callbacks, callback)

    def _message_in(
        self, reply: "TransactionReply", content: object, message_options: MessageOptions
    ) -> tuple[bytes, object]:
        """Build a message of a transaction. If the caller has made a mistake, nothing has begun."""
        try:
            payload, tag = self._message(content, message_options, reply)
        except BaseException:
            reply.end(None)
            raise
        return payload, tag_in(reply.work, tag)

    def _send_in(
        self, transaction: object, content: object, message_options: MessageOptions, callback: "SendCallback | None"
    ) -> "Future[MessageId] | None":
        reply = self.reply_in(transaction, callback)
        payload, tag = self._message_in(reply, content, message_options)
        try:
            self._enqueuer.enqueue(payload, tag)
        except Exception as error:
            self._send_callbacks.refuse((tag,), error)
            if not (isinstance(error, PulsarException) and self._is_outcome(error)):
                raise
        return reply if callback is None else None

    def _tags_in(self, transaction: object, tags: Sequence[object], call: SendManyCall) -> list[object]:
        """Return the tags of the messages of a call that are sent in a transaction. The call is one send there."""
        work = self._begin_in(transaction)
        work.begin_as(call.future)
        return [tag_in(work, tag) for tag in tags]

    def _begin_in(self, transaction: object) -> "TransactionWork":
        from pulsar_actors.client.transaction import refuse_unless_persistent, work_in  # noqa: PLC0415 - the same

        work = work_in(transaction, self._client)
        refuse_unless_persistent(self._topic)
        for state in self._state.members():  # to be flushed before the end, whatever batch the message joins
            work.producers.setdefault(state.address, None)
        return work

    def _intercepted(
        self, interceptors: ProducerInterceptors, content: object, message_options: MessageOptions, reply: object
    ) -> tuple[bytes, object]:
        message, done = interceptors.before(self, MessageToSend(content, *message_options), reply)
        try:
            return build_message(self._options.schema, message.content, message[1:], done, self._now_ms)
        except Exception as error:  # a mistake of the caller, of an interceptor or of the caller's schema
            settle(done, error)
            raise

    def _messages(self, given: list[Any], call: SendManyCall) -> tuple[list[bytes], list[object]]:
        """Build the messages of a call. If one of them has a mistake, none is sent."""
        if self._takes_bytes_as_they_are and set(map(type, given)) == _ONLY_BYTES:
            return given, list(call.tags)
        payloads, tags = list[bytes](), list[object]()
        try:
            for tag, one in zip(call.tags, given, strict=True):
                content, options = (one[0], one[1:]) if isinstance(one, MessageToSend) else (one, _NO_OPTIONS)
                reply = tag if self._interceptors is None else call.reply_for(tag)
                payload, built = self._message(content, options, reply)
                payloads.append(payload)
                tags.append(built)
        except Exception as error:
            for built in tags if self._interceptors is not None else ():
                self._send_callbacks.fail(reply_of(built), error)  # the interceptors have seen these messages
            raise
        return payloads, tags

    def _shares(self, payloads: Sequence[bytes], tags: Sequence[object], call: SendManyCall) -> list[Share]:
        """Divide the messages of a call among the queues, which then know the call. None, if the producer is closed."""
        try:
            shares = self._enqueuer.shares(payloads, tags) if payloads else []
            for share in shares:
                call.open_in(share.enqueuer.send_callbacks)
        except BaseException as error:
            call.open_in(self._send_callbacks)
            self._send_callbacks.refuse(tags, as_failure(error))
            if not (isinstance(error, PulsarException) and self._is_outcome(error)):
                raise
            return []
        return shares

    def _enqueue_shares(self, call: SendManyCall, shares: Sequence[Share]) -> "Future[Any]":
        refused: dict[SendQueueEnqueuer, Exception] = {}
        remaining = iter(shares)
        try:
            for enqueuer, payloads, tags in remaining:
                if enqueuer in refused:  # the order of a partition stays
                    enqueuer.refuse(tags, refused[enqueuer])
                    continue
                error = enqueuer.enqueue_many(payloads, tags)
                if error is not None:
                    refused[enqueuer] = error
        except BaseException as error:
            for enqueuer, _, tags in remaining:
                enqueuer.refuse(tags, as_failure(error))
            raise
        return call.future

    def _flush_request(self, done: SlimFuture[None]) -> object:
        return FlushAll(done)

    def _now_ms(self) -> int:
        return self._state.engine.wall_clock_ms()


def _in_flight(state: ProducerState) -> int:
    """Return the number of messages that were written to the current connection; 0 if there is none."""
    return state.machine.pending.used[0] if state.closed is None and state.machine.is_bound else 0
