"""What `Client.subscribe` takes: the official keyword arguments and defaults, checked."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from pulsar_actors.client.arguments import (
    LONGEST_MS,
    LONGEST_SECONDS,
    callback,
    check_fields,
    check_size,
    flag,
    instance_of,
    not_yet,
    optional,
    properties,
    several_of,
    text,
    topics,
    whole_number,
)
from pulsar_actors.client.consuming.consumer_event_listener import ConsumerEventListener
from pulsar_actors.client.consuming.consumer_interceptor import ConsumerInterceptor
from pulsar_actors.client.consuming.retry_policy import refuse_unless_retries_work, retry_policy
from pulsar_actors.client.enums import (
    ConsumerCryptoFailureAction,
    ConsumerType,
    InitialPosition,
    RegexSubscriptionMode,
    SubscriptionMode,
)
from pulsar_actors.client.message import Message
from pulsar_actors.client.policies import (
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    MultiplierRedeliveryBackoff,
)
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.machines.ledgers.topic_pattern import TopicPattern
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["IN_ORDER", "ConsumerOptions"]

IN_ORDER = (ConsumerType.Exclusive, ConsumerType.Failover)
"""The types of which one consumer at a time gets everything."""


def _topics(name: str, value: object) -> object:
    """Take a topic, some topics, or a pattern that their names match."""
    if _is_pattern_of_text(value):
        TopicPattern(cast("re.Pattern[str]", value))
        return value
    return topics(name, value, "a topic's name, a list of at least one, or a compiled pattern of str")


def _is_pattern_of_text(value: object) -> bool:
    match value:
        case re.Pattern(pattern=str()):
            return True
        case _:
            return False


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
    "ack_receipt_enabled": flag,
    "ack_grouping_time_ms": whole_number(0, LONGEST_MS),
    "ack_grouping_max_size": whole_number(1),
    "negative_ack_redelivery_backoff": optional(instance_of(MultiplierRedeliveryBackoff)),
    "ack_timeout_redelivery_backoff": optional(instance_of(MultiplierRedeliveryBackoff)),
    "expire_time_of_incomplete_chunked_message_ms": whole_number(0, LONGEST_MS),
    "priority_level": whole_number(0),
    "subscription_mode": instance_of(SubscriptionMode),
    "subscription_properties": properties,
    "start_paused": flag,
    "consumer_event_listener": optional(instance_of(ConsumerEventListener)),
    "interceptors": several_of(ConsumerInterceptor),
    "enable_retry": flag,
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
    ack_receipt_enabled: bool = False
    ack_grouping_time_ms: int = 100
    ack_grouping_max_size: int = 1000
    negative_ack_redelivery_backoff: MultiplierRedeliveryBackoff | None = None
    ack_timeout_redelivery_backoff: MultiplierRedeliveryBackoff | None = None
    expire_time_of_incomplete_chunked_message_ms: int = 60_000
    """0: never."""
    priority_level: int = 0
    subscription_mode: SubscriptionMode = SubscriptionMode.Durable
    subscription_properties: dict[str, str] | None = None
    """Never None once it is checked."""
    start_paused: bool = False
    consumer_event_listener: ConsumerEventListener | None = None
    interceptors: Sequence[ConsumerInterceptor] = ()
    enable_retry: bool = False
    """Where it is on, the `dead_letter_policy` is complete once it is checked."""

    def __post_init__(self) -> None:
        check_fields(self, _CHECKS)
        check_size(self, "topic", "subscription_name", "consumer_name", "properties", "subscription_properties")
        several = not isinstance(self.topic, str)
        if several and self.receiver_queue_size == 0:
            raise InvalidConfiguration("receiver_queue_size=0 asks for one message at a time: for a single topic only")
        if self.is_read_compacted and self.consumer_type not in IN_ORDER:
            raise InvalidConfiguration(
                f"is_read_compacted goes with an Exclusive or a Failover consumer, not with {self.consumer_type}"
            )
        if self.is_read_compacted and not all(TopicName.parse(name).is_persistent for name in self.topics):
            raise InvalidConfiguration("is_read_compacted needs a persistent topic: no other is ever compacted")
        if self.start_paused and self.message_listener is None:
            raise InvalidConfiguration("start_paused goes with a message_listener: nothing else can be paused")
        if self.ack_timeout_redelivery_backoff and not self.unacked_messages_timeout_ms:
            raise InvalidConfiguration("ack_timeout_redelivery_backoff goes with unacked_messages_timeout_ms")
        self._complete_retries()

    def _complete_retries(self) -> None:
        policy = self.dead_letter_policy
        if self.enable_retry:
            refuse_unless_retries_work(self.consumer_type, self.subscription_mode, self.receiver_queue_size)
            policy = retry_policy(self.topics, self.subscription_name, policy)
            object.__setattr__(self, "dead_letter_policy", policy)
            self._subscribed_to(policy.retry_letter_topic or "")
        elif policy is not None and policy.retry_letter_topic:
            raise InvalidConfiguration("retry_letter_topic of the dead_letter_policy goes with enable_retry=True")

    def _subscribed_to(self, retry_topic: str) -> "ConsumerOptions":
        """Give what the retry topic is subscribed to with, whose name may be what makes it too large."""
        return replace(self, topic=retry_topic, enable_retry=False, dead_letter_policy=None)

    @property
    def hears_news(self) -> bool:
        """Whether objects of the user's are told of more than messages, on a listener's thread."""
        return bool(self.interceptors) or self.consumer_event_listener is not None

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics by name; none where there is a pattern."""
        if isinstance(self.topic, re.Pattern):
            return ()
        return (self.topic,) if isinstance(self.topic, str) else tuple(self.topic)

    @property
    def known_topics(self) -> tuple[str, ...]:
        """The complete names of those, and of the one for retries."""
        retry = self.dead_letter_policy.retry_letter_topic if self.dead_letter_policy is not None else None
        names = [str(TopicName.parse(name)) for name in (*self.topics, *((retry,) if retry else ()))]
        return tuple(dict.fromkeys(names))
