"""Builds the producer of one topic: from its options to its send queue, state machine and actor.

Everything is built in the calling thread, and is complete before the actor starts.
"""

from collections.abc import Callable
from functools import partial
from typing import cast

from pulsar_actors.client.context import ClientContext, HandleSettings
from pulsar_actors.client.enqueuer import SendQueueEnqueuer
from pulsar_actors.client.enums import BatchingType
from pulsar_actors.client.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.producer_state import ProducerState
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.machines.connection_commands import PRODUCER
from pulsar_actors.machines.producer import ProducerMachine, ProducerSettings
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.machines.trackers.pending_messages import PendingMessages, SendQuota
from pulsar_actors.machines.trackers.producer_identity import SequenceIds
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.batch_builder import BatchBuilderSettings, PackedMessages
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.memory_limit import MemoryLimitedQuota, MemoryLimitedSendQueue
from pulsar_actors.runtime.message_crypto import ProducerKeys
from pulsar_actors.runtime.messages import Registration
from pulsar_actors.runtime.producer_actor import ProducerActor
from pulsar_actors.runtime.send_queue import SendQueue
from pulsar_actors.wire.compression import NONE
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducer, CompressionType, KeyValue, ProducerAccessMode
from pulsar_actors.wire.topic_name import TopicName


def start_single_producer(
    context: ClientContext,
    options: ProducerOptions,
    initial_subscription: str = "",
    *,
    name: str = "",
    waiting: SendQueueEnqueuer | None = None,
    keys: ProducerKeys | None = None,
) -> ProducerState:
    """Start the producer of a topic without partitions, or of one partition.

    A partitioned producer passes the `name` that a broker chose for its first partition. If messages were enqueued
    before this producer, it also passes the enqueuer in whose queue they are `waiting`.
    """
    engine = context.engine
    registration, link = context.registrations.new(PRODUCER), HandleLink(engine.interleaving)
    send_queue, callbacks = (
        new_send_queue(context, options) if waiting is None else (waiting.send_queue, waiting.send_callbacks)
    )
    machine = new_producer_machine(context.handle_settings, options, registration, send_queue, initial_subscription)
    machine.identity.name = options.producer_name or name
    batch_settings, observer = new_batch_builder_settings(options, keys), context.counters.observer
    actor = ProducerActor(registration, link, machine, send_queue, batch_settings, observer)
    notify = partial(tell, actor.actor_ref)
    enqueuer = waiting or new_enqueuer(context, options, send_queue, callbacks, notify)
    interceptors = None
    if options.interceptors:
        interceptors = ProducerInterceptors(options.interceptors, callbacks, engine.workers[0])
    state = ProducerState(engine, link, machine, actor.actor_ref, enqueuer, interceptors)
    context.start(actor, state)
    enqueuer.notify = notify  # set last: callers use a waiting enqueuer already, and the actor must have started
    return state


def new_send_queue(context: ClientContext, options: ProducerOptions) -> tuple[SendQueue, SendCallbacks]:
    """Make the send queue, and the callbacks that it reports to."""
    topic, limiter, interleaving = TopicName.parse(options.topic), context.limiter, context.engine.interleaving
    callbacks = SendCallbacks(str(topic), topic.partition_index, context.engine.loops[0].now)
    limits = batch_limits(options)
    messages = SendQuota(options.max_pending_messages)
    if limiter is None:
        return SendQueue(PendingMessages(messages, SendQuota(0)), limits, callbacks, interleaving), callbacks
    pending = PendingMessages[PackedMessages](messages, MemoryLimitedQuota(limiter))
    return MemoryLimitedSendQueue(limiter, pending, limits, callbacks, interleaving), callbacks


def new_enqueuer(
    context: ClientContext,
    options: ProducerOptions,
    send_queue: SendQueue,
    callbacks: SendCallbacks,
    notify: Callable[[object], object],
) -> SendQueueEnqueuer:
    """Make the enqueuer of a send queue."""
    codec, waits = codec_of(options), options.block_if_queue_full
    codec_or_none = None if codec == NONE else codec
    return SendQueueEnqueuer(context.engine, send_queue, callbacks, notify, waits=waits, codec=codec_or_none)


def new_producer_machine(
    settings: HandleSettings,
    options: ProducerOptions,
    registration: Registration,
    send_queue: SendQueue,
    initial_subscription: str,
) -> ProducerMachine:
    """Make the state machine."""
    command = producer_command(options, registration.id, initial_subscription)
    return ProducerMachine(
        ProducerSettings(
            command,
            PackedMessages.is_intact,
            PackedMessages.largest_entry,
            settings.operation_timeout,
        ),
        send_queue.pending,
        SequenceIds(options.initial_sequence_id),
        settings.backoff(registration.loop),
    )


def producer_command(options: ProducerOptions, producer_id: int, initial_subscription: str) -> CommandProducer:
    """Encode the options that the broker has to know."""
    return CommandProducer(
        topic=str(TopicName.parse(options.topic)),
        producer_id=producer_id,
        request_id=0,
        producer_name=options.producer_name,
        metadata=[KeyValue(key=key, value=value) for key, value in (options.properties or {}).items()],
        schema=options.schema.announced(),
        producer_access_mode=cast("ProducerAccessMode.ValueType", int(options.access_mode)),
        initial_subscription_name=initial_subscription or None,
        encrypted=options.is_encrypted or None,
    )


def batch_limits(options: ProducerOptions) -> BatchLimits | None:
    """Return the size of a full batch; None if messages are not batched."""
    if not options.batching_enabled:
        return None
    delay = options.batching_max_publish_delay_ms / 1000
    return BatchLimits(options.batching_max_messages, options.batching_max_allowed_size_in_bytes, delay)


def codec_of(options: ProducerOptions) -> "CompressionType.ValueType":
    """Return the protocol's number of the codec."""
    return cast("CompressionType.ValueType", int(options.compression_type))


def new_batch_builder_settings(options: ProducerOptions, keys: ProducerKeys | None) -> BatchBuilderSettings:
    """Return the settings of the batch builder."""
    return BatchBuilderSettings(
        codec=codec_of(options),
        send_timeout=options.send_timeout_millis / 1000 or None,
        by_key=options.batching_type is BatchingType.KeyBased,
        in_chunks=options.chunking_enabled,
        largest_chunk=max(0, options.chunk_max_message_size),
        keys=keys,
    )
