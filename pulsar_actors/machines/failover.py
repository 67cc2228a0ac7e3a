"""Which of several clusters a client is with: the first that is there, and the primary above all.

Now and then the cluster in use is probed. When it could not be reached so many times in a row, the others are tried in
their order, the primary first, and the first that can be reached is used; if there is none, all stays as it is, and the
next check tries again. While another than the primary is in use, the primary is probed as well, and used again when it
could be reached so many times in a row.

A probe is over before the next thing happens, so a cluster that is slow to answer is not asked twice at once. What a
probe is, is the actor's business.
"""

from enum import Enum, unique
from typing import Final, NamedTuple

from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Event, Row
from pulsar_actors.machines.failover_events import Begin, CheckDue, End, Probe, Probed, Use
from pulsar_actors.machines.machine import StateMachine

PRIMARY: Final = 0


@unique
class State(Enum):
    """Where a failover can be."""

    IDLE = "Made, but not begun."
    RESTING = "Waits until it is time to look again."
    CHECKING = "Probes the cluster in use."
    SEARCHING = "Probes the others, one after the other, for the one in use is gone."
    LOOKING_BACK = "Probes the primary, while another is in use."
    OVER = "Ended."


IDLE, RESTING, CHECKING, SEARCHING, LOOKING_BACK, OVER = State
ALIVE: Final = (IDLE, RESTING, CHECKING, SEARCHING, LOOKING_BACK)

# fmt: off
ROWS: Final = (
    #   trigger    source         dest           guard               does
    Row(Begin,     IDLE,          CHECKING,      None,               "check"),
    Row(CheckDue,  RESTING,       CHECKING,      None,               "check"),
    Row(Probed,    CHECKING,      SEARCHING,     "has_gone",         "search"),
    Row(Probed,    CHECKING,      LOOKING_BACK,  "is_away",          "look_back"),
    Row(Probed,    CHECKING,      RESTING,       None,               "rest"),
    Row(Probed,    SEARCHING,     RESTING,       "is_reachable",     "switch"),
    Row(Probed,    SEARCHING,     INTERNAL,      "has_another",      "search_on"),
    Row(Probed,    SEARCHING,     RESTING,       None,               "stay"),
    Row(Probed,    LOOKING_BACK,  RESTING,       "has_come_back",    "return_home"),
    Row(Probed,    LOOKING_BACK,  RESTING,       None,               "count"),
    Row(End,       ALIVE,         OVER),

    # Too late, or too early to mean anything.
    Row(End,       OVER,                                        INTERNAL),
    Row(Probed,    (IDLE, RESTING, OVER),                       INTERNAL),
    Row(CheckDue,  (IDLE, CHECKING, SEARCHING, LOOKING_BACK, OVER), INTERNAL),
)
# fmt: on

CHART: Final = Chart("failover", states=State, initial=IDLE, final=[OVER], ours=(Begin, End), rows=ROWS)


class Terms(NamedTuple):
    """How many clusters there are, how often to look (in seconds), and how many probes in a row make up one's mind."""

    clusters: int
    interval: float
    failures: int
    successes: int


class Failover(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order."""

    __slots__ = ("_asked", "_candidates", "_current", "_failures", "_probe", "_successes", "_terms")

    def __init__(self, terms: Terms) -> None:
        super().__init__()
        self._terms = terms
        self._current = PRIMARY
        self._failures = 0  # of the cluster in use, in a row
        self._successes = 0  # of the primary, in a row
        self._candidates: list[int] = []
        self._probe = 0
        self._asked = PRIMARY

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Drop the answers to earlier probes."""
        if getattr(event, "probe", self._probe) != self._probe:
            return []
        return super().handle(event, now)

    def check(self, event: Begin | CheckDue, now: float) -> Effects:
        """See whether the cluster in use is there."""
        return [self._ask(self._current)]

    def has_gone(self, event: Probed, now: float) -> bool:
        """Hold when it has not been reached for too long."""
        return not event.reachable and self._failures + 1 >= self._terms.failures

    def search(self, event: Probed, now: float) -> Effects:
        """Try the other clusters.

        The primary is among them: if it is not there, its successes so far were not in a row.
        """
        self._failures += 1
        self._successes = 0
        self._candidates = [each for each in range(self._terms.clusters) if each != self._current]
        return [self._ask(self._candidates.pop(0))]

    def is_away(self, event: Probed, now: float) -> bool:
        """Hold while another than the primary is in use."""
        return self._current != PRIMARY

    def look_back(self, event: Probed, now: float) -> Effects:
        """See whether the primary is there again."""
        self._note(event)
        return [self._ask(PRIMARY)]

    def rest(self, event: Probed, now: float) -> Effects:
        """Look again later."""
        self._note(event)
        return self._rest()

    def is_reachable(self, event: Probed, now: float) -> bool:
        """Hold when it is there."""
        return event.reachable

    def switch(self, event: Probed, now: float) -> Effects:
        """Use the one that was just found."""
        return self._use(self._asked)

    def has_another(self, event: Probed, now: float) -> bool:
        """Hold while one has not been tried."""
        return bool(self._candidates)

    def search_on(self, event: Probed, now: float) -> Effects:
        """Try the next cluster."""
        return [self._ask(self._candidates.pop(0))]

    def stay(self, event: Probed, now: float) -> Effects:
        """Keep the one in use: it is as good as any other."""
        return self._rest()

    def has_come_back(self, event: Probed, now: float) -> bool:
        """Hold when the primary has been there for long enough."""
        return event.reachable and self._successes + 1 >= self._terms.successes

    def return_home(self, event: Probed, now: float) -> Effects:
        """Use the primary again."""
        return self._use(PRIMARY)

    def count(self, event: Probed, now: float) -> Effects:
        """Note whether it was there, and look again later."""
        self._successes = self._successes + 1 if event.reachable else 0
        return self._rest()

    def _note(self, event: Probed) -> None:
        self._failures = 0 if event.reachable else self._failures + 1

    def _ask(self, cluster: int) -> Effect:
        self._probe += 1
        self._asked = cluster
        return Probe(self._probe, cluster)

    def _use(self, cluster: int) -> Effects:
        self._current, self._failures, self._successes = cluster, 0, 0
        return [Use(cluster), *self._rest()]

    def _rest(self) -> Effects:
        return [self.timers.start(CheckDue, self._terms.interval)]
