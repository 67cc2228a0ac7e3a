from typing import Any

import pytest
from session_bench import Bench, Caller

from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandError,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName

NAMESPACE = "public/default"
P, N = f"persistent://{NAMESPACE}/", f"non-persistent://{NAMESPACE}/"

# As a real broker gave them: tests/vectors/java.jsonl and lookup.jsonl.
HASH_OF_NONE = "00000000"
WATCHED, HASH_OF_WATCHED = f"{P}java-watched-1", "f73c217b"


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    for name in (f"{P}b", f"{P}a", f"{P}other", f"{N}a"):
        create(made, name)
    return made


def create(bench: Bench, name: str) -> None:
    bench.broker.cluster.create_topic(TopicName.parse(name))
    bench.loop.run()


def delete(bench: Bench, name: str) -> None:
    bench.broker.cluster.delete_topic(TopicName.parse(name))
    bench.loop.run()


def listed(caller: Caller, **fields: Any) -> CommandGetTopicsOfNamespaceResponse:
    (answer,) = caller.say(CommandGetTopicsOfNamespace(request_id=5, namespace=NAMESPACE, **fields))
    assert isinstance(answer, CommandGetTopicsOfNamespaceResponse)
    assert answer.request_id == 5
    return answer


@pytest.mark.parametrize(
    ("mode", "topics"),
    [
        (CommandGetTopicsOfNamespace.PERSISTENT, {f"{P}a", f"{P}b", f"{P}other"}),
        (CommandGetTopicsOfNamespace.NON_PERSISTENT, {f"{N}a"}),
        (CommandGetTopicsOfNamespace.ALL, {f"{P}a", f"{P}b", f"{P}other", f"{N}a"}),
    ],
)
def test_the_mode_says_which_domain_is_listed(bench: Bench, mode: Any, topics: set[str]) -> None:
    answer = listed(bench.client(), mode=mode)
    assert set(answer.topics) == topics
    assert (answer.filtered, answer.changed) == (False, True)


@pytest.mark.parametrize("pattern", ["public/default/[ab]", "persistent://public/default/[ab]"])
def test_a_pattern_is_matched_against_the_whole_name_without_its_domain(bench: Bench, pattern: str) -> None:
    answer = listed(bench.client(), topics_pattern=pattern)
    assert list(answer.topics) == [f"{P}a", f"{P}b"]
    assert answer.filtered


def test_a_pattern_that_is_too_long_is_left_to_the_client(bench: Bench) -> None:
    answer = listed(bench.client(), topics_pattern="public/default/" + "x" * 36)
    assert len(answer.topics) == 3
    assert not answer.filtered
    assert listed(bench.client(), topics_pattern="public/default/" + "x" * 35).filtered


def test_a_pattern_that_is_none_is_refused(bench: Bench) -> None:
    (error,) = bench.client().say(
        CommandGetTopicsOfNamespace(request_id=5, namespace=NAMESPACE, topics_pattern="public/(")
    )
    assert isinstance(error, CommandError)
    assert error.error == ServerError.InvalidTopicName
    assert error.message.startswith("Invalid topics pattern: ")


def test_a_list_that_the_client_has_already_is_not_sent(bench: Bench) -> None:
    caller = bench.client()
    digest = listed(caller).topics_hash
    again = listed(caller, topics_hash=digest)
    assert (list(again.topics), again.changed, again.topics_hash) == ([], False, digest)
    create(bench, f"{P}c")
    changed = listed(caller, topics_hash=digest)
    assert (len(changed.topics), changed.changed) == (4, True)


def test_the_hash_of_a_list_is_that_of_a_real_broker() -> None:
    bench = Bench()
    assert listed(bench.client()).topics_hash == HASH_OF_NONE
    create(bench, WATCHED)
    assert listed(bench.client()).topics_hash == HASH_OF_WATCHED


def test_a_namespace_that_is_not_there_has_no_topics(bench: Bench) -> None:
    (listed_, watched) = bench.client().say(
        CommandGetTopicsOfNamespace(request_id=5, namespace="public/nowhere"),
        CommandWatchTopicList(request_id=6, watcher_id=1, namespace="public/nowhere", topics_pattern="public/.*"),
    )
    assert isinstance(listed_, CommandGetTopicsOfNamespaceResponse)
    assert (list(listed_.topics), listed_.topics_hash) == ([], HASH_OF_NONE)
    assert isinstance(watched, CommandWatchTopicListSuccess)
    assert (list(watched.topic), watched.topics_hash) == ([], HASH_OF_NONE)


