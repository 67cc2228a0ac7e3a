from typing import Any

import pytest
from driven import Driven

from pulsar_actors.exceptions import (
    AuthorizationError,
    ConnectionLost,
    NotAllowedError,
    OperationNotSupported,
    ServiceUnitNotReady,
    Timeout,
)
from pulsar_actors.machines.topic_watch import State, TopicWatch
from pulsar_actors.machines.topic_watch_events import (
    AskToStop,
    AskToWatch,
    Attach,
    Begin,
    Changed,
    End,
    Joined,
    Leave,
    Listed,
    Over,
    Parted,
    Refused,
    Report,
    RetryDue,
)
from pulsar_actors.wire.PulsarApi_pb2 import CommandWatchTopicListSuccess, CommandWatchTopicUpdate

LOST = ConnectionLost("reset")


def watch(*events: Any) -> Driven:
    return Driven(TopicWatch(7, "public/default", "a.*", jitter=lambda: 0.0, timeout=30.0), Begin(), *events)


def listed(*topics: str, connection: int = 1, digest: str = "1") -> Listed:
    command = CommandWatchTopicListSuccess(request_id=0, watcher_id=7, topic=topics, topics_hash=digest)
    return Listed(connection, command)


def changed(*, new: tuple[str, ...] = (), gone: tuple[str, ...] = (), connection: int = 1) -> Changed:
    command = CommandWatchTopicUpdate(watcher_id=7, new_topics=new, deleted_topics=gone, topics_hash="2")
    return Changed(connection, command)


WATCHING = (Joined(1, can_watch=True), listed("a"))


def test_it_asks_where_the_service_url_leads_and_reports_all_that_there_is() -> None:
    driven = watch()
    assert driven.effects == [Attach(1)]
    (ask,) = driven.tell(Joined(1, can_watch=True))
    assert isinstance(ask, AskToWatch)
    assert (ask.command.watcher_id, ask.command.namespace, ask.command.topics_pattern) == (7, "public/default", "a.*")
    assert not ask.command.HasField("topics_hash")
    assert driven.tell(listed("b", "a")) == [Report(("a", "b"), ())]


def test_it_reports_what_comes_and_goes() -> None:
    driven = watch(*WATCHING)
    assert driven.tell(changed(new=("b",), gone=("a",))) == [Report(("b",), ("a",))]
    assert driven.tell(changed(new=("b",))) == []


def test_after_a_lost_connection_it_watches_on_another_and_reports_what_has_changed_meanwhile() -> None:
    driven = watch(*WATCHING, Parted(1, LOST))
    assert driven.fire(RetryDue) == [Attach(2)]
    (ask,) = driven.tell(Joined(2, can_watch=True))
    assert ask.command.topics_hash == "1"
    assert driven.tell(listed("b", connection=2, digest="3")) == [Report(("b",), ("a",))]


def test_after_a_lost_connection_nothing_is_reported_if_nothing_has_changed() -> None:
    driven = watch(*WATCHING, Parted(1, LOST))
    driven.fire(RetryDue)
    assert driven.tell(Joined(2, can_watch=True), listed(connection=2, digest="1")) == []
    assert driven.machine.state is State.WATCHING


def test_what_comes_over_an_earlier_connection_means_nothing() -> None:
    driven = watch(*WATCHING, Parted(1, LOST))
    driven.fire(RetryDue)
    driven.tell(Joined(2, can_watch=True), listed("a", connection=2))
    assert driven.tell(changed(new=("b",), connection=1)) == []
    assert driven.tell(Parted(1, LOST)) == []
    assert driven.machine.state is State.WATCHING


def test_a_broker_that_takes_no_watches_is_not_asked() -> None:
    leave, over = watch(Joined(1, can_watch=False)).effects
    assert leave == Leave()
    assert isinstance(over.error, OperationNotSupported)


@pytest.mark.parametrize(
    "error", [NotAllowedError("NotAllowedError", "too long"), AuthorizationError("AuthorizationError", "no")]
)
def test_what_trying_again_would_not_cure_ends_it(error: Exception) -> None:
    driven = watch(Joined(1, can_watch=True), Refused(1, error))
    assert driven.effects == [Leave(), Over(error)]


@pytest.mark.parametrize("error", [ServiceUnitNotReady("ServiceNotReady", "later"), Timeout("late")])
def test_what_may_pass_is_tried_again_after_pauses_that_grow(error: Exception) -> None:
    driven = watch()
    pauses = []
    for connection in range(1, 4):
        driven.tell(Joined(connection, can_watch=True), Refused(connection, error))
        pauses.append(driven.timers[RetryDue].delay)
        driven.fire(RetryDue)
    assert pauses == [0.1, 0.2, 0.4]


def test_a_service_url_that_leads_to_no_connection_ends_it() -> None:
    error = OperationNotSupported("over HTTP")
    assert watch(Parted(1, error)).effects == [Over(error)]


def test_the_end_has_the_broker_stop_as_well() -> None:
    stop, *rest = watch(*WATCHING, End()).effects
    assert isinstance(stop, AskToStop)
    assert stop.command.watcher_id == 7
    assert rest == [Leave(), Over(None)]


def test_the_end_before_the_broker_was_asked_leaves_nothing_there() -> None:
    assert watch(End()).effects == [Leave(), Over(None)]
    assert watch(Parted(1, LOST), End()).effects == [Over(None)]
