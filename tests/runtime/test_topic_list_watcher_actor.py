from collections.abc import Iterator
from contextlib import closing
from queue import SimpleQueue
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.exceptions import ConnectionLost, Misdirected, OperationNotSupported
from pulsar_actors.machines import topic_list_watcher
from pulsar_actors.machines.connection_events import RemoveHandler, SendRequest
from pulsar_actors.machines.lookup import SERVICE_URL
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.topic_list_watcher import TopicListWatcher
from pulsar_actors.runtime.actor import LoopActor, tell
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.messages import (
    WATCHER,
    ActorEnded,
    ActorStarted,
    AttachHandler,
    CloseHandle,
    CommandsReceived,
    ConnectionAssigned,
    ConnectionReady,
    ConnectionUnavailable,
    HandlerRef,
    Registration,
    RequestAnswered,
)
from pulsar_actors.runtime.topic_list_watcher_actor import TopicListWatcherActor, TopicListWatcherEnded, TopicsChanged
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.support.manual_loop import ManualLoop, RecordingActors, actor_of, effects_of

SOON = 20.0
LISTED = CommandWatchTopicListSuccess(request_id=0, watcher_id=3, topic=["a"], topics_hash="1")


class Bench:
    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.actors = RecordingActors(self.loop)
        self.guardian, self.whom, self.connection = (self.actors.make() for _ in range(3))
        machine = TopicListWatcher(3, "public/default", "a.*", jitter=lambda: 0.0, timeout=30.0)
        self.watch = TopicListWatcherActor.start(
            Registration(WATCHER, 3, self.guardian, 1, self.loop), machine, self.whom
        )
        self.loop.run()

    def tell(self, *messages: object) -> None:
        for message in messages:
            tell(self.watch, message)
        self.loop.run()

    def to_guardian(self) -> list[Any]:
        """Give what the guardian has heard, but for the start of the watcher."""
        return [heard for heard in self.actors.heard(self.guardian) if not isinstance(heard, ActorStarted)]

    def begin(self) -> None:
        self.tell(
            ConnectionAssigned(1, self.connection),
            ConnectionReady(1, self.connection, 100, can_watch=True),
            RequestAnswered(1, LISTED),
        )

    def told(self) -> list[Any]:
        return self.actors.heard(self.whom)

    def said(self) -> list[Any]:
        return self.actors.heard(self.connection)


def test_every_effect_of_the_chart_is_performed() -> None:
    assert effects_of(topic_list_watcher) == set(TopicListWatcherActor.PERFORMS) - {StartTimer}


def test_it_joins_a_connection_asks_there_and_tells_what_it_hears() -> None:
    bench = Bench()
    (attach,) = bench.to_guardian()
    assert attach == AttachHandler(SERVICE_URL, 1, HandlerRef(WATCHER, 3, bench.watch, 1))
    bench.begin()
    (asked,) = bench.said()
    assert isinstance(asked.command, CommandWatchTopicList)
    update = CommandWatchTopicUpdate(watcher_id=3, new_topics=["b"], topics_hash="2")
    bench.tell(CommandsReceived(1, ((update, memoryview(b"")),)))
    assert bench.told() == [TopicsChanged(bench.watch, ("a",), ()), TopicsChanged(bench.watch, ("b",), ())]


def test_its_end_is_told_to_the_broker_the_guardian_and_whoever_watches() -> None:
    bench = Bench()
    bench.begin()
    bench.said()
    bench.tell(CloseHandle())
    stop, leave = bench.said()
    assert isinstance(stop, SendRequest)
    assert isinstance(stop.command, CommandWatchTopicListClose)
    assert leave == RemoveHandler(HandlerRef(WATCHER, 3, bench.watch, 1))
    assert bench.told()[-1] == TopicListWatcherEnded(bench.watch, None)
    assert bench.to_guardian()[-1] == ActorEnded(bench.watch)


def test_a_connection_that_is_found_too_late_is_left_at_once() -> None:
    bench = Bench()
    bench.tell(CloseHandle(), ConnectionAssigned(1, bench.connection))
    assert bench.said() == [RemoveHandler(HandlerRef(WATCHER, 3, bench.watch, 1))]


def test_another_answer_than_a_list_is_tried_again() -> None:
    bench = Bench()
    bench.tell(ConnectionAssigned(1, bench.connection), ConnectionReady(1, bench.connection, 100, can_watch=True))
    bench.tell(RequestAnswered(1, CommandSuccess(request_id=0)))
    assert bench.told() == []
    bench.to_guardian()
    bench.loop.pass_time(0.2)
    (attach,) = bench.to_guardian()
    assert attach.handler.number == 2
    assert issubclass(Misdirected, pulsar.PulsarException)


def test_a_lost_connection_is_replaced_after_a_while() -> None:
    bench = Bench()
    bench.begin()
    bench.to_guardian()
    bench.tell(ConnectionUnavailable(1, ConnectionLost("reset")))
    bench.loop.pass_time(0.2)
    assert [type(each) for each in bench.to_guardian()] == [AttachHandler]


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
        context: Any = getattr(client, "_context")  # noqa: B009 - there is no public way to it
        self.heard: SimpleQueue[Any] = SimpleQueue()
        self.topics: set[str] = set()
        registration = context.registrations.new(WATCHER)
        loop = registration.loop
        machine = TopicListWatcher(registration.id, namespace, pattern, jitter=loop.chance, timeout=5.0)
        TopicListWatcherActor.start(registration, machine, Ear.start(loop, self.heard))

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
