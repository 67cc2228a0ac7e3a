"""What a program may put in between a consumer or a reader and its user, to watch or to change what passes.

Derive from one of these and override what you care about. Each interceptor is called in the order in which they were
given, and gets what the one before it has made. One that raises is logged, and counts as not called: messages pass all
the same. Names and moments are those of the Java client.
"""

from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId

__all__ = ["ConsumerInterceptor", "ReaderInterceptor"]

Handle: TypeAlias = Any
"""The Consumer, or the Reader, whose modules know of this one."""


class ConsumerInterceptor:
    """In between a consumer and its user. As `interceptors` of `Client.subscribe`."""

    def before_consume(self, consumer: Handle, message: Message) -> Message:
        """Return the message that the user is to get: this one, or another.

        Called on the thread that receives: the caller's, or a listener's thread for listeners and futures. A message
        that is not this one is acknowledged by its own id.
        """
        del consumer
        return message

    def on_acknowledge(self, consumer: Handle, message_id: MessageId, error: Exception | None) -> None:
        """Hear that a message was acknowledged by the user; the error, if the call raises one.

        Called on the caller's thread, before the broker has heard of it; for one that was put off, on a listener's
        thread, when it has been.
        """

    def on_acknowledge_cumulative(self, consumer: Handle, message_id: MessageId, error: Exception | None) -> None:
        """Hear that a message and all before it were acknowledged; likewise."""

    def on_negative_acks_send(self, consumer: Handle, message_ids: AbstractSet[MessageId]) -> None:
        """Hear that the broker was asked for refused messages again: their entries, without batch indexes.

        Called on a listener's thread.
        """

    def on_ack_timeout_send(self, consumer: Handle, message_ids: AbstractSet[MessageId]) -> None:
        """Hear that the broker was asked again for what was not acknowledged in time; likewise."""

    def on_partitions_change(self, topic: str, partitions: int) -> None:
        """Hear how many partitions a topic has, now that there are more of them. Called on a listener's thread."""

    def close(self) -> None:
        """Hear that the consumer has ended; nothing else is called after that. Called on a listener's thread."""


class ReaderInterceptor:
    """In between a reader and its user. As `interceptors` of `Client.create_reader`."""

    def before_read(self, reader: Handle, message: Message) -> Message:
        """Return the message that the user is to get: this one, or another.

        Called on the thread that reads: the caller's, or a listener's thread for listeners and futures.
        """
        del reader
        return message

    def close(self) -> None:
        """Hear that the reader has ended. Called on a listener's thread."""
