from contextlib import closing
from queue import SimpleQueue
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.exceptions import ConnectionLost, Misdirected, OperationNotSupported
from pulsar_actors.machines import topic_list_watcher
from pulsar_actors.machines.connection_commands import WATCHER
from pulsar_actors.machines.connection_events import RemoveHandler, SendRequest
from pulsar_actors.machines.lookup import SERVICE_URL
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.machines.topic_list_watcher import TopicListWatcher
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.runtime import messages
from pulsar_actors.runtime.actor import LoopActor
from pulsar_actors.runtime.topic_list_watcher_actor import TopicListWatcherActor, TopicListWatcherEnded, TopicsChanged
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support.manual_loop import ActorBench, actor_of, effects_of

LISTED = pb.CommandWatchTopicListSuccess(request_id=0, watcher_id=3, topic=["a"], topics_hash="1")


class Bench(ActorBench):
    def __init__(self) -> None:
        super().__init__()
        self.whom, self.connection = self.actors.make(), self.actors.make()
        machine = TopicListWatcher(3, "public/default", "a.*", backoff=Backoff(lambda: 0.0), timeout=30.0)
        self.actor = TopicListWatcherActor.start(
            messages.Registration(WATCHER, 3, self.guardian, 1, self.loop), machine, self.whom
        )
        self.loop.run()

    def begin(self) -> None:
        self.tell(
            messages.ConnectionAssigned(1, self.connection),
            messages.ConnectionReady(1, self.connection, 100, can_watch=True),
            messages.RequestAnswered(1, LISTED),
        )

    def told(self) -> list[Any]:
        return self.actors.heard(self.whom)

    def said(self) -> list[Any]:
        return self.actors.heard(self.connection)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_every_effect_of_the_chart_is_performed() -> None:
    assert effects_of(topic_list_watcher) == set(TopicListWatcherActor.PERFORMS) - {StartTimer}


def test_it_joins_a_connection_asks_there_and_tells_what_it_hears(bench: Bench) -> None:
    (attach,) = bench.to_guardian()
    assert attach == messages.AttachHandler(SERVICE_URL, 1, messages.HandlerRef(WATCHER, 3, bench.actor, 1))
    bench.begin()
    (asked,) = bench.said()
    assert isinstance(asked.command, pb.CommandWatchTopicList)
    update = pb.CommandWatchTopicUpdate(watcher_id=3, new_topics=["b"], topics_hash="2")
    bench.tell(messages.CommandsReceived(1, ((update, b""),)))
    assert bench.told() == [TopicsChanged(bench.actor, ("a",), ()), TopicsChanged(bench.actor, ("b",), ())]


def test_its_end_is_told_to_the_broker_the_guardian_and_whoever_watches(bench: Bench) -> None:
    bench.begin()
    bench.said()
    bench.tell(messages.CloseHandle())
    stop, leave = bench.said()
    assert isinstance(stop, SendRequest)
    assert isinstance(stop.command, pb.CommandWatchTopicListClose)
    assert leave == RemoveHandler(messages.HandlerRef(WATCHER, 3, bench.actor, 1))
    assert bench.told()[-1] == TopicListWatcherEnded(bench.actor, None)
    assert bench.to_guardian()[-1] == messages.ActorEnded(bench.actor)


def test_a_connection_that_is_found_too_late_is_left_at_once(bench: Bench) -> None:
    bench.tell(messages.CloseHandle(), messages.ConnectionAssigned(1, bench.connection))
    assert bench.said() == [RemoveHandler(messages.HandlerRef(WATCHER, 3, bench.actor, 1))]


def test_another_answer_than_a_list_is_tried_again(bench: Bench) -> None:
    bench.tell(
        messages.ConnectionAssigned(1, bench.connection),
        messages.ConnectionReady(1, bench.connection, 100, can_watch=True),
    )
    bench.tell(messages.RequestAnswered(1, pb.CommandSuccess(request_id=0)))
    assert bench.told() == []
    bench.to_guardian()
    bench.loop.pass_time(0.2)
    (attach,) = bench.to_guardian()
    assert attach.handler.number == 2
    assert attach.instead_of is bench.connection, "another host of the service URL"
    assert issubclass(Misdirected, pulsar.PulsarException)


def test_a_lost_connection_is_replaced_after_a_while(bench: Bench) -> None:
    bench.begin()
    bench.to_guardian()
    bench.tell(messages.ConnectionUnavailable(1, ConnectionLost("reset")))
    bench.loop.pass_time(0.2)
    assert [type(each) for each in bench.to_guardian()] == [messages.AttachHandler]


def test_a_bug_in_it_is_told_to_whoever_watches(bench: Bench) -> None:
    bench.begin()
    bench.told()
    bench.tell("nonsense")
    (ended,) = bench.told()
    assert "please report it" in str(ended.error)
    assert actor_of(bench.actor).bug is not None


def test_a_pattern_that_is_too_long_for_the_broker_ends_the_watch_with_its_words() -> None:
    heard: SimpleQueue[Any] = SimpleQueue()

    class Ear(LoopActor):
        """Passes on what it is told."""

        def receive(self, message: object) -> None:
            heard.put(message)

    with EmbeddedBroker() as broker, closing(pulsar.Client(broker.service_url)) as client:
        context: Any = getattr(client, "_context")  # noqa: B009 - there is no public way to it
        registration = context.registrations.new(WATCHER)
        machine = TopicListWatcher(
            registration.id, "public/default", "a" * 60, backoff=Backoff(lambda: 0.0), timeout=5.0
        )
        TopicListWatcherActor.start(registration, machine, Ear.start(registration.loop, None))
        ended = heard.get(timeout=20.0)
    assert "longer than maximum" in str(ended.error)
    assert not isinstance(ended.error, OperationNotSupported)
