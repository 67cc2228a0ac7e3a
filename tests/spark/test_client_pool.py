"""The clients of a worker: shared, closed when idle, and not used again after a failed task."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

import pulsar_actors
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.exceptions import AlreadyClosed, ProducerBusy, ProducerFenced
from pulsar_actors.spark import client_pool as pool_module
from pulsar_actors.spark.client_pool import ClientPool, PooledClient, ProducerRecipe, TaskSender
from pulsar_actors.spark.cluster_access import ClusterAccess
from tests.spark.traffic import until
from tests.support.admin import Admin


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


def within_seconds(seconds: float, pooled: PooledClient, call: Callable[[], bool]) -> bool:
    """Return the result of a call. One that takes too long fails, as its client is closed."""
    too_long = threading.Timer(seconds, pooled.client.shutdown)
    too_long.start()
    try:
        return call()
    finally:
        too_long.cancel()


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


@pytest.mark.parametrize("mode", [ProducerAccessMode.Exclusive, ProducerAccessMode.WaitForExclusive])
def test_a_task_waits_for_a_topic_that_another_has_alone(
    pool: ClientPool, url: str, monkeypatch: pytest.MonkeyPatch, mode: ProducerAccessMode
) -> None:
    topic = f"alone-{mode.name}"
    with pool.lend(ClusterAccess({"service_url": url})) as pooled:
        other = pooled.client.create_producer(topic, access_mode=ProducerAccessMode.Exclusive)
        close_while_waiting = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: other.close())
        monkeypatch.setattr(pool_module, "time", close_while_waiting)
        recipe = ProducerRecipe({"access_mode": mode})
        assert within_seconds(20, pooled, lambda: pooled.producer(topic, recipe).is_open)


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [({"producer_name": "kept"}, ProducerBusy), ({"access_mode": ProducerAccessMode.Exclusive}, ProducerFenced)],
)
def test_a_wait_ends_after_a_minute_with_an_error_that_says_so(
    pool: ClientPool, url: str, waits: list[float], arguments: dict[str, Any], refusal: type[Exception]
) -> None:
    with pool.lend(ClusterAccess({"service_url": url})) as pooled:
        other = pooled.client.create_producer("kept", producer_name="kept")
        with pytest.raises(refusal, match=r"no producer on kept: .*; this has waited for 60 s\. .*=WaitForExcl"):
            pooled.producer("kept", ProducerRecipe(arguments))
        other.close()
    assert 60 <= sum(waits) <= 62


def test_a_wait_for_exclusive_access_has_no_limit(
    pool: ClientPool, url: str, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pause(seconds: float) -> None:
        waits.append(seconds)
        if sum(waits) > 600:
            other.close()

    monkeypatch.setattr(pool_module.time, "sleep", pause)
    with pool.lend(ClusterAccess({"service_url": url})) as pooled:
        other = pooled.client.create_producer("for long", access_mode=ProducerAccessMode.Exclusive)
        recipe = ProducerRecipe({"access_mode": ProducerAccessMode.WaitForExclusive})
        assert within_seconds(20, pooled, lambda: pooled.producer("for long", recipe).is_open)


def test_a_task_does_not_wait_for_producers_that_earlier_tasks_have_left_in_its_client(
    pool: ClientPool, url: str, waits: list[float]
) -> None:
    cluster, alone = ClusterAccess({"service_url": url}), {"access_mode": ProducerAccessMode.Exclusive}
    with pool.lend(cluster) as pooled:
        shared, elsewhere = (pooled.producer(topic, ProducerRecipe({})) for topic in ("left", "elsewhere"))
    with pool.lend(cluster) as same:
        assert same is pooled
        assert same.producer("persistent://public/default/left", ProducerRecipe(alone)).is_open
        assert (shared.is_open, elsewhere.is_open, waits) == (False, True, [])


def test_a_task_waits_for_another_that_has_the_same_client(pool: ClientPool, url: str, waits: list[float]) -> None:
    cluster, alone = ClusterAccess({"service_url": url}), {"access_mode": ProducerAccessMode.Exclusive}
    with pool.lend(cluster) as pooled, pool.lend(cluster):
        shared = pooled.producer("in use", ProducerRecipe({}))
        with pytest.raises(ProducerFenced):
            pooled.producer("in use", ProducerRecipe(alone))
        assert shared.is_open
        assert sum(waits) >= 60


def test_a_task_that_waits_for_a_topic_keeps_none_of_its_partitions(
    pool: ClientPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    exclusive = {"access_mode": ProducerAccessMode.Exclusive}

    def pause(_: float) -> None:
        with closing(pooled.client.create_producer(f"{topic}-partition-0", **exclusive)):
            other.close()

    topic = "persistent://public/default/two"
    with EmbeddedBroker() as broker:
        Admin(broker.web_url).create_partitioned(topic, 2)
        with pool.lend(ClusterAccess({"service_url": broker.service_url})) as pooled:
            other = pooled.client.create_producer(f"{topic}-partition-1", **exclusive)
            monkeypatch.setattr(pool_module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=pause))
            recipe = ProducerRecipe({"access_mode": ProducerAccessMode.WaitForExclusive})
            assert within_seconds(20, pooled, lambda: pooled.producer(topic, recipe).is_open)


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


def test_a_task_that_has_several_partitions_alone_keeps_each() -> None:
    with EmbeddedBroker() as broker, closing(pulsar_actors.Client(broker.service_url)) as client:
        broker.create_topic("part", 2)
        pooled = PooledClient(client)
        pooled.users = 1
        alone = ProducerRecipe({"access_mode": ProducerAccessMode.Exclusive})
        first, second = (pooled.producer(f"part-partition-{number}", alone) for number in range(2))
        assert pooled.producer("part-partition-0", alone) is first
        assert first.is_open
        assert second.is_open
