from typing import Any

import pytest

from pulsar_actors.broker.model.position import EARLIEST


@pytest.fixture(params=["settings", "namespace", "topic"])
def deduplicating(request: Any, world: Any) -> Any:
    """A world whose topic drops duplicates, because of any of three who may say so."""
    where = {
        "settings": world.settings,
        "namespace": world.cluster.namespace("public/default").policies,
        "topic": world.topic(),
    }[request.param]
    where.deduplication = True
    return world


def test_what_was_sent_before_is_not_stored_again(deduplicating: Any) -> None:
    producer = deduplicating.producer()
    positions = [producer.send(sequence_id=number) for number in (5, 4, 5, 6)]
    assert [position == EARLIEST for position in positions] == [False, True, True, False]
    assert deduplicating.topic().log.end == 2


def test_a_batch_counts_up_to_its_last_message(deduplicating: Any) -> None:
    producer = deduplicating.producer()
    producer.send(sequence_id=0, highest=9)
    assert producer.send(sequence_id=9) == EARLIEST
    assert producer.send(sequence_id=10) != EARLIEST


def test_names_are_told_apart_and_remembered(deduplicating: Any) -> None:
    first = deduplicating.producer(name="a")
    assert first.made.last_sequence_id == -1
    first.send(sequence_id=7)
    first.made.close()
    assert deduplicating.producer(name="a").made.last_sequence_id == 7
    assert deduplicating.producer(name="b").send(sequence_id=7) != EARLIEST


def test_chunks_are_judged_by_the_last_one(deduplicating: Any) -> None:
    producer = deduplicating.producer()

    def send_chunked() -> list[bool]:
        chunks = [producer.send(sequence_id=3, uuid="u", chunk_id=number, num_chunks_from_msg=3) for number in range(3)]
        return [position == EARLIEST for position in chunks]

    assert send_chunked() == [False, False, False]
    assert send_chunked() == [False, False, True]


def test_without_deduplication_everything_is_stored(world: Any) -> None:
    producer = world.producer(name="a")
    positions = [producer.send(sequence_id=0) for _ in range(2)]
    assert EARLIEST not in positions
    producer.made.close()
    assert world.producer(name="a").made.last_sequence_id == -1


def test_switching_it_off_forgets_what_was_known(world: Any) -> None:
    topic = world.topic()
    topic.deduplication = True
    producer = world.producer()
    producer.send(sequence_id=5)
    topic.deduplication = False
    producer.send(sequence_id=5)
    topic.deduplication = True
    assert producer.send(sequence_id=5) != EARLIEST


def test_the_topic_decides_before_the_namespace(world: Any) -> None:
    world.cluster.namespace("public/default").policies.deduplication = True
    world.topic().deduplication = False
    assert not world.topic().deduplicates


def test_a_topic_that_is_not_stored_knows_nothing(world: Any) -> None:
    world.settings.deduplication = True
    assert not world.topic("non-persistent://public/default/t").deduplicates
