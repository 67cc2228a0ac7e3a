"""Builds the consumer or reader of one topic: from its options to its trackers, state machine, queues and actor.

Everything is built in the calling thread, and is complete before the actor starts.
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import cast

from pulsar_actors.client.consumer_options import IN_ORDER, ConsumerOptions
from pulsar_actors.client.consumer_state import ConsumerListeners, ConsumerState, new_consumer_listeners
from pulsar_actors.client.context import ClientContext, HandleSettings
from pulsar_actors.client.crypto_key_reader import private_keys_of
from pulsar_actors.client.enums import (
    ConsumerCryptoFailureAction,
    ConsumerType,
    InitialPosition,
    KeySharedMode,
    SubscriptionMode,
)
from pulsar_actors.client.message import Message, is_undecryptable, new_messages
from pulsar_actors.client.policies import MultiplierRedeliveryBackoff
from pulsar_actors.client.schema import BytesSchema
from pulsar_actors.exceptions import CryptoError
from pulsar_actors.machines.connection_commands import CONSUMER
from pulsar_actors.machines.consumer import ConsumerMachine, ConsumerSettings
from pulsar_actors.machines.consumer_trackers import ConsumerTrackers
from pulsar_actors.machines.incoming_entries import DeliveredEntry
from pulsar_actors.machines.trackers.ack_grouping_tracker import AckGroupingTracker
from pulsar_actors.machines.trackers.chunked_messages import ChunkedMessages
from pulsar_actors.machines.trackers.dead_letters import DeadLetters
from pulsar_actors.machines.trackers.flow_permits import FlowPermits
from pulsar_actors.machines.trackers.negative_acks_tracker import NegativeAcksTracker, RedeliveryDelay
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.machines.trackers.transactional_acks import TransactionalAcks
from pulsar_actors.machines.trackers.unacked_message_tracker import UnackedMessageTracker
from pulsar_actors.machines.trackers.undecryptable_entries import UndecryptableEntries
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.ack_queue import AckQueue
from pulsar_actors.runtime.consumer_actor import ConsumerActor, ConsumerHooks, SendDeadLetter, TellActor
from pulsar_actors.runtime.decryption_queue import Decryption, FailureAction
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.loop import Interleaving, Loop
from pulsar_actors.runtime.message_crypto import ConsumerKeys
from pulsar_actors.runtime.opened_entry import DecodeMessage
from pulsar_actors.runtime.receiver_queue import ReceiverQueue, ReceiverQueueSettings
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, IntRange, KeySharedMeta, KeyValue
from pulsar_actors.wire.PulsarApi_pb2 import KeySharedMode as WireKeySharedMode
from pulsar_actors.wire.topic_name import TopicName

MAX_CHUNKED_MESSAGE_SIZE = 2**30
"""In bytes: more than any program sends in one message, and less than would exhaust a process's memory."""

UNLIMITED_CHUNKED_MESSAGES = 2**31 - 1
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


class ReaderStart(NamedTuple):
    """The message that a reader starts at, or after. A durable subscription has its cursor at the broker instead."""

    message_id: MessageId
    inclusive: bool

    @property
    def is_last(self) -> bool:
        """True if the start is the topic's last message itself, for which the protocol has no id."""
        return self.inclusive and self.message_id == LATEST


NewReceiverQueue = Callable[[ReceiverQueueSettings, TellActor, Interleaving], ReceiverQueue]


def start_consumer(
    context: ClientContext,
    options: ConsumerOptions,
    start: ReaderStart | None,
    dead_letters: SendDeadLetter | None,
    *,
    listeners: ConsumerListeners | None = None,
    new_queue: NewReceiverQueue = ReceiverQueue,
    may_create: bool = True,
) -> ConsumerState:
    """Start a consumer or a reader of one topic. With `may_create`, the broker creates a missing topic.

    Without `listeners`, it gets listeners of its own.
    """
    engine, topic = context.engine, TopicName.parse(options.topics[0])
    registration, link = context.registrations.new(CONSUMER), HandleLink(engine.interleaving)
    if listeners is None:
        listeners = new_consumer_listeners(options, link, str(topic), context.next_worker)
    command = subscribe_command(options, registration.id, start)
    command.force_topic_creation = may_create
    machine = new_consumer_machine(options, command, start, context.handle_settings, registration.loop)
    settings = ReceiverQueueSettings(
        queue_size=options.receiver_queue_size,
        topic=sys.intern(str(topic)),
        make=new_messages,
        decode=decoder_of(options),
        schemas=context.schemas,
        reports_ids=start is not None,
        compacted=options.is_read_compacted,
        reports_entries=bool(options.unacked_messages_timeout_ms),
        size=_payload_size,
    )
    actor = ConsumerActor(
        registration,
        link,
        machine,
        lambda tell: new_queue(settings, tell, engine.interleaving),
        partial(
            AckQueue,
            interleaving=engine.interleaving,
            group_size=options.ack_grouping_max_size,
            group_time=options.ack_grouping_time_ms / 1000,
        ),
        ConsumerHooks(
            dead_letters,
            listeners.messages_arrived,
            listeners.active_changed(topic),
            listeners.redelivery_requested(topic),
        ),
        new_decryption(options, engine.now),
    )
    state = ConsumerState(
        engine,
        link,
        machine,
        actor.actor_ref,
        options,
        context.operation_timeout,
        actor.receiver_queue,
        listeners,
        actor.ack_queue,
    )
    context.start(actor, state)
    return state


def _payload_size(message: Message) -> int:
    return len(message.data())


