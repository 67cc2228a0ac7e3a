from typing import Any

import pytest

from pulsar_actors.client.enums import HashingScheme, PartitionsRoutingMode
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.sets.message_router import router_of
from pulsar_actors.runtime.outgoing import Said
from pulsar_actors.wire.PulsarApi_pb2 import KeyValue, SingleMessageMetadata

TOPIC = "persistent://public/default/t"
BARE = (b"x", None)


def router(**options: Any) -> Any:
    return router_of(ProducerOptions(topic="t", **options), lambda: 0.5, lambda: 100.0, TOPIC)


def keyed(key: str) -> tuple[bytes, Said]:
    return b"x", Said.of(SingleMessageMetadata(payload_size=1, partition_key=key), None, None)


@pytest.mark.parametrize(
    ("scheme", "hashed"),
    # Of "key1": by the official client; and "key1".hashCode() in Java.
    [(HashingScheme.BoostHash, 2071103098), (HashingScheme.JavaStringHash, 3288498)],
)
def test_a_key_goes_where_its_hash_says_whatever_the_mode(scheme: HashingScheme, hashed: int) -> None:
    for mode in (PartitionsRoutingMode.UseSinglePartition, PartitionsRoutingMode.RoundRobinDistribution):
        assert router(hashing_scheme=scheme, message_routing_mode=mode)(*keyed("key1"), 97) == hashed % 97


def test_messages_without_a_key_go_round_from_anywhere() -> None:
    route = router()
    assert [route(*BARE, 4) for _ in range(5)] == [2, 3, 0, 1, 2]


def test_a_batch_stays_on_a_partition() -> None:
    route = router(batching_enabled=True, batching_max_messages=2)
    assert [route(*BARE, 4) for _ in range(5)] == [2, 2, 3, 3, 0]


def test_a_producer_may_stay_where_it_began() -> None:
    route = router(message_routing_mode=PartitionsRoutingMode.UseSinglePartition)
    assert [route(*BARE, 4) for _ in range(3)] == [2, 2, 2]


def test_a_router_of_ones_own_has_the_last_word_and_sees_all_of_the_message() -> None:
    seen: list[Any] = []

    def choose(message: Any, partitions: int) -> int:
        seen.append((message.data(), message.partition_key(), message.properties(), message.topic_name(), partitions))
        return 3

    metadata = SingleMessageMetadata(payload_size=1, partition_key="k", properties=[KeyValue(key="a", value="b")])
    route = router(message_router=choose)
    assert route(b"x", Said.of(metadata, None, None), 5) == 3
    assert route(*BARE, 4) == 3
    assert seen == [(b"x", "k", {"a": "b"}, TOPIC, 5), (b"x", "", {}, TOPIC, 4)]


def test_a_message_that_was_not_sent_yet_has_no_place() -> None:
    def choose(message: Any, _: int) -> int:
        assert (message.message_id().entry_id(), message.redelivery_count(), message.index()) == (-1, 0, None)
        return 0

    assert router(message_router=choose)(*BARE, 1) == 0
