"""The entries that no key decrypts."""

from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.negative_acks_tracker import RedeliveryDelay
from pulsar_actors.machines.trackers.undecryptable_entries import HeldPermits, UndecryptableEntries

ONE, THREE = HeldPermits(Generation(), 1), HeldPermits(Generation(), 3)


def test_an_entry_is_due_after_the_timeout_with_its_permits() -> None:
    entries = UndecryptableEntries(10.0)
    entries.put(((1, 0),), THREE, 0, 0.0)
    assert entries.next_due() == 10.0
    assert entries.take_due(9.9) == ([], [])
    assert entries.take_due(10.0) == ([(1, 0)], [THREE])
    assert entries.next_due() is None


def test_an_entry_that_comes_twice_is_asked_for_once_and_holds_the_permits_of_both() -> None:
    entries = UndecryptableEntries(10.0)
    entries.put(((1, 0),), ONE, 0, 0.0)
    entries.put(((1, 0),), ONE, 1, 5.0)
    assert entries.take_due(10.0) == ([], [])
    assert entries.take_due(15.0) == ([(1, 0)], [ONE, ONE])


def test_all_chunks_of_a_message_come_again() -> None:
    entries = UndecryptableEntries(10.0)
    entries.put(((1, 0), (1, 2)), ONE, 0, 0.0)
    assert entries.take_due(10.0) == ([(1, 0), (1, 2)], [ONE])


def test_what_was_redelivered_often_waits_longer() -> None:
    entries = UndecryptableEntries(10.0, RedeliveryDelay(5.0))
    entries.put(((1, 0),), ONE, 1, 0.0)
    assert entries.next_due() == 15.0


def test_nothing_is_left_after_a_new_start() -> None:
    entries = UndecryptableEntries(10.0)
    entries.put(((1, 0),), ONE, 0, 0.0)
    entries.clear()
    assert entries.next_due() is None
    assert entries.take_due(99.0) == ([], [])
