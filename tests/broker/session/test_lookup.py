from typing import Any

import pytest

from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.topic_name import TopicName
from tests.support.session_bench import TOPIC, Bench, Caller, only

RESPONSE = pb.CommandLookupTopicResponse
METADATA = pb.CommandPartitionedTopicMetadataResponse


@pytest.fixture
def bench() -> Bench:
    return Bench()


def look_up(caller: Caller, topic: str = TOPIC, **fields: Any) -> pb.CommandLookupTopicResponse:
    answer = caller.ask(pb.CommandLookupTopic(topic=topic, request_id=5, **fields))
    assert isinstance(answer, pb.CommandLookupTopicResponse)
    assert answer.request_id == 5
    return answer


def partitions(caller: Caller, topic: str = TOPIC, **fields: Any) -> pb.CommandPartitionedTopicMetadataResponse:
    answer = caller.ask(pb.CommandPartitionedTopicMetadata(topic=topic, request_id=6, **fields))
    assert isinstance(answer, pb.CommandPartitionedTopicMetadataResponse)
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
        pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=1),
        pb.CommandSubscribe(
            topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=1, request_id=2
        ),
    ]
    for error in map(bench.client().refusal, asked):
        assert error.error == pb.ServerError.ServiceNotReady
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
    closed = only(caller.heard(), pb.CommandCloseProducer)
    assert sorted((each.producer_id, each.assignedBrokerServiceUrl) for each in closed) == [
        (0, second.service_url),
        (1, second.service_url),
    ]


def test_a_namespace_that_is_not_there_has_no_topics(bench: Bench) -> None:
    caller = bench.client()
    topic = "persistent://public/nowhere/t"
    answer = look_up(caller, topic)
    assert (answer.response, answer.error) == (RESPONSE.Failed, pb.ServerError.TopicNotFound)
    metadata = partitions(caller, topic)
    assert (metadata.response, metadata.error) == (METADATA.Failed, pb.ServerError.TopicNotFound)


def test_a_topic_tells_how_many_partitions_it_has(bench: Bench) -> None:
    bench.broker.cluster.create_partitioned(TopicName.parse("parts"), 3)
    answer = partitions(bench.client(), "parts")
    assert (answer.response, answer.partitions) == (METADATA.Success, 3)
    assert partitions(bench.client()).partitions == 0


def test_a_question_that_shall_create_nothing_finds_nothing(bench: Bench) -> None:
    answer = partitions(bench.client(), metadata_auto_creation_enabled=False)
    assert (answer.response, answer.error) == (METADATA.Failed, pb.ServerError.TopicNotFound)
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


@pytest.fixture
def caller(topics_bench: Bench) -> Caller:
    return topics_bench.client()


def create(bench: Bench, name: str) -> None:
    bench.broker.cluster.create_topic(TopicName.parse(name))
    bench.loop.run()


def delete(bench: Bench, name: str) -> None:
    bench.broker.cluster.delete_topic(TopicName.parse(name))
    bench.loop.run()


def listed(caller: Caller, **fields: Any) -> pb.CommandGetTopicsOfNamespaceResponse:
    answer = caller.ask(pb.CommandGetTopicsOfNamespace(request_id=5, namespace=NAMESPACE, **fields))
    assert isinstance(answer, pb.CommandGetTopicsOfNamespaceResponse)
    assert answer.request_id == 5
    return answer


@pytest.mark.parametrize(
    ("mode", "topics"),
    [
        (pb.CommandGetTopicsOfNamespace.PERSISTENT, {f"{P}a", f"{P}b", f"{P}other"}),
        (pb.CommandGetTopicsOfNamespace.NON_PERSISTENT, {f"{N}a"}),
        (pb.CommandGetTopicsOfNamespace.ALL, {f"{P}a", f"{P}b", f"{P}other", f"{N}a"}),
    ],
)
def test_the_mode_says_which_domain_is_listed(caller: Caller, mode: Any, topics: set[str]) -> None:
    answer = listed(caller, mode=mode)
    assert set(answer.topics) == topics
    assert (answer.filtered, answer.changed) == (False, True)


@pytest.mark.parametrize("pattern", ["public/default/[ab]", "persistent://public/default/[ab]"])
def test_a_pattern_is_matched_against_the_whole_name_without_its_domain(caller: Caller, pattern: str) -> None:
    answer = listed(caller, topics_pattern=pattern)
    assert list(answer.topics) == [f"{P}a", f"{P}b"]
    assert answer.filtered


def test_a_pattern_that_is_too_long_is_left_to_the_client(caller: Caller) -> None:
    answer = listed(caller, topics_pattern="public/default/" + "x" * 36)
    assert len(answer.topics) == 3
    assert not answer.filtered
    assert listed(caller, topics_pattern="public/default/" + "x" * 35).filtered


def test_a_pattern_that_is_none_is_refused(caller: Caller) -> None:
    asked = pb.CommandGetTopicsOfNamespace(request_id=5, namespace=NAMESPACE, topics_pattern="public/(")
    error = caller.refusal(asked)
    assert error.error == pb.ServerError.InvalidTopicName
    assert error.message.startswith("Invalid topics pattern: ")


