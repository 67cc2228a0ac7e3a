"""The `Producer` of the public API."""

from collections.abc import Mapping
from concurrent.futures import Future
from datetime import timedelta
from typing import cast

from pulsar_actors.client.handle import Handle
from pulsar_actors.client.interceptors import MessageToSend
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_builder import MessageOptions, build_forwarded_message, build_header, build_message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.producer_state import AnySendingState, ProducerState
from pulsar_actors.client.schema import BytesSchema
from pulsar_actors.client.send_callbacks import SendCallback
from pulsar_actors.client.stats import ProducerStats
from pulsar_actors.client.validation import callback as callable_of
from pulsar_actors.client.validation import optional
from pulsar_actors.exceptions import AlreadyClosed, LimitReached, ProcessForked, PulsarException
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.producer_actor import FlushAll
from pulsar_actors.runtime.send_queue import reply_of
from pulsar_actors.wire.topic_name import TopicName

_callback = optional(callable_of("a Result and a MessageId"))


class Producer(Handle[AnySendingState]):
    """Publishes messages to a topic. Made by `Client.create_producer`; any number of threads may use it.

    `send` waits until the broker has stored the message. `send_async` does not, and is how many messages are sent in
    little time: with a callback, or without one for a future. `with` closes the producer at the end of its block.
    """

    def __init__(self, state: AnySendingState, options: ProducerOptions, client: object) -> None:
        topic = str(TopicName.parse(options.topic))
        super().__init__(state, topic, f"the producer on {topic}", client)
        self._send_callbacks = state.send_callbacks
        self._options = options
        self._enqueuer = state.enqueuer
        self._interceptors = interceptors = state.interceptors
        self._takes_bytes_as_they_are = interceptors is None and type(options.schema) is BytesSchema
        if interceptors is not None:
            state.link.ended.add_done_callback(lambda _: interceptors.close())

    def producer_name(self) -> str:
        """Return the name that was given, or that the broker chose."""
        return self._single_state.machine.identity.name

    def last_sequence_id(self) -> int:
        """Return the highest sequence id that the broker has stored, under this producer's name; -1 for none."""
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
    ) -> MessageId:
        """Publish a message, and return where it is once it is stored.

        content
            bytes, what the producer's schema takes, or None for a message that deletes its key on a compacted topic.
        properties = None
            Metadata of the message: a dict of str.
        partition_key = None
            The message's key. It chooses the partition, and the consumer of a KeyShared subscription.
        ordering_key = None
            Chooses the consumer of a KeyShared subscription, instead of the key.
        sequence_id = None
            Its number, for deduplication at the broker; by default the one after the last.
        replication_clusters = None
            The clusters it goes to, of those that the namespace replicates to; None: all.
        disable_replication = False
            Keep it in this cluster.
        event_timestamp = None
            The time of the event, in milliseconds since 1970; for consumers.
        deliver_at = None
            Shared and KeyShared subscriptions get the message no sooner, in milliseconds since 1970.
        deliver_after = None
            The same as a `timedelta` from now.

        Messages that have been batched so far are sent with it, without waiting for the batching delay. An
        OutcomeUnknown means that the message may be stored, or not. A message that the broker has already, and drops
        because it deduplicates, gets an id whose ledger and entry are -1.
        """
        self._state.engine.refuse_inside("send()", "send_async()")
        message_options = (
            properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
            event_timestamp, deliver_at, deliver_after,
        )  # fmt: skip
        done: SlimFuture[MessageId] = SlimFuture()
        payload, tag = self._message(content, message_options, done)
        try:
            self._enqueuer.enqueue_and_flush(payload, tag)
        except PulsarException as error:
            self._send_callbacks.fail(reply_of(tag), error)  # an interceptor may have put its own in place
            raise
        return self._state.engine.block(done, None, f"send() to {self._topic}")

    def send_async(
        self,
        content: object,
        callback: SendCallback | None = None,
        properties: dict[str, str] | None = None,
        partition_key: str | None = None,
        ordering_key: str | None = None,
        sequence_id: int | None = None,
        replication_clusters: list[str] | None = None,
        disable_replication: bool = False,
        event_timestamp: int | None = None,
        deliver_at: int | None = None,
        deliver_after: timedelta | None = None,
    ) -> "Future[MessageId] | None":
        """Publish a message without waiting. The arguments are those of `send`.

        With a `callback`, it is called with `Result.Ok` and the message's id, or with another Result and an id of
        nothing: on an I/O thread, where it must not wait for anything; or at once, in this thread, where the queue is
        full or the producer closed. Without one, a `concurrent.futures.Future` of the id is returned, which holds the
        error itself.
        """
        done: SlimFuture[MessageId] | None = None
        reply: object = callback
        if callback is None:
            reply = done = SlimFuture()
        elif not callable(callback):
            _callback("callback", callback)  # type: ignore[unreachable] # raises an error that says what is needed
        if (
            type(content) is bytes and self._takes_bytes_as_they_are
            and properties is None and partition_key is None and ordering_key is None and sequence_id is None
            and replication_clusters is None and disable_replication is False
            and event_timestamp is None and deliver_at is None and deliver_after is None
        ):  # fmt: skip
            payload, tag = content, reply  # as `build_message` does, in less time
        else:
            message_options = (
                properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
                event_timestamp, deliver_at, deliver_after,
            )  # fmt: skip
            if type(content) is bytes and self._takes_bytes_as_they_are:  # in less time, again
                payload, tag = content, build_header(len(content), message_options, reply, self._now_ms)
            else:
                payload, tag = self._message(content, message_options, reply)
        try:
            self._enqueuer.enqueue(payload, tag)
        except PulsarException as error:
            if not self._is_outcome(error):
                raise
            self._send_callbacks.fail(reply_of(tag), error)
        return done

    def flush(self) -> None:
        """Wait until everything sent so far is stored or has failed."""
        self._state.engine.refuse_inside("flush()", "the callbacks of send_async()")
        self._call(FlushAll, f"flush() of {self._topic}")

    def forward(
        self, message: Message, properties: Mapping[str, str], deliver_at_ms: int | None, done: SlimFuture[MessageId]
    ) -> None:
        """Send a received message on, with other properties. For any thread, I/O threads included."""
        try:
            self._enqueuer.try_enqueue(*build_forwarded_message(message, properties, deliver_at_ms, done))
        except PulsarException as error:
            self._send_callbacks.fail(done, error)

    def stats(self) -> ProducerStats:
        """Return how things stand, over all partitions: what is pending, what went out, how fast, what went wrong."""
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
            failed=self._state.send_failures().number,
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

    def _intercepted(
        self, interceptors: ProducerInterceptors, content: object, message_options: MessageOptions, reply: object
    ) -> tuple[bytes, object]:
        message, done = interceptors.before(self, MessageToSend(content, *message_options), reply)
        try:
            return build_message(self._options.schema, message.content, message[1:], done, self._now_ms)
        except Exception as error:  # a mistake of the caller, of an interceptor or of the caller's schema
            settle(done, error)
            raise

    def _now_ms(self) -> int:
        return self._state.engine.wall_clock_ms()

    def _is_outcome(self, error: PulsarException) -> bool:
        """Tell the errors that can happen to any message from those of a wrong call."""
        has_ended = self._enqueuer.has_ended_by(error) and not isinstance(error, ProcessForked)
        return has_ended or isinstance(error, (LimitReached, AlreadyClosed))


def _in_flight(state: ProducerState) -> int:
    """Count the messages that were written to the current connection, if there is one."""
    return state.machine.pending.used[0] if state.closed is None and state.machine.is_bound else 0
