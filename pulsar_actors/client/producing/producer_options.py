"""What `Client.create_producer` takes: the official keyword arguments and defaults, checked."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pulsar_actors.client.arguments import (
    LONGEST_MS,
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
    topic,
    whole_number,
)
from pulsar_actors.client.enums import (
    BatchingType,
    CompressionType,
    HashingScheme,
    PartitionsRoutingMode,
    ProducerAccessMode,
)
from pulsar_actors.client.message import Message
from pulsar_actors.client.producing.producer_interceptor import ProducerInterceptor
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.exceptions import InvalidConfiguration

__all__ = ["ProducerOptions"]

_CHECKS = {
    "topic": topic,
    "producer_name": optional(text),
    "schema": instance_of(Schema),
    "initial_sequence_id": optional(whole_number(-1, 2**63 - 1)),
    "send_timeout_millis": whole_number(0, LONGEST_MS),
    "compression_type": instance_of(CompressionType),
    "max_pending_messages": whole_number(0),
    "max_pending_messages_across_partitions": whole_number(0),
    "block_if_queue_full": flag,
    "batching_enabled": flag,
    "batching_max_messages": whole_number(1),
    "batching_max_allowed_size_in_bytes": whole_number(1),
    "batching_max_publish_delay_ms": whole_number(0, LONGEST_MS),
    "chunking_enabled": flag,
    "message_routing_mode": instance_of(PartitionsRoutingMode),
    "lazy_start_partitioned_producers": flag,
    "properties": properties,
    "batching_type": instance_of(BatchingType),
    "encryption_key": not_yet("end-to-end encryption"),
    "crypto_key_reader": not_yet("end-to-end encryption"),
    "access_mode": instance_of(ProducerAccessMode),
    "message_router": optional(callback("a message and the number of partitions")),
    "hashing_scheme": instance_of(HashingScheme),
    "chunk_max_message_size": whole_number(-1),
    "interceptors": several_of(ProducerInterceptor),
}


@dataclass(frozen=True, slots=True)
class ProducerOptions:
    """The options of one producer. Those that hold a schema, a router or interceptors pickle if these do."""

    topic: str
    producer_name: str | None = None
    schema: Schema = BYTES
    initial_sequence_id: int | None = None
    """-1 counts as none: it is what `last_sequence_id` says of a producer that has sent nothing."""
    send_timeout_millis: int = 30_000
    """0: none."""
    compression_type: CompressionType = CompressionType.NONE
    max_pending_messages: int = 1000
    """0: any number, as for all partitions together."""
    max_pending_messages_across_partitions: int = 50_000
    block_if_queue_full: bool = False
    batching_enabled: bool = False
    batching_max_messages: int = 1000
    batching_max_allowed_size_in_bytes: int = 128 * 1024
    batching_max_publish_delay_ms: int = 10
    chunking_enabled: bool = False
    message_routing_mode: PartitionsRoutingMode = PartitionsRoutingMode.RoundRobinDistribution
    lazy_start_partitioned_producers: bool = False
    properties: dict[str, str] | None = None
    """Never None once it is checked."""
    batching_type: BatchingType = BatchingType.Default
    encryption_key: str | None = None
    crypto_key_reader: object = None
    access_mode: ProducerAccessMode = ProducerAccessMode.Shared
    message_router: Callable[[Message, int], int] | None = None
    hashing_scheme: HashingScheme = HashingScheme.BoostHash
    chunk_max_message_size: int = -1
    """0 or less: as large as the broker takes them."""
    interceptors: Sequence[ProducerInterceptor] = ()

    def __post_init__(self) -> None:
        check_fields(self, _CHECKS)
        check_size(self, "topic", "producer_name", "properties")
        if self.initial_sequence_id == -1:
            object.__setattr__(self, "initial_sequence_id", None)
        if self.batching_enabled and self.chunking_enabled:
            raise InvalidConfiguration("batching_enabled and chunking_enabled exclude each other: choose one")
        if self.chunk_max_message_size > 0 and not self.chunking_enabled:
            raise InvalidConfiguration("chunk_max_message_size needs chunking_enabled=True")
        if self.message_routing_mode is PartitionsRoutingMode.CustomPartition and self.message_router is None:
            raise InvalidConfiguration("message_routing_mode=CustomPartition needs a message_router")