def test_a_list_that_the_client_has_already_is_not_sent(topics_bench: Bench, caller: Caller) -> None:
    digest = listed(caller).topics_hash
    again = listed(caller, topics_hash=digest)
    assert (list(again.topics), again.changed, again.topics_hash) == ([], False, digest)
    create(topics_bench, f"{P}c")
    changed = listed(caller, topics_hash=digest)
    assert (len(changed.topics), changed.changed) == (4, True)


def test_the_hash_of_a_list_is_that_of_a_real_broker() -> None:
    bench = Bench()
    assert listed(bench.client()).topics_hash == HASH_OF_NONE
    create(bench, WATCHED)
    assert listed(bench.client()).topics_hash == HASH_OF_WATCHED


def test_of_a_namespace_that_is_not_there_no_topics_are_listed(caller: Caller) -> None:
    nowhere = {"namespace": "public/nowhere", "topics_pattern": "public/.*"}
    none = caller.ask(pb.CommandGetTopicsOfNamespace(request_id=5, namespace="public/nowhere"))
    assert (list(none.topics), none.topics_hash) == ([], HASH_OF_NONE)
    watched = caller.ask(pb.CommandWatchTopicList(request_id=6, watcher_id=1, **nowhere))
    assert (list(watched.topic), watched.topics_hash) == ([], HASH_OF_NONE)


def watch(pattern: str = "public/default/[a-c]", **fields: Any) -> pb.CommandWatchTopicList:
    return pb.CommandWatchTopicList(request_id=6, watcher_id=1, namespace=NAMESPACE, topics_pattern=pattern, **fields)


def test_a_watch_begins_with_the_topics_that_match_and_tells_of_those_that_come_and_go(
    topics_bench: Bench, caller: Caller
) -> None:
    began = caller.ask(watch())
    assert isinstance(began, pb.CommandWatchTopicListSuccess)
    assert (began.request_id, began.watcher_id, list(began.topic)) == (6, 1, [f"{P}a", f"{P}b"])
    create(topics_bench, f"{P}c")
    (came,) = only(caller.heard(), pb.CommandWatchTopicUpdate)
    assert (came.watcher_id, list(came.new_topics), list(came.deleted_topics)) == (1, [f"{P}c"], [])
    delete(topics_bench, f"{P}c")
    (went,) = only(caller.heard(), pb.CommandWatchTopicUpdate)
    assert (list(went.new_topics), list(went.deleted_topics)) == ([], [f"{P}c"])
    assert went.topics_hash == began.topics_hash != came.topics_hash


def test_topics_that_come_together_are_told_together_and_one_that_goes_and_comes_again_is_told_of_twice(
    topics_bench: Bench, caller: Caller
) -> None:
    caller.say(watch())
    cluster = topics_bench.broker.cluster
    for name in (f"{P}c", f"{P}x", f"{P}y"):
        cluster.create_topic(TopicName.parse(name))
    cluster.delete_topic(TopicName.parse(f"{P}a"))
    delete(topics_bench, f"{P}c")
    updates = only(caller.heard(), pb.CommandWatchTopicUpdate)
    told = [(list(each.new_topics), list(each.deleted_topics)) for each in updates]
    assert told == [([f"{P}c"], [f"{P}a"]), ([], [f"{P}c"])]


def test_what_does_not_match_and_what_is_not_kept_is_not_told(topics_bench: Bench, caller: Caller) -> None:
    caller.say(watch())
    create(topics_bench, f"{P}d")
    create(topics_bench, f"{N}c")
    assert caller.heard() == []


def test_watching_again_with_the_same_id_goes_on_once_and_a_client_that_has_the_list_is_not_sent_it(
    topics_bench: Bench, caller: Caller
) -> None:
    caller.say(watch())
    again = caller.ask(watch())
    assert len(again.topic) == 2
    assert list(caller.ask(watch(topics_hash=again.topics_hash)).topic) == []
    create(topics_bench, f"{P}c")
    assert len(caller.heard()) == 1


def test_a_closed_watch_tells_no_more(topics_bench: Bench, caller: Caller) -> None:
    caller.say(watch())
    for _ in range(2):
        assert caller.say(pb.CommandWatchTopicListClose(request_id=7, watcher_id=1)) == [
            pb.CommandSuccess(request_id=7)
        ]
    create(topics_bench, f"{P}c")
    assert caller.heard() == []


def test_a_watch_ends_with_its_connection(topics_bench: Bench, caller: Caller) -> None:
    watchers: list[Any] = topics_bench.broker.cluster.namespace(NAMESPACE)._watchers  # it holds nothing of who has gone
    caller.say(watch())
    assert len(watchers) == 1
    caller.hang_up()
    assert watchers == []


@pytest.mark.parametrize(
    ("pattern", "code"),
    [("public/(", pb.ServerError.InvalidTopicName), ("public/default/" + "x" * 36, pb.ServerError.NotAllowedError)],
)
def test_a_pattern_that_cannot_be_watched_is_refused(caller: Caller, pattern: str, code: Any) -> None:
    error = caller.refusal(watch(pattern))
    assert (error.request_id, error.error) == (6, code)
