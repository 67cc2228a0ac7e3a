from types import SimpleNamespace
from typing import Any

import pytest
from steps import steps

from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.client.sets.producer_crew import ProducerCrew
from pulsar_actors.exceptions import AlreadyClosed, ProducerBusy
from pulsar_actors.machines.topic_set_events import Admit, MakeMember, Wanted
from pulsar_actors.runtime.ties import Ties
from pulsar_actors.wire.topic_name import TopicName

TOPIC = TopicName.parse("t")
BUSY = ProducerBusy("ProducerBusy", "no")
CLOSED, LATER = AlreadyClosed("it is closed"), AlreadyClosed("it is closed again")


def part(number: int) -> str:
    return str(TOPIC.partition(number))


class Workshop:
    """It makes parts, and no producers."""

    def producer_parts(self, options: ProducerOptions) -> Any:
        topic = TopicName.parse(options.topic)
        door = SimpleNamespace(tell=lambda _: None)
        reports = Reports(str(topic), topic.partition_index)
        ended: list[Exception] = []
        outbox = SimpleNamespace(end=ended.append)
        return SimpleNamespace(
            door=door, reports=reports, ties=Ties(), options=options, outbox=outbox, end=ended.append, ended=ended
        )

    def start_producer(self, *_: object, **__: object) -> None:
        """Leave it to the test."""


@pytest.fixture(autouse=True)
def made_by_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("producer_parts", "start_producer"):
        crew = f"pulsar_actors.client.sets.producer_crew.{name}"
        monkeypatch.setattr(crew, getattr(Workshop, name))


class Bench:
    def __init__(self) -> None:
        self.workshop: Any = Workshop()
        self.heard: list[object] = []
        self.crew = ProducerCrew(self.workshop, ProducerOptions(topic="t", max_pending_messages_across_partitions=60))

    def make(self, *numbers: int, among: int = 3) -> None:
        """Have producers made, whose member has the number of the partition."""
        for number in numbers:
            self.crew.make(MakeMember(number, part(number), "name", among), self.heard.append)

    def admit(self, *numbers: int, resting: tuple[str, ...] = ()) -> None:
        self.crew.admit(Admit({part(number): number for number in numbers}, resting=resting), self.heard.append)

    def shown(self) -> list[str]:
        return [parts.reports.topic for parts in self.crew.partitions]


def test_callers_see_the_partitions_up_to_the_first_that_has_no_producer() -> None:
    bench = Bench()
    bench.make(0, 1, 2, 3)
    bench.admit(3)
    bench.admit(1)
    assert bench.shown() == []
    bench.admit(0)
    assert bench.shown() == [part(0), part(1)]
    bench.admit(2)
    assert bench.shown() == [part(0), part(1), part(2), part(3)]


def test_one_that_has_gone_keeps_its_place() -> None:
    bench = Bench()
    bench.make(0, 1)
    bench.admit(0, 1)
    bench.crew.admit(Admit({}, gone=(part(0),)), bench.heard.append)
    assert bench.shown() == [part(0), part(1)]


def test_a_place_that_rests_tells_the_set_what_is_wanted_and_has_its_share_of_what_may_be_pending() -> None:
    bench = Bench()
    bench.make(1)
    bench.admit(1)
    bench.admit(resting=(part(0), part(2)))
    assert bench.shown() == [part(0), part(1), part(2)]
    first: Any = bench.crew.partitions[0]
    assert first.options.max_pending_messages == 20
    first.door.tell("there is something")
    assert bench.heard == [Wanted(part(0))]
    bench.admit(resting=(part(0), part(2)))
    assert bench.crew.partitions[0] is first


def test_a_place_whose_producer_could_not_be_made_is_made_anew_where_it_was() -> None:
    bench = Bench()
    bench.admit(resting=(part(0), part(1)))
    first: Any = bench.crew.partitions[0]
    bench.make(0)
    first.ties.created.set_exception(BUSY)
    bench.crew.lose(0, bench.heard.append)
    assert bench.shown() == [part(0), part(1)]
    again: Any = bench.crew.partitions[0]
    assert again is not first
    assert again.options.max_pending_messages == 30


def test_one_that_was_there_and_has_ended_keeps_its_place() -> None:
    bench = Bench()
    bench.admit(resting=(part(0), part(1)))
    first: Any = bench.crew.partitions[0]
    bench.make(0)
    first.ties.created.set_result(None)
    bench.admit(0)
    bench.crew.lose(0, bench.heard.append)
    assert bench.crew.partitions[0] is first


def test_the_end_fails_what_waits_for_a_producer_and_leaves_the_rest_to_the_producers() -> None:
    bench = Bench()
    bench.admit(resting=(part(0), part(1)))
    places: list[Any] = list(bench.crew.partitions)
    bench.make(0)
    bench.crew.end(CLOSED)
    assert [place.ended for place in places] == [[], [CLOSED]]
    bench.crew.end(LATER)
    assert bench.crew.closed is CLOSED


def test_a_place_that_is_made_anew_after_the_end_refuses_what_comes() -> None:
    bench = Bench()
    bench.admit(resting=(part(0),))
    first: Any = bench.crew.partitions[0]
    bench.make(0)
    bench.crew.end(CLOSED)
    first.ties.created.set_exception(BUSY)
    bench.crew.lose(0, bench.heard.append)
    again: Any = bench.crew.partitions[0]
    assert again.ended == [CLOSED]


@pytest.mark.parametrize("fails", [False, True])
def test_twice_as_many_partitions_take_twice_as_many_steps(*, fails: bool) -> None:
    taken: list[int] = []
    for size in (50, 100):
        bench = Bench()
        bench.admit(resting=tuple(part(number) for number in range(size)))
        places: list[Any] = list(bench.crew.partitions)

        def come(bench: Bench = bench, places: list[Any] = places) -> None:
            for number, place in enumerate(places):
                bench.make(number, among=len(places))
                if fails:
                    place.ties.created.set_exception(BUSY)
                    bench.crew.lose(number, bench.heard.append)
                else:
                    bench.admit(number)

        taken.append(steps(come))
    assert taken[1] < 2.2 * taken[0]
