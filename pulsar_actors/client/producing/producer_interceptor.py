"""What a program may put in between a producer and its user, to watch or to change what is sent.

Derive from it and override what you care about. The interceptors of a producer are called in the order in which they
were given, and each gets what the one before it has made. One that raises is logged, and counts as not called: messages
are sent all the same. Names and moments are those of the Java client.
"""

from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias

from pulsar_actors.client.message_id import MessageId

__all__ = ["MessageToSend", "ProducerInterceptor"]

Handle: TypeAlias = Any
"""The Producer, whose module knows of this one."""


class MessageToSend(NamedTuple):
    """A message before it is sent: the arguments of `send`, as they were given; `_replace` makes another one of it."""

    content: object
    properties: dict[str, str] | None = None
    partition_key: str | None = None
    ordering_key: str | None = None
    sequence_id: int | None = None
    replication_clusters: list[str] | None = None
    disable_replication: bool = False
    event_timestamp: int | None = None
    deliver_at: int | None = None
    deliver_after: timedelta | None = None


class ProducerInterceptor:
    """In between a producer and its user. As `interceptors` of `Client.create_producer`."""

    def eligible(self, message: MessageToSend) -> bool:
        """Tell whether this interceptor is for the message; if not, it hears no more of it."""
        del message
        return True

    def before_send(self, producer: Handle, message: MessageToSend) -> MessageToSend:
        """Return what is to be sent: this message, or another. Called on the thread that sends.

        Its arguments are checked afterwards, and refused as those of `send` are.
        """
        del producer
        return message

    def on_send_acknowledgement(
        self, producer: Handle, message: MessageToSend, message_id: MessageId | None, error: Exception | None
    ) -> None:
        """Hear what became of a message, as the last interceptor has made it: its id, or the error.

        Called before the user is told, once for each message: on an I/O thread, where it must not wait for anything; or
        on the thread that sends, where the message was refused at once.
        """

    def on_partitions_change(self, topic: str, partitions: int) -> None:
        """Hear how many partitions the topic has, now that there are more of them. Called on a listener's thread."""

    def close(self) -> None:
        """Hear that the producer has ended; nothing else is called after that. Called on a listener's thread."""
