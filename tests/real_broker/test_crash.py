"""What is left after the broker was killed while it worked. Only a real broker keeps its word on a disk.

One crash serves all these tests. Before it, a producer has had five hundred messages acknowledged, of which a consumer
has taken the first fifty; when it comes, fifteen hundred more are on their way. After it, everybody goes on.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from tests.real_broker.exchange import SOON, Outcomes, receive, send_all, stored
from tests.support.standalone import Standalone
from tests.support.subjects import opened_clients

BEFORE, AFTER = 500, 1500
TAKEN = 50
IN_PARTS = 300
PATIENCE_SECONDS = 120  # a broker starts within this, beside others


class Crashed(NamedTuple):
    """What the tests look at."""

    late: Outcomes  # of the sends that were on their way
    in_parts: Outcomes  # likewise, to a partitioned topic
    next_in_parts: Callable[[], Any]
    stored: list[int]
    next_number: Callable[[], int]  # that the consumer is given


@pytest.fixture(scope="module")
def crashed(pulsar: Any, crashing: Standalone) -> Iterator[Crashed]:
    topic = f"persistent://public/default/crash-{pulsar.__name__}"
    with opened_clients() as connect_to:
        client = connect_to(pulsar, crashing.service_url, operation_timeout_seconds=PATIENCE_SECONDS)
        consumer = client.subscribe(topic, "s")
        producer = client.create_producer(
            topic, batching_enabled=True, max_pending_messages=5000, send_timeout_millis=PATIENCE_SECONDS * 1000
        )
        send_all(producer, [b"%d" % number for number in range(BEFORE)])
        for message in receive(consumer, TAKEN):
            consumer.acknowledge(message)
        parts = f"{topic}-parts"
        crashing.admin.create_partitioned(parts, 3)
        parts_consumer = client.subscribe(parts, "s")
        parts_producer = client.create_producer(parts, send_timeout_millis=PATIENCE_SECONDS * 1000)
        late, in_parts = Outcomes(), Outcomes()
        for number in range(BEFORE, BEFORE + AFTER):
            producer.send_async(b"%d" % number, late)
        for number in range(IN_PARTS):
            parts_producer.send_async(b"%d" % number, in_parts)
        late.wait(1)
        crashing.kill()
        crashing.start()
        producer.flush()
        parts_producer.flush()
        found = [int(each) for each in stored(pulsar, client, topic)]
        yield Crashed(
            late, in_parts, lambda: parts_consumer.receive(SOON), found, lambda: int(consumer.receive(SOON).data())
        )


def in_order_of_first_appearance(numbers: list[int]) -> list[int]:
    """Without deduplication, what was on its way may have been stored twice."""
    return list(dict.fromkeys(numbers))


@pytest.mark.shows("Persistence", "", "persistent")
def test_what_was_acknowledged_is_there(crashed: Crashed) -> None:
    assert crashed.stored[:BEFORE] == list(range(BEFORE))


def test_what_was_on_its_way_is_stored_in_the_end_and_in_order(pulsar: Any, crashed: Crashed) -> None:
    assert crashed.late.results(AFTER) == [pulsar.Result.Ok] * AFTER
    assert in_order_of_first_appearance(crashed.stored) == list(range(BEFORE + AFTER))


def test_a_consumer_goes_on(crashed: Crashed) -> None:
    """It may be given again what the broker had not written down as acknowledged, and what it still held itself."""
    last = BEFORE + AFTER - 1
    taken: set[int] = set()
    while last not in taken:
        taken.add(crashed.next_number())
    assert taken >= set(range(TAKEN, BEFORE + AFTER))


def test_a_partitioned_topic_goes_on_in_all_its_parts(pulsar: Any, crashed: Crashed) -> None:
    assert crashed.in_parts.results(IN_PARTS) == [pulsar.Result.Ok] * IN_PARTS
    found: dict[str, list[int]] = {}
    while sum(len(set(numbers)) for numbers in found.values()) < IN_PARTS:
        message = crashed.next_in_parts()
        found.setdefault(message.topic_name(), []).append(int(message.data()))
    assert len(found) == 3
    for numbers in found.values():
        assert in_order_of_first_appearance(numbers) == sorted(set(numbers))
