"""What `Client.subscribe` takes: the official keyword arguments and defaults, checked."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pulsar_actors.client.arguments import (
    LONGEST_MS,
    LONGEST_SECONDS,
    callback,
    check_fields,
    flag,
    instance_of,
    not_yet,
    optional,
    properties,
    refusal_of,
    text,
    topic,
    whole_number,
)
from pulsar_actors.client.enums import ConsumerCryptoFailureAction, ConsumerType, InitialPosition, RegexSubscriptionMode
from pulsar_actors.client.message import Message
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy, ConsumerDeadLetterPolicy, ConsumerKeySharedPolicy
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["IN_ORDER", "ConsumerOptions"]

IN_ORDER = (ConsumerType.Exclusive, ConsumerType.Failover)
"""The types of which one consumer at a time gets everything."""


def _topics(name: str, value: object) -> object:
    """Take a topic, some topics, or a pattern that their names match."""
    if isinstance(value, str):
        return topic(name, value)
    if isinstance(getattr(value, "pattern", None), str):  # compiled, and not of bytes
        return value
    names = _listed(value)
    if not names:
        raise refusal_of(name, value, "a topic's name, a list of at least one, or a compiled pattern of str")
    return tuple(topic(f"{name}[{at}]", one) for at, one in enumerate(names))


def _listed(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else ()


_CHECKS = {
    "topic": _topics,
    "subscription_name": text,
    "consumer_type": instance_of(ConsumerType),
    "schema": instance_of(Schema),
    "message_listener": optional(callback("the consumer and a message")),
    "receiver_queue_size": whole_number(0),
    "max_total_receiver_queue_size_across_partitions": whole_number(0),
    "consumer_name": optional(text),
    "unacked_messages_timeout_ms": optional(whole_number(0, LONGEST_MS)),
    "broker_consumer_stats_cache_time_ms": whole_number(0, LONGEST_MS),
    "negative_ack_redelivery_delay_ms": whole_number(0, LONGEST_MS),
    "is_read_compacted": flag,
    "properties": properties,
    "pattern_auto_discovery_period": whole_number(1, LONGEST_SECONDS),
    "initial_position": instance_of(InitialPosition),
    "crypto_key_reader": not_yet("end-to-end encryption"),
    "replicate_subscription_state_enabled": flag,
    "max_pending_chunked_message": whole_number(0),
    "auto_ack_oldest_chunked_message_on_queue_full": flag,
    "start_message_id_inclusive": flag,
    "batch_receive_policy": optional(instance_of(ConsumerBatchReceivePolicy)),
    "key_shared_policy": optional(instance_of(ConsumerKeySharedPolicy)),
    "batch_index_ack_enabled": flag,
    "regex_subscription_mode": instance_of(RegexSubscriptionMode),
    "dead_letter_policy": optional(instance_of(ConsumerDeadLetterPolicy)),
    "crypto_failure_action": instance_of(ConsumerCryptoFailureAction),
}


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """The options of one subscription's consumer. Those that hold a listener or a schema pickle if these do."""

    topic: str | Sequence[str] | re.Pattern[str]
    """Several topics are a tuple once they are checked."""
    subscription_name: str
    consumer_type: ConsumerType = ConsumerType.Exclusive
    schema: Schema = BYTES
    message_listener: Callable[[Any, Message], object] | None = None
    receiver_queue_size: int = 1000
    max_total_receiver_queue_size_across_partitions: int = 50_000
    consumer_name: str | None = None
    unacked_messages_timeout_ms: int | None = None
    """0: none. The official client refuses less than 10 seconds, to spare brokers; for a test that is too long."""
    broker_consumer_stats_cache_time_ms: int = 30_000
    negative_ack_redelivery_delay_ms: int = 60_000
    is_read_compacted: bool = False
    properties: dict[str, str] | None = None
    """Never None once it is checked."""
    pattern_auto_discovery_period: int = 60
    initial_position: InitialPosition = InitialPosition.Latest
    crypto_key_reader: object = None
    replicate_subscription_state_enabled: bool = False
    max_pending_chunked_message: int = 10
    """0: any number."""
    auto_ack_oldest_chunked_message_on_queue_full: bool = False
    start_message_id_inclusive: bool = False
    batch_receive_policy: ConsumerBatchReceivePolicy | None = None
    key_shared_policy: ConsumerKeySharedPolicy | None = None
    batch_index_ack_enabled: bool = False
    regex_subscription_mode: RegexSubscriptionMode = RegexSubscriptionMode.PersistentOnly
    dead_letter_policy: ConsumerDeadLetterPolicy | None = None
    crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL

    def __post_init__(self) -> None:
        check_fields(self, _CHECKS)
        several = not isinstance(self.topic, str)
        if several and self.receiver_queue_size == 0:
            raise InvalidConfiguration("receiver_queue_size=0 asks for one message at a time: for a single topic only")
        if self.is_read_compacted and self.consumer_type not in IN_ORDER:
            raise InvalidConfiguration(
                f"is_read_compacted goes with an Exclusive or a Failover consumer, not with {self.consumer_type}"
            )
        if self.is_read_compacted and not all(TopicName.parse(name).is_persistent for name in self.topics):
            raise InvalidConfiguration("is_read_compacted needs a persistent topic: no other is ever compacted")

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics by name; none where there is a pattern."""
        if isinstance(self.topic, re.Pattern):
            return ()
        return (self.topic,) if isinstance(self.topic, str) else tuple(self.topic)
