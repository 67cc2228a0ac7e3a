from typing import Any

import pytest

from pulsar_actors.broker.model.interfaces import Address, Busy, Conflict, Missing, Refusal
from pulsar_actors.broker.model.managed_ledger import EARLIEST_POSITION
from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.wire.PulsarApi_pb2 import Schema, ServerError
from pulsar_actors.wire.topic_name import TopicName

T = TopicName.parse("t")


@pytest.fixture
def cluster(world: Any) -> Any:
    return world.cluster


def test_tenants_come_and_go(cluster: Any) -> None:
    cluster.create_tenant("us")
    with pytest.raises(Conflict):
        cluster.create_tenant("us")
    cluster.create_namespace("us/a")
    with pytest.raises(Busy):
        cluster.delete_tenant("us")
    cluster.delete_namespace("us/a")
    cluster.delete_tenant("us")
    with pytest.raises(Missing):
        cluster.delete_tenant("us")


def test_a_namespace_needs_a_tenant_and_a_name_of_its_own(cluster: Any) -> None:
    with pytest.raises(Missing, match="Tenant"):
        cluster.create_namespace("us/a")
    with pytest.raises(Conflict):
        cluster.create_namespace("public/default")


def test_a_namespace_with_topics_is_deleted_by_force_only(world: Any, cluster: Any) -> None:
    consumer = world.consumer()
    cluster.create_partitioned(TopicName.parse("p"), 2)
    with pytest.raises(Busy, match="non empty"):
        cluster.delete_namespace("public/default")
    cluster.delete_namespace("public/default", force=True)
    assert consumer.heard == [("closed", None)]
    with pytest.raises(Missing):
        cluster.open_topic(T)
    assert cluster.find_topic(T) is None


def test_a_topic_is_made_when_it_is_first_opened(cluster: Any) -> None:
    assert cluster.find_topic(T) is None
    topic = cluster.open_topic(T)
    assert cluster.open_topic(T) is topic is cluster.find_topic(T)


def test_a_topic_is_not_made_where_that_is_not_wanted_or_not_allowed(cluster: Any) -> None:
    with pytest.raises(Missing) as refusal:
        cluster.open_topic(T, create=False)
    assert refusal.value.code == ServerError.TopicNotFound
    cluster.namespace("public/default").policies.allow_auto_topic_creation = False
    for ask in (cluster.open_topic, cluster.partitions):
        with pytest.raises(Missing):
            ask(T)
    cluster.create_topic(T)
    cluster.open_topic(T)
    assert cluster.partitions(T) == 0
    with pytest.raises(Conflict):
        cluster.create_topic(T)


def test_asking_for_partitions_makes_no_topic_without_any(cluster: Any) -> None:
    assert cluster.partitions(T) == 0
    assert cluster.topics_of("public/default") == []
    with pytest.raises(Missing):
        cluster.partitions(T, create=False)


def test_topics_may_be_made_with_partitions_by_themselves(cluster: Any) -> None:
    cluster.namespace("public/default").policies.auto_topic_partitions = 3
    assert [cluster.partitions(T), cluster.partitions(T, create=False)] == [3, 3]
    assert cluster.partitions(T.partition(0)) == 0


def test_a_partitioned_topic_has_its_partitions(cluster: Any) -> None:
    cluster.create_partitioned(T, 2)
    assert cluster.topics_of("public/default") == [str(T.partition(index)) for index in range(2)]
    with pytest.raises(Conflict):
        cluster.create_partitioned(T, 2)
    with pytest.raises(Conflict):
        cluster.create_topic(T)


@pytest.mark.parametrize(("name", "count"), [(T, 0), (T, -1), (T.partition(0), 2)])
def test_a_number_of_partitions_makes_sense(cluster: Any, name: TopicName, count: int) -> None:
    with pytest.raises(Refusal, match="more than 0"):
        cluster.create_partitioned(name, count)


def test_a_partitioned_topic_is_not_used_in_place_of_its_partitions(cluster: Any) -> None:
    cluster.create_partitioned(T, 2)
    for name, complaint in [
        (T, "Found partitioned metadata for non-partitioned topic: persistent://public/default/t"),
        (TopicName.parse("u-partition-0"), "Partition metadata not found for the partitioned topic"),
    ]:
        with pytest.raises(Refusal, match=complaint) as refusal:
            cluster.open_topic(name)
        assert refusal.value.code == ServerError.NotAllowedError


def test_a_partition_beyond_those_there_are_is_not_found_and_not_made(cluster: Any) -> None:
    cluster.create_partitioned(T, 2)
    with pytest.raises(Missing):
        cluster.open_topic(T.partition(2))
    with pytest.raises(Refusal, match="t-partition-2 with max allowed 2"):
        cluster.create_topic(T.partition(2))


def test_a_partition_of_nothing_is_not_found_by_those_who_may_not_make_it(cluster: Any) -> None:
    with pytest.raises(Missing):
        cluster.open_topic(T.partition(0), create=False)


