from typing import Any

import pytest

from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseProducer,
    CommandError,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandProducer,
    CommandSubscribe,
    CommandSuccess,
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName
from tests.support.session_bench import TOPIC, Bench, Caller

RESPONSE = CommandLookupTopicResponse
METADATA = CommandPartitionedTopicMetadataResponse


@pytest.fixture
def bench() -> Bench:
    return Bench()


def look_up(caller: Caller, topic: str = TOPIC, **fields: Any) -> CommandLookupTopicResponse:
    (answer,) = caller.say(CommandLookupTopic(topic=topic, request_id=5, **fields))
    assert isinstance(answer, CommandLookupTopicResponse)
    assert answer.request_id == 5
    return answer


def partitions(caller: Caller, topic: str = TOPIC, **fields: Any) -> CommandPartitionedTopicMetadataResponse:
    (answer,) = caller.say(CommandPartitionedTopicMetadata(topic=topic, request_id=6, **fields))
    assert isinstance(answer, CommandPartitionedTopicMetadataResponse)
    assert answer.request_id == 6
    return answer


def test_the_only_broker_has_every_topic_and_is_reached_where_it_was_reached(bench: Bench) -> None:
    answer = look_up(bench.client())
    assert (answer.response, answer.authoritative, answer.proxy_through_service_url) == (RESPONSE.Connect, True, True)
    assert answer.brokerServiceUrl == bench.node.service_url
    assert not answer.HasField("brokerServiceUrlTls")


def test_one_of_two_brokers_names_its_own_address(bench: Bench) -> None:
    second = bench.broker.add_listener()
    answer = look_up(bench.client(second))
    assert (answer.brokerServiceUrl, answer.proxy_through_service_url) == (second.service_url, False)


def test_a_lookup_is_redirected_to_the_owner_of_the_topic(bench: Bench) -> None:
    second = bench.broker.add_listener()
    bench.broker.assign(TOPIC, second)
    first = look_up(bench.client())
    assert (first.response, first.authoritative) == (RESPONSE.Redirect, True)
    assert first.brokerServiceUrl == second.service_url
    there = look_up(bench.client(second), authoritative=True)
    assert (there.response, there.brokerServiceUrl) == (RESPONSE.Connect, second.service_url)
    assert look_up(bench.client(), "another").response == RESPONSE.Connect


def test_a_broker_that_is_not_the_leader_redirects_there_without_the_last_word(bench: Bench) -> None:
    second = bench.broker.add_listener()
    bench.broker.assign(TOPIC, bench.node)
    answer = look_up(bench.client(second))
    assert (answer.response, answer.authoritative) == (RESPONSE.Redirect, False)
    assert answer.brokerServiceUrl == bench.node.service_url


def test_a_producer_or_consumer_at_the_wrong_broker_is_not_ready(bench: Bench) -> None:
    second = bench.broker.add_listener()
    bench.broker.assign(TOPIC, second)
    asked = [
        CommandProducer(topic=TOPIC, producer_id=1, request_id=1),
        CommandSubscribe(topic=TOPIC, subscription="s", subType=CommandSubscribe.Shared, consumer_id=1, request_id=2),
    ]
    for error in bench.client().say(*asked):
        assert isinstance(error, CommandError)
        assert error.error == ServerError.ServiceNotReady
        assert f"for topic ({TOPIC}) not served by this instance:" in error.message
    bench.client(second).produce()


def test_a_topic_that_is_given_away_sends_its_clients_after_it(bench: Bench) -> None:
    caller = bench.client()
    caller.produce()
    caller.produce(f"{TOPIC}-too", 1)
    caller.produce("another", 2)
    second = bench.broker.add_listener()
    bench.broker.assign("t", second)
    bench.loop.run()
    closed = caller.heard()
    assert all(isinstance(each, CommandCloseProducer) for each in closed)
    assert sorted((each.producer_id, each.assignedBrokerServiceUrl) for each in closed) == [  # type: ignore[attr-defined]
        (0, second.service_url),
        (1, second.service_url),
    ]


