"""`pulsar-actors topics` asks the web server of either broker."""

import json
from collections.abc import Callable
from typing import Any

import pytest

import pulsar_actors
from pulsar_actors.__main__ import main
from pulsar_actors.cli.message_lines import line_of
from tests.real_broker.exchange import until
from tests.support.admin import Admin

Topics = Callable[..., list[str]]


@pytest.fixture
def topics(admin: Admin, capsys: pytest.CaptureFixture[str]) -> Topics:
    """Run the command, and return the lines that it writes."""

    def run(*words: str, status: int = 0, says: str = "") -> list[str]:
        assert main(["topics", *words, "-u", admin.web_url]) == status
        wrote = capsys.readouterr()
        assert says in wrote.err, wrote.err
        return wrote.out.splitlines()

    return run


@pytest.fixture
def ours(connect: Callable[..., Any]) -> Any:
    return connect(pulsar_actors)


def test_a_namespace_is_listed_with_one_line_for_a_partitioned_topic(topics: Topics, namespace: str) -> None:
    plain, parts = f"persistent://{namespace}/plain", f"persistent://{namespace}/parts"
    assert topics("create", plain) == [f"{plain}: created"]
    assert topics("create", parts, "-p", "2") == [f"{parts}: created with 2 partitions"]
    assert topics("list", namespace) == [parts, plain]
    assert topics("list", namespace, "--partitions") == [f"{parts}-partition-0", f"{parts}-partition-1", plain]
    assert json.loads(topics("list", namespace, "--json")[0]) == [parts, plain]


def test_the_statistics_tell_of_messages_and_of_each_backlog(topics: Topics, topic: str, ours: Any) -> None:
    consumer, producer = ours.subscribe(topic, "audit"), ours.create_producer(topic)
    for _ in range(5):
        producer.send(b"x")
    consumer.acknowledge(consumer.receive(10_000))
    consumer.close()
    lines = until(lambda: (found := topics("stats", topic)) and any("backlog 4," in line for line in found) and found)
    assert lines[0] == topic
    assert lines[1].startswith("  in 5 messages, ")
    assert lines[3].endswith(" bytes stored, producers: 1")
    assert lines[4] == "  subscription audit (Exclusive)"
    stats = json.loads(topics("stats", topic, "--json")[0])
    assert (stats["msgInCounter"], stats["subscriptions"]["audit"]["msgBacklog"]) == (5, 4)


def test_the_statistics_of_a_partitioned_topic_are_those_of_all_partitions(
    topics: Topics, partitioned: str, ours: Any
) -> None:
    producer = ours.create_producer(partitioned)
    for _ in range(6):
        producer.send(b"x")
    lines = topics("stats", partitioned)
    assert lines[0] == f"{partitioned}, 3 partitions"
    assert lines[1].startswith("  in 6 messages, ")


def test_the_backlog_is_shown_in_batches_and_single_and_stays_there(topics: Topics, topic: str, ours: Any) -> None:
    consumer = ours.subscribe(topic, "s")
    batches = ours.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=60_000)
    for number in range(3):
        batches.send_async(b"%d" % number, None, partition_key="k", properties={"n": str(number)})
    batches.flush()
    ours.create_producer(topic).send(b"\xff", partition_key="shop", properties={"unit": "kg"}, event_timestamp=1_000)
    first, second, third, single = (json.loads(line) for line in topics("peek", topic, "-s", "s", "--json"))
    assert [each["payload"] for each in (first, second, third)] == ["0", "1", "2"]
    assert [each["properties"] for each in (first, second, third)] == [{"n": "0"}, {"n": "1"}, {"n": "2"}]
    assert first["key"] == "k"
    assert (single["payload_base64"], single["key"], single["properties"]) == ("/w==", "shop", {"unit": "kg"})
    assert single["event_time"] == 1_000
    for shown in (first, second, third, single):  # in the words of `consume --json`
        received = json.loads(line_of(consumer.receive(10_000), decoded=False))
        del received["redelivery_count"]
        assert shown == received
    assert len(topics("peek", topic, "-s", "s", "-n", "2", "--json")) == 2
    head, payload = topics("peek", topic, "-s", "s", "-n", "1")
    assert "key=k" in head
    assert payload == "0"
    consumer.close()
    assert len(topics("peek", topic, "-s", "s", "--json")) == 4


def test_the_backlog_of_a_partitioned_topic_is_that_of_each_partition(
    topics: Topics, partitioned: str, ours: Any
) -> None:
    ours.subscribe(partitioned, "s").close()
    producer = ours.create_producer(partitioned)
    for number in range(6):
        producer.send(b"%d" % number)
    shown = [json.loads(line)["payload"] for line in topics("peek", partitioned, "-s", "s", "--json")]
    assert sorted(shown) == ["0", "1", "2", "3", "4", "5"]
    assert len(topics("peek", partitioned, "-s", "s", "-n", "4", "--json")) == 4


def test_an_empty_backlog_has_nothing_to_show(topics: Topics, topic: str, ours: Any) -> None:
    ours.subscribe(topic, "s")
    assert topics("peek", topic, "-s", "s") == []


def test_a_terminated_topic_takes_no_more(topics: Topics, topic: str, ours: Any) -> None:
    producer = ours.create_producer(topic)
    last = producer.send(b"x")
    assert topics("terminate", topic) == [f"{topic}: terminated after ({last.ledger_id()},{last.entry_id()})"]
    with pytest.raises(pulsar_actors.TopicTerminated):
        ours.create_producer(topic)


def test_each_partition_of_a_topic_is_terminated(topics: Topics, partitioned: str, ours: Any) -> None:
    ours.create_producer(partitioned).send(b"x")
    partitions = [line.partition(": terminated after (")[0] for line in topics("terminate", partitioned)]
    assert partitions == [f"{partitioned}-partition-{index}" for index in range(3)]
    with pytest.raises(pulsar_actors.TopicTerminated):
        ours.create_producer(partitioned).send(b"x")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["stats", "persistent://public/default/there-is-none"], "404"),
        (["peek", "persistent://public/default/there-is-none", "-s", "s"], "404"),
        (["list", "public/there-is-none"], "404"),
        (["list", "public"], "a namespace is TENANT/NAMESPACE"),
        (["stats", "nonsense://a/b/c"], "the name of a topic"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else given,
)
def test_what_is_refused_is_told(topics: Topics, words: list[str], says: str) -> None:
    assert topics(*words, status=1, says=says) == []


def test_a_topic_that_exists_is_not_created_again(topics: Topics, topic: str) -> None:
    topics("create", topic)
    assert topics("create", topic, status=1, says="failed: the broker answers 409") == []


def test_a_subscription_that_does_not_exist_is_told_and_not_created(topics: Topics, topic: str) -> None:
    topics("create", topic)
    assert topics("peek", topic, "-s", "nobody", status=1, says="has no subscription 'nobody'") == []
    assert json.loads(topics("stats", topic, "--json")[0])["subscriptions"] == {}
