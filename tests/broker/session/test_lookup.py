from typing import Any

import pytest
from session_bench import TOPIC, Bench, Caller

from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseProducer,
    CommandError,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandProducer,
    CommandSubscribe,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName

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
