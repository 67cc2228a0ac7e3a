from typing import Any

import pytest
from consumer_bench import ledgers

from pulsar_actors.machines.consumer_ledgers import Ledgers
from pulsar_actors.machines.ledgers.ack_outcome import Outcome
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.wire.message_id import EARLIEST, MessageId

FIRST, SECOND = (1, 0), (1, 1)
LATER = 1000.0


@pytest.fixture
def busy() -> Ledgers:
    """Two entries, handed out and refused, each on its last try."""
    made = ledgers(ack_timeout=5.0, max_redeliver_count=1)
    assert made.timeouts is not None
    assert made.dead is not None
    delivery: Any = "a delivery"
    for entry in (FIRST, SECOND):
        made.redelivery.refused(entry, 0, 0.0)
        made.dead.arrived(entry, 1, (delivery,))
    made.timeouts.handed_out([(FIRST, 0), (SECOND, 0)], 0.0)
    return made


def wanted(busy: Ledgers) -> list[list[tuple[int, int]]]:
    """Give what the ledgers want in the end: what was refused, what was not acknowledged in time, and dead letters."""
    assert busy.timeouts is not None
    assert busy.dead is not None
    dead = [entry for entry in (FIRST, SECOND) if busy.dead.refused(entry)]
    return [*(sorted(ledger.take_due(LATER)) for ledger in (busy.redelivery, busy.timeouts)), dead]


def test_nothing_is_done_about_an_entry_that_is_acknowledged(busy: Ledgers) -> None:
    busy.acknowledged(Outcome(entries=[FIRST]))
    assert wanted(busy) == [[SECOND], [SECOND], [SECOND]]


def test_nothing_is_done_about_what_is_acknowledged_with_all_before_it(busy: Ledgers) -> None:
    busy.acknowledged(Outcome(up_to=SECOND))
    assert wanted(busy) == [[], [], []]


@pytest.mark.parametrize("target", [0, EARLIEST])
def test_after_a_seek_nothing_from_before_it_is_due(busy: Ledgers, target: int | MessageId) -> None:
    assert busy.sought(target, Generation().sought()) == ()
    assert busy.next_sweep() is None
    assert wanted(busy) == [[], [], []]


def test_without_a_binding_nothing_is_due(busy: Ledgers) -> None:
    assert busy.next_sweep() is not None
    busy.unbound(1.0)
    assert busy.next_sweep() is None
    assert wanted(busy) == [[], [], []]


def test_what_the_user_has_not_wanted_is_not_missed() -> None:
    bare = ledgers()
    bare.acknowledged(Outcome(entries=[FIRST], up_to=SECOND))
    bare.unbound(0.0)
    bare.sought(0, Generation().sought())
    assert bare.next_sweep() is None
