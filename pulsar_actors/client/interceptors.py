"""Base classes for interceptors and event listeners: derive from one, and override the methods of interest.

Interceptors are called in the order in which they were given; each gets the message that the previous one has returned.
If an interceptor raises, that is logged, and the message goes on without it. The methods have the names of the Java
client, and are called at the same events.
"""

from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import Any, TypeAlias

from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.named_tuple import NamedTuple

__all__ = ["ConsumerEventListener", "ConsumerInterceptor", "MessageToSend", "ProducerInterceptor", "ReaderInterceptor"]


InterceptedHandle: TypeAlias = Any
"""A Consumer or a Reader, whose modules import this one."""


class ConsumerInterceptor:
    """Sees, and may change, messages between a consumer and its user. For `interceptors` of `Client.subscribe`."""

    def before_consume(self, consumer: InterceptedHandle, message: Message) -> Message:
        """Return the message for the user: this one, or another.

        Called on the thread that receives: the caller's, or a listener's thread for listeners and futures. If another
        message is returned, that message's id is acknowledged.
        """
        del consumer
        return message

    def on_acknowledge(self, consumer: InterceptedHandle, message_id: MessageId, error: Exception | None) -> None:
        """Note that the user has acknowledged a message; `error` is the error that the call raises, if any.

        Called on the caller's thread, before the acknowledgement is sent. For a message of `reconsume_later`, called on
        a listener thread, after the acknowledgement.
        """

    def on_acknowledge_cumulative(
        self, consumer: InterceptedHandle, message_id: MessageId, error: Exception | None
    ) -> None:
        """Note that the user has acknowledged a message and all before it. Called like `on_acknowledge`."""

    def on_negative_acks_send(self, consumer: InterceptedHandle, message_ids: AbstractSet[MessageId]) -> None:
        """Note that the broker was asked to redeliver negatively acknowledged messages.

        `message_ids` are their entries, without batch indexes. Called on a listener's thread.
        """

    def on_ack_timeout_send(self, consumer: InterceptedHandle, message_ids: AbstractSet[MessageId]) -> None:
        """Note that the broker was asked to redeliver entries that were not acknowledged in time.

        Called on a listener thread.
        """

    def on_partitions_change(self, topic: str, partitions: int) -> None:
        """Note the new number of partitions of a topic that has grown. Called on a listener thread."""

    def close(self) -> None:
        """Note that the consumer has ended. This is the last call, on a listener thread."""


class ReaderInterceptor:
    """Sees, and may change, messages between a reader and its user. For `interceptors` of `Client.create_reader`."""

    def before_read(self, reader: InterceptedHandle, message: Message) -> Message:
        """Return the message for the user: this one, or another.

        Called on the thread that reads: the caller's, or a listener's thread for listeners and futures.
        """
        del reader
        return message

    def close(self) -> None:
        """Note that the reader has ended. Called on a listener thread."""


InterceptedProducer: TypeAlias = Any
"""A Producer, whose module imports this one."""


class MessageToSend(NamedTuple):
    """A message before it is sent: the arguments of `send`. `_replace` makes a changed copy."""

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
    """Sees, and may change, messages before they are sent. For `interceptors` of `Client.create_producer`."""

    def eligible(self, message: MessageToSend) -> bool:
        """Return whether this interceptor is for the message. If not, its other methods are not called for it."""
        del message
        return True

    def before_send(self, producer: InterceptedProducer, message: MessageToSend) -> MessageToSend:
        """Return the message to send: this one, or a changed one. Called on the thread that sends.

        The arguments are checked after that, as those of `send` are.
        """
        del producer
        return message

    def on_send_acknowledgement(
        self,
        producer: InterceptedProducer,
        message: MessageToSend,
        message_id: MessageId | None,
        error: Exception | None,
    ) -> None:
        """Note the outcome of a message: its id, or the error. `message` is the one that the last interceptor returned.

        Called once for each message, before the user's callback: on an I/O thread, where it must not block, or on the
        thread that sends, if the message was refused at once.
        """

    def on_partitions_change(self, topic: str, partitions: int) -> None:
        """Note the new number of partitions of the topic, when it has grown. Called on a listener thread."""

    def close(self) -> None:
        """Note that the producer has ended. This is the last call, on a listener thread."""


NotifiedConsumer: TypeAlias = Any
"""A Consumer or a Reader, whose modules import this one."""


class ConsumerEventListener:
    """Told if a Failover consumer is the active one. For `consumer_event_listener` of `Client.subscribe`.

    Called on a listener thread, whenever a consumer of the subscription comes or goes.
    """

    def became_active(self, consumer: NotifiedConsumer, partition: int) -> None:
        """Note that this consumer gets the messages now. `partition` is -1 if its topic is no partition."""

    def became_inactive(self, consumer: NotifiedConsumer, partition: int) -> None:
        """Note that another consumer gets the messages now."""