def test_a_partition_that_was_deleted_is_made_again(cluster: Any) -> None:
    cluster.create_partitioned(T, 2)
    cluster.delete_topic(T.partition(1))
    cluster.namespace("public/default").policies.allow_auto_topic_creation = False
    cluster.open_topic(T.partition(1), create=False)
    cluster.delete_topic(T.partition(1))
    cluster.create_topic(T.partition(1))


def test_new_partitions_have_the_subscriptions_of_the_others(world: Any, cluster: Any) -> None:
    cluster.create_partitioned(T, 1)
    world.consumer("t-partition-0")
    world.consumer("t-partition-0", "reader", durable=False)
    cluster.grow(T, 3)
    assert cluster.partitions(T) == 3
    world.producer("t-partition-2").send(b"0")
    assert world.consumer("t-partition-2").got == [b"0"]
    assert list(world.topic("t-partition-1").subscriptions) == ["s"]


def test_partitions_only_become_more(cluster: Any) -> None:
    with pytest.raises(Missing):
        cluster.grow(T, 2)
    cluster.create_partitioned(T, 2)
    for count in (1, 2):
        with pytest.raises(Conflict):
            cluster.grow(T, count)
    cluster.delete_topic(T.partition(0))
    cluster.grow(T, 3)


def test_a_topic_in_use_is_deleted_by_force_only(world: Any, cluster: Any) -> None:
    producer = world.producer()
    with pytest.raises(Busy):
        cluster.delete_topic(T)
    cluster.delete_topic(T, force=True)
    assert producer.heard == [("closed", None)]
    with pytest.raises(Missing):
        cluster.delete_topic(T)


def test_a_topic_that_is_only_subscribed_may_go(world: Any, cluster: Any) -> None:
    world.topic().create_subscription("s", at=EARLIEST_POSITION)
    cluster.delete_topic(T)
    assert world.topic().subscriptions == {}


def test_a_partitioned_topic_goes_with_all_its_partitions(world: Any, cluster: Any) -> None:
    cluster.create_partitioned(T, 2)
    world.consumer("t-partition-1")
    with pytest.raises(Busy):
        cluster.delete_partitioned(T)
    cluster.delete_partitioned(T, force=True)
    assert cluster.topics_of("public/default") == []
    with pytest.raises(Missing):
        cluster.delete_partitioned(T)


def test_the_schemas_of_a_topic_go_with_it(world: Any, cluster: Any) -> None:
    cluster.create_partitioned(T, 2)
    cluster.schemas_of(T).get_or_create(SchemaData("t", Schema.Type.String, b""), 1)
    cluster.delete_topic(T.partition(0))
    assert cluster.schemas_of(T).versions()
    cluster.delete_partitioned(T)
    assert cluster.schemas_of(T).versions() == []


def test_an_unload_reaches_every_partition(world: Any, cluster: Any) -> None:
    cluster.create_partitioned(T, 2)
    consumers = [world.consumer(f"t-partition-{index}") for index in range(2)]
    cluster.unload(T, Address("pulsar://b:1"))
    assert all(each.heard == [("closed", Address("pulsar://b:1"))] for each in consumers)
    with pytest.raises(Missing):
        cluster.unload(TopicName.parse("u"))


def test_an_unload_of_a_namespace_reaches_every_topic(world: Any, cluster: Any) -> None:
    people = [world.producer("a"), world.consumer("b"), world.consumer("non-persistent://public/default/c")]
    cluster.unload_namespace("public/default")
    assert all(each.heard == [("closed", None)] for each in people)


def test_topics_are_listed_by_domain(cluster: Any) -> None:
    names = ["non-persistent://public/default/b", "persistent://public/default/a", "persistent://public/default/c"]
    for name in reversed(names):
        cluster.open_topic(TopicName.parse(name))
    assert cluster.topics_of("public/default") == names
    assert cluster.topics_of("public/default", "persistent") == names[1:]
    assert cluster.topics_of("public/default", "non-persistent") == names[:1]


def test_ledgers_are_numbered_through_the_cluster(world: Any) -> None:
    assert [world.producer(topic).send() for topic in ("a", "b")] == [(1, 0), (2, 0)]


def test_statistics_of_a_topic_without_partitions_are_not_those_of_a_partitioned_one(cluster: Any) -> None:
    cluster.open_topic(T)
    with pytest.raises(Missing):
        cluster.partitioned_stats(T)


def test_the_longest_beginning_of_a_name_decides_who_serves_it(world: Any) -> None:
    cluster = world.cluster
    cluster.assign("persistent://public/", "a")
    cluster.assign("persistent://public/default/t", "b")
    assert [cluster.owner_of(TopicName.parse(name)) for name in ("x", "t", "t-partition-0")] == ["a", "b", "b"]


def test_a_topic_that_nobody_was_given_is_served_by_whoever_is_asked(world: Any) -> None:
    assert world.cluster.owner_of(TopicName.parse("t")) is None
    world.cluster.assign("persistent://", "a")
    world.cluster.assign("persistent://", None)
    world.cluster.assign("persistent://", None)
    assert world.cluster.owner_of(TopicName.parse("t")) is None
