import itertools
import threading
import time
from pathlib import Path

import pytest

from pulsar_actors.cli.perf import load


def first(count: int, keys: load.KeyMode, properties: dict[str, str] | None = None) -> list[load.PayloadAndOptions]:
    return list(itertools.islice(load.endless_contents([b"a", b"b"], keys, properties or {}), count))


@pytest.mark.parametrize("size", [0, 1, 100, 70_000])
def test_a_payload_has_its_size_and_is_the_same_in_each_run(size: int) -> None:
    assert len(load.random_letters(size)) == size
    assert load.random_letters(size) == load.random_letters(size)


def test_the_payloads_of_a_file_are_separated_by_delimiters(tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_bytes(b"one\ntwo\n\nthree \xff\n")
    assert load.payloads_from_file(file, r"\n") == [b"one", b"two", b"three \xff"]
    file.write_bytes(b"one;two")
    assert load.payloads_from_file(file, ";") == [b"one", b"two"]


def test_a_file_without_payloads_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "nothing"
    file.write_bytes(b"\n\n")
    with pytest.raises(ValueError, match="nothing has no payload"):
        load.payloads_from_file(file, r"\n")


def test_payloads_come_in_turn_and_without_other_options() -> None:
    assert first(3, load.KeyMode.none) == [(b"a", {}), (b"b", {}), (b"a", {})]


def test_keys_are_counted_up() -> None:
    assert [fields["partition_key"] for _, fields in first(3, load.KeyMode.increment)] == ["0", "1", "2"]


def test_random_keys_repeat() -> None:
    keys = [fields["partition_key"] for _, fields in first(30_000, load.KeyMode.random)]
    assert 9_000 < len(set(keys)) <= 10_000


def test_each_message_has_the_properties() -> None:
    assert first(2, load.KeyMode.none, {"x": "1"}) == [
        (b"a", {"properties": {"x": "1"}}),
        (b"b", {"properties": {"x": "1"}}),
    ]


@pytest.fixture
def done() -> threading.Event:
    return threading.Event()


def test_without_a_rate_messages_are_always_due(done: threading.Event) -> None:
    pace = load.Pace(0, None, done)
    pace.begin()
    assert [pace.next() for _ in range(3)] == [load.MESSAGES_PER_CHECK] * 3


def test_no_more_messages_are_sent_than_the_limit(done: threading.Event) -> None:
    pace = load.Pace(0, load.MESSAGES_PER_CHECK + 1, done)
    pace.begin()
    assert [pace.next() for _ in range(4)] == [load.MESSAGES_PER_CHECK, 1, 0, 0]


def test_all_messages_that_are_due_are_sent_and_no_others(done: threading.Event) -> None:
    pace = load.Pace(1000, 100, done)
    pace.begin()
    sent = 0
    while count := pace.next():
        sent += count
        assert time.perf_counter() >= pace.due_at(sent - 1)
    assert sent == 100


def test_a_sender_that_fell_behind_catches_up_and_messages_keep_their_due_times(done: threading.Event) -> None:
    pace = load.Pace(1000, None, done)
    pace.begin()
    pace.start -= 0.05
    assert 50 <= pace.next() <= load.MESSAGES_PER_CHECK
    assert pace.due_at(50) - pace.due_at(0) == pytest.approx(0.05)


def test_the_end_of_a_run_ends_the_wait_for_a_due_message(done: threading.Event) -> None:
    pace = load.Pace(0.001, None, done)
    pace.begin()
    assert pace.next() == 1  # the first is due at once
    threading.Timer(0.05, done.set).start()
    began = time.perf_counter()
    assert pace.next() == 0
    assert time.perf_counter() - began < 30


def test_a_sender_may_ask_for_one_message_at_a_time(done: threading.Event) -> None:
    pace = load.Pace(0, 2, done)
    pace.begin()
    assert [pace.next(1) for _ in range(3)] == [1, 1, 0]
