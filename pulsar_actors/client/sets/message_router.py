"""Which partition a message goes to: a producer's options into a router, and messages as a user's router sees them."""

from collections.abc import Callable
from typing import TypeAlias

from pulsar_actors.client.enums import HashingScheme, PartitionsRoutingMode
from pulsar_actors.client.message import Message
from pulsar_actors.client.producing.producer_machine import limits_of
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.machines.ledgers import hashing
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.machines.ledgers.routing import CustomRouting, RoundRobin, SinglePartition
from pulsar_actors.runtime.outgoing import Said
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import BrokerEntryMetadata, MessageMetadata, SingleMessageMetadata

Router: TypeAlias = Callable[[bytes, object, int], int]
"""Give the partition of a message, which is its payload and what is kept beside it, among so many."""

_NOTHING = SingleMessageMetadata()
_SCHEMES = {
    HashingScheme.Murmur3_32Hash: hashing.HashingScheme.MURMUR3_32,
    HashingScheme.BoostHash: hashing.HashingScheme.BOOST,
    HashingScheme.JavaStringHash: hashing.HashingScheme.JAVA_STRING,
}


class Unsent:
    """The entry of a message that has none yet."""

    __slots__ = ("broker_metadata", "generation", "message_id", "metadata", "redelivery_count", "size", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.message_id = MessageId(-1, -1)
        self.metadata = MessageMetadata()
        self.broker_metadata: BrokerEntryMetadata | None = None
        self.redelivery_count = 0
        self.size = 0
        self.generation = Generation()

    def decode(self, payload: bytes) -> object:
        """Give the payload: there is no consumer with a schema."""
        return payload


def router_of(options: ProducerOptions, chance: Callable[[], float], now: Callable[[], float], topic: str) -> Router:
    """Make the router that the options ask for. A user's own has the last word, also over keys."""
    if options.message_router is not None:
        return _custom(options.message_router, topic)
    key_hash = key_hash_of(options.hashing_scheme)
    if options.message_routing_mode is PartitionsRoutingMode.UseSinglePartition:
        route = SinglePartition(key_hash, chance).route
    else:
        route = RoundRobin(key_hash, chance, limits_of(options)).route

    def choose(payload: bytes, place: object, partitions: int) -> int:
        key = place.partition_key if type(place) is Said else None
        return route(key, len(payload), partitions, now())

    return choose


def key_hash_of(scheme: HashingScheme) -> Callable[[str], int]:
    """Give what makes a number of a key."""
    return hashing.HASHES[_SCHEMES[scheme]]


def _custom(choose: Callable[[Message, int], int], topic: str) -> Router:
    routing = CustomRouting(choose)
    unsent = Unsent(topic)

    def ask(payload: bytes, place: object, partitions: int) -> int:
        said = place.metadata if type(place) is Said else _NOTHING
        return routing.route(Message(payload, said, unsent, -1), partitions)

    return ask
