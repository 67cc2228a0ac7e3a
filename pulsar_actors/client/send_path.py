"""The part of a producer that every message passes: `send_async`.

It is apart from `Producer`, because mypyc compiles it: a class with weak references and finalizers cannot be compiled.
"""

from concurrent.futures import Future
from datetime import timedelta
from types import FunctionType
from typing import TYPE_CHECKING

from pulsar_actors.client.enqueuer import Enqueuer, SendQueueEnqueuer
from pulsar_actors.client.message_builder import MessageOptions, build_header
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.send_callbacks import SendCallback, SendCallbacks
from pulsar_actors.client.validation import callback as callable_of
from pulsar_actors.client.validation import optional
from pulsar_actors.compiling import Given, mypyc_attr
from pulsar_actors.exceptions import AlreadyClosed, LimitReached, ProcessForked, PulsarException
from pulsar_actors.runtime.future import SlimFuture

if TYPE_CHECKING:
    from pulsar_actors.client.transaction import Transaction

_callback = optional(callable_of("a Result and a MessageId"))


@mypyc_attr(allow_interpreted_subclasses=True)
class SendPath:
    """The base of Producer that queues a message without waiting."""

    _enqueuer: Enqueuer
    _plain_enqueuer: SendQueueEnqueuer | None
    _send_callbacks: SendCallbacks
    _takes_bytes_as_they_are: bool

    def send_async(  # noqa: C901, PLR0912 - what is done for each message is one function
        self,
        content: object,
        callback: Given[SendCallback | None] = None,
        properties: Given[dict[str, str] | None] = None,
        partition_key: Given[str | None] = None,
        ordering_key: Given[str | None] = None,
        sequence_id: Given[int | None] = None,
        replication_clusters: Given[list[str] | None] = None,
        disable_replication: Given[bool] = False,
        event_timestamp: Given[int | None] = None,
        deliver_at: Given[int | None] = None,
        deliver_after: Given[timedelta | None] = None,
        *,
        transaction: "Given[Transaction | None]" = None,
    ) -> "Future[MessageId] | None":
        """Publish a message without waiting. The arguments are those of `send`.

        A `callback` is called with `Result.Ok` and the message's id, or with another Result and an empty id. It is
        called on an I/O thread, or in a thread that waits in `send` of another producer, and must not block there. If
        the queue is full or the producer is closed, it is called at once, in this thread. Without a callback, a
        `concurrent.futures.Future` of the id is returned, which has the error itself.
        """
        done: SlimFuture[MessageId] | None = None
        reply: object = callback
        if callback is None:
            reply = done = SlimFuture()
        elif type(callback) is not FunctionType and not callable(callback):  # compiled, `callable` takes longer
            _callback("callback", callback)  # type: ignore[unreachable] # raises an error that says what is needed
        if transaction is not None:
            message_options = (
                properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
                event_timestamp, deliver_at, deliver_after,
            )  # fmt: skip
            return self._send_in(transaction, content, message_options, callback)
        if type(content) is bytes and self._takes_bytes_as_they_are:  # a shortcut for `build_message`
            plain, payload, tag = self._plain_enqueuer, content, reply
            if not (
                properties is None and partition_key is None and ordering_key is None and sequence_id is None
                and replication_clusters is None and disable_replication is False
                and event_timestamp is None and deliver_at is None and deliver_after is None
            ):  # fmt: skip
                message_options = (
                    properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
                    event_timestamp, deliver_at, deliver_after,
                )  # fmt: skip
                tag = header = build_header(len(content), message_options, reply, self._now_ms)
                if header.unbatchable is not None:
                    plain = None
                elif plain is not None:
                    plain.send_queue.had_headers = True
            if plain is not None and len(content) <= plain.send_queue.small:
                queue = plain.send_queue
                buffer = queue.buffer
                if len(buffer) < queue.locked_from:  # as `SendQueueEnqueuer.enqueue` does, without its calls
                    try:
                        buffer.extend((content, tag))
                        if len(buffer) >= queue.notify_at:
                            plain.appended()
                    except KeyboardInterrupt:
                        plain.interrupted()
                        raise
                    return done
        else:
            message_options = (
                properties, partition_key, ordering_key, sequence_id, replication_clusters, disable_replication,
                event_timestamp, deliver_at, deliver_after,
            )  # fmt: skip
            payload, tag = self._message(content, message_options, reply)
        try:
            self._enqueuer.enqueue(payload, tag)
        except PulsarException as error:
            if not self._is_outcome(error):
                raise
            self._send_callbacks.refuse((tag,), error)
        return done

    def _send_in(
        self, transaction: object, content: object, message_options: MessageOptions, callback: SendCallback | None
    ) -> "Future[MessageId] | None":
        """Do the same in a transaction."""
        raise NotImplementedError

    def _message(self, content: object, message_options: MessageOptions, reply: object) -> tuple[bytes, object]:
        """Build the payload and the tag of a message."""
        raise NotImplementedError

    def _now_ms(self) -> int:
        raise NotImplementedError

    def _is_outcome(self, error: PulsarException) -> bool:
        """Return whether an error may happen to any message, so that it goes to the callback, and is not raised."""
        has_ended = self._enqueuer.has_ended_by(error) and not isinstance(error, ProcessForked)
        return has_ended or isinstance(error, (LimitReached, AlreadyClosed))
