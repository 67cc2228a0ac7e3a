"""Reading without a subscription of one's own."""

import time
from typing import Any

import pytest

from tests.real_broker.exchange import LETTERS, SOON, InThread, contents, letters_sent, read_rest, send_all, until
from tests.support.admin import Admin


@pytest.fixture
def unstored(topic: str) -> str:
    return topic.replace("persistent", "non-persistent", 1)


def test_a_reader_may_begin_with_what_is_to_come(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    producer.send(b"before")
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    assert reader.has_message_available() is False
    producer.send(b"after")
    assert reader.read_next(SOON).data() == b"after"


def test_a_reader_may_begin_with_the_last_message(pulsar: Any, client: Any, topic: str) -> None:
    send_all(client.create_producer(topic), LETTERS)
    reader = client.create_reader(topic, pulsar.MessageId.latest, start_message_id_inclusive=True)
    assert reader.has_message_available()  # without this question the official client reads nothing
    assert reader.read_next(SOON).data() == b"e"


def test_a_reader_knows_when_it_has_read_everything(pulsar: Any, client: Any, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert reader.has_message_available() is False
    producer = client.create_producer(topic)
    for letter in LETTERS:
        producer.send(letter)
        assert reader.has_message_available() is True
        assert reader.read_next(SOON).data() == letter
        assert reader.has_message_available() is False


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one waits for ever
@pytest.mark.parametrize("partitions", [0, 2], ids=["one topic", "partitions"])
def test_a_reader_does_not_wait_for_messages_that_the_broker_skips(
    pulsar: Any, client: Any, admin: Admin, topic: str, partitions: int
) -> None:
    if partitions:
        admin.create_partitioned(topic, partitions)
    producer = client.create_producer(topic)
    for number in range(20):
        producer.send(b"%d" % number)
    reader = client.create_reader(topic, pulsar.MessageId.earliest, receiver_queue_size=1)
    reader.read_next(SOON)
    for one in client.get_topic_partitions(topic):
        admin.skip_all(one)
    read = 1
    while reader.has_message_available():
        reader.read_next(SOON)
        read += 1
    assert read < 20
    producer.send(b"new")
    assert reader.has_message_available()
    assert reader.read_next(SOON).data() == b"new"
    reader.seek(pulsar.MessageId.earliest)
    assert reader.has_message_available()


def test_a_reader_gives_up_after_its_timeout(pulsar: Any, client: Any, topic: str) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    with pytest.raises(pulsar.Timeout):
        reader.read_next(100)


def test_a_reader_waits_for_a_message(pulsar: Any, client: Any, topic: str) -> None:
    waiting = InThread(client.create_reader(topic, pulsar.MessageId.earliest).read_next)
    client.create_producer(topic).send(b"x")
    assert waiting.result().data() == b"x"


def test_a_reader_can_go_back(pulsar: Any, client: Any, topic: str) -> None:
    ids = send_all(client.create_producer(topic), LETTERS)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert read_rest(reader) == LETTERS
    reader.seek(ids[2])
    assert read_rest(reader) == LETTERS[3:]
    reader.seek(pulsar.MessageId.earliest)
    assert read_rest(reader) == LETTERS
    reader.seek(0)
    assert read_rest(reader) == LETTERS


@pytest.mark.parametrize("batched", [False, True], ids=["one by one", "batched"])
def test_a_reader_goes_on_after_an_unload_where_it_was_even_inside_a_batch(
    pulsar: Any, client: Any, topic: str, admin: Admin, *, batched: bool
) -> None:
    letters_sent(pulsar, client, topic, batched=batched)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert contents(reader.read_next(SOON) for _ in range(2)) == LETTERS[:2]
    admin.unload(topic)
    assert contents(reader.read_next(SOON) for _ in range(3)) == LETTERS[2:]


def test_readers_do_not_share(pulsar: Any, client: Any, topic: str) -> None:
    send_all(client.create_producer(topic), LETTERS)
    readers = [client.create_reader(topic, pulsar.MessageId.earliest) for _ in range(2)]
    assert [read_rest(each) for each in readers] == [LETTERS] * 2


@pytest.mark.shows("Command Subscribe", "durable")
def test_a_reader_leaves_nothing_behind(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    client.create_producer(topic).send(b"x")
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    reader.read_next(SOON)
    reader.close()
    until(lambda: not admin.stats(topic)["subscriptions"])


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one misses what it had not been sent yet
def test_a_reader_at_the_end_misses_nothing_when_the_topic_moves(
    pulsar: Any, client: Any, topic: str, admin: Admin
) -> None:
    producer = client.create_producer(topic)
    producer.send(b"before")
    reader = client.create_reader(topic, pulsar.MessageId.latest)
    send_all(producer, LETTERS)
    assert until(reader.has_message_available)
    admin.unload(topic)
    producer.send(b"after")
    assert contents([reader.read_next(SOON) for _ in range(6)]) == [*LETTERS, b"after"]


def test_a_reader_may_be_named(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    reader = client.create_reader(topic, pulsar.MessageId.earliest, reader_name="me", subscription_role_prefix="role")
    ((subscription, state),) = admin.stats(topic)["subscriptions"].items()
    assert subscription.startswith("role-")
    assert [each["consumerName"] for each in state["consumers"]] == ["me"]
    assert state["isDurable"] is False
    assert reader.topic() == topic
    assert reader.is_connected()


def test_a_listener_may_read(pulsar: Any, client: Any, topic: str) -> None:
    heard: list[bytes] = []

    def listener(reader: Any, message: Any) -> None:
        heard.append(message.data())

    client.create_reader(topic, pulsar.MessageId.earliest, reader_listener=listener)
    send_all(client.create_producer(topic), LETTERS)
    assert until(lambda: heard if len(heard) == 5 else None) == LETTERS


def test_a_reader_reads_a_terminated_topic_to_its_end(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    send_all(client.create_producer(topic), LETTERS)
    admin.terminate(topic)
    assert read_rest(client.create_reader(topic, pulsar.MessageId.earliest)) == LETTERS


@pytest.mark.shows("Command Subscribe", "read_compacted")
@pytest.mark.parametrize("broker", ["apache"], indirect=True)  # the embedded one does not compact
def test_a_reader_may_read_what_compaction_has_left(pulsar: Any, client: Any, topic: str, admin: Admin) -> None:
    producer = client.create_producer(topic)
    for key, payload in [("k", b"old"), ("other", b"a"), ("k", b"new"), ("gone", b"b"), ("gone", None)]:
        producer.send(payload, partition_key=key)
    admin.compact(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest, is_read_compacted=True)
    assert read_rest(reader) == [b"a", b"new"]


def test_a_reader_that_is_sent_to_a_time_reads_nothing_from_before(pulsar: Any, client: Any, topic: str) -> None:
    producer = client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    producer.send(b"a")
    published = reader.read_next(SOON).publish_timestamp()
    until(lambda: time.time() * 1000 > published + 5)
    producer.send(b"b")
    published = reader.read_next(SOON).publish_timestamp()
    reader.seek(published - 2)
    assert read_rest(reader) == [b"b"]
    reader.seek(published + 60_000)
    assert not reader.has_message_available()


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one raises BrokerMetadataError
def test_a_reader_that_is_sent_to_a_time_begins_there_also_if_the_topic_moves_before_it_has_read(
    pulsar: Any, client: Any, topic: str, admin: Admin
) -> None:
    producer = client.create_producer(topic)
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    for letter in LETTERS:
        producer.send(letter)
        published = reader.read_next(SOON).publish_timestamp()
        until(lambda published=published: time.time() * 1000 > published + 5)
    reader.seek(published - 2)
    assert reader.has_message_available()
    admin.unload(topic)
    assert read_rest(reader) == [b"e"]


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one may miss what comes right after its seek
def test_a_reader_of_a_topic_that_is_not_stored_reads_on_wherever_it_was_sent(
    pulsar: Any, client: Any, unstored: str
) -> None:
    reader = client.create_reader(unstored, pulsar.MessageId.earliest)
    producer = client.create_producer(unstored)
    sent = producer.send(b"a")
    assert until(reader.has_message_available)
    assert reader.read_next(SOON).data() == b"a"
    for start in (pulsar.MessageId.earliest, 1000, sent, pulsar.MessageId.latest):
        reader.seek(start)
        producer.send(b"b")
        assert reader.read_next(SOON).data() == b"b"


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one raises what the broker says to that
def test_nothing_is_available_of_a_topic_that_is_not_stored_but_what_has_come(
    pulsar: Any, client: Any, unstored: str
) -> None:
    for topics in (unstored, [unstored, f"{unstored}-too"]):
        with client.create_reader(topics, pulsar.MessageId.earliest) as reader:
            assert not reader.has_message_available()


@pytest.mark.parametrize("pulsar", ["ours"], indirect=True)  # the official one reads one topic
def test_of_several_topics_only_those_that_are_stored_are_asked_for_their_last_message(
    client: Any, pulsar: Any, topic: str, unstored: str
) -> None:
    with client.create_reader([topic, unstored], pulsar.MessageId.earliest, start_message_id_inclusive=True) as reader:
        assert not reader.has_message_available()
        send_all(client.create_producer(topic), [b"a", b"b"])
        assert reader.has_message_available()
        assert [reader.read_next(SOON).data() for _ in range(2)] == [b"a", b"b"]
        assert not reader.has_message_available()
        reader.go_to_last()
        assert reader.read_next(SOON).data() == b"b"
        client.create_producer(unstored).send(b"c")
        assert until(reader.has_message_available)
        assert reader.read_next(SOON).data() == b"c"


@pytest.mark.parametrize("start", [None, 5, "x", b"x"], ids=repr)
def test_what_is_no_message_id_is_no_place_to_start(client: Any, topic: str, start: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        client.create_reader(topic, start)