def watch(watcher_id: int = 1, pattern: str = "public/default/[a-c]", **fields: Any) -> CommandWatchTopicList:
    return CommandWatchTopicList(
        request_id=6, watcher_id=watcher_id, namespace=NAMESPACE, topics_pattern=pattern, **fields
    )


def test_a_watch_begins_with_the_topics_that_match(bench: Bench) -> None:
    (answer,) = bench.client().say(watch())
    assert isinstance(answer, CommandWatchTopicListSuccess)
    assert (answer.request_id, answer.watcher_id, list(answer.topic)) == (6, 1, [f"{P}a", f"{P}b"])


def test_a_watch_tells_of_topics_that_come_and_go(bench: Bench) -> None:
    caller = bench.client()
    (began,) = caller.say(watch())
    assert isinstance(began, CommandWatchTopicListSuccess)
    create(bench, f"{P}c")
    (came,) = caller.heard()
    assert isinstance(came, CommandWatchTopicUpdate)
    assert (came.watcher_id, list(came.new_topics), list(came.deleted_topics)) == (1, [f"{P}c"], [])
    delete(bench, f"{P}c")
    (went,) = caller.heard()
    assert isinstance(went, CommandWatchTopicUpdate)
    assert (list(went.new_topics), list(went.deleted_topics)) == ([], [f"{P}c"])
    assert went.topics_hash == began.topics_hash != came.topics_hash


def test_topics_that_come_together_are_told_together_and_one_that_goes_and_comes_again_is_told_of_twice(
    bench: Bench,
) -> None:
    caller = bench.client()
    caller.say(watch())
    cluster = bench.broker.cluster
    for name in (f"{P}c", f"{P}x", f"{P}y"):
        cluster.create_topic(TopicName.parse(name))
    cluster.delete_topic(TopicName.parse(f"{P}a"))
    delete(bench, f"{P}c")
    told = [(list(each.new_topics), list(each.deleted_topics)) for each in caller.heard()]
    assert told == [([f"{P}c"], [f"{P}a"]), ([], [f"{P}c"])]


def test_what_does_not_match_and_what_is_not_kept_is_not_told(bench: Bench) -> None:
    caller = bench.client()
    caller.say(watch())
    create(bench, f"{P}d")
    create(bench, f"{N}c")
    assert caller.heard() == []


def test_a_client_that_has_the_list_is_not_sent_it(bench: Bench) -> None:
    caller = bench.client()
    (began,) = caller.say(watch())
    assert isinstance(began, CommandWatchTopicListSuccess)
    (again,) = caller.say(watch(topics_hash=began.topics_hash))
    assert isinstance(again, CommandWatchTopicListSuccess)
    assert list(again.topic) == []


def test_watching_again_with_the_same_id_goes_on_once(bench: Bench) -> None:
    caller = bench.client()
    caller.say(watch())
    (again,) = caller.say(watch())
    assert isinstance(again, CommandWatchTopicListSuccess)
    assert len(again.topic) == 2
    create(bench, f"{P}c")
    assert len(caller.heard()) == 1


def test_a_closed_watch_tells_no_more(bench: Bench) -> None:
    caller = bench.client()
    caller.say(watch())
    for _ in range(2):
        assert caller.say(CommandWatchTopicListClose(request_id=7, watcher_id=1)) == [CommandSuccess(request_id=7)]
    create(bench, f"{P}c")
    assert caller.heard() == []


def test_a_watch_ends_with_its_connection(bench: Bench) -> None:
    watchers: list[Any] = bench.broker.cluster.namespace(NAMESPACE)._watchers  # it holds nothing of who has gone
    caller = bench.client()
    caller.say(watch())
    assert len(watchers) == 1
    caller.hang_up()
    assert watchers == []


@pytest.mark.parametrize(
    ("pattern", "code"),
    [
        ("public/(", ServerError.InvalidTopicName),
        ("public/default/" + "x" * 36, ServerError.NotAllowedError),
    ],
)
def test_a_pattern_that_cannot_be_watched_is_refused(bench: Bench, pattern: str, code: Any) -> None:
    (error,) = bench.client().say(watch(pattern=pattern))
    assert isinstance(error, CommandError)
    assert (error.request_id, error.error) == (6, code)