def test_a_namespace_that_is_not_there_has_no_topics(bench: Bench) -> None:
    caller = bench.client()
    topic = "persistent://public/nowhere/t"
    answer = look_up(caller, topic)
    assert (answer.response, answer.error) == (RESPONSE.Failed, ServerError.TopicNotFound)
    metadata = partitions(caller, topic)
    assert (metadata.response, metadata.error) == (METADATA.Failed, ServerError.TopicNotFound)


def test_a_partitioned_topic_tells_how_many_partitions_it_has(bench: Bench) -> None:
    bench.broker.cluster.create_partitioned(TopicName.parse("parts"), 3)
    answer = partitions(bench.client(), "parts")
    assert (answer.response, answer.partitions) == (METADATA.Success, 3)


def test_a_plain_topic_has_no_partitions(bench: Bench) -> None:
    assert partitions(bench.client()).partitions == 0


def test_a_question_that_shall_create_nothing_finds_nothing(bench: Bench) -> None:
    answer = partitions(bench.client(), metadata_auto_creation_enabled=False)
    assert (answer.response, answer.error) == (METADATA.Failed, ServerError.TopicNotFound)
    assert bench.broker.cluster.find_topic(TopicName.parse(TOPIC)) is None


NAMESPACE = "public/default"
P, N = f"persistent://{NAMESPACE}/", f"non-persistent://{NAMESPACE}/"

# As a real broker gave them: tests/vectors/java.jsonl and lookup.jsonl.
HASH_OF_NONE = "00000000"
WATCHED, HASH_OF_WATCHED = f"{P}java-watched-1", "f73c217b"


@pytest.fixture
def topics_bench() -> Bench:
    made = Bench()
    for name in (f"{P}b", f"{P}a", f"{P}other", f"{N}a"):
        create(made, name)
    return made


def create(topics_bench: Bench, name: str) -> None:
    topics_bench.broker.cluster.create_topic(TopicName.parse(name))
    topics_bench.loop.run()


def delete(topics_bench: Bench, name: str) -> None:
    topics_bench.broker.cluster.delete_topic(TopicName.parse(name))
    topics_bench.loop.run()


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
def test_the_mode_says_which_domain_is_listed(topics_bench: Bench, mode: Any, topics: set[str]) -> None:
    answer = listed(topics_bench.client(), mode=mode)
    assert set(answer.topics) == topics
    assert (answer.filtered, answer.changed) == (False, True)


@pytest.mark.parametrize("pattern", ["public/default/[ab]", "persistent://public/default/[ab]"])
def test_a_pattern_is_matched_against_the_whole_name_without_its_domain(topics_bench: Bench, pattern: str) -> None:
    answer = listed(topics_bench.client(), topics_pattern=pattern)
    assert list(answer.topics) == [f"{P}a", f"{P}b"]
    assert answer.filtered


def test_a_pattern_that_is_too_long_is_left_to_the_client(topics_bench: Bench) -> None:
    answer = listed(topics_bench.client(), topics_pattern="public/default/" + "x" * 36)
    assert len(answer.topics) == 3
    assert not answer.filtered
    assert listed(topics_bench.client(), topics_pattern="public/default/" + "x" * 35).filtered


def test_a_pattern_that_is_none_is_refused(topics_bench: Bench) -> None:
    (error,) = topics_bench.client().say(
        CommandGetTopicsOfNamespace(request_id=5, namespace=NAMESPACE, topics_pattern="public/(")
    )
    assert isinstance(error, CommandError)
    assert error.error == ServerError.InvalidTopicName
    assert error.message.startswith("Invalid topics pattern: ")


def test_a_list_that_the_client_has_already_is_not_sent(topics_bench: Bench) -> None:
    caller = topics_bench.client()
    digest = listed(caller).topics_hash
    again = listed(caller, topics_hash=digest)
    assert (list(again.topics), again.changed, again.topics_hash) == ([], False, digest)
    create(topics_bench, f"{P}c")
    changed = listed(caller, topics_hash=digest)
    assert (len(changed.topics), changed.changed) == (4, True)


def test_the_hash_of_a_list_is_that_of_a_real_broker() -> None:
    topics_bench = Bench()
    assert listed(topics_bench.client()).topics_hash == HASH_OF_NONE
    create(topics_bench, WATCHED)
    assert listed(topics_bench.client()).topics_hash == HASH_OF_WATCHED


