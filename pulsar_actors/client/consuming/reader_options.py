"""What `Client.create_reader` takes: the official keyword arguments and defaults, checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pulsar_actors.client.arguments import (
    LONGEST_MS,
    callback,
    check_fields,
    check_size,
    flag,
    instance_of,
    not_yet,
    optional,
    several_of,
    text,
    topics,
    whole_number,
)
from pulsar_actors.client.consuming.consumer_interceptor import ReaderInterceptor
from pulsar_actors.client.enums import ConsumerCryptoFailureAction
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["ReaderOptions"]

_CHECKS = {
    "topic": topics,
    "start_message_id": instance_of(MessageId),
    "schema": instance_of(Schema),
    "reader_listener": optional(callback("the reader and a message")),
    "receiver_queue_size": whole_number(0),
    "reader_name": optional(text),
    "subscription_role_prefix": optional(text),
    "is_read_compacted": flag,
    "crypto_key_reader": not_yet("end-to-end encryption"),
    "start_message_id_inclusive": flag,
    "crypto_failure_action": instance_of(ConsumerCryptoFailureAction),
    "max_pending_chunked_message": whole_number(0),
    "auto_ack_oldest_chunked_message_on_queue_full": flag,
    "expire_time_of_incomplete_chunked_message_ms": whole_number(0, LONGEST_MS),
    "interceptors": several_of(ReaderInterceptor),
}


@dataclass(frozen=True, slots=True)
class ReaderOptions:
    """The options of one reader. Those that hold a listener or a schema pickle if these do."""

    topic: str | Sequence[str]
    start_message_id: MessageId
    schema: Schema = BYTES
    reader_listener: Callable[[Any, Message], object] | None = None
    receiver_queue_size: int = 1000
    reader_name: str | None = None
    subscription_role_prefix: str | None = None
    is_read_compacted: bool = False
    crypto_key_reader: object = None
    start_message_id_inclusive: bool = False
    crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL
    max_pending_chunked_message: int = 10
    """0: any number."""
    auto_ack_oldest_chunked_message_on_queue_full: bool = False
    expire_time_of_incomplete_chunked_message_ms: int = 60_000
    """0: never."""
    interceptors: Sequence[ReaderInterceptor] = ()

    def __post_init__(self) -> None:
        check_fields(self, _CHECKS)
        check_size(self, "topic", "reader_name", "subscription_role_prefix")
        names = (self.topic,) if isinstance(self.topic, str) else self.topic
        if not isinstance(self.topic, str) and self.receiver_queue_size == 0:
            raise InvalidConfiguration("receiver_queue_size=0 asks for one message at a time: for a single topic only")
        if self.is_read_compacted and not all(TopicName.parse(name).is_persistent for name in names):
            raise InvalidConfiguration("is_read_compacted needs a persistent topic: no other is ever compacted")
