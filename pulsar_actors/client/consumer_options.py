"""The options of a consumer and of a reader: the arguments of `Client.subscribe` and `Client.create_reader`.

Each has its type, check and default. Options that exclude each other, or that the subscription type does not support,
are refused here.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, cast

from pulsar_actors.client import validation as check
from pulsar_actors.client.crypto_key_reader import EncryptionKeyReader, check_encryption_is_installed
from pulsar_actors.client.enums import (
    ConsumerCryptoFailureAction,
    ConsumerType,
    InitialPosition,
    RegexSubscriptionMode,
    SubscriptionMode,
)
from pulsar_actors.client.interceptors import ConsumerEventListener, ConsumerInterceptor, ReaderInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.options import Options
from pulsar_actors.client.policies import (
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
    MultiplierRedeliveryBackoff,
)
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.machines.trackers.dead_letters import DEFAULT_MAX_RETRIES, dead_letter_topic, retry_letter_topic
from pulsar_actors.machines.trackers.subscribed_topics import TopicPattern
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["IN_ORDER", "ConsumerOptions", "ReaderOptions", "check_retries_possible", "complete_retry_policy"]

IN_ORDER = (ConsumerType.Exclusive, ConsumerType.Failover)
"""The subscription types with which one consumer at a time receives all messages."""

_SHARED = (ConsumerType.Shared, ConsumerType.KeyShared)


def _topics(name: str, value: object) -> object:
    """Check a topic, a list of topics, or a pattern that their names match."""
    if _is_pattern_of_text(value):
        TopicPattern(cast("re.Pattern[str]", value))
        return value
    return check.topics(name, value, "a topic's name, a list of at least one, or a compiled pattern of str")


def _is_pattern_of_text(value: object) -> bool:
    match value:
        case re.Pattern(pattern=str()):
            return True
        case _:
            return False


class ConsumerOptions(Options):
    """The checked options of one consumer. They pickle if their schema, listeners and interceptors do."""

    topic: Annotated[str | Sequence[str] | re.Pattern[str], _topics]
    """After the check, several topics are a tuple."""
    subscription_name: Annotated[str, check.text]
    consumer_type: Annotated[ConsumerType, check.instance_of(ConsumerType)] = ConsumerType.Exclusive
    schema: Annotated[Schema, check.instance_of(Schema)] = BYTES
    message_listener: Annotated[
        Callable[[Any, Message], object] | None, check.optional(check.callback("the consumer and a message"))
    ] = None
    receiver_queue_size: Annotated[int, check.whole_number(0)] = 1000
    max_total_receiver_queue_size_across_partitions: Annotated[int, check.whole_number(0)] = 50_000
    consumer_name: Annotated[str | None, check.optional(check.text)] = None
    unacked_messages_timeout_ms: Annotated[int | None, check.optional(check.whole_number(0, check.LONGEST_MS))] = None
    """0: none. The official client refuses less than 10 seconds, to spare brokers. That is too long for a test."""
    broker_consumer_stats_cache_time_ms: Annotated[int, check.whole_number(0, check.LONGEST_MS)] = 30_000
    negative_ack_redelivery_delay_ms: Annotated[int, check.whole_number(0, check.LONGEST_MS)] = 60_000
    is_read_compacted: Annotated[bool, check.flag] = False
    properties: Annotated[dict[str, str] | None, check.properties] = None
    """Never None once it is checked."""
    pattern_auto_discovery_period: Annotated[int, check.whole_number(1, check.LONGEST_SECONDS)] = 60
    initial_position: Annotated[InitialPosition, check.instance_of(InitialPosition)] = InitialPosition.Latest
    crypto_key_reader: Annotated[EncryptionKeyReader | None, check.optional(check.instance_of(EncryptionKeyReader))] = (
        None
    )
    replicate_subscription_state_enabled: Annotated[bool, check.flag] = False
    max_pending_chunked_message: Annotated[int, check.whole_number(0)] = 10
    """0: any number."""
    auto_ack_oldest_chunked_message_on_queue_full: Annotated[bool, check.flag] = False
    start_message_id_inclusive: Annotated[bool, check.flag] = False
    batch_receive_policy: Annotated[
        ConsumerBatchReceivePolicy | None, check.optional(check.instance_of(ConsumerBatchReceivePolicy))
    ] = None
    key_shared_policy: Annotated[
        ConsumerKeySharedPolicy | None, check.optional(check.instance_of(ConsumerKeySharedPolicy))
    ] = None
    batch_index_ack_enabled: Annotated[bool, check.flag] = False
    regex_subscription_mode: Annotated[RegexSubscriptionMode, check.instance_of(RegexSubscriptionMode)] = (
        RegexSubscriptionMode.PersistentOnly
    )
    dead_letter_policy: Annotated[
        ConsumerDeadLetterPolicy | None, check.optional(check.instance_of(ConsumerDeadLetterPolicy))
    ] = None
    crypto_failure_action: Annotated[ConsumerCryptoFailureAction, check.instance_of(ConsumerCryptoFailureAction)] = (
        ConsumerCryptoFailureAction.FAIL
    )
    ack_receipt_enabled: Annotated[bool, check.flag] = False
    ack_grouping_time_ms: Annotated[int, check.whole_number(0, check.LONGEST_MS)] = 100
    ack_grouping_max_size: Annotated[int, check.whole_number(1)] = 1000
    negative_ack_redelivery_backoff: Annotated[
        MultiplierRedeliveryBackoff | None, check.optional(check.instance_of(MultiplierRedeliveryBackoff))
    ] = None
    ack_timeout_redelivery_backoff: Annotated[
        MultiplierRedeliveryBackoff | None, check.optional(check.instance_of(MultiplierRedeliveryBackoff))
    ] = None
    expire_time_of_incomplete_chunked_message_ms: Annotated[int, check.whole_number(0, check.LONGEST_MS)] = 60_000
    """0: never."""
    priority_level: Annotated[int, check.whole_number(0)] = 0
    subscription_mode: Annotated[SubscriptionMode, check.instance_of(SubscriptionMode)] = SubscriptionMode.Durable
    subscription_properties: Annotated[dict[str, str] | None, check.properties] = None
    """Never None once it is checked."""
    start_paused: Annotated[bool, check.flag] = False
    consumer_event_listener: Annotated[
        ConsumerEventListener | None, check.optional(check.instance_of(ConsumerEventListener))
    ] = None
    interceptors: Annotated[Sequence[ConsumerInterceptor], check.several_of(ConsumerInterceptor)] = ()
    enable_retry: Annotated[bool, check.flag] = False
    """If it is on, the `dead_letter_policy` is complete after the check."""

    def check_all(self) -> None:
        """Check each option, and those that must go together."""
        super().check_all()
        check.check_size(self, "topic", "subscription_name", "consumer_name", "properties", "subscription_properties")
        if self.crypto_key_reader is not None:
            check_encryption_is_installed()
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
            check_retries_possible(self.consumer_type, self.subscription_mode, self.receiver_queue_size)
            policy = complete_retry_policy(self.topics, self.subscription_name, policy)
            object.__setattr__(self, "dead_letter_policy", policy)
            self._check_retry_topic(policy.retry_letter_topic or "")
        elif policy is not None and policy.retry_letter_topic:
            raise InvalidConfiguration("retry_letter_topic of the dead_letter_policy goes with enable_retry=True")

    def _check_retry_topic(self, retry_topic: str) -> None:
        """Check the size of SUBSCRIBE for the retry topic, whose name may be longer than the topic's."""
        self.replace(topic=retry_topic, enable_retry=False, dead_letter_policy=None)

    @property
    def wants_notifications(self) -> bool:
        """True if there are interceptors or an event listener, which are called on a listener thread."""
        return bool(self.interceptors) or self.consumer_event_listener is not None

    @property
    def topics(self) -> tuple[str, ...]:
        """The names of the topics; none if there is a pattern."""
        if isinstance(self.topic, re.Pattern):
            return ()
        return (self.topic,) if isinstance(self.topic, str) else tuple(self.topic)

    @property
    def known_topics(self) -> tuple[str, ...]:
        """The complete names of the topics, and of the retry topic."""
        retry = self.dead_letter_policy.retry_letter_topic if self.dead_letter_policy is not None else None
        names = [str(TopicName.parse(name)) for name in (*self.topics, *((retry,) if retry else ()))]
        return tuple(dict.fromkeys(names))


