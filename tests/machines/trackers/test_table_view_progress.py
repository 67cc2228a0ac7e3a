"""The read progress of a table view."""

import pytest

from pulsar_actors.machines.trackers.table_view_progress import MessagePlace, TableViewProgress
from pulsar_actors.wire.message_id import MessageId

EMPTY = MessagePlace(0, MessageId(-1, -1))


@pytest.fixture
def progress() -> TableViewProgress[str]:
    return TableViewProgress()


def single(entry: int, ledger: int = 1, moves: int = 0) -> MessagePlace:
    return MessagePlace(moves, MessageId(ledger, entry))


def in_batch(entry: int, index: int, size: int = 3) -> MessagePlace:
    return MessagePlace(0, MessageId(1, entry, batch_index=index, batch_size=size))


def test_an_empty_topic_has_nothing_to_wait_for(progress: TableViewProgress[str]) -> None:
    assert list(progress.wait_for({"t": EMPTY}, "view")) == ["view"]
    assert list(progress.wait_for({}, "view")) == ["view"]


def test_it_is_complete_with_the_last_message_of_each_topic(progress: TableViewProgress[str]) -> None:
    assert not progress.wait_for({"a": single(1), "b": single(0), "c": EMPTY}, "view")
    assert not progress.read("a", single(0))
    assert not progress.read("a", single(1))
    assert list(progress.read("b", single(0))) == ["view"]


def test_messages_that_come_later_are_not_waited_for(progress: TableViewProgress[str]) -> None:
    progress.wait_for({"t": single(1)}, "view")
    assert list(progress.read("t", single(7))) == ["view"]


def test_a_call_that_ended_is_named_once(progress: TableViewProgress[str]) -> None:
    progress.wait_for({"t": single(1)}, "view")
    progress.read("t", single(1))
    assert not progress.read("t", single(2))
    assert not progress.awaited


def test_each_call_waits_for_its_own_messages(progress: TableViewProgress[str]) -> None:
    progress.wait_for({"t": single(1)}, "first")
    progress.wait_for({"t": single(3)}, "second")
    assert list(progress.read("t", single(2))) == ["first"]
    assert list(progress.read("t", single(3))) == ["second"]


def test_what_was_read_before_need_not_be_read_again(progress: TableViewProgress[str]) -> None:
    progress.read("t", single(4))
    assert list(progress.wait_for({"t": single(4)}, "refresh")) == ["refresh"]
    assert not progress.wait_for({"t": single(5)}, "next")


@pytest.mark.parametrize(
    ("last", "read", "is_complete"),
    [
        (in_batch(4, 2), in_batch(4, 1), False),
        (in_batch(4, 2), in_batch(4, 2), True),
        (in_batch(4, 1), in_batch(4, 1), True),  # compaction removed the third
        (single(4), in_batch(4, 1), False),  # the broker named the entry only
        (single(4), in_batch(4, 2), True),
        (in_batch(4, 2), single(4), True),  # the whole entry was passed
        (in_batch(4, 2), in_batch(3, 2), False),
        (single(0, ledger=2), single(9, ledger=1), False),
        (single(9, ledger=1), single(0, ledger=2), True),
    ],
)
def test_a_batch_is_read_with_its_last_message(
    progress: TableViewProgress[str], last: MessagePlace, read: MessagePlace, *, is_complete: bool
) -> None:
    progress.wait_for({"t": last}, "view")
    assert list(progress.read("t", read)) == ["view"] * is_complete


def test_an_entry_without_messages_counts_when_it_has_passed(progress: TableViewProgress[str]) -> None:
    progress.wait_for({"t": in_batch(4, 2)}, "view")
    assert not progress.passed("t", 0, (1, 3))
    assert list(progress.passed("t", 0, (1, 4))) == ["view"]
    assert list(progress.wait_for({"t": single(4)}, "refresh")) == ["refresh"]


def test_what_was_read_in_a_former_cluster_is_not_what_is_waited_for_in_the_next(
    progress: TableViewProgress[str],
) -> None:
    progress.read("t", single(9))
    assert not progress.wait_for({"t": single(0, moves=1)}, "view")
    assert not progress.read("t", single(9))
    assert list(progress.read("t", single(0, moves=1))) == ["view"]


def test_nothing_of_a_former_cluster_is_waited_for_any_longer(progress: TableViewProgress[str]) -> None:
    progress.wait_for({"t": single(9)}, "view")
    assert list(progress.passed("t", 1, (-1, -1))) == ["view"]


def test_nothing_of_a_deleted_topic_is_waited_for(progress: TableViewProgress[str]) -> None:
    progress.wait_for({"a": single(1), "b": single(1)}, "view")
    assert set(progress.awaited) == {"a", "b"}
    progress.read("a", single(1))
    assert list(progress.keep_only({"a"})) == ["view"]
