from collections.abc import Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import Any

import pytest
from loop_in_hand import Confidants, LoopInHand, actor_of, effects_of

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.exceptions import ConnectionLost, Misdirected, OperationNotSupported
from pulsar_actors.machines import topic_watch_events
from pulsar_actors.machines.connection_events import Ask, Leave
from pulsar_actors.machines.lookup import SERVICE_URL
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.machines.topic_watch import TopicWatch
from pulsar_actors.runtime.actor import Address, LoopActor, tell
from pulsar_actors.runtime.binding_messages import AttachMember, CloseHandle, Joining, Place, Retired
from pulsar_actors.runtime.client_actor import Admit
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import WATCHER, Bound, Heard, Member, Replied, Unbound
from pulsar_actors.runtime.watch_actor import TopicsChanged, WatchActor, WatchEnded
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)
from pulsar_actors.wire.topic_name import TopicName

SOON = 20.0
LISTED = CommandWatchTopicListSuccess(request_id=0, watcher_id=3, topic=["a"], topics_hash="1")


class Bench:
    def __init__(self) -> None:
        self.loop = LoopInHand()
        self.confidants = Confidants(self.loop)
        self.guardian, self.whom, self.connection = (self.confidants.make() for _ in range(3))
        machine = TopicWatch(3, "public/default", "a.*", jitter=lambda: 0.0, timeout=30.0)
        self.watch = WatchActor.start(self.loop, Place(WATCHER, 3, self.guardian, 1), machine, self.whom)
        self.loop.run()

    def tell(self, *messages: object) -> None:
        for message in messages:
            tell(self.watch, message)
        self.loop.run()

    def begin(self) -> None:
        self.tell(Joining(1, self.connection), Bound(1, self.connection, 100, can_watch=True), Replied(1, LISTED))

    def told(self) -> list[Any]:
        return self.confidants.heard(self.whom)

    def said(self) -> list[Any]:
        return self.confidants.heard(self.connection)


def test_every_effect_of_the_chart_is_performed() -> None:
    assert effects_of(topic_watch_events) == set(WatchActor.PERFORMS) - {StartTimer}


def test_it_joins_a_connection_asks_there_and_tells_what_it_hears() -> None:
    bench = Bench()
    (attach,) = bench.confidants.heard(bench.guardian)
    assert attach == AttachMember(SERVICE_URL, 1, Member(WATCHER, 3, bench.watch, 1))
    bench.begin()
    (asked,) = bench.said()
    assert isinstance(asked.command, CommandWatchTopicList)
    update = CommandWatchTopicUpdate(watcher_id=3, new_topics=["b"], topics_hash="2")
    bench.tell(Heard(1, ((update, memoryview(b"")),)))
    assert bench.told() == [TopicsChanged(bench.watch, ("a",), ()), TopicsChanged(bench.watch, ("b",), ())]


def test_its_end_is_told_to_the_broker_the_guardian_and_whoever_watches() -> None:
    bench = Bench()
    bench.begin()
    bench.said()
    bench.tell(CloseHandle())
    stop, leave = bench.said()
    assert isinstance(stop, Ask)
    assert isinstance(stop.command, CommandWatchTopicListClose)
    assert leave == Leave(Member(WATCHER, 3, bench.watch, 1))
    assert bench.told()[-1] == WatchEnded(bench.watch, None)
    assert bench.confidants.heard(bench.guardian)[-1] == Retired(bench.watch)


def test_a_connection_that_is_found_too_late_is_left_at_once() -> None:
    bench = Bench()
    bench.tell(CloseHandle(), Joining(1, bench.connection))
    assert bench.said() == [Leave(Member(WATCHER, 3, bench.watch, 1))]


def test_another_answer_than_a_list_is_tried_again() -> None:
    bench = Bench()
    bench.tell(Joining(1, bench.connection), Bound(1, bench.connection, 100, can_watch=True))
    bench.tell(Replied(1, CommandSuccess(request_id=0)))
    assert bench.told() == []
    bench.confidants.heard(bench.guardian)
    bench.loop.pass_time(0.2)
    (attach,) = bench.confidants.heard(bench.guardian)
    assert attach.member.number == 2
    assert issubclass(Misdirected, pulsar.PulsarException)


def test_a_lost_connection_is_replaced_after_a_while() -> None:
    bench = Bench()
    bench.begin()
    bench.confidants.heard(bench.guardian)
    bench.tell(Unbound(1, ConnectionLost("reset")))
    bench.loop.pass_time(0.2)
    assert [type(each) for each in bench.confidants.heard(bench.guardian)] == [AttachMember]


def test_a_bug_in_it_is_told_to_whoever_watches() -> None:
    bench = Bench()
    bench.begin()
    bench.told()
    bench.tell("nonsense")
    (ended,) = bench.told()
    assert "please report it" in str(ended.error)
    assert actor_of(bench.watch).bug is not None


# With a client and a broker.


class Ear(LoopActor):
    """Passes on what it is told."""

    def __init__(self, loop: Loop, heard: "SimpleQueue[Any]") -> None:
        super().__init__(loop, None)
        self._heard = heard

    def receive(self, message: object) -> None:
        self._heard.put(message)


class Watch:
    """A watch in the client's own house."""

    def __init__(self, client: pulsar.Client, namespace: str, pattern: str) -> None:
        workshop: Any = getattr(client, "_workshop")  # noqa: B009 - there is no public way to it
        self.heard: SimpleQueue[Any] = SimpleQueue()
        self.topics: set[str] = set()

        def make(loop: Loop, place: Place) -> Address:
            machine = TopicWatch(place.id, namespace, pattern, jitter=loop.chance, timeout=5.0)
            return WatchActor.start(loop, place, machine, Ear.start(loop, self.heard))

        tell(workshop.guardian, Admit(WATCHER, make, self.heard.put))

    def until(self, *topics: str) -> None:
        while self.topics != set(topics):
            told = self.heard.get(timeout=SOON)
            self.topics = self.topics.difference(told.removed).union(told.added)


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


def test_topics_that_come_and_go_are_told_also_after_the_connection_was_lost(broker: EmbeddedBroker) -> None:
    a, b, c = (f"persistent://public/default/a{number}" for number in range(3))
    with closing(pulsar.Client(broker.service_url)) as client:
        client.create_producer(a).close()
        watch = Watch(client, "public/default", "public/default/a.*")
        watch.until(a)
        client.create_producer(b).close()
        client.create_producer("other").close()
        watch.until(a, b)
        broker.cut_connections()
        broker.call(lambda inside: inside.cluster.delete_topic(TopicName.parse(a), force=True))
        watch.until(b)
        client.create_producer(c).close()
        watch.until(b, c)


def test_a_pattern_that_is_too_long_for_the_broker_ends_the_watch_with_its_words(broker: EmbeddedBroker) -> None:
    with closing(pulsar.Client(broker.service_url)) as client:
        ended = Watch(client, "public/default", "a" * 60).heard.get(timeout=SOON)
        assert "longer than maximum" in str(ended.error)
        assert not isinstance(ended.error, OperationNotSupported)


def test_a_client_closes_while_it_watches(broker: EmbeddedBroker) -> None:
    client = pulsar.Client(broker.service_url)
    client.create_producer("a").close()
    watch = Watch(client, "public/default", "public/default/a")
    watch.until("persistent://public/default/a")
    client.close()
    assert watch.heard.get(timeout=SOON).error is None