def check_retries_possible(kind: ConsumerType, mode: SubscriptionMode, receiver_queue_size: int) -> None:
    """Refuse `enable_retry` if it could not work.

    Brokers delay deliveries to Shared and KeyShared subscriptions only. When a subscription that is not durable ends,
    the messages that were put off are lost.
    """
    if kind not in _SHARED:
        raise InvalidConfiguration(
            f"enable_retry goes with a Shared or a KeyShared consumer: {kind} ones are given everything at once"
        )
    if mode is not SubscriptionMode.Durable:
        raise InvalidConfiguration("enable_retry goes with a Durable subscription: another forgets what was put off")
    if not receiver_queue_size:
        raise InvalidConfiguration(
            "receiver_queue_size=0 asks for one message at a time, of a single topic; enable_retry adds the retry topic"
        )


def complete_retry_policy(
    topics: Sequence[str], subscription: str, given: ConsumerDeadLetterPolicy | None
) -> ConsumerDeadLetterPolicy:
    """Complete a policy with the names of its topics. With a pattern, there are no `topics` to derive names from.

    There is one retry topic and one dead letter topic for all topics of a consumer. Their names are derived from the
    subscribed topic; from the alphabetically first, if there are several. So clients that name the same topics in any
    order share them. A retry topic must be persistent, because a non-persistent one keeps no message for later.
    """
    policy = given or ConsumerDeadLetterPolicy(DEFAULT_MAX_RETRIES)
    if not topics and not (policy.retry_letter_topic and policy.dead_letter_topic):
        raise InvalidConfiguration(
            "enable_retry with a pattern takes a dead_letter_policy with retry_letter_topic and dead_letter_topic: a "
            "pattern has no topic to name them after"
        )
    first = min((str(TopicName.parse(name)) for name in topics), default="")
    retry = TopicName.parse(policy.retry_letter_topic or retry_letter_topic(first, subscription))
    dead = TopicName.parse(policy.dead_letter_topic or dead_letter_topic(first, subscription))
    if not retry.is_persistent:
        raise InvalidConfiguration(
            f"enable_retry needs a topic that keeps messages for later, which {retry} does not: give a persistent one, "
            "retry_letter_topic of the dead_letter_policy"
        )
    if retry == dead:
        raise InvalidConfiguration(
            f"{retry} cannot be both retry_letter_topic and dead_letter_topic: nothing would end"
        )
    return replace(policy, retry_letter_topic=str(retry), dead_letter_topic=str(dead))


