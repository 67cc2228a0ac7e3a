"""The clients of a worker: shared, closed when idle, and not used again after a failed task."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import pulsar_actors
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.spark import client_pool as pool_module
from pulsar_actors.spark.client_pool import ClientPool, PooledClient, ProducerRecipe, TaskSender
from pulsar_actors.spark.cluster_access import ClusterAccess
from tests.spark.traffic import until


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.service_url


@pytest.fixture
def pool() -> Iterator[ClientPool]:
    pool = ClientPool(idle=3600)
    yield pool
    pool._idle = -1
    pool.sweep()


def is_closed(pooled: PooledClient) -> bool:
    try:
        pooled.client.get_topic_partitions("t")
    except AlreadyClosed:
        return True
    return False


def fail_with(pool: ClientPool, cluster: ClusterAccess, first: PooledClient) -> None:
    with pool.lend(cluster) as same:
        assert same is first
        raise ZeroDivisionError


def test_the_next_task_gets_the_same_client_and_the_same_producer(pool: ClientPool, url: str) -> None:
    found = []
    for _ in range(2):
        with pool.lend(ClusterAccess({"service_url": url})) as pooled:
            found.append(
                (
                    pooled,
                    pooled.producer("t", ProducerRecipe({})),
                    pooled.producer("t", ProducerRecipe({"batching_enabled": True})),
                )
            )
    assert found[0] == found[1]
    assert found[0][1] is not found[0][2]


def test_a_cluster_with_other_options_has_another_client(pool: ClientPool, url: str) -> None:
    with (
        pool.lend(ClusterAccess({"service_url": url})) as one,
        pool.lend(ClusterAccess({"service_url": url, "io_threads": 2})) as other,
    ):
        assert one is not other


def test_the_client_of_a_failed_task_is_not_used_again(pool: ClientPool, url: str) -> None:
    cluster = ClusterAccess({"service_url": url})
    with pool.lend(cluster) as first:
        producer = first.producer(
            "t", ProducerRecipe({"batching_enabled": True, "batching_max_publish_delay_ms": 600_000})
        )
        producer.send_async(b"is never sent", lambda *_: None)
        with pytest.raises(ZeroDivisionError):
            fail_with(pool, cluster, first)
        assert not is_closed(first)  # somebody uses it
        with pool.lend(cluster) as second:
            assert second is not first
    assert is_closed(first)
    assert not is_closed(second)
    with pulsar_actors.Client(url) as client, client.create_reader("t", pulsar_actors.MessageId.earliest) as reader:
        assert not reader.has_message_available()


def test_a_task_that_stops_reading_early_has_not_failed(pool: ClientPool, url: str) -> None:
    def reading() -> Iterator[PooledClient]:
        with pool.lend(ClusterAccess({"service_url": url})) as pooled:
            yield pooled

    some = reading()
    pooled = next(some)
    some.close()  # type: ignore[attr-defined]
    with pool.lend(ClusterAccess({"service_url": url})) as again:
        assert again is pooled


def test_an_idle_client_is_closed(url: str) -> None:
    pool = ClientPool(idle=0.05)
    with pool.lend(ClusterAccess({"service_url": url})) as pooled:
        pass
    until(lambda: is_closed(pooled))


def test_the_least_recently_used_of_too_many_idle_clients_are_closed(
    pool: ClientPool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MOST_IDLE_CLIENTS", 2)
    found = []
    for threads in range(1, 5):
        with pool.lend(ClusterAccess({"service_url": url, "io_threads": threads})) as pooled:
            found.append(pooled)
    assert [is_closed(pooled) for pooled in found] == [True, True, False, False]


def test_the_least_recently_used_of_too_many_producers_is_closed(
    pool: ClientPool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MOST_PRODUCERS", 2)
    with pool.lend(ClusterAccess({"service_url": url})) as pooled:
        first, second = pooled.producer("1", ProducerRecipe({})), pooled.producer("2", ProducerRecipe({}))
        assert pooled.producer("1", ProducerRecipe({})) is first
        third = pooled.producer("3", ProducerRecipe({}))
        assert [one.is_open for one in (first, second, third)] == [True, False, True]


def test_a_task_waits_for_a_producer_name_that_is_in_use(
    pool: ClientPool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"producer_name": "the name"}
    with pool.lend(ClusterAccess({"service_url": url})) as pooled:
        other = pooled.client.create_producer("named", **named)
        close_while_waiting = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: other.close())
        monkeypatch.setattr(pool_module, "time", close_while_waiting)
        assert pooled.producer("named", ProducerRecipe(named)).producer_name() == "the name"


def test_a_task_keeps_no_producers_that_the_pool_has_closed(
    pool: ClientPool, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool_module, "MOST_PRODUCERS", 2)
    with pool.lend(ClusterAccess({"service_url": url})) as pooled:
        sender = TaskSender(pooled, {})
        for number in range(20):
            sender.send(f"topic-{number % 10}", [b"x"], [None])
        assert len(sender._calls) <= 4
        sender.finish()
        assert sender.messages == 20
