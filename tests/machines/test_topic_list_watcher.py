from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AuthorizationError,
    ConnectionLost,
    NotAllowedError,
    OperationNotSupported,
    ServiceUnitNotReady,
    Timeout,
)
from pulsar_actors.machines.topic_list_watcher import (
    AskToStopWatching,
    AskToWatch,
    AttachWatcher,
    DetachWatcher,
    ReportTopicChanges,
    StartWatching,
    State,
    StopWatching,
    TopicListWatcher,
    TopicsDifference,
    WatchedTopics,
    WatcherAttached,
    WatcherDetached,
    WatcherEnded,
    WatchRefused,
    WatchRetryDue,
    WatchStarted,
    WatchUpdated,
)
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.wire.PulsarApi_pb2 import CommandWatchTopicListSuccess, CommandWatchTopicUpdate
from tests.machines.driven import Driven

LOST = ConnectionLost("reset")


def watch(*events: Any) -> Driven:
    return Driven(
        TopicListWatcher(7, "public/default", "a.*", backoff=Backoff(lambda: 0.0), timeout=30.0),
        StartWatching(),
        *events,
    )


def listed(*topics: str, connection: int = 1, digest: str = "1") -> WatchStarted:
    command = CommandWatchTopicListSuccess(request_id=0, watcher_id=7, topic=topics, topics_hash=digest)
    return WatchStarted(connection, command)


def changed(*, new: tuple[str, ...] = (), gone: tuple[str, ...] = (), connection: int = 1) -> WatchUpdated:
    command = CommandWatchTopicUpdate(watcher_id=7, new_topics=new, deleted_topics=gone, topics_hash="2")
    return WatchUpdated(connection, command)


WATCHING = (WatcherAttached(1, can_watch=True), listed("a"))


def test_it_asks_where_the_service_url_leads_and_reports_all_that_there_is() -> None:
    driven = watch()
    assert driven.effects == [AttachWatcher(1)]
    (ask,) = driven.tell(WatcherAttached(1, can_watch=True))
    assert isinstance(ask, AskToWatch)
    assert (ask.command.watcher_id, ask.command.namespace, ask.command.topics_pattern) == (7, "public/default", "a.*")
    assert not ask.command.HasField("topics_hash")
    assert driven.tell(listed("b", "a")) == [ReportTopicChanges(("a", "b"), ())]


def test_it_reports_what_comes_and_goes() -> None:
    driven = watch(*WATCHING)
    assert driven.tell(changed(new=("b",), gone=("a",))) == [ReportTopicChanges(("b",), ("a",))]
    assert driven.tell(changed(new=("b",))) == []


def test_after_a_lost_connection_it_watches_on_another_and_reports_what_has_changed_meanwhile() -> None:
    driven = watch(*WATCHING, WatcherDetached(1, LOST))
    assert driven.fire(WatchRetryDue) == [AttachWatcher(2)]
    (ask,) = driven.tell(WatcherAttached(2, can_watch=True))
    assert ask.command.topics_hash == "1"
    assert driven.tell(listed("b", connection=2, digest="3")) == [ReportTopicChanges(("b",), ("a",))]


def test_after_a_lost_connection_nothing_is_reported_if_nothing_has_changed() -> None:
    driven = watch(*WATCHING, WatcherDetached(1, LOST))
    driven.fire(WatchRetryDue)
    assert driven.tell(WatcherAttached(2, can_watch=True), listed(connection=2, digest="1")) == []
    assert driven.machine.state is State.WATCHING


def test_what_comes_over_an_earlier_connection_means_nothing() -> None:
    driven = watch(*WATCHING, WatcherDetached(1, LOST))
    driven.fire(WatchRetryDue)
    driven.tell(WatcherAttached(2, can_watch=True), listed("a", connection=2))
    assert driven.tell(changed(new=("b",), connection=1)) == []
    assert driven.tell(WatcherDetached(1, LOST)) == []
    assert driven.machine.state is State.WATCHING


def test_a_broker_that_takes_no_watches_is_not_asked() -> None:
    leave, over = watch(WatcherAttached(1, can_watch=False)).effects
    assert leave == DetachWatcher()
    assert isinstance(over.error, OperationNotSupported)


@pytest.mark.parametrize(
    "error", [NotAllowedError("NotAllowedError", "too long"), AuthorizationError("AuthorizationError", "no")]
)
def test_what_trying_again_would_not_cure_ends_it(error: Exception) -> None:
    driven = watch(WatcherAttached(1, can_watch=True), WatchRefused(1, error))
    assert driven.effects == [DetachWatcher(), WatcherEnded(error)]


@pytest.mark.parametrize("error", [ServiceUnitNotReady("ServiceNotReady", "later"), Timeout("late")])
def test_what_may_pass_is_tried_again_after_pauses_that_grow(error: Exception) -> None:
    driven = watch()
    pauses = []
    for connection in range(1, 4):
        driven.tell(WatcherAttached(connection, can_watch=True), WatchRefused(connection, error))
        pauses.append(driven.timers[WatchRetryDue].delay)
        driven.fire(WatchRetryDue)
    assert pauses == [0.1, 0.2, 0.4]


def test_a_service_url_that_leads_to_no_connection_ends_it() -> None:
    error = OperationNotSupported("over HTTP")
    assert watch(WatcherDetached(1, error)).effects == [WatcherEnded(error)]


def test_the_end_has_the_broker_stop_as_well() -> None:
    stop, *rest = watch(*WATCHING, StopWatching()).effects
    assert isinstance(stop, AskToStopWatching)
    assert stop.command.watcher_id == 7
    assert rest == [DetachWatcher(), WatcherEnded(None)]


def test_the_end_before_the_broker_was_asked_leaves_nothing_there() -> None:
    assert watch(StopWatching()).effects == [DetachWatcher(), WatcherEnded(None)]
    assert watch(WatcherDetached(1, LOST), StopWatching()).effects == [WatcherEnded(None)]


def test_the_first_list_is_all_new() -> None:
    assert WatchedTopics().listed(["b", "a"], "1") == TopicsDifference(("a", "b"), ())


def test_a_later_list_is_told_apart_from_the_one_before() -> None:
    topics = WatchedTopics()
    topics.listed(["a", "b"], "1")
    assert topics.listed(["b", "c"], "2") == TopicsDifference(("c",), ("a",))


def test_an_empty_list_with_the_hash_of_the_last_one_changes_nothing() -> None:
    topics = WatchedTopics()
    topics.listed(["a"], "1")
    assert topics.listed([], "1") == TopicsDifference((), ())
    assert topics.changed(["b"], [], "2") == TopicsDifference(("b",), ())


def test_an_empty_list_with_another_hash_means_that_all_have_gone() -> None:
    topics = WatchedTopics()
    topics.listed(["a"], "1")
    assert topics.listed([], "2") == TopicsDifference((), ("a",))


def test_what_was_known_is_not_told_again() -> None:
    topics = WatchedTopics()
    topics.listed(["a"], "1")
    assert topics.changed(["a", "b"], ["z"], "2") == TopicsDifference(("b",), ())
    assert topics.hash == "2"
