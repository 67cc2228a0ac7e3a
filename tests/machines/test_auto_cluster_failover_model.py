"""Whatever clusters do, a failover keeps its promises; a chart that breaks one is found out."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pulsar_actors.machines.auto_cluster_failover import (
    CHART,
    PRIMARY,
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
from pulsar_actors.machines.state_machine import StartTimer
from tests.machines.mutants import Fault, Hunt, fault, hunting

TERMS = st.builds(
    FailoverSettings, st.integers(2, 4), st.sampled_from([1.0, 30.0]), st.integers(1, 2), st.integers(1, 3)
)


class AnyFailover(RuleBasedStateMachine):
    """A failover, and a record of which cluster could be reached when it was probed."""

    machine_class: Any = AutoClusterFailoverMachine
    starts: tuple[int, ...] = (0, 1, 2)

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.up = {0, 1, 2, 3}
        self.current = PRIMARY
        self.failures = 0  # of the cluster in use, in a row
        self.successes = 0  # of the primary, in a row, since it was left
        self.tried: list[int] = []  # since the last check began, without the one in use
        self.reached: int | None = None  # what the last answer said is there
        self.probe: ProbeCluster | None = None
        self.timer: StartTimer | None = None
        self.answered: list[int] = []
        self.fired: list[CheckDue] = []
        self.is_new = False  # the one in use: nobody needs to look around
        self.over = False

    @initialize(data=st.data(), terms=TERMS, life=st.sampled_from([0, 5, 50]))
    def go_some_way(self, data: st.DataObject, terms: FailoverSettings, life: int) -> None:
        self.terms, self.life = terms, life
        self.machine: AutoClusterFailoverMachine = self.machine_class(terms)
        self.tell(StartFailover())
        for _ in range(data.draw(st.sampled_from(self.starts))):
            self.advance()

    # What the failover does.

    def tell(self, event: Any) -> None:
        for effect in self.machine.handle(event, self.now):
            assert not self.over, "did something after the end"
            match effect:
                case ProbeCluster():
                    self.ask(effect)
                case UseCluster(cluster):
                    self.use(cluster)
                case StartTimer():
                    self.rest(effect)

    def ask(self, probe: ProbeCluster) -> None:
        assert self.probe is None, "probes two at once"
        assert self.timer is None, "probes while it rests"
        assert probe.cluster not in self.tried, "probes one twice"
        self.probe = probe

    def use(self, cluster: int) -> None:
        assert cluster == self.reached, "uses one that was not reached"
        assert cluster != self.current, "uses the one in use"
        if self.has_gone:
            before = [each for each in range(cluster) if each != self.current]
            assert self.tried == [*before, cluster], "passed over one that stands before it"
        else:
            assert cluster == PRIMARY, "left one that is there"
            assert self.successes >= self.terms.successes, "returned too early"
        self.current, self.failures, self.successes, self.is_new = cluster, 0, 0, True

    def rest(self, timer: StartTimer) -> None:
        assert self.timer is None, "rests twice"
        assert timer.delay == self.terms.interval, "looks at another time"
        others = [each for each in range(self.terms.clusters) if each != self.current]
        if self.has_gone:
            assert self.tried == others, "stayed with one that has gone, and has not tried all others"
            assert self.reached is None, "stayed with one that has gone, and another is there"
        elif self.current != PRIMARY and not self.is_new:
            assert PRIMARY in self.tried, "did not look back"
            assert self.successes < self.terms.successes, "stays away from the primary"
        self.timer = timer

    @property
    def has_gone(self) -> bool:
        return self.failures >= self.terms.failures

    # What clusters and time do.

    @rule(up=st.sets(st.integers(0, 3)), times=st.integers(0, 5))
    def others_are_there(self, up: set[int], times: int) -> None:
        self.up = up
        for _ in range(times):
            self.advance()

    def answer(self, *, reachable: bool) -> None:
        probe, self.probe = self.probe, None
        assert probe is not None
        self.answered.append(probe.probe)
        self.reached = probe.cluster if reachable else None
        if probe.cluster == self.current:
            self.failures = 0 if reachable else self.failures + 1
        else:
            self.tried.append(probe.cluster)
        if probe.cluster == PRIMARY != self.current:
            self.successes = self.successes + 1 if reachable else 0
        self.tell(ClusterProbed(probe.probe, reachable))

    def wait(self) -> None:
        timer, self.timer, self.tried, self.is_new = self.timer, None, [], False
        assert timer is not None
        self.now += timer.delay
        self.fired.append(timer.event)
        self.tell(timer.event)

    @rule()
    def go_on(self) -> None:
        self.advance()

    def advance(self) -> None:
        """Find out what is asked, or let time pass."""
        if self.probe is not None:
            self.answer(reachable=self.probe.cluster in self.up)
        elif self.timer is not None:
            self.wait()

    @precondition(lambda self: self.answered)
    @rule(data=st.data(), reachable=st.booleans())
    def answer_again(self, data: st.DataObject, *, reachable: bool) -> None:
        self.tell(ClusterProbed(data.draw(st.sampled_from(self.answered)), reachable))

    @precondition(lambda self: self.fired)
    @rule(data=st.data())
    def a_timer_fires_again(self, data: st.DataObject) -> None:
        self.tell(data.draw(st.sampled_from(self.fired)))

    @precondition(lambda self: len(self.answered) >= self.life)
    @rule()
    def end(self) -> None:
        self.tell(StopFailover())
        self.fired += [self.timer.event] if self.timer else []
        self.over, self.probe, self.timer = True, None, None

    # What holds all the time.

    @invariant()
    def it_looks_on_until_its_end(self) -> None:
        if hasattr(self, "machine"):
            assert self.over or self.probe or self.timer, "waits for nothing"
            assert (self.machine.state is State.OVER) == self.over, "went on after the end"


MODEL = settings(max_examples=150, stateful_step_count=30)


def test_every_promise_of_a_failover_holds() -> None:
    run_state_machine_as_test(AnyFailover, settings=MODEL)


def always(machine: AutoClusterFailoverMachine, event: ClusterProbed, now: float) -> bool:
    return True


def never(machine: AutoClusterFailoverMachine, event: ClusterProbed, now: float) -> bool:
    return False


def probe_first_and_keep_count(machine: AutoClusterFailoverMachine, event: ClusterProbed, now: float) -> Any:
    successes = machine._successes
    effects = machine.probe_first(event, now)
    machine._successes = successes
    return effects


FURTHER: dict[str, Callable[..., Any]] = {
    "always": always,
    "never": never,
    "probe_first_and_keep_count": probe_first_and_keep_count,
}
"""Guards and actions that only faults name."""


# fmt: off
FAULTS = [
    # It goes to whom it has reached, in their order, and not before the one in use has gone.
    fault(ClusterProbed, State.CHECKING, "probe_first", {"guard": "never"},
          "has not tried all others", "others_are_there"),
    fault(ClusterProbed, State.CHECKING, "probe_first", {"guard": "always"},
          "left one that is there|another is there", "others_are_there"),
    fault(ClusterProbed, State.SEARCHING, "use_probed", {"does": "stay"},
          "has not tried all others|another is there", "others_are_there"),
    fault(ClusterProbed, State.SEARCHING, "probe_next", {"dest": State.WAITING, "does": "stay"},
          "has not tried all others", "others_are_there"),
    fault(ClusterProbed, State.SEARCHING, "probe_next", {"dest": State.WAITING, "does": "use_probed"},
          "uses one that was not reached", "others_are_there"),
    fault(ClusterProbed, State.SEARCHING, "stay", {"does": "use_probed"},
          "uses one that was not reached", "others_are_there"),
    # The primary is looked at, and returned to in time.
    fault(ClusterProbed, State.CHECKING, "probe_primary", {"guard": "never"},
          "did not look back", "others_are_there"),
    fault(ClusterProbed, State.CHECKING_PRIMARY, "return_to_primary", {"does": "count_success"},
          "stays away from the primary|did not look back", "others_are_there"),
    fault(ClusterProbed, State.CHECKING_PRIMARY, "count_success", {"does": "return_to_primary"},
          "returned too early|uses one", "others_are_there"),
    fault(ClusterProbed, State.CHECKING, "probe_first", {"does": "probe_first_and_keep_count"},
          "returned too early", "others_are_there"),
    # It looks on, but one thing at a time.
    fault(ClusterProbed, State.CHECKING, "wait", {"does": None},
          "waits for nothing"),
    fault(CheckDue, State.WAITING, "check", {"does": None},
          "waits for nothing"),
    fault(CheckDue, State.CHECKING, None, {"does": "check"},
          "probes two at once|probes one twice", "a_timer_fires_again"),
    fault(ClusterProbed, State.WAITING, None, {"does": "stay"},
          "rests twice", "answer_again"),
    # The end is the end.
    fault(CheckDue, State.OVER, None, {"does": "check"},
          "did something after the end|probes two at once", "end", "a_timer_fires_again"),
    fault(ClusterProbed, State.OVER, None, {"does": "stay"},
          "did something after the end|rests twice", "end", "answer_again"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    never_stuck = fault._replace(rules=fault.rules | {"go_on"})  # an answer has to be waited for
    Hunt(CHART, AutoClusterFailoverMachine, AnyFailover, FURTHER, hunting(MODEL, 30)).find_out(never_stuck, 1)