def decoder_of(options: ConsumerOptions) -> DecodeMessage:
    """Return the function that decodes values. What is delivered encrypted has no value for a schema to decode.

    Without a schema its value is its payload, as in the other clients. They decode the ciphertext by a schema, with an
    error that says nothing of encryption, or with a wrong value.
    """
    decode = options.schema.decode_message
    if options.crypto_failure_action is not ConsumerCryptoFailureAction.CONSUME or type(options.schema) is BytesSchema:
        return decode

    def decode_decrypted(message: Message) -> object:
        if is_undecryptable(message):
            raise CryptoError("the message is still encrypted and has no value: data() is what was stored")
        return decode(message)

    return decode_decrypted


def new_decryption(options: ConsumerOptions, now: Callable[[], float]) -> Decryption:
    """Return the keys of a consumer, and the handling of what they do not decrypt."""
    reader = options.crypto_key_reader
    keys = None if reader is None else ConsumerKeys(private_keys_of(reader), now)
    return Decryption(keys, FailureAction[options.crypto_failure_action.name])


def subscribe_command(options: ConsumerOptions, consumer_id: int, start: ReaderStart | None) -> CommandSubscribe:
    """Encode the options that the broker has to know."""
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
        metadata=_key_values(options.properties),
        read_compacted=options.is_read_compacted,
        schema=options.schema.announced(),
        initialPosition=cast("CommandSubscribe.InitialPosition.ValueType", int(options.initial_position)),
        replicate_subscription_state=options.replicate_subscription_state_enabled,
        subscription_properties=_key_values(options.subscription_properties),
    )
    if options.consumer_type is ConsumerType.KeyShared:
        command.keySharedMeta.CopyFrom(_key_shared(options))
    return command


def new_consumer_machine(
    options: ConsumerOptions,
    command: CommandSubscribe,
    start: ReaderStart | None,
    handle_settings: HandleSettings,
    loop: Loop,
) -> ConsumerMachine:
    """Make the machine, and the trackers that it decides with."""
    persistent = TopicName.parse(command.topic).is_persistent
    chunks = ChunkedMessages(
        max_size=MAX_CHUNKED_MESSAGE_SIZE,
        max_pending=_most_chunked_messages(options, start),
        auto_ack_oldest=options.auto_ack_oldest_chunked_message_on_queue_full,
        expiry=options.expire_time_of_incomplete_chunked_message_ms / 1000,
        ordered=options.consumer_type in IN_ORDER,
    )
    trackers = ConsumerTrackers(
        permits=FlowPermits(options.receiver_queue_size),
        ack_grouping=AckGroupingTracker(
            chunks, batch_index_acks=options.batch_index_ack_enabled, receipts=options.ack_receipt_enabled
        ),
        negative_acks=NegativeAcksTracker(
            ordered=options.consumer_type in IN_ORDER,
            delay=_redelivery_delay(options.negative_ack_redelivery_backoff)
            or RedeliveryDelay(options.negative_ack_redelivery_delay_ms / 1000),
            persistent=persistent,
        ),
        chunks=chunks,
        start=_start_message_id(options, start, persistent=persistent),
        transactional_acks=TransactionalAcks(),
        unacked_messages=_unacked_message_tracker(options),
        dead_letters=_dead_letters(options),
        undecryptable=_undecryptable_entries(options),
    )
    settings = ConsumerSettings(
        command,
        operation_timeout=handle_settings.operation_timeout,
        persistent=persistent,
        is_reader=start is not None,
    )
    return ConsumerMachine(settings, trackers, handle_settings.backoff(loop))


def _most_chunked_messages(options: ConsumerOptions, start: ReaderStart | None) -> int:
    """Return how many messages may be incomplete at a time.

    A reader refuses none, because no broker redelivers what a reader has left behind. So it has a limit only if the
    oldest message may be lost instead.
    """
    if start is not None and not options.auto_ack_oldest_chunked_message_on_queue_full:
        return UNLIMITED_CHUNKED_MESSAGES
    return options.max_pending_chunked_message or UNLIMITED_CHUNKED_MESSAGES


def _start_message_id(options: ConsumerOptions, start: ReaderStart | None, *, persistent: bool) -> StartMessageId:
    if start is not None:
        return StartMessageId(start.message_id, inclusive=start.inclusive, durable=False, persistent=persistent)
    if options.subscription_mode is SubscriptionMode.Durable:
        return StartMessageId(inclusive=options.start_message_id_inclusive, persistent=persistent)
    first = EARLIEST if options.initial_position is InitialPosition.Earliest else LATEST
    return StartMessageId(first, inclusive=options.start_message_id_inclusive, durable=False, persistent=persistent)


def _unacked_message_tracker(options: ConsumerOptions) -> UnackedMessageTracker | None:
    milliseconds = options.unacked_messages_timeout_ms
    delay = _redelivery_delay(options.ack_timeout_redelivery_backoff)
    return UnackedMessageTracker(milliseconds / 1000, delay) if milliseconds else None


def _undecryptable_entries(options: ConsumerOptions) -> UndecryptableEntries | None:
    milliseconds = options.unacked_messages_timeout_ms
    delay = _redelivery_delay(options.ack_timeout_redelivery_backoff)
    return UndecryptableEntries(milliseconds / 1000, delay) if milliseconds else None


def _redelivery_delay(backoff: MultiplierRedeliveryBackoff | None) -> RedeliveryDelay | None:
    if backoff is None:
        return None
    return RedeliveryDelay(backoff.min_delay_ms / 1000, backoff.multiplier, backoff.max_delay_ms / 1000)


def _dead_letters(options: ConsumerOptions) -> DeadLetters[DeliveredEntry] | None:
    policy = options.dead_letter_policy
    if policy is None or options.consumer_type in IN_ORDER:
        return None
    return DeadLetters(policy.max_redeliver_count)


def _key_values(given: Mapping[str, str] | None) -> list[KeyValue]:
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
