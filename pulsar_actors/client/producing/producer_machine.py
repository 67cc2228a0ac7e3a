"""What a producer is made of: options into the command, the ledgers and the machine of a new producer."""

from typing import cast

from pulsar_actors.client.common import Common
from pulsar_actors.client.enums import BatchingType
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.machines.ledgers.batching import BatchLimits
from pulsar_actors.machines.ledgers.pending_sends import PendingSends
from pulsar_actors.machines.ledgers.send_quota import SendQuota
from pulsar_actors.machines.ledgers.sequence_ids import SequenceIds
from pulsar_actors.machines.producer import Producer, ProducerSettings
from pulsar_actors.runtime.gated_outbox import GatedOutbox
from pulsar_actors.runtime.interleaving import Interleaving
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.memory_gate import GatedQuota, MemoryGate
from pulsar_actors.runtime.outbox import Outbox
from pulsar_actors.runtime.outgoing import Report
from pulsar_actors.runtime.packing import Packed
from pulsar_actors.runtime.publication import Manner
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducer, CompressionType, KeyValue, ProducerAccessMode
from pulsar_actors.wire.topic_name import TopicName


def command_of(options: ProducerOptions, producer_id: int, initial_subscription: str) -> CommandProducer:
    """Write what the broker is told of the producer."""
    return CommandProducer(
        topic=str(TopicName.parse(options.topic)),
        producer_id=producer_id,
        request_id=0,
        producer_name=options.producer_name,
        metadata=[KeyValue(key=key, value=value) for key, value in (options.properties or {}).items()],
        schema=options.schema.announced(),
        producer_access_mode=cast("ProducerAccessMode.ValueType", int(options.access_mode)),
        initial_subscription_name=initial_subscription or None,
    )


def machine_of(
    command: CommandProducer, pending: PendingSends[Packed], options: ProducerOptions, common: Common, loop: Loop
) -> Producer:
    """Make the machine."""
    settings = ProducerSettings(command, Packed.is_intact, common.operation_timeout, common.tls)
    return Producer(settings, pending, SequenceIds(options.initial_sequence_id), common.backoff(loop))


def pending_of(options: ProducerOptions, gate: MemoryGate | None) -> PendingSends[Packed]:
    """Make the ledger of what is on its way, whose bytes count for the client's limit if there is one."""
    memory = SendQuota(0) if gate is None else GatedQuota(gate)
    return PendingSends(SendQuota(options.max_pending_messages), memory)


def outbox_of(
    options: ProducerOptions,
    pending: PendingSends[Packed],
    report: Report,
    interleaving: Interleaving,
    gate: MemoryGate | None,
) -> Outbox:
    """Make what callers leave messages in."""
    limits = limits_of(options)
    if gate is None:
        return Outbox(pending, limits, report, interleaving)
    return GatedOutbox(gate, pending, limits, report, interleaving)


def limits_of(options: ProducerOptions) -> BatchLimits | None:
    """Tell when a batch is full; None where messages are not batched."""
    if not options.batching_enabled:
        return None
    delay = options.batching_max_publish_delay_ms / 1000
    return BatchLimits(options.batching_max_messages, options.batching_max_allowed_size_in_bytes, delay)


def manner_of(options: ProducerOptions) -> Manner:
    """Tell how the producer sends."""
    return Manner(
        codec=cast("CompressionType.ValueType", int(options.compression_type)),
        send_timeout=options.send_timeout_millis / 1000 or None,
        by_key=options.batching_type is BatchingType.KeyBased,
        in_chunks=options.chunking_enabled,
        largest_chunk=max(0, options.chunk_max_message_size),
    )
