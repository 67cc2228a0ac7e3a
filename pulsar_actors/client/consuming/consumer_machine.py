"""What a consumer is made of: options into the command, the ledgers and the machine of a new consumer or reader."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, cast

from pulsar_actors.client.common import Common
from pulsar_actors.client.consuming.consumer_options import IN_ORDER, ConsumerOptions
from pulsar_actors.client.enums import ConsumerType, InitialPosition, KeySharedMode, SubscriptionMode
from pulsar_actors.client.message import messages_of
from pulsar_actors.client.policies import MultiplierRedeliveryBackoff
from pulsar_actors.machines.consumer import Consumer, ConsumerSettings
from pulsar_actors.machines.consumer_ledgers import Ledgers
from pulsar_actors.machines.deliveries import Deliveries
from pulsar_actors.machines.entry_intake import Delivery
from pulsar_actors.machines.ledgers.ack_groups import AckGroups
from pulsar_actors.machines.ledgers.ack_timeouts import AckTimeouts
from pulsar_actors.machines.ledgers.chunks import ChunkAssembly
from pulsar_actors.machines.ledgers.dead_letters import DeadLetters
from pulsar_actors.machines.ledgers.permits import Permits
from pulsar_actors.machines.ledgers.redelivery import Redelivery, RedeliveryDelay
from pulsar_actors.machines.ledgers.start_position import StartPosition
from pulsar_actors.runtime.ack_box import MOMENT, AckBox
from pulsar_actors.runtime.hand_off import Terms
from pulsar_actors.runtime.interleaving import Interleaving
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, IntRange, KeySharedMeta, KeyValue
from pulsar_actors.wire.PulsarApi_pb2 import KeySharedMode as WireKeySharedMode
from pulsar_actors.wire.topic_name import TopicName

LARGEST_IN_CHUNKS = 2**30
"""In bytes: more than anybody sends in one message, and less than it takes to bring a process down."""

ANY_NUMBER = 2**31 - 1
_SUB_TYPES = {
    ConsumerType.Exclusive: CommandSubscribe.Exclusive,
    ConsumerType.Shared: CommandSubscribe.Shared,
    ConsumerType.Failover: CommandSubscribe.Failover,
    ConsumerType.KeyShared: CommandSubscribe.Key_Shared,
}
_KEY_SHARED_MODES = {
    KeySharedMode.AutoSplit: WireKeySharedMode.AUTO_SPLIT,
    KeySharedMode.Sticky: WireKeySharedMode.STICKY,
}


class Start(NamedTuple):
    """Where a reader starts. A subscription that lasts has its place at the broker."""

    message_id: MessageId
    inclusive: bool

    @property
    def is_last(self) -> bool:
        """Whether it is the last message itself, which a broker has no name for."""
        return self.inclusive and self.message_id == LATEST


def command_of(options: ConsumerOptions, consumer_id: int, start: Start | None) -> CommandSubscribe:
    """Write what the broker is told of the consumer."""
    (topic,) = options.topics
    command = CommandSubscribe(
        topic=str(TopicName.parse(topic)),
        subscription=options.subscription_name,
        subType=_SUB_TYPES[options.consumer_type],
        consumer_id=consumer_id,
        request_id=0,
        consumer_name=options.consumer_name,
        priority_level=options.priority_level or None,
        durable=start is None and options.subscription_mode is SubscriptionMode.Durable,
        metadata=_pairs(options.properties),
        read_compacted=options.is_read_compacted,
        schema=options.schema.announced(),
        initialPosition=cast("CommandSubscribe.InitialPosition.ValueType", int(options.initial_position)),
        replicate_subscription_state=options.replicate_subscription_state_enabled,
        subscription_properties=_pairs(options.subscription_properties),
    )
    if options.consumer_type is ConsumerType.KeyShared:
        command.keySharedMeta.CopyFrom(_key_shared(options))
    return command


def terms_of(options: ConsumerOptions, start: Start | None, topic: str) -> Terms:
    """Tell the queue what it has to know."""
    return Terms(
        queue_size=options.receiver_queue_size,
        topic=topic,
        make=messages_of,
        decode=options.schema.decode,
        reports_ids=start is not None,
        compacted=options.is_read_compacted,
        reports_entries=bool(options.unacked_messages_timeout_ms),
    )


def box_of(options: ConsumerOptions, tell: Callable[[object], object], interleaving: Interleaving) -> AckBox:
    """Make the box that callers leave acknowledgements in, from which they are taken no later than they are sent."""
    moment = min(MOMENT, options.ack_grouping_time_ms / 1000)
    return AckBox(tell, interleaving, full=options.ack_grouping_max_size, moment=moment)


def machine_of(
    options: ConsumerOptions, command: CommandSubscribe, start: Start | None, common: Common, loop: Loop
) -> Consumer:
    """Make the machine, and the ledgers that it decides with."""
    stored = TopicName.parse(command.topic).is_persistent
    ledgers = Ledgers(
        permits=Permits(options.receiver_queue_size),
        acks=AckGroups(
            batch_index_acks=options.batch_index_ack_enabled,
            receipts=options.ack_receipt_enabled,
            group_time=options.ack_grouping_time_ms / 1000,
            group_size=options.ack_grouping_max_size,
        ),
        redelivery=Redelivery(
            ordered=options.consumer_type in IN_ORDER,
            delay=_growing(options.negative_ack_redelivery_backoff)
            or RedeliveryDelay(options.negative_ack_redelivery_delay_ms / 1000),
        ),
        chunks=ChunkAssembly(
            max_size=LARGEST_IN_CHUNKS,
            max_pending=options.max_pending_chunked_message or ANY_NUMBER,
            auto_ack_oldest=options.auto_ack_oldest_chunked_message_on_queue_full,
            expiry=options.expire_time_of_incomplete_chunked_message_ms / 1000,
        ),
        start=_start_position(options, start, stored=stored),
        timeouts=_timeouts(options),
        dead=_dead_letters(options),
    )
    timeout = common.operation_timeout
    deliveries = Deliveries(command.consumer_id, ledgers, timeout=timeout, stored=stored, reads=start is not None)
    return Consumer(ConsumerSettings(command, timeout, common.tls), deliveries, common.backoff(loop))


def _start_position(options: ConsumerOptions, start: Start | None, *, stored: bool) -> StartPosition:
    if start is not None:
        return StartPosition(start.message_id, inclusive=start.inclusive, durable=False, stored=stored)
    if options.subscription_mode is SubscriptionMode.Durable:
        return StartPosition(inclusive=options.start_message_id_inclusive, stored=stored)
    first = EARLIEST if options.initial_position is InitialPosition.Earliest else LATEST
    return StartPosition(first, inclusive=options.start_message_id_inclusive, durable=False, stored=stored)


def _timeouts(options: ConsumerOptions) -> AckTimeouts | None:
    milliseconds = options.unacked_messages_timeout_ms
    further = _growing(options.ack_timeout_redelivery_backoff)
    return AckTimeouts(milliseconds / 1000, further) if milliseconds else None


def _growing(backoff: MultiplierRedeliveryBackoff | None) -> RedeliveryDelay | None:
    if backoff is None:
        return None
    return RedeliveryDelay(backoff.min_delay_ms / 1000, backoff.multiplier, backoff.max_delay_ms / 1000)


def _dead_letters(options: ConsumerOptions) -> DeadLetters[Delivery] | None:
    policy = options.dead_letter_policy
    if policy is None or options.consumer_type in IN_ORDER:
        return None
    return DeadLetters(policy.max_redeliver_count)


def _pairs(given: Mapping[str, str] | None) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in (given or {}).items()]


def _key_shared(options: ConsumerOptions) -> KeySharedMeta:
    policy = options.key_shared_policy
    if policy is None:
        return KeySharedMeta(keySharedMode=WireKeySharedMode.AUTO_SPLIT)
    return KeySharedMeta(
        keySharedMode=_KEY_SHARED_MODES[policy.key_shared_mode],
        hashRanges=[IntRange(start=first, end=last) for first, last in policy.sticky_ranges or ()],
        allowOutOfOrderDelivery=policy.allow_out_of_order_delivery,
    )
