"""The fields of PRODUCER and SUBSCRIBE that the model needs, with every default filled in."""

from dataclasses import dataclass, field

from pulsar_actors.broker.model.entry import Position
from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode, ProducerAccessMode


@dataclass(slots=True)
class ProducerRequest:
    """A request to create a producer. `connection` identifies the connection."""

    connection: object
    producer_id: int
    name: str | None = None
    epoch: int = 0
    access_mode: "ProducerAccessMode.ValueType" = ProducerAccessMode.Shared
    topic_epoch: int | None = None
    schema: SchemaData | None = None
    initial_subscription: str | None = None
    encrypted: bool = False
    supports_partial_producer: bool = False
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    address: str = ""
    client_version: str = ""


@dataclass(slots=True)
class SubscribeRequest:
    """A request to attach a consumer to a subscription, which may have to be created first.

    A new subscription begins at the `earliest` entry or after the last one. A non-durable one begins at the entry
    `start`, if it is given. For a message inside a batch, the client drops the messages of that entry that it does not
    want. `properties` belong to the subscription, `metadata` to the consumer.
    """

    connection: object
    consumer_id: int
    subscription: str
    subscription_type: "CommandSubscribe.SubType.ValueType"
    name: str | None = None
    priority_level: int = 0
    durable: bool = True
    earliest: bool = False
    start: Position | None = None
    rollback_seconds: int = 0
    read_compacted: bool = False
    replicated: bool | None = None
    schema: SchemaData | None = None
    key_shared_mode: "KeySharedMode.ValueType" = KeySharedMode.AUTO_SPLIT
    hash_ranges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    allow_out_of_order: bool = False
    consumer_epoch: int = -1
    metadata: dict[str, str] = field(default_factory=dict[str, str])
    properties: dict[str, str] = field(default_factory=dict[str, str])
    address: str = ""
    client_version: str = ""
