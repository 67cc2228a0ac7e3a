from typing import Any

import pytest

from pulsar_actors.broker.model.interfaces import Address, Busy, Conflict, Missing, Refusal
from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.wire.PulsarApi_pb2 import Schema, ServerError
from pulsar_actors.wire.topic_name import TopicName

T, U = TopicName.parse("t"), TopicName.parse("u")


@pytest.fixture
def cluster(world: Any) -> Any:
    return world.cluster


REFUSED: list[Any] = [
    (lambda cluster: cluster.create_tenant("public"), Conflict),
    (lambda cluster: cluster.delete_tenant("us"), Missing),
    (lambda cluster: cluster.delete_tenant("public"), Busy),
    (lambda cluster: cluster.create_namespace("us/a"), Missing),
    (lambda cluster: cluster.create_namespace("public/default"), Conflict),
    (lambda cluster: cluster.create_topic(T), Conflict),
    (lambda cluster: cluster.create_partitioned(T, 2), Conflict),
    (lambda cluster: cluster.create_partitioned(U, 0), Refusal),
    (lambda cluster: cluster.create_partitioned(U.partition(0), 2), Refusal),
    (lambda cluster: cluster.grow(T, 1), Conflict),
    (lambda cluster: cluster.grow(T, 2), Conflict),
    (lambda cluster: cluster.grow(U, 2), Missing),
    (lambda cluster: cluster.unload(U), Missing),
    (lambda cluster: cluster.delete_partitioned(U), Missing),
    (lambda cluster: cluster.partitioned_stats(U), Missing),
]


@pytest.mark.parametrize(("ask", "refusal"), REFUSED)
def test_what_is_there_is_not_made_again_and_what_is_not_is_not_changed(cluster: Any, ask: Any, refusal: type) -> None:
    cluster.create_partitioned(T, 2)
    before = cluster.topics_of("public/default"), set(cluster.tenants), set(cluster.namespaces)
    with pytest.raises(Refusal) as caught:
        ask(cluster)
    assert type(caught.value) is refusal
    assert (cluster.topics_of("public/default"), set(cluster.tenants), set(cluster.namespaces)) == before


def test_tenants_and_their_namespaces_come_and_go(cluster: Any) -> None:
    before = set(cluster.tenants), set(cluster.namespaces)
    cluster.create_tenant("us")
    cluster.create_namespace("us/a")
    cluster.delete_namespace("us/a")
    cluster.delete_tenant("us")
    assert (set(cluster.tenants), set(cluster.namespaces)) == before


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
    cluster.delete_topic(T.partition(0))
    cluster.grow(T, 3)


def test_new_partitions_have_the_subscriptions_of_the_others(world: Any, cluster: Any) -> None:
    cluster.create_partitioned(T, 1)
    world.consumer("t-partition-0")
    world.consumer("t-partition-0", "reader", durable=False)
    cluster.grow(T, 3)
    assert cluster.partitions(T) == 3
    world.producer("t-partition-2").send(b"0")
    assert world.consumer("t-partition-2").got == [b"0"]
    assert list(world.topic("t-partition-1").subscriptions) == ["s"]


def test_a_topic_in_use_is_deleted_by_force_only(world: Any, cluster: Any) -> None:
    producer = world.producer()
    with pytest.raises(Busy):
        cluster.delete_topic(T)
    cluster.delete_topic(T, force=True)
    assert producer.heard == [("closed", None)]
    with pytest.raises(Missing):
        cluster.delete_topic(T)


def test_a_partitioned_topic_goes_with_all_its_partitions(world: Any, cluster: Any) -> None:
    cluster.create_partitioned(T, 2)
    world.consumer("t-partition-1")
    with pytest.raises(Busy):
        cluster.delete_partitioned(T)
    cluster.delete_partitioned(T, force=True)
    assert cluster.topics_of("public/default") == []


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


def test_an_unload_of_a_namespace_reaches_every_topic(world: Any, cluster: Any) -> None:
    people = [world.producer("a"), world.consumer("b"), world.consumer("non-persistent://public/default/c")]
    cluster.unload_namespace("public/default")
    assert all(each.heard == [("closed", None)] for each in people)


def test_ledgers_are_numbered_through_the_cluster(world: Any) -> None:
    assert [world.producer(topic).send() for topic in ("a", "b")] == [(1, 0), (2, 0)]


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


ONE = "persistent://public/default/one"


def test_whoever_watches_hears_of_topics_that_come_and_go(world: Any, cluster: Any) -> None:
    heard: list[tuple[list[str], list[str]]] = []
    stop = cluster.namespace("public/default").watch(lambda came, went: heard.append((came, went)))
    world.topic("one")
    world.topic("one")
    cluster.create_partitioned(TopicName.parse("two"), 2)
    cluster.delete_topic(TopicName.parse("one"))
    stop()
    stop()
    world.topic("three")
    partitions = [f"persistent://public/default/two-partition-{index}" for index in range(2)]
    assert heard == [([ONE], []), (partitions, []), ([], [ONE])]


def test_nothing_is_told_where_nothing_comes_or_goes(world: Any, cluster: Any) -> None:
    name = TopicName.parse("p")
    cluster.create_partitioned(name, 1)
    cluster.delete_topic(name.partition(0))
    heard: list[list[str]] = []
    cluster.namespace("public/default").watch(lambda came, went: heard.append(went))
    cluster.delete_partitioned(name)
    assert heard == []


def test_a_watcher_may_stop_while_it_is_told(world: Any, cluster: Any) -> None:
    heard: list[list[str]] = []
    stops = [cluster.namespace("public/default").watch(lambda came, went: (heard.append(came), stops[0]()))]
    cluster.namespace("public/default").watch(lambda came, went: heard.append(came))
    world.topic("one")
    world.topic("two")
    assert heard == [[ONE], [ONE], [ONE.replace("one", "two")]]
