"""The clients of a worker: shared, kept for a while, and thrown away when a task fails."""

import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from traffic import until

import pulsar_actors
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.spark import pool as pool_module
from pulsar_actors.spark.cluster import Cluster
from pulsar_actors.spark.pool import Kept, Pool, Recipe


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        yield broker.service_url


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(idle=3600)
    yield pool
    pool._idle = -1
    pool.sweep()


def is_closed(kept: Kept) -> bool:
    try:
        kept.client.get_topic_partitions("t")
    except AlreadyClosed:
        return True
    return False


def fail_with(pool: Pool, cluster: Cluster, first: Kept) -> None:
    with pool.lend(cluster) as same:
        assert same is first
        raise ZeroDivisionError


def test_the_next_task_gets_the_same_client_and_the_same_producer(pool: Pool, url: str) -> None:
    found = []
    for _ in range(2):
        with pool.lend(Cluster({"service_url": url})) as kept:
            found.append((kept, kept.producer("t", Recipe({})), kept.producer("t", Recipe({"batching_enabled": True}))))
    assert found[0] == found[1]
    assert found[0][1] is not found[0][2]


def test_who_says_something_else_gets_another_client(pool: Pool, url: str) -> None:
    with (
        pool.lend(Cluster({"service_url": url})) as one,
        pool.lend(Cluster({"service_url": url, "io_threads": 2})) as other,
    ):
        assert one is not other


def test_a_task_that_fails_leaves_a_client_that_nobody_gets_again(pool: Pool, url: str) -> None:
    cluster = Cluster({"service_url": url})
    with pool.lend(cluster) as first:
        producer = first.producer("t", Recipe({"batching_enabled": True, "batching_max_publish_delay_ms": 600_000}))
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


def test_who_reads_no_further_spoils_nothing(pool: Pool, url: str) -> None:
    def reading() -> Iterator[Kept]:
        with pool.lend(Cluster({"service_url": url})) as kept:
            yield kept

    some = reading()
    kept = next(some)
    some.close()  # type: ignore[attr-defined]
    with pool.lend(Cluster({"service_url": url})) as again:
        assert again is kept


def test_what_has_rested_is_closed_by_itself(url: str) -> None:
    pool = Pool(idle=0.05)
    with pool.lend(Cluster({"service_url": url})) as kept:
        pass
    until(lambda: is_closed(kept))


def test_no_more_than_so_many_rest(pool: Pool, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_CLIENTS", 2)
    found = []
    for threads in range(1, 5):
        with pool.lend(Cluster({"service_url": url, "io_threads": threads})) as kept:
            found.append(kept)
    assert [is_closed(kept) for kept in found] == [True, True, False, False]


def test_the_producers_that_were_used_last_stay(pool: Pool, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MOST_PRODUCERS", 2)
    with pool.lend(Cluster({"service_url": url})) as kept:
        first, second = kept.producer("1", Recipe({})), kept.producer("2", Recipe({}))
        assert kept.producer("1", Recipe({})) is first
        third = kept.producer("3", Recipe({}))
        assert [one.is_open for one in (first, second, third)] == [True, False, True]


def test_a_name_that_another_still_has_is_waited_for(pool: Pool, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    named = {"producer_name": "the name"}
    with pool.lend(Cluster({"service_url": url})) as kept:
        other = kept.client.create_producer("named", **named)
        while_waiting = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: other.close())
        monkeypatch.setattr(pool_module, "time", while_waiting)
        assert kept.producer("named", Recipe(named)).producer_name() == "the name"
