from typing import Any

import pytest

from pulsar_actors.machines.auto_cluster_failover import (
    AutoClusterFailoverMachine,
    CheckDue,
    ClusterProbed,
    FailoverSettings,
    ProbeCluster,
    StartFailover,
    State,
    StopFailover,
    UseCluster,
)
from tests.machines.driven import Driven

TERMS = FailoverSettings(clusters=3, interval=5.0, failures=2, successes=2)


class Watched(Driven):
    """A failover, and who can be reached at the moment."""

    def __init__(self, terms: FailoverSettings = TERMS, *, up: set[int] | None = None) -> None:
        self.up = {0, 1, 2} if up is None else up
        self.used: list[int] = []
        self.probed: list[int] = []
        super().__init__(AutoClusterFailoverMachine(terms))
        self.go(self.tell(StartFailover()))

    def go(self, effects: list[Any]) -> None:
        """Answer probes until it rests."""
        while probes := [each for each in effects if isinstance(each, ProbeCluster)]:
            (probe,) = probes
            self.probed.append(probe.cluster)
            effects = self.tell(ClusterProbed(probe.probe, probe.cluster in self.up))
            self.used += [each.cluster for each in self.did(UseCluster)]

    def check(self, times: int = 1) -> list[int]:
        """Let so many intervals pass, and give the clusters that were probed."""
        self.probed = []
        for _ in range(times):
            self.go(self.fire(CheckDue))
        return self.probed


def test_it_looks_at_once_and_then_every_interval() -> None:
    driven = Watched()
    assert driven.probed == [0]
    assert driven.timers[CheckDue].delay == 5.0
    assert driven.check(3) == [0, 0, 0]
    assert driven.used == []


def test_so_many_failures_in_a_row_lead_to_the_first_of_the_others_that_is_there() -> None:
    driven = Watched(up={2})
    assert driven.used == []
    assert driven.check() == [0, 1, 2]
    assert driven.used == [2]


def test_a_success_in_between_forgives_the_failures() -> None:
    driven = Watched(up={1})
    driven.up = {0, 1}
    driven.check()
    driven.up = {1}
    driven.check()
    assert driven.used == []
    driven.check()
    assert driven.used == [1]


def test_when_nobody_is_there_it_stays_and_searches_again_at_the_next_check() -> None:
    driven = Watched(up=set())
    assert driven.check(2) == [0, 1, 2, 0, 1, 2]
    driven.up = {2}
    driven.check()
    assert driven.used == [2]


def test_the_primary_is_used_again_when_it_was_there_so_many_times_in_a_row() -> None:
    driven = Watched(up={1})
    driven.check()
    driven.up = {0, 1}
    assert driven.check() == [1, 0]
    driven.up = {1}
    driven.check()
    driven.up = {0, 1}
    driven.check()
    assert driven.used == [1]
    driven.check()
    assert driven.used == [1, 0]
    assert driven.check() == [0]


def test_a_primary_that_was_searched_for_in_vain_begins_its_successes_anew() -> None:
    driven = Watched(TERMS._replace(failures=1), up={1})
    driven.up = {0, 1}
    driven.check()
    driven.up = set()
    assert driven.check() == [1, 0, 2]
    driven.up = {0, 1}
    driven.check()
    assert driven.used == [1]
    driven.check()
    assert driven.used == [1, 0]


def test_one_of_the_others_that_goes_as_well_is_left_for_the_primary_first() -> None:
    driven = Watched(up={1})
    driven.check()
    driven.up = {0, 2}
    driven.check()
    assert driven.check() == [1, 0]
    assert driven.used == [1, 0]


def test_while_another_fails_for_the_first_time_the_primary_is_looked_at_too() -> None:
    driven = Watched(TERMS._replace(failures=2, successes=1), up={1})
    driven.check()
    driven.up = {0}
    assert driven.check() == [1, 0]
    assert driven.used == [1, 0]


def test_after_the_end_nothing_is_done() -> None:
    driven = Driven(AutoClusterFailoverMachine(TERMS), StartFailover())
    (probe,) = driven.effects
    driven.tell(StopFailover())
    assert driven.machine.state is State.OVER
    assert driven.tell(ClusterProbed(probe.probe, reachable=False), StopFailover()) == []


@pytest.mark.parametrize("number", [0, 2])
def test_the_answer_to_another_probe_is_dropped(number: int) -> None:
    driven = Driven(AutoClusterFailoverMachine(TERMS), StartFailover())
    assert driven.tell(ClusterProbed(number, reachable=True)) == []
    assert driven.machine.state is State.CHECKING
