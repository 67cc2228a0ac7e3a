"""A producer, as users hold it."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from datetime import timedelta
from typing import NamedTuple, cast

from pulsar_actors.client.arguments import callback as callable_of
from pulsar_actors.client.arguments import optional
from pulsar_actors.client.handle import Handle
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producing.door import Doorway
from pulsar_actors.client.producing.producer_interceptor import MessageToSend
from pulsar_actors.client.producing.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.producing.producer_parts import ProducerParts
from pulsar_actors.client.producing.reports import Callback
from pulsar_actors.client.producing.sending import Extras, outgoing, said, sent_on
from pulsar_actors.client.producing.sending_parts import AnySendingParts
from pulsar_actors.client.schema import BytesSchema
from pulsar_actors.client.stats import ProducerStats
from pulsar_actors.exceptions import AlreadyClosed, LimitReached, ProcessForked, PulsarException
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.outgoing import reply_of
from pulsar_actors.runtime.producer_actor import FlushAll
from pulsar_actors.wire.topic_name import TopicName

_callback = optional(callable_of("a Result and a MessageId"))


class Producer(Handle[AnySendingParts]):
    """Publishes messages to a topic. Made by `Client.create_producer`; any number of threads may use it.

    `send` waits until the broker has stored the message. `send_async` does not, and is how many messages are sent in
    little time: with a callback, or without one for a future. `with` closes the producer at the end of its block.
    """

    def __init__(self, parts: AnySendingParts, options: ProducerOptions, client: object) -> None:
        topic = str(TopicName.parse(options.topic))
        super().__init__(parts, topic, f"the producer on {topic}", client)
        self._reports = parts.reports
        self._options = options
        self._door = parts.door
        self._interceptors = interceptors = parts.interceptors
        self._takes_bytes_as_they_are = interceptors is None and type(options.schema) is BytesSchema
        if interceptors is not None:
            parts.ties.ended.add_done_callback(lambda _: interceptors.close())

    def producer_name(self) -> str:
        """Return the name that was given, or that the broker chose."""
        return self._one.machine.identity.name

    def last_sequence_id(self) -> int:
        """Return the highest sequence id that the broker has stored, under this producer's name; -1 for none."""
        return self._one.machine.sequence_ids.last_published

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
            What goes with it: a dict of str.
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
            When it happened, in milliseconds since 1970; for those who read it.
        deliver_at = None
            Shared and KeyShared subscriptions get it no sooner, in milliseconds since 1970.
        deliver_after = None
            The same as a `timedelta` from now.

        What has been batched so far leaves with it: nobody waits for the batching delay. An OutcomeUnknown says that
        the message may be stored, or not. Of a message that the broker has already, and drops as it deduplicates, the
        id is of no place: its ledger and its entry are -1.
        """
        self._parts.engine.refuse_inside("send()", "send_async()")
        extras = (
            properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
            event_timestamp, deliver_at, deliver_after,
        )  # fmt: skip
        done: SlimFuture[MessageId] = SlimFuture()
        payload, place = self._message(content, extras, done)
        try:
            self._door.leave_now(payload, place)
        except PulsarException as error:
            self._reports.fail(reply_of(place), error)  # whoever is told in place of the caller
            raise
        return self._parts.engine.block(done, None, f"send() to {self._topic}")

    def send_async(
        self,
        content: object,
        callback: Callback | None = None,
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
            _callback("callback", callback)  # type: ignore[unreachable] # which says what it takes
        if (
            type(content) is bytes and self._takes_bytes_as_they_are
            and properties is None and partition_key is None and ordering_key is None and sequence_id is None
            and replication_clusters is None and disable_replication is False
            and event_timestamp is None and deliver_at is None and deliver_after is None
        ):  # fmt: skip
            payload, place = content, reply  # what `outgoing` gives, in less time
        else:
            extras = (
                properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
                event_timestamp, deliver_at, deliver_after,
            )  # fmt: skip
            if type(content) is bytes and self._takes_bytes_as_they_are:  # likewise
                payload, place = content, said(len(content), extras, reply, self._now_ms)
            else:
                payload, place = self._message(content, extras, reply)
        try:
            self._door.leave(payload, place)
        except PulsarException as error:
            if not self._is_outcome(error):
                raise
            self._reports.fail(reply_of(place), error)
        return done

    def flush(self) -> None:
        """Wait until everything sent so far is stored or has failed."""
        self._parts.engine.refuse_inside("flush()", "the callbacks of send_async()")
        self._call(FlushAll, f"flush() of {self._topic}")

    def forward(
        self, message: Message, properties: Mapping[str, str], deliver_at_ms: int | None, done: SlimFuture[MessageId]
    ) -> None:
        """Send a received message on, with other properties. From anywhere, a loop included."""
        try:
            self._door.slip(*sent_on(message, properties, deliver_at_ms, done))
        except PulsarException as error:
            self._reports.fail(done, error)

    def stats(self) -> ProducerStats:
        """Return how things stand, over all partitions: what is pending, what went out, how fast, what went wrong."""
        self._refuse_if_forked()
        members = self._members()
        pending = [parts.outbox.used() for parts in members]
        sent = sum(parts.reports.sent for parts in members)
        sent_bytes = sum(parts.reports.sent_bytes for parts in members)
        reports = {self._reports, *(parts.reports for parts in members)}  # a set has its own, for what went nowhere
        errors = (parts.ties.vitals.last_error_text for parts in members)
        return ProducerStats(
            topic=self._topic,
            producer_name=self.producer_name(),
            connected=self.is_connected(),
            pending=sum(messages for messages, _ in pending),
            in_flight=sum(map(_in_flight, members)),
            pending_bytes=sum(size for _, size in pending),
            sent=sent,
            sent_bytes=sent_bytes,
            failed=sum(each.failed for each in reports),
            rates=self._meter.rates(sent, sent_bytes, self._parts.engine.now()),
            reconnects=sum(parts.ties.vitals.reconnects for parts in members),
            last_error=next((error for error in errors if error is not None), None),
        )

    def __repr__(self) -> str:
        return f"<Producer {self.producer_name()!r} on {self._topic}>"

    @property
    def _one(self) -> ProducerParts:
        """Give the parts of what is no set: a set is asked otherwise."""
        return cast("ProducerParts", self._parts)

    def _members(self) -> Collection[ProducerParts]:
        """Give the parts of all that is behind it."""
        return (self._one,)

    def _message(self, content: object, extras: Extras, reply: object) -> tuple[bytes, object]:
        if self._interceptors is not None:
            return self._intercepted(self._interceptors, content, extras, reply)
        return outgoing(self._options.schema, content, extras, reply, self._now_ms)

    def _intercepted(
        self, interceptors: ProducerInterceptors, content: object, extras: Extras, reply: object
    ) -> tuple[bytes, object]:
        message, done = interceptors.before(self, MessageToSend(content, *extras), reply)
        try:
            return outgoing(self._options.schema, message.content, message[1:], done, self._now_ms)
        except Exception as error:  # the caller's mistake, an interceptor's, or one of the caller's schema
            settle(done, error)
            raise

    def _now_ms(self) -> int:
        return self._parts.engine.wall_clock_ms()

    def _is_outcome(self, error: PulsarException) -> bool:
        """Tell what may happen to a message at any time from what is wrong with the call."""
        has_ended = self._door.has_ended_by(error) and not isinstance(error, ProcessForked)
        return has_ended or isinstance(error, (LimitReached, AlreadyClosed))


def _in_flight(parts: ProducerParts) -> int:
    """Count what was written to a connection: nothing, without one."""
    return parts.machine.pending.used[0] if parts.closed is None and parts.machine.is_bound else 0


class Failures(NamedTuple):
    """How many messages have failed since a producer was made, and why the last one did."""

    number: int
    last: str | None


def door_of(producer: Producer) -> Doorway:
    """Give the way in for messages of which nobody is told one by one."""
    return producer._door  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def failures_of(producer: Producer) -> Failures:
    """Tell what went wrong with messages, whoever was told."""
    reports = {producer._reports, *(parts.reports for parts in producer._members())}  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    last = (one.last_failure for one in reports if one.last_failure is not None)
    return Failures(sum(one.failed for one in reports), next(last, None))
