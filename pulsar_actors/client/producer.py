"""A producer, as users hold it."""

from concurrent.futures import Future
from datetime import timedelta

from pulsar_actors.client.anew import anew
from pulsar_actors.client.arguments import callback as callable_of
from pulsar_actors.client.arguments import optional
from pulsar_actors.client.handle import Handle
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.producer_parts import ProducerParts
from pulsar_actors.client.reports import Callback
from pulsar_actors.client.schema import BYTES
from pulsar_actors.client.sending import Extras, outgoing
from pulsar_actors.client.stats import ProducerStats
from pulsar_actors.exceptions import AlreadyClosed, LimitReached, ProcessForked, PulsarException
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.outgoing import Outgoing
from pulsar_actors.runtime.producer_actor import FlushAll, News, TakeAll
from pulsar_actors.wire.topic_name import TopicName

_callback = optional(callable_of("a Result and a MessageId"))


class Producer(Handle[ProducerParts]):
    """Publishes messages to one topic. Made by `Client.create_producer`; any number of threads may use it.

    `send` waits until the broker has stored the message. `send_async` does not, and is how many messages are sent in
    little time: with a callback, or without one for a future. `with` closes the producer at the end of its block.
    """

    def __init__(self, parts: ProducerParts, options: ProducerOptions, client: object) -> None:
        topic = options.topic
        super().__init__(parts, topic, f"the producer on {TopicName.parse(topic)}", client)
        self._outbox = parts.outbox
        self._options = options

    def producer_name(self) -> str:
        """Return the name that was given, or that the broker chose."""
        return self._parts.machine.identity.name

    def last_sequence_id(self) -> int:
        """Return the highest sequence id that the broker has stored, under this producer's name; -1 for none."""
        return self._parts.machine.sequence_ids.last_published

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
        the message may be stored, or not.
        """
        self._parts.engine.refuse_inside("send()", "send_async()")
        extras = Extras(
            properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
            event_timestamp, deliver_at, deliver_after,
        )  # fmt: skip
        done: SlimFuture[MessageId] = SlimFuture()
        self._leave(self._message(content, extras, done))
        tell(self._address, TakeAll())
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
        extras = Extras(
            properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
            event_timestamp, deliver_at, deliver_after,
        )  # fmt: skip
        _callback("callback", callback)
        done: SlimFuture[MessageId] | None = SlimFuture() if callback is None else None
        message = self._message(content, extras, done or callback)
        try:
            self._leave(message)
        except PulsarException as error:
            if not self._is_outcome(error):
                raise
            self._parts.reports.fail(message[3], error)
        return done

    def flush(self) -> None:
        """Wait until everything sent so far is stored or has failed."""
        self._parts.engine.refuse_inside("flush()", "the callbacks of send_async()")
        self._call(FlushAll, f"flush() of {self._topic}")

    def forward(self, message: Message, properties: dict[str, str], callback: Callback) -> None:
        """Send a received message on, with other properties. From anywhere, a loop included."""
        extras = Extras(properties, message.partition_key() or None, message.ordering_key() or None)
        content = None if message.has_null_value() else message.data()
        parcel = outgoing(BYTES, content, extras, callback, self._now_ms)
        try:
            if self._outbox.closed is not None:
                raise anew(self._outbox.closed)
            if self._outbox.put(parcel):
                tell(self._address, News())
        except PulsarException as error:
            self._parts.reports.fail(callback, error)

    def stats(self) -> ProducerStats:
        """Return how things stand: what is pending, what went out, how fast, and the last thing that went wrong."""
        self._refuse_if_forked()
        parts = self._parts
        pending, pending_bytes = parts.machine.pending.used
        sent, sent_bytes = parts.reports.sent, parts.reports.sent_bytes
        vitals = parts.ties.vitals
        return ProducerStats(
            topic=self._topic,
            producer_name=self.producer_name(),
            connected=self.is_connected(),
            pending=pending,
            in_flight=max(0, pending - len(self._outbox.buffer)) if self.is_connected() else 0,
            pending_bytes=pending_bytes,
            sent=sent,
            sent_bytes=sent_bytes,
            failed=parts.reports.failed,
            rates=self._meter.rates(sent, sent_bytes, parts.engine.now()),
            reconnects=vitals.reconnects,
            last_error=vitals.last_error_text,
        )

    def __repr__(self) -> str:
        return f"<Producer {self.producer_name()!r} on {self._topic}>"

    def _message(self, content: object, extras: Extras, reply: object) -> Outgoing:
        return outgoing(self._options.schema, content, extras, reply, self._now_ms)

    def _now_ms(self) -> int:
        return self._parts.engine.wall_clock_ms()

    def _leave(self, message: Outgoing) -> None:
        """Put it into the outbox, waiting for room if that is wanted."""
        try:
            while not self._put(message):
                self._parts.engine.refuse_inside("a full queue", "block_if_queue_full=False")
                room = self._outbox.room_for(len(message[0]))
                self._parts.engine.block(room, None, f"the full queue of {self._topic}")
        except KeyboardInterrupt:  # it may be there, with nobody to tell the actor of it
            tell(self._address, TakeAll())
            raise

    def _put(self, message: Outgoing) -> bool:
        """Put it into the outbox, and tell whether there was room, if it may be waited for."""
        outbox = self._outbox
        if outbox.closed is not None:
            raise anew(outbox.closed)
        try:
            is_news = outbox.put(message)
        except LimitReached:
            if not self._options.block_if_queue_full:
                raise
            return False
        if is_news:
            tell(self._address, News())
        return True

    def _is_outcome(self, error: PulsarException) -> bool:
        """Tell what may happen to a message at any time from what is wrong with the call."""
        has_ended = type(error) is type(self._outbox.closed) and not isinstance(error, ProcessForked)
        return has_ended or isinstance(error, (LimitReached, AlreadyClosed))
