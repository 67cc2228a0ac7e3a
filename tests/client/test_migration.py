"""Topics that go to another cluster for good: everybody goes along, and nothing is lost on the way."""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.message import Message

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducer, CommandSubscribe
from tests.support import topics
from tests.support.certificates import Authority
from tests.support.life import MILLISECONDS, SOON, until
from tests.support.relay import Relay

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def clusters(clean: None) -> Iterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    with EmbeddedBroker() as old, EmbeddedBroker() as new:
        new.add_listener()  # so that lookups name the broker, and not whoever was asked
        yield old, new


def stored(broker: EmbeddedBroker, topic: str) -> list[bytes]:
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        reader = client.create_reader(topic, pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(MILLISECONDS).data())
        return found


def asked_of(broker: EmbeddedBroker, kind: type[Message]) -> list[Message]:
    """List what is asked of a broker from now on."""
    asked: list[Message] = []
    broker.faults.control(lambda seen: asked.append(seen.command) if isinstance(seen.command, kind) else None)
    return asked


@pytest.mark.shows("Command TopicMigrated")
def test_a_producer_goes_along_at_once_and_what_is_pending_goes_with_it(
    clusters: tuple[EmbeddedBroker, EmbeddedBroker],
) -> None:
    old, new = clusters
    with contextlib.closing(pulsar.Client(old.service_url)) as client:
        producer = client.create_producer("t")
        producer.send(b"before")
        asked_again = asked_of(old, CommandProducer)
        outcomes: list[Any] = []
        for number in range(500):
            producer.send_async(b"%d" % number, lambda result, _: outcomes.append(result))
            if number == 250:
                old.migrate("t", new.service_url)
        producer.flush()
        until(lambda: len(outcomes) == 500)
        assert set(outcomes) == {pulsar.Result.Ok}
        producer.send(b"after")
        assert not asked_again
    *there, last = stored(new, "t")
    assert last == b"after"
    first = int(there[0])
    assert sorted({int(each) for each in there}) == list(range(first, 500))
    assert topics.messages_in(old, "t") >= 1 + first


@pytest.mark.shows("Command TopicMigrated")
def test_a_consumer_has_what_is_left_and_then_what_comes_in_the_new_cluster(
    clusters: tuple[EmbeddedBroker, EmbeddedBroker],
) -> None:
    old, new = clusters
    earliest = pulsar.InitialPosition.Earliest
    with contextlib.closing(pulsar.Client(old.service_url)) as client:
        consumer = client.subscribe("t", "s", initial_position=earliest)
        producer = client.create_producer("t")
        for number in range(10):
            producer.send(b"%d" % number)
        asked_again = asked_of(old, CommandSubscribe)
        old.migrate("t", new.service_url)
        producer.send(b"there")
        got = []
        for _ in range(11):
            message = consumer.receive(MILLISECONDS)
            got.append(message.data())
            consumer.acknowledge(message)
        assert got == [*(b"%d" % number for number in range(10)), b"there"]
        until(lambda: not old.call(lambda inside: topics.open_topic(inside, "t").is_in_use()))
        assert not asked_again