def test_a_namespace_that_is_not_there_has_no_topics_topics(topics_bench: Bench) -> None:
    (listed_, watched) = topics_bench.client().say(
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


def test_a_watch_begins_with_the_topics_that_match(topics_bench: Bench) -> None:
    (answer,) = topics_bench.client().say(watch())
    assert isinstance(answer, CommandWatchTopicListSuccess)
    assert (answer.request_id, answer.watcher_id, list(answer.topic)) == (6, 1, [f"{P}a", f"{P}b"])


def test_a_watch_tells_of_topics_that_come_and_go(topics_bench: Bench) -> None:
    caller = topics_bench.client()
    (began,) = caller.say(watch())
    assert isinstance(began, CommandWatchTopicListSuccess)
    create(topics_bench, f"{P}c")
    (came,) = caller.heard()
    assert isinstance(came, CommandWatchTopicUpdate)
    assert (came.watcher_id, list(came.new_topics), list(came.deleted_topics)) == (1, [f"{P}c"], [])
    delete(topics_bench, f"{P}c")
    (went,) = caller.heard()
    assert isinstance(went, CommandWatchTopicUpdate)
    assert (list(went.new_topics), list(went.deleted_topics)) == ([], [f"{P}c"])
    assert went.topics_hash == began.topics_hash != came.topics_hash


def test_topics_that_come_together_are_told_together_and_one_that_goes_and_comes_again_is_told_of_twice(
    topics_bench: Bench,
) -> None:
    caller = topics_bench.client()
    caller.say(watch())
    cluster = topics_bench.broker.cluster
    for name in (f"{P}c", f"{P}x", f"{P}y"):
        cluster.create_topic(TopicName.parse(name))
    cluster.delete_topic(TopicName.parse(f"{P}a"))
    delete(topics_bench, f"{P}c")
    told = [(list(each.new_topics), list(each.deleted_topics)) for each in caller.heard()]
    assert told == [([f"{P}c"], [f"{P}a"]), ([], [f"{P}c"])]


def test_what_does_not_match_and_what_is_not_kept_is_not_told(topics_bench: Bench) -> None:
    caller = topics_bench.client()
    caller.say(watch())
    create(topics_bench, f"{P}d")
    create(topics_bench, f"{N}c")
    assert caller.heard() == []


def test_a_client_that_has_the_list_is_not_sent_it(topics_bench: Bench) -> None:
    caller = topics_bench.client()
    (began,) = caller.say(watch())
    assert isinstance(began, CommandWatchTopicListSuccess)
    (again,) = caller.say(watch(topics_hash=began.topics_hash))
    assert isinstance(again, CommandWatchTopicListSuccess)
    assert list(again.topic) == []


def test_watching_again_with_the_same_id_goes_on_once(topics_bench: Bench) -> None:
    caller = topics_bench.client()
    caller.say(watch())
    (again,) = caller.say(watch())
    assert isinstance(again, CommandWatchTopicListSuccess)
    assert len(again.topic) == 2
    create(topics_bench, f"{P}c")
    assert len(caller.heard()) == 1


def test_a_closed_watch_tells_no_more(topics_bench: Bench) -> None:
    caller = topics_bench.client()
    caller.say(watch())
    for _ in range(2):
        assert caller.say(CommandWatchTopicListClose(request_id=7, watcher_id=1)) == [CommandSuccess(request_id=7)]
    create(topics_bench, f"{P}c")
    assert caller.heard() == []


def test_a_watch_ends_with_its_connection(topics_bench: Bench) -> None:
    watchers: list[Any] = topics_bench.broker.cluster.namespace(NAMESPACE)._watchers  # it holds nothing of who has gone
    caller = topics_bench.client()
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
def test_a_pattern_that_cannot_be_watched_is_refused(topics_bench: Bench, pattern: str, code: Any) -> None:
    (error,) = topics_bench.client().say(watch(pattern=pattern))
    assert isinstance(error, CommandError)
    assert (error.request_id, error.error) == (6, code)
