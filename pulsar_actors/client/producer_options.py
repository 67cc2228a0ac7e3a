"""The options of a producer: the arguments of `Client.create_producer`, each with its type, check and default."""

from collections.abc import Callable, Sequence
from typing import Annotated

from pulsar_actors.client import validation as check
from pulsar_actors.client.crypto_key_reader import EncryptionKeyReader, check_encryption_is_installed
from pulsar_actors.client.enums import (
    BatchingType,
    CompressionType,
    HashingScheme,
    PartitionsRoutingMode,
    ProducerAccessMode,
    ProducerCryptoFailureAction,
)
from pulsar_actors.client.interceptors import ProducerInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.options import Options
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.runtime.batch_builder import FIRST_CHUNKS

__all__ = ["ProducerOptions"]


def _key_names(name: str, value: object) -> object:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise check.refusal_of(name, value, "a list of the names of keys")
    return tuple(check.text(f"{name}[{index}]", one) for index, one in enumerate(value))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


class ProducerOptions(Options):
    """The checked options of one producer. They pickle if their schema, router and interceptors do."""

    topic: Annotated[str, check.topic]
    producer_name: Annotated[str | None, check.optional(check.text)] = None
    schema: Annotated[Schema, check.instance_of(Schema)] = BYTES
    initial_sequence_id: Annotated[int | None, check.optional(check.whole_number(-1, 2**63 - 1))] = None
    """-1 counts as none: `last_sequence_id` returns it before the first message."""
    send_timeout_millis: Annotated[int, check.whole_number(0, check.LONGEST_MS)] = 30_000
    """0: none."""
    compression_type: Annotated[CompressionType, check.instance_of(CompressionType)] = CompressionType.NONE
    max_pending_messages: Annotated[int, check.whole_number(0)] = 1000
    """0: no limit, here and in the next option."""
    max_pending_messages_across_partitions: Annotated[int, check.whole_number(0)] = 50_000
    block_if_queue_full: Annotated[bool, check.flag] = False
    batching_enabled: Annotated[bool, check.flag] = False
    batching_max_messages: Annotated[int, check.whole_number(1)] = 1000
    batching_max_allowed_size_in_bytes: Annotated[int, check.whole_number(1)] = 128 * 1024
    batching_max_publish_delay_ms: Annotated[int, check.whole_number(0, check.LONGEST_MS)] = 10
    chunking_enabled: Annotated[bool, check.flag] = False
    message_routing_mode: Annotated[PartitionsRoutingMode, check.instance_of(PartitionsRoutingMode)] = (
        PartitionsRoutingMode.RoundRobinDistribution
    )
    lazy_start_partitioned_producers: Annotated[bool, check.flag] = False
    properties: Annotated[dict[str, str] | None, check.properties] = None
    """Never None once it is checked."""
    batching_type: Annotated[BatchingType, check.instance_of(BatchingType)] = BatchingType.Default
    encryption_key: Annotated[str | None, check.optional(check.text)] = None
    crypto_key_reader: Annotated[EncryptionKeyReader | None, check.optional(check.instance_of(EncryptionKeyReader))] = (
        None
    )
    access_mode: Annotated[ProducerAccessMode, check.instance_of(ProducerAccessMode)] = ProducerAccessMode.Shared
    message_router: Annotated[
        Callable[[Message, int], int] | None, check.optional(check.callback("a message and the number of partitions"))
    ] = None
    hashing_scheme: Annotated[HashingScheme, check.instance_of(HashingScheme)] = HashingScheme.BoostHash
    chunk_max_message_size: Annotated[int, check.whole_number(-1)] = -1
    """0 or less: as large as the broker allows."""
    interceptors: Annotated[Sequence[ProducerInterceptor], check.several_of(ProducerInterceptor)] = ()
    encryption_keys: Annotated[Sequence[str], _key_names] = ()
    crypto_failure_action: Annotated[ProducerCryptoFailureAction, check.instance_of(ProducerCryptoFailureAction)] = (
        ProducerCryptoFailureAction.FAIL
    )

    def check_all(self) -> None:
        """Check each option, and those that must go together."""
        super().check_all()
        check.check_size(self, "topic", "producer_name", "properties")
        if self.producer_name is not None and self.producer_name.endswith(FIRST_CHUNKS):
            takes = (
                f"no name that ends with {FIRST_CHUNKS!r}, as the first chunks of another producer's messages have one"
            )
            raise check.refusal_of("producer_name", self.producer_name, takes)
        if self.initial_sequence_id == -1:
            object.__setattr__(self, "initial_sequence_id", None)
        if self.batching_enabled and self.chunking_enabled:
            raise InvalidConfiguration("batching_enabled and chunking_enabled exclude each other: choose one")
        if self.chunk_max_message_size > 0 and not self.chunking_enabled:
            raise InvalidConfiguration("chunk_max_message_size needs chunking_enabled=True")
        has_reader = self.crypto_key_reader is not None
        if bool(self.key_names) is not has_reader:  # the official client does not encrypt then
            raise InvalidConfiguration("encryption_key and crypto_key_reader go together: one alone encrypts nothing")
        if has_reader:
            check_encryption_is_installed()
        if self.message_routing_mode is PartitionsRoutingMode.CustomPartition and self.message_router is None:
            raise InvalidConfiguration("message_routing_mode=CustomPartition needs a message_router")

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the keys that encrypt, each once; none if messages are not encrypted."""
        given = ((self.encryption_key,) if self.encryption_key else ()) + tuple(self.encryption_keys)
        return tuple(dict.fromkeys(given))

    @property
    def is_encrypted(self) -> bool:
        """True if the broker is told that the messages are encrypted."""
        return bool(self.key_names)