def test_who_comes_later_is_sent_on_but_to_what_is_left(clusters: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    old, new = clusters
    earliest = pulsar.InitialPosition.Earliest
    with contextlib.closing(pulsar.Client(old.service_url)) as client:
        client.subscribe("t", "left", initial_position=earliest).close()
        client.create_producer("t").send(b"left")
        old.migrate("t", new.service_url)
        client.create_producer("t").send(b"there")
        late = client.subscribe("t", "late", initial_position=earliest)
        assert late.receive(MILLISECONDS).data() == b"there"
        left = client.subscribe("t", "left", initial_position=earliest)
        message = left.receive(MILLISECONDS)
        assert message.data() == b"left"
        left.acknowledge(message)
        assert left.receive(MILLISECONDS).data() == b"there"


def test_a_partition_and_a_reader_go_along(clusters: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    old, new = clusters
    for cluster in clusters:
        topics.create_partitioned(cluster, "p", 2)
    with contextlib.closing(pulsar.Client(old.service_url)) as client:
        producers = [client.create_producer(each) for each in client.get_topic_partitions("p")]
        reader = client.create_reader("p-partition-1", pulsar.MessageId.earliest)
        asked_again = [asked_of(old, kind) for kind in (CommandProducer, CommandSubscribe)]
        old.migrate("p", new.service_url)
        for producer in producers:
            producer.send(b"there")
        assert reader.read_next(MILLISECONDS).data() == b"there"
        assert asked_again == [[], []]


def test_a_topic_that_migrates_while_its_producers_come_and_go_loses_nobody(
    clusters: tuple[EmbeddedBroker, EmbeddedBroker],
) -> None:
    old, new = clusters
    with contextlib.closing(pulsar.Client(old.service_url, initial_backoff_interval_ms=10)) as client:
        begun = threading.Event()

        def migrate() -> None:
            begun.wait(SOON)
            old.migrate("t", new.service_url)

        migrating = threading.Thread(target=migrate, daemon=True)
        migrating.start()
        for number in range(40):
            producer = client.create_producer("t")
            producer.send(b"%d" % number)
            producer.close()
            if number == 10:
                begun.set()
        migrating.join()
    there = [int(each) for each in stored(new, "t")]
    assert there == list(range(there[0], 40))
    assert topics.messages_in(old, "t") == there[0]


def test_an_address_that_leads_into_the_open_is_not_followed(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    files = authority.certify()
    with (
        EmbeddedBroker(certificate_file=files.certificate, private_key_file=files.key) as old,
        EmbeddedBroker() as new,
        Relay(new.service_url) as plain,
        contextlib.closing(pulsar.Client(old.service_url_tls, tls_trust_certs_file_path=authority.file)) as client,
        client.create_producer("t"),
    ):
        asked_again = asked_of(old, CommandProducer)
        old.migrate("t", plain.service_url)
        until(lambda: asked_again)
        assert plain.connections == 0


WITNESS = """
import sys
import pulsar

client = pulsar.Client(sys.argv[1], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
consumer = client.subscribe("t", "s", initial_position=pulsar.InitialPosition.Earliest)
producer = client.create_producer("t")
producer.send(b"here")
print("ready", flush=True)
sys.stdin.readline()
producer.send(b"there")
for _ in range(2):
    message = consumer.receive(20000)
    consumer.acknowledge(message)
    print(message.data().decode(), flush=True)
client.close()
"""


@pytest.mark.shows("Command TopicMigrated")
def test_the_official_client_goes_along_too(clusters: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    """In a process of its own: with a logger of Python's, which one test sets for all, it dies at this very command.

    It sends only once it has gone along: its send, and its handling of this command, may wait for each other for ever.
    """
    old, new = clusters
    arrived = asked_of(new, CommandProducer)
    command = [sys.executable, "-c", WITNESS, old.service_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as witness:  # noqa: S603 - our own words
        assert witness.stdin is not None
        assert witness.stdout is not None
        assert witness.stdout.readline() == "ready\n"
        try:
            old.migrate("t", new.service_url)
            until(lambda: arrived)
            said, _ = witness.communicate("go\n", timeout=60)
        finally:
            witness.kill()
    assert said.split() == ["here", "there"]
    assert stored(new, "t") == [b"there"]


def test_no_transaction_goes_along_with_a_topic(clusters: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    """That of the old cluster has the id of somebody's in the new one, where the client has no coordinator."""
    old, new = clusters
    with (
        contextlib.closing(pulsar.Client(old.service_url)) as client,
        contextlib.closing(pulsar.Client(new.service_url)) as somebody,
    ):
        producer, consumer = client.create_producer("t"), client.subscribe("t", "s", pulsar.ConsumerType.Shared)
        transaction, theirs = client.new_transaction(), somebody.new_transaction()
        assert transaction.txn_id == theirs.txn_id
        producer.send(b"before", transaction=transaction)
        somebody.create_producer("t").send(b"theirs", transaction=theirs)
        old.migrate("t", new.service_url)
        producer.send(b"plain")
        with pytest.raises(pulsar.InvalidTxnStatusError, match="another cluster"):
            producer.send(b"after", transaction=transaction)
        with pytest.raises(pulsar.TransactionHasOperationFailed):
            transaction.commit()
        theirs.commit()
        assert set(stored(new, "t")) == {b"plain", b"theirs"}
        until(lambda: consumer.stats().reconnects == 1)
        producer.send(b"more")
        message = consumer.receive(MILLISECONDS)
        another = client.new_transaction()
        with pytest.raises(pulsar.InvalidTxnStatusError, match="another cluster"):
            consumer.acknowledge(message, transaction=another)
        another.abort()