class ReaderOptions(Options):
    """The checked options of one reader. They pickle if their schema, listener and interceptors do."""

    topic: Annotated[str | Sequence[str], check.topics]
    start_message_id: Annotated[MessageId, check.instance_of(MessageId)]
    schema: Annotated[Schema, check.instance_of(Schema)] = BYTES
    reader_listener: Annotated[
        Callable[[Any, Message], object] | None, check.optional(check.callback("the reader and a message"))
    ] = None
    receiver_queue_size: Annotated[int, check.whole_number(0)] = 1000
    reader_name: Annotated[str | None, check.optional(check.text)] = None
    subscription_role_prefix: Annotated[str | None, check.optional(check.text)] = None
    is_read_compacted: Annotated[bool, check.flag] = False
    crypto_key_reader: Annotated[EncryptionKeyReader | None, check.optional(check.instance_of(EncryptionKeyReader))] = (
        None
    )
    start_message_id_inclusive: Annotated[bool, check.flag] = False
    crypto_failure_action: Annotated[ConsumerCryptoFailureAction, check.instance_of(ConsumerCryptoFailureAction)] = (
        ConsumerCryptoFailureAction.FAIL
    )
    max_pending_chunked_message: Annotated[int, check.whole_number(0)] = 10
    """0: any number."""
    auto_ack_oldest_chunked_message_on_queue_full: Annotated[bool, check.flag] = False
    expire_time_of_incomplete_chunked_message_ms: Annotated[int, check.whole_number(0, check.LONGEST_MS)] = 60_000
    """0: never."""
    interceptors: Annotated[Sequence[ReaderInterceptor], check.several_of(ReaderInterceptor)] = ()

    def check_all(self) -> None:
        """Check each option, and those that must go together."""
        super().check_all()
        check.check_size(self, "topic", "reader_name", "subscription_role_prefix")
        names = (self.topic,) if isinstance(self.topic, str) else self.topic
        if not isinstance(self.topic, str) and self.receiver_queue_size == 0:
            raise InvalidConfiguration("receiver_queue_size=0 asks for one message at a time: for a single topic only")
        if self.is_read_compacted and not all(TopicName.parse(name).is_persistent for name in names):
            raise InvalidConfiguration("is_read_compacted needs a persistent topic: no other is ever compacted")


class TableViewOptions(Options):
    """The checked options of one table view. They pickle if their schema does."""

    topic: Annotated[str, check.topic]
    subscription_name: Annotated[str | None, check.optional(check.text)] = None
    schema: Annotated[Schema, check.instance_of(Schema)] = BYTES
    crypto_key_reader: Annotated[EncryptionKeyReader | None, check.optional(check.instance_of(EncryptionKeyReader))] = (
        None
    )
    crypto_failure_action: Annotated[ConsumerCryptoFailureAction, check.instance_of(ConsumerCryptoFailureAction)] = (
        ConsumerCryptoFailureAction.FAIL
    )

    def check_all(self) -> None:
        """Check each option, and those that must go together."""
        super().check_all()
        check.check_size(self, "topic", "subscription_name")
        if self.crypto_failure_action is ConsumerCryptoFailureAction.CONSUME:  # of a batch, not even the keys are known
            raise InvalidConfiguration("a table view cannot CONSUME: what is still encrypted has no keys and values")
