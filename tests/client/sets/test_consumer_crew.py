import gc
import weakref
from types import SimpleNamespace
from typing import Any

import pytest

from pulsar_actors.client.consuming.consumer_machine import Start
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.news import News
from pulsar_actors.client.sets.consumer_crew import ConsumerCrew
from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.machines.topic_set_events import Admit, MakeMember
from pulsar_actors.runtime.ties import Ties
from pulsar_actors.wire.message_id import EARLIEST, LATEST
from pulsar_actors.wire.topic_name import TopicName

TOPIC = TopicName.parse("t")
CLOSED = AlreadyClosed("it is closed")
AT_THE_END = Start(LATEST, inclusive=False)


def part(number: int) -> str:
    return str(TOPIC.partition(number))


class FanIn:
    """It writes down what callers may get at by it, and whose consumers they are shown at that moment."""

    def __init__(self, members: dict[str, Any]) -> None:
        self._members = members
        self.lanes: dict[str, Any] = {}
        self.shown_before: list[set[str]] = []
        self.ended: list[Exception] = []
        self.end = self.ended.append

    def admit(self, lanes: dict[str, Any]) -> None:
        self.shown_before.append(set(self._members))
        self.lanes.update(lanes)

    def dismiss(self, topics: tuple[str, ...]) -> None:
        for topic in topics:
            del self.lanes[topic]


class Workshop:
    """It makes parts, and notes what would be made of them."""

    def __init__(self) -> None:
        self.started: list[tuple[str, int, Start | None, bool]] = []

    def consumer_parts(self, options: ConsumerOptions, start: Start | None, make_lane: object) -> Any:
        class Made(SimpleNamespace):
            """Parts, of which others may have weak references."""

        return Made(hand_off=object(), ties=Ties(), options=options, start=start)

    def start_consumer(
        self, parts: Any, options: ConsumerOptions, start: Start | None, *_: object, may_create: bool, placed: object
    ) -> None:
        assert parts.start == start
        self.started.append((options.topics[0], options.receiver_queue_size, start, may_create))


@pytest.fixture(autouse=True)
def made_by_the_bench(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("consumer_parts", "start_consumer"):
        crew = f"pulsar_actors.client.sets.consumer_crew.{name}"
        monkeypatch.setattr(crew, getattr(Workshop, name))


class Bench:
    def __init__(self, start: Start | None = None, **options: Any) -> None:
        self.workshop: Any = Workshop()
        members: dict[str, Any] = {}
        self.fan_in = FanIn(members)
        self.called: list[str] = []
        self.parts: Any = SimpleNamespace(
            hand_off=self.fan_in,
            members=members,
            options=ConsumerOptions(topic="t", subscription_name="s", **options),
            pump=SimpleNamespace(arrived=lambda: self.called.append("the listener")),
        )
        self.crew = ConsumerCrew(self.workshop, self.parts, start, lambda _: None, News(None))

    def make(self, number: int, *, among: int = 2, may_create: bool = True, later: bool = False) -> None:
        order = MakeMember(number, part(number), "", among, may_create, later)
        self.crew.make(order, lambda _: None)

    def admit(self, *numbers: int, gone: tuple[str, ...] = ()) -> None:
        self.crew.admit(Admit({part(number): number for number in numbers}, gone), lambda _: None)


def test_a_reader_reads_what_comes_later_from_its_first_message_on() -> None:
    bench = Bench(AT_THE_END)
    bench.make(0)
    bench.make(1, later=True)
    assert [start for _, _, start, _ in bench.workshop.started] == [AT_THE_END, Start(EARLIEST, inclusive=True)]


def test_where_a_subscription_that_lasts_begins_is_for_the_broker_to_say() -> None:
    bench = Bench()
    bench.make(0, later=True)
    assert [start for _, _, start, _ in bench.workshop.started] == [None]


def test_only_what_may_be_created_is() -> None:
    bench = Bench()
    bench.make(0, may_create=False)
    bench.make(1, may_create=True)
    assert [may_create for _, _, _, may_create in bench.workshop.started] == [False, True]


def test_each_has_its_share_of_the_places_and_at_least_one() -> None:
    bench = Bench(receiver_queue_size=10, max_total_receiver_queue_size_across_partitions=12)
    for among in (1, 2, 4, 100):
        bench.make(among, among=among)
    assert [size for _, size, _, _ in bench.workshop.started] == [10, 6, 3, 1]


def test_callers_are_shown_a_consumer_before_they_can_get_messages_of_it() -> None:
    bench = Bench()
    bench.make(0)
    bench.make(1)
    bench.admit(0, 1)
    assert bench.fan_in.shown_before == [{part(0), part(1)}]
    assert bench.fan_in.lanes == {topic: parts.hand_off for topic, parts in bench.parts.members.items()}


def test_of_what_has_gone_callers_get_nothing_more() -> None:
    bench = Bench()
    bench.make(0)
    bench.make(1)
    bench.admit(0, 1)
    bench.admit(gone=(part(0),))
    assert bench.parts.members.keys() == bench.fan_in.lanes.keys() == {part(1)}


def test_a_listener_hears_of_what_came_before_its_consumer_was_shown_and_of_the_end() -> None:
    bench = Bench()
    bench.make(0)
    assert bench.called == []
    bench.admit(0)
    assert bench.called == ["the listener"]
    bench.crew.end(CLOSED)
    assert bench.fan_in.ended == [CLOSED]
    assert bench.called == ["the listener"] * 2


def test_a_consumer_that_was_lost_is_kept_by_nobody() -> None:
    bench = Bench()
    bench.make(0)
    bench.admit(0)
    parts = weakref.ref(bench.parts.members[part(0)])
    bench.admit(gone=(part(0),))
    bench.fan_in.lanes.clear()
    bench.crew.lose(0, lambda _: None)
    gc.collect()
    assert parts() is None
