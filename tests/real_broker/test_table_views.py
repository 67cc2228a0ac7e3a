"""The latest value of each key, as either client shows it."""

from typing import Any

import pytest

from tests.real_broker.exchange import send_all, until
from tests.support.admin import Admin
from tests.support.standalone import Standalone
from tests.support.subjects import client_module, opened_clients


def put(producer: Any, **values: str) -> None:
    for key, value in values.items():
        producer.send(value.encode(), partition_key=key)


def content(view: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    view.for_each(found.__setitem__)
    return found


@pytest.fixture(params=[0, 3], ids=["one topic", "partitions"])
def keyed(request: pytest.FixtureRequest, admin: Admin, topic: str) -> str:
    """A topic without partitions, and one with."""
    if request.param:
        admin.create_partitioned(topic, request.param)
    return topic


def test_it_has_the_latest_values_that_the_other_client_wrote_and_then_its_updates(
    giving: Any, taking: Any, keyed: str
) -> None:
    producer = giving.client.create_producer(keyed)
    put(producer, a="1", b="2", c="3")
    put(producer, a="4", b="")
    view = taking.client.create_table_view(keyed)
    assert content(view) == {"a": b"4", "c": b"3"}
    assert (len(view), view.get("a"), view.get("b")) == (2, b"4", None)
    put(producer, d="5", c="")
    until(lambda: content(view) == {"a": b"4", "d": b"5"})
    view.close()


def test_a_listener_is_called_with_what_is_there_and_with_each_update(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    put(producer, a="1", b="2")
    seen: list[tuple[str, bytes]] = []
    view = client.create_table_view(topic)
    view.for_each_and_listen(lambda key, value: seen.append((key, value)))
    assert sorted(seen) == [("a", b"1"), ("b", b"2")]
    put(producer, a="3", c="4")
    until(lambda: len(seen) == 4)
    assert seen[2:] == [("a", b"3"), ("c", b"4")]
    view.close()


def test_it_is_complete_however_many_messages_there_are(pulsar: Any, client: Any, keyed: str) -> None:
    producer = client.create_producer(keyed, block_if_queue_full=True)
    for number in range(5000):
        producer.send_async(b"%d" % number, None, partition_key=str(number % 700))
    producer.flush()
    expected = {str(number % 700): b"%d" % number for number in range(4300, 5000)}
    assert content(client.create_table_view(keyed)) == expected


@pytest.mark.parametrize("broker", ["apache"], indirect=True)  # the embedded one does not compact
def test_after_a_compaction_it_is_the_same(pulsar: Any, client: Any, admin: Admin, topic: str) -> None:
    producer = client.create_producer(topic)
    for number in range(100):
        put(producer, **{f"key{number % 5}": str(number)})
    put(producer, key0="")
    admin.compact(topic)
    send_all(producer, [b"without a key"])
    view = client.create_table_view(topic)
    assert content(view) == {f"key{number % 5}": b"%d" % number for number in range(96, 100)}


def test_ours_goes_on_after_its_broker_was_killed(crashing: Standalone) -> None:
    topic = "persistent://public/default/viewed-before-a-crash"
    with opened_clients() as connect_to:
        client = connect_to(client_module("ours"), crashing.service_url, operation_timeout_seconds=120)
        producer = client.create_producer(topic, send_timeout_millis=120_000)
        put(producer, a="1", b="2")
        view = client.create_table_view(topic)
        crashing.kill()
        crashing.start()
        put(producer, a="3", b="", c="4")
        view.refresh(60)
        assert dict(view.items()) == {"a": b"3", "c": b"4"}
