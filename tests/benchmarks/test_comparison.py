from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.benchmarks import comparison as module
from tests.benchmarks.client_process import Worker, WorkerEnded
from tests.benchmarks.comparison import MOST_WARMING_ROUNDS, Comparison, Participant, lines_of, warm
from tests.benchmarks.contests import CONTESTS, OURS, PRODUCE, Contest
from tests.benchmarks.interpreters import Build
from tests.benchmarks.measured import WINDOW
from tests.support.standalone import Standalone

PURE, COMPILED, OLDER = (
    Build("/a/python", "3.13.0"),
    Build("/a/python", "3.13.0", compiled=True),
    Build("/b/python", "3.10.1"),
)
OUR, OUR_COMPILED, OUR_OLDER = (Participant("ours", build.name) for build in (PURE, COMPILED, OLDER))
OFFICIAL, OFFICIAL_OLDER = Participant("official", "3.13.0"), Participant("official", "3.10.1")
JAVA = Participant("java")
EVERYBODY = (OUR, OFFICIAL, OUR_COMPILED, OUR_OLDER, OFFICIAL_OLDER, JAVA)


class FakeWorker:
    """A worker that answers at once, or ends, and notes who was asked for what in a list that all share."""

    def __init__(self, one: Participant, asked: list[tuple[Participant, dict[str, Any]]]) -> None:
        self._one = one
        self._asked = asked
        self.seconds: Callable[[], float] = lambda: 1.0
        self.fails = False
        self.has_ended = False
        self.restarts = 0

    def ask(self, **request: Any) -> dict[str, Any]:
        self._asked.append((self._one, request))
        if self.fails:
            self.has_ended = True
            raise WorkerEnded("it ended")
        return {"messages": request["messages"], "seconds": self.seconds(), "cpu": 0.5}

    def restart(self) -> None:
        self.has_ended = False
        self.restarts += 1


class Group:
    """A comparison of workers that are not there."""

    def __init__(self, *builds: Build) -> None:
        self.asked: list[tuple[Participant, dict[str, Any]]] = []
        self.workers = {one: FakeWorker(one, self.asked) for one in EVERYBODY}
        self.failures: list[str] = []
        running = cast("dict[Participant, Worker]", self.workers)
        self.comparison = Comparison(
            builds or (PURE, COMPILED, OLDER), running, cast("Standalone", None), self.failures
        )

    def turns(self) -> list[Participant]:
        """Return who sent or received for a contest, in order."""
        return [one for one, _ in self.asked]


def test_each_round_begins_with_another_client_and_has_all_of_them() -> None:
    group = Group()
    group.comparison.hold(PRODUCE, 3, warm_up=0)
    six = len(EVERYBODY)
    rounds = [group.turns()[at : at + six] for at in range(0, 3 * six, six)]
    assert [each[0] for each in rounds] == list(EVERYBODY[:3])
    assert all(set(each) == set(EVERYBODY) for each in rounds)


def test_warm_up_turns_do_not_count() -> None:
    group = Group()
    line, *_ = group.comparison.hold(PRODUCE, 2, warm_up=3)
    assert len(line.values["ours"]) == 2
    assert group.turns().count(JAVA) == 5


def test_all_clients_are_asked_for_the_same_but_the_slow_one_for_fewer_messages() -> None:
    group = Group()
    group.comparison.round(PRODUCE, [OUR, OFFICIAL, JAVA], 0)
    requests = [{**request, "topics": None} for _, request in group.asked]
    assert requests[0] == requests[2] == {**requests[1], "messages": PRODUCE.messages}
    assert requests[1]["messages"] < PRODUCE.messages


def test_each_build_is_beside_the_official_client_of_its_python_and_java() -> None:
    rates = {one: [{"messages": number, "seconds": 1.0, "cpu": 1.0}] for number, one in enumerate(EVERYBODY, 1)}
    found = lines_of(PRODUCE, rates, [PURE, COMPILED, OLDER])
    assert [(line.build, line.values) for line in found] == [
        ("3.13.0", {"ours": [1.0], "official": [2.0], "java": [6.0]}),
        ("3.13.0, compiled", {"ours": [3.0], "official": [2.0], "java": [6.0]}),
        ("3.10.1", {"ours": [4.0], "official": [5.0], "java": [6.0]}),
    ]


def test_a_contest_with_some_builds_asks_only_their_clients() -> None:
    group = Group()
    group.comparison.hold(PRODUCE, 1, builds=[OLDER], warm_up=0)
    assert set(group.turns()) == {OUR_OLDER, OFFICIAL_OLDER, JAVA}


def test_only_our_client_may_take_part() -> None:
    group = Group()
    (line,) = group.comparison.hold(PRODUCE._replace(clients=OURS), 1, builds=[PURE])
    assert set(group.turns()) == {OUR}
    assert line.ratio("official") is None


def test_a_client_that_fails_is_noted_and_started_again_and_the_others_go_on() -> None:
    group = Group(PURE)
    group.workers[JAVA].fails = True
    (line,) = group.comparison.hold(PRODUCE, 3, warm_up=0)
    assert group.failures == [f"java, {PRODUCE.name}: it ended"]
    assert group.workers[JAVA].restarts == 1
    assert (len(line.values["ours"]), len(line.values["official"]), line.spread("java")) == (3, 3, None)


def test_a_contest_that_all_fail_has_no_lines() -> None:
    group = Group(PURE)
    for worker in group.workers.values():
        worker.fails = True
    assert group.comparison.hold(PRODUCE, 2) == []
    assert len(group.failures) == 3


def test_a_broker_is_warm_when_the_official_clients_rates_have_settled() -> None:
    group = Group(PURE)
    seconds = iter([40.0, 40.0, 30.0, 30.0, 20.0, 20.0, 10.0, 10.0])  # one contest after the other, each round
    group.workers[OFFICIAL].seconds = lambda: next(seconds, 5.0)
    warming = warm(group.comparison)
    rates = warming.rates[PRODUCE.name]
    assert warming.settled
    assert 2 * WINDOW < warming.rounds == len(rates) < MOST_WARMING_ROUNDS


def test_warming_ends_even_if_nothing_settles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "has_settled", lambda _: False)
    warming = warm(Group(PURE).comparison)
    assert (warming.settled, warming.rounds) == (False, MOST_WARMING_ROUNDS)


@pytest.mark.parametrize("contest", CONTESTS, ids=lambda contest: contest.name)
def test_a_contest_is_held_by_this_client_and_has_one_name(contest: Contest) -> None:
    assert "ours" in contest.clients
    assert [other.name for other in CONTESTS].count(contest.name) == 1
