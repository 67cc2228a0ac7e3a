from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.machines.ledgers.flushes import Flushes


def test_a_flush_waits_for_as_many_as_were_pending_and_not_for_later_ones() -> None:
    flushes: Flushes[str] = Flushes()
    flushes.ask("first", 1)
    flushes.ask("second", 2)
    assert flushes.take_finished(2) == []
    flushes.head_ended()
    assert flushes.take_finished(5) == ["first"]
    flushes.head_ended()
    assert flushes.take_finished(5) == ["second"]


def test_with_nothing_pending_every_flush_is_finished_in_order() -> None:
    flushes: Flushes[str] = Flushes()
    flushes.ask("first", 1)
    flushes.ask("second", 2)
    assert flushes.take_finished(0) == ["first", "second"]
    assert flushes.take_finished(0) == []


@given(st.lists(st.sampled_from(["publish", "flush", "end", "fail last"]), max_size=40))
def test_a_flush_is_never_early_and_never_forgotten(steps: list[str]) -> None:
    flushes: Flushes[int] = Flushes()
    pending: list[int] = []
    waits_for: dict[int, set[int]] = {}
    for number, step in enumerate(steps):
        if step == "publish":
            pending.append(number)
        elif step == "flush":
            waits_for[number] = set(pending)
            flushes.ask(number, len(pending))
        elif step == "end" and pending:
            pending.pop(0)
            flushes.head_ended()
        elif step == "fail last" and pending:
            pending.pop()
        for finished in flushes.take_finished(len(pending)):
            assert waits_for.pop(finished).isdisjoint(pending)
        assert pending or not waits_for
