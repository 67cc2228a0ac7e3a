"""Clients that go from one cluster to another, and take everything along."""

import contextlib
import gc
import itertools
import logging
import pickle
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar as official_client
import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.runtime.messages import ClusterChanged
from pulsar_actors.runtime.transaction_coordinator_actor import TransactionCoordinatorActor
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandLookupTopic,
    CommandMessage,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    CommandSend,
)
from tests.support import failing_over, topics
from tests.support.certificates import Authority
from tests.support.failing_over import QUICK, QUIET, leave_and_return
from tests.support.life import MILLISECONDS, SOON, InThread, client_of, closed_port, full_backlog, until, works

pytestmark = pytest.mark.usefixtures("clean")


@pytest.fixture
def brokers(clean: None) -> Iterator[tuple[EmbeddedBroker, EmbeddedBroker]]:
    with EmbeddedBroker() as one, EmbeddedBroker() as other:
        yield one, other


def provider_of(module: Any, begin: str) -> Any:
    """Make a provider of a module's, that remembers what it is told."""

    class Provider(module.ServiceInfoProvider):  # type: ignore[misc]
        def __init__(self) -> None:
            self.closed = 0
            self.go_to: Callable[[Any], None] = lambda _: None

        def initial_service_info(self) -> Any:
            return module.ServiceInfo(begin)

        def initialize(self, on_service_info_update: Callable[[Any], None]) -> None:
            self.go_to = on_service_info_update

        def close(self) -> None:
            self.closed += 1

    return Provider()


def publish(broker: EmbeddedBroker, what: str, number: int) -> list[Any]:
    """Publish so many messages in a cluster, and return their ids."""
    with contextlib.closing(pulsar.Client(broker.service_url)) as client:
        producer = client.create_producer("t")
        return [producer.send(f"{what} {each}".encode()) for each in range(number)]


def put(broker: EmbeddedBroker, **values: str) -> None:
    """Publish a value of each key in a cluster, to its own topic."""
    with client_of(broker.service_url) as client:
        producer = client.create_producer("t")
        for key, value in values.items():
            producer.send(value.encode(), partition_key=key)


def wall_clock_ms() -> int:
    return int(time.time() * 1000)


both = pytest.mark.parametrize("module", [pulsar, official_client], ids=["ours", "official"])


@both
def test_an_update_takes_producers_and_consumers_along(
    module: Any, brokers: tuple[EmbeddedBroker, EmbeddedBroker]
) -> None:
    one, other = brokers
    provider = provider_of(module, one.service_url)
    with contextlib.closing(module.Client(provider, logger=QUIET)) as client:
        assert client.get_service_info().service_url == one.service_url
        producer = client.create_producer("t")
        consumer = client.subscribe("t", "s", initial_position=module.InitialPosition.Earliest)
        producer.send(b"before")
        assert consumer.receive(MILLISECONDS).data() == b"before"
        provider.go_to(module.ServiceInfo(other.service_url))
        assert client.get_service_info().service_url == other.service_url
        until(lambda: one.call(lambda inside: inside.connections) == [])
        producer.send(b"after")
        assert consumer.receive(MILLISECONDS).data() == b"after"
        assert one.call(lambda inside: inside.connections) == []
        for wrong in ("x", None):
            with pytest.raises((ValueError, RuntimeError, TypeError)):
                provider.go_to(wrong)
        assert client.get_service_info().service_url == other.service_url
    assert provider.closed == 1


@pytest.mark.parametrize("tls", [True, False])
def test_after_an_update_producers_and_consumers_follow_addresses_of_the_new_urls_kind(
    tmp_path: Path, *, tls: bool
) -> None:
    authority = Authority(tmp_path)
    named = authority.certify()
    files = {"certificate_file": named.certificate, "private_key_file": named.key}

    def service_of(broker: EmbeddedBroker, *, tls: bool) -> pulsar.ServiceInfo:
        return pulsar.ServiceInfo(broker.service_url_tls if tls else broker.service_url, None, authority.file)

    with EmbeddedBroker(**files) as one, EmbeddedBroker(**files) as other, EmbeddedBroker(**files) as last:
        second, _ = other.add_listener(), last.add_listener()
        provider = provider_of(pulsar, "")
        provider.initial_service_info = lambda: service_of(one, tls=not tls)
        with contextlib.closing(pulsar.Client(provider, logger=QUIET)) as client:
            producer = client.create_producer("t")
            consumer = client.subscribe("t", "s", initial_position=pulsar.InitialPosition.Earliest)
            provider.go_to(service_of(other, tls=tls))
            until(lambda: producer.stats().reconnects == consumer.stats().reconnects == 1)
            other.assign("t", second)
            until(lambda: producer.stats().reconnects == consumer.stats().reconnects == 2)
            other.migrate("t", last.service_url, last.service_url_tls)
            producer.send(b"there")
            assert consumer.receive(MILLISECONDS).data() == b"there"


@pytest.mark.parametrize("tls", [True, False])
def test_an_update_takes_along_who_has_migrated_to_where_the_new_url_leads_to_no_address(
    tmp_path: Path, *, tls: bool
) -> None:
    authority = Authority(tmp_path)
    named = authority.certify()
    files = {"certificate_file": named.certificate, "private_key_file": named.key}

    def url_of(broker: EmbeddedBroker, *, tls: bool) -> str:
        return broker.service_url_tls if tls else broker.service_url

    with EmbeddedBroker(**files) as one, EmbeddedBroker(**files) as moved, EmbeddedBroker(**files) as other:
        provider = provider_of(pulsar, "")
        provider.initial_service_info = lambda: pulsar.ServiceInfo(url_of(one, tls=not tls), None, authority.file)
        with contextlib.closing(pulsar.Client(provider, logger=QUIET)) as client:
            producer = client.create_producer("t")
            consumer = client.subscribe("t", "s", initial_position=pulsar.InitialPosition.Earliest)
            one.migrate("t", *((moved.service_url, "") if tls else ("", moved.service_url_tls)))
            producer.send(b"there")
            assert consumer.receive(MILLISECONDS).data() == b"there"
            provider.go_to(pulsar.ServiceInfo(url_of(other, tls=tls), None, authority.file))
            producer.send(b"at the other")
            assert consumer.receive(MILLISECONDS).data() == b"at the other"


def test_an_update_takes_partitions_and_patterns_along(brokers: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    """The new cluster has a partition more, which is found there, and a topic that a pattern means."""
    one, other = brokers
    for number, broker in enumerate(brokers):
        topics.create_partitioned(broker, "t", 2 + number)
    provider = provider_of(pulsar, one.service_url)
    earliest = pulsar.InitialPosition.Earliest
    with contextlib.closing(pulsar.Client(provider, logger=QUIET, partitions_update_interval=0.05)) as client:
        producer = client.create_producer("t")
        consumer = client.subscribe("t", "s", initial_position=earliest)
        pattern = client.subscribe(re.compile("t.*"), "p", initial_position=earliest, pattern_auto_discovery_period=1)
        with contextlib.closing(pulsar.Client(other.service_url)) as there:
            there.create_producer("t-more").send(b"more")
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        until(lambda: producer.send(b"after").partition() == 2)
        found: set[str] = set()
        while "t-partition-2" not in {each.rpartition("/")[2] for each in found}:
            found.add(consumer.receive(MILLISECONDS).topic_name())
        seen: set[bytes] = set()
        while seen != {b"after", b"more"}:
            seen.add(pattern.receive(MILLISECONDS).data())
        assert one.call(lambda inside: inside.connections) == []


def test_what_is_pending_at_an_update_is_sent_to_the_new_cluster(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker],
) -> None:
    one, other = brokers
    one.faults.on(CommandSend, times=None).drop()
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider)) as client:
        producer = client.create_producer("t")
        pending = [producer.send_async(b"%d" % number) for number in range(100)]
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        consumer = client.subscribe("t", "s", initial_position=pulsar.InitialPosition.Earliest)
        assert [consumer.receive(MILLISECONDS).data() for _ in pending] == [b"%d" % number for number in range(100)]
        for each in pending:
            each.result(SOON)


def test_a_call_that_waits_for_the_old_cluster_is_answered_by_the_new_one(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker],
) -> None:
    _, other = brokers
    with full_backlog() as silent:
        provider = provider_of(pulsar, silent)
        with contextlib.closing(pulsar.Client(provider)) as client:
            creating = InThread(lambda: client.create_producer("t"))
            provider.go_to(pulsar.ServiceInfo(other.service_url))
            creating.result(SOON).send(b"x")


def test_a_cluster_comes_with_its_credentials() -> None:
    tokens = [Tokens(b"one secret of the tests"), Tokens(b"another secret of the tests")]
    with EmbeddedBroker(tokens=tokens[0]) as one, EmbeddedBroker(tokens=tokens[1]) as other:
        infos = [
            pulsar.ServiceInfo(broker.service_url, pulsar.AuthenticationToken(each.issue("me")))
            for broker, each in zip((one, other), tokens, strict=True)
        ]
        provider = provider_of(pulsar, one.service_url)
        provider.initial_service_info = lambda: infos[0]
        with contextlib.closing(pulsar.Client(provider)) as client:
            producer = client.create_producer("t")
            producer.send(b"x")
            provider.go_to(infos[1])
            producer.send(b"y")


class TwoClusters:
    """A client with a transaction in one cluster, and another cluster, where somebody's transaction has the same id."""

    def __init__(self, one: EmbeddedBroker, other: EmbeddedBroker) -> None:
        self.one, self.other = one, other
        self.provider = provider_of(pulsar, one.service_url)
        self.client = pulsar.Client(self.provider)
        self.producer = self.client.create_producer("t")
        self.transaction = self.client.new_transaction()
        self.producer.send(b"of the former cluster", transaction=self.transaction)
        self.somebody = pulsar.Client(other.service_url)
        self.theirs = self.somebody.new_transaction()
        assert self.theirs.txn_id == self.transaction.txn_id
        self.somebody.create_producer("t").send(b"theirs", transaction=self.theirs)

    def switch(self) -> None:
        self.provider.go_to(pulsar.ServiceInfo(self.other.service_url))

    def contents(self) -> list[bytes]:
        reader = self.somebody.create_reader("t", pulsar.MessageId.earliest)
        found = []
        while reader.has_message_available():
            found.append(reader.read_next(MILLISECONDS).data())
        return found

    def close(self) -> None:
        self.client.close()
        self.somebody.close()


@pytest.fixture
def clusters(brokers: tuple[EmbeddedBroker, EmbeddedBroker]) -> Iterator[TwoClusters]:
    with contextlib.closing(TwoClusters(*brokers)) as clusters:
        yield clusters


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_the_end_of_a_transaction_of_the_former_cluster_is_not_that_of_another_one(
    clusters: TwoClusters, end: str
) -> None:
    clusters.switch()
    with pytest.raises(pulsar.InvalidTxnStatusError):
        getattr(clusters.transaction, end)()
    assert clusters.transaction.state is pulsar.TransactionState.ERROR
    assert clusters.contents() == []
    clusters.theirs.commit()
    assert clusters.contents() == [b"theirs"]


def test_nothing_more_joins_a_transaction_of_the_former_cluster(clusters: TwoClusters) -> None:
    clusters.one.faults.on(CommandSend, times=None).drop()
    pending = clusters.producer.send_async(b"pending", transaction=clusters.transaction)
    clusters.switch()
    with pytest.raises(pulsar.InvalidTxnStatusError, match="gone to another cluster"):
        pending.result(SOON)
    with pytest.raises(pulsar.InvalidTxnStatusError, match="gone to another cluster"):
        clusters.producer.send(b"late", transaction=clusters.transaction)
    clusters.producer.send(b"of nobody")
    clusters.theirs.commit()
    assert set(clusters.contents()) == {b"theirs", b"of nobody"}


def test_a_commit_without_an_answer_from_the_former_cluster_is_of_unknown_outcome(clusters: TwoClusters) -> None:
    fault = clusters.one.faults.on("end_txn_response", times=None).drop()
    committed = clusters.transaction.commit_async()
    fault.wait(timeout=SOON)
    clusters.switch()
    with pytest.raises(pulsar.OutcomeUnknown, match="gone to another cluster"):
        committed.result(SOON)
    assert clusters.theirs.state is pulsar.TransactionState.OPEN
    assert clusters.contents() == []


def test_a_transaction_that_waits_for_the_former_cluster_is_opened_in_the_other_one(clusters: TwoClusters) -> None:
    fault = clusters.one.faults.on("new_txn_response", times=None).drop()
    opening = InThread(clusters.client.new_transaction)
    fault.wait(timeout=SOON)
    clusters.switch()
    with opening.result(SOON) as transaction:
        clusters.producer.send(b"ours", transaction=transaction)
    clusters.theirs.abort()
    assert clusters.contents() == [b"ours"]


def test_the_coordinators_of_another_cluster_are_counted_anew(brokers: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    one, other = brokers
    several = CommandPartitionedTopicMetadataResponse(
        request_id=0, partitions=3, response=CommandPartitionedTopicMetadataResponse.Success
    )
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider)) as client:
        one.faults.on(CommandPartitionedTopicMetadata).answer(several)
        client.new_transaction().abort()
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        for _ in range(3):
            client.new_transaction().abort()


def test_messages_of_a_transaction_of_the_other_cluster_wait_until_their_producer_is_there(
    clusters: TwoClusters,
) -> None:
    stalled = clusters.other.faults.on(CommandLookupTopic, when=lambda asked: asked.topic.endswith("/t")).delay(1.0)
    clusters.switch()
    stalled.wait(timeout=SOON)
    with clusters.client.new_transaction() as transaction:
        sent = [clusters.producer.send_async(b"ours", transaction=transaction) for _ in range(2)]
        assert clusters.producer.stats().reconnects == 0
        sent.append(clusters.producer.send_async(b"plain, and behind them"))
    clusters.theirs.abort()
    for each in sent:
        each.result(SOON)
    assert clusters.contents() == [b"ours", b"ours", b"plain, and behind them"]


@pytest.mark.parametrize("acknowledges", ["before", "cumulatively before", "after", "cumulatively after"])
def test_what_was_received_in_the_former_cluster_acknowledges_nothing_in_the_other_one(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker], acknowledges: str
) -> None:
    """The messages there have the same ids."""
    one, other = brokers
    kind = pulsar.ConsumerType.Failover if "cumul" in acknowledges else pulsar.ConsumerType.Shared
    options: dict[str, Any] = {"consumer_type": kind, "initial_position": pulsar.InitialPosition.Earliest}
    for name, broker in (("one", one), ("other", other)):
        with contextlib.closing(pulsar.Client(broker.service_url)) as client:
            client.subscribe("t", "s", **options).close()
            producer = client.create_producer("t")
            for number in range(5):
                producer.send(f"{name} {number}".encode())
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider)) as client:
        consumer = client.subscribe("t", "s", **options)
        received = [consumer.receive(MILLISECONDS) for _ in range(5)]
        acknowledge = consumer.acknowledge_cumulative if "cumul" in acknowledges else consumer.acknowledge
        here = received[-1] if "cumul" in acknowledges else received
        if "before" in acknowledges:
            acknowledge(here)
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        until(lambda: consumer.receive(MILLISECONDS).data() == b"other 0")
        if "after" in acknowledges:
            acknowledge(here)
    with contextlib.closing(pulsar.Client(other.service_url)) as client:
        left = client.subscribe("t", "s", **options)
        assert [left.receive(MILLISECONDS).data() for _ in range(5)] == [b"other %d" % number for number in range(5)]


@pytest.mark.parametrize("higher", [0, 1], ids=["lower ids there", "higher ids there"])
@pytest.mark.parametrize("start", ["earliest", "latest", "a time", "a message"])
def test_a_reader_begins_in_the_other_cluster_where_it_was_asked_to_or_at_the_first_message(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker], start: str, higher: int
) -> None:
    """It has read a message and was reconnected before, and so has ids of the former cluster, which mean nothing."""
    one, other = brokers
    with client_of(brokers[higher].service_url) as client:
        for number in range(5):
            works(client, f"topic-{number}")
    ids, times = publish(one, "one", 2), list[int]()
    for number in range(4):
        publish(other, f"other {number}", 1)
        times.append(wall_clock_ms())
        until(lambda: wall_clock_ms() > times[-1])
    expected = {"earliest": range(4), "latest": (), "a time": (2, 3), "a message": range(4)}[start]
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider, initial_backoff_interval_ms=10)) as client:
        reader = client.create_reader(
            "t",
            {"latest": pulsar.MessageId.latest, "a message": ids[0]}.get(start, pulsar.MessageId.earliest),
        )
        if start == "a time":
            reader.seek(times[1] + 1)
        publish(one, "read", 1)
        until(lambda: reader.read_next(MILLISECONDS).data() == b"read 0")
        one.cut_connections()
        publish(one, "read again", 1)
        assert reader.read_next(MILLISECONDS).data() == b"read again 0"
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        until(lambda: topics.handles(other, "t"))
        publish(other, "last", 1)
        read = [reader.read_next(MILLISECONDS).data() for _ in (*expected, None)]
        assert read == [*(b"other %d 0" % number for number in expected), b"last 0"]
        assert not reader.has_message_available()


def test_a_reader_of_a_client_that_has_gone_elsewhere_before_begins_at_the_message_that_it_is_given(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker],
) -> None:
    one, other = brokers
    ids = publish(other, "other", 3)
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider)) as client:
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        reader = client.create_reader("t", ids[1])
        assert reader.read_next(MILLISECONDS).data() == b"other 2"


@pytest.mark.parametrize("higher", [0, 1], ids=["lower ids there", "higher ids there"])
def test_a_table_view_reads_its_topic_in_the_other_cluster_from_its_start(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker], higher: int
) -> None:
    one, other = brokers
    with client_of(brokers[higher].service_url) as client:
        for number in range(5):
            works(client, f"topic-{number}")
    put(one, a="one", b="one")
    put(other, a="other", c="other")
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider, initial_backoff_interval_ms=10)) as client:
        view, heard = client.create_table_view("t"), list[tuple[str, bytes]]()
        view.listen(lambda key, value: heard.append((key, value)))
        one.cut_connections()
        put(one, d="one")
        view.refresh(SOON)
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        until(lambda: topics.handles(other, "t"))
        view.refresh(SOON)
        assert dict(view) == {"a": b"other", "b": b"one", "c": b"other", "d": b"one"}
        put(other, a="again")
        view.refresh(SOON)
        assert view["a"] == b"again"
        until(lambda: heard == [("d", b"one"), ("a", b"other"), ("c", b"other"), ("a", b"again")])


@pytest.mark.parametrize("values", [{}, {"a": "other"}], ids=["an empty topic", "a topic with messages"])
def test_a_refresh_that_waits_for_the_former_cluster_waits_for_the_other_one_instead(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker], values: dict[str, str]
) -> None:
    one, other = brokers
    put(one, a="one", b="one")
    put(other, **values)
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider, initial_backoff_interval_ms=10)) as client:
        view = client.create_table_view("t")
        one.faults.on(CommandMessage, times=None).drop()
        put(one, never="one")
        refreshed = InThread(view.refresh)
        until(refreshed.waits)
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        refreshed.result(SOON)
        assert dict(view) == {"a": b"one", "b": b"one"} | {key: value.encode() for key, value in values.items()}


def test_no_message_of_the_former_cluster_is_acknowledged_in_a_transaction_of_the_other_one(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker],
) -> None:
    one, other = brokers
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider)) as client:
        consumer = client.subscribe("t", "s", consumer_type=pulsar.ConsumerType.Shared)
        producer = client.create_producer("t")
        producer.send(b"one")
        message = consumer.receive(MILLISECONDS)
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        until(lambda: consumer.stats().reconnects == producer.stats().reconnects == 1)
        producer.send(b"other")
        assert consumer.receive(MILLISECONDS).data() == b"other"
        transaction = client.new_transaction()
        with pytest.raises(pulsar.ConnectionLost, match="the message stays in the former one"):
            consumer.acknowledge(message, transaction=transaction)
        with pytest.raises(pulsar.TransactionHasOperationFailed):
            transaction.commit()


def test_nothing_joins_a_transaction_of_the_former_cluster_although_its_coordinator_has_not_heard_of_the_move(
    brokers: tuple[EmbeddedBroker, EmbeddedBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs on an I/O thread of its own, which may be busy."""
    receive = TransactionCoordinatorActor.receive
    monkeypatch.setattr(
        TransactionCoordinatorActor,
        "receive",
        lambda actor, message: None if isinstance(message, ClusterChanged) else receive(actor, message),
    )
    one, other = brokers
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider)) as client:
        producer = client.create_producer("t")
        consumer = client.subscribe("t", "s", consumer_type=pulsar.ConsumerType.Shared)
        for _ in range(2):
            producer.send(b"plain")
        transaction = client.new_transaction()
        consumer.acknowledge(consumer.receive(MILLISECONDS), transaction=transaction)
        message = consumer.receive(MILLISECONDS)
        producer.send(b"hidden", transaction=transaction)
        provider.go_to(pulsar.ServiceInfo(other.service_url))
        until(lambda: consumer.stats().reconnects == producer.stats().reconnects == 1)
        with pytest.raises(pulsar.InvalidTxnStatusError, match="another cluster"):
            producer.send(b"late", transaction=transaction)
        with pytest.raises(pulsar.InvalidTxnStatusError, match="another cluster"):
            consumer.acknowledge(message, transaction=transaction)


def test_a_transaction_goes_on_with_other_credentials_of_its_cluster() -> None:
    tokens = Tokens(b"a secret of the tests")
    with EmbeddedBroker(tokens=tokens) as broker:
        infos = [
            pulsar.ServiceInfo(broker.service_url, pulsar.AuthenticationToken(tokens.issue(who)))
            for who in ("me", "the same")
        ]
        provider = provider_of(pulsar, broker.service_url)
        provider.initial_service_info = lambda: infos[0]
        with contextlib.closing(pulsar.Client(provider)) as client:
            producer = client.create_producer("t")
            with client.new_transaction() as transaction:
                producer.send(b"before", transaction=transaction)
                provider.go_to(infos[1])
                until(lambda: producer.stats().reconnects == 1)
                producer.send(b"after", transaction=transaction)
            reader = client.create_reader("t", pulsar.MessageId.earliest)
            assert [reader.read_next(MILLISECONDS).data() for _ in range(2)] == [b"before", b"after"]


def test_many_updates_end_where_the_last_one_leads(brokers: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    infos = [pulsar.ServiceInfo(broker.service_url) for broker in brokers]
    provider = provider_of(pulsar, brokers[0].service_url)
    with contextlib.closing(pulsar.Client(provider, initial_backoff_interval_ms=10)) as client:
        producer = client.create_producer("t")
        for info in itertools.islice(itertools.cycle(infos), 21):
            provider.go_to(info)
        provider.go_to(infos[1])
        producer.send(b"x")
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        assert reader.read_next(MILLISECONDS).data() == b"x"
        until(lambda: brokers[0].call(lambda inside: inside.connections) == [])


def test_an_update_to_where_the_client_is_costs_no_connection(brokers: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    provider = provider_of(pulsar, brokers[0].service_url)
    with contextlib.closing(pulsar.Client(provider)) as client:
        producer = client.create_producer("t")
        provider.go_to(pulsar.ServiceInfo(brokers[0].service_url))
        producer.send(b"x")
        assert producer.stats().reconnects == 0


def test_an_update_within_initialize_counts(brokers: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    one, other = brokers
    provider = provider_of(pulsar, one.service_url)
    provider.initialize = lambda go_to: go_to(pulsar.ServiceInfo(other.service_url))
    with contextlib.closing(pulsar.Client(provider)) as client:
        assert client.get_service_info().service_url == other.service_url
        client.create_producer("t").send(b"x")


@both
@pytest.mark.parametrize("method", ["initial_service_info", "initialize"])
def test_what_a_provider_raises_is_raised_and_there_is_no_client(
    module: Any, method: str, brokers: tuple[EmbeddedBroker, EmbeddedBroker]
) -> None:
    provider = provider_of(module, brokers[0].service_url)

    def fail(*_: Any) -> Any:
        raise ValueError("what the provider says")

    setattr(provider, method, fail)
    with pytest.raises(ValueError, match="what the provider says"):
        module.Client(provider, logger=QUIET)


@pytest.mark.parametrize("method", ["initial_service_info", "initialize"])
def test_a_provider_without_one_of_its_methods_says_which(method: str) -> None:
    methods = {"initial_service_info": lambda _: pulsar.ServiceInfo("pulsar://h"), "initialize": lambda *_: None}
    half = type("Half", (pulsar.ServiceInfoProvider,), {name: each for name, each in methods.items() if name != method})
    with pytest.raises(NotImplementedError, match=f"give it an {method}$"):
        pulsar.Client(half())


@both
def test_a_provider_that_gives_anything_else_is_refused(module: Any) -> None:
    provider = provider_of(module, "pulsar://h")
    provider.initial_service_info = lambda: "pulsar://h"
    with pytest.raises(ValueError, match="ServiceInfo"):
        module.Client(provider, logger=QUIET)


def test_a_provider_that_fails_to_close_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    provider = provider_of(pulsar, "pulsar://h")

    def fail() -> None:
        raise ValueError("what the provider says")

    provider.close = fail
    pulsar.Client(provider).close()
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
        "the ServiceInfoProvider has failed to close"
    ]


def test_a_provider_that_would_exit_at_its_end_keeps_no_client_open(caplog: pytest.LogCaptureFixture) -> None:
    provider = provider_of(pulsar, "pulsar://h")
    clients = [pulsar.Client(provider) for _ in range(2)]

    def fail() -> None:
        raise SystemExit

    provider.close = fail
    with pytest.raises(SystemExit):  # on the main thread it may be the handler of a signal
        clients[0].close()
    InThread(clients[1].close).result()
    assert "has failed to close" in caplog.text  # and nothing of either client is left, as everywhere here


def test_an_update_that_fails_has_not_been_made(brokers: tuple[EmbeddedBroker, EmbeddedBroker]) -> None:
    class Moody(pulsar.Authentication):
        """Calls back while it is looked at, and raises the first time."""

        def __init__(self) -> None:
            self.faults = [RuntimeError("not now")]

        def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:
            return "none", b""

        @property
        def tls_certificate(self) -> None:
            provider.go_to(pulsar.ServiceInfo(one.service_url))
            if self.faults:
                raise self.faults.pop()

    one, other = brokers
    provider = provider_of(pulsar, one.service_url)
    with contextlib.closing(pulsar.Client(provider)) as client:
        there = pulsar.ServiceInfo(other.service_url, Moody())
        assert isinstance(InThread(lambda: provider.go_to(there)).error(), RuntimeError)
        assert client.get_service_info().service_url == one.service_url
        InThread(lambda: provider.go_to(there)).result()
        assert client.get_service_info() == there


def test_after_the_end_an_update_does_nothing_and_the_provider_is_closed_once() -> None:
    provider = provider_of(pulsar, "pulsar://h")
    client = pulsar.Client(provider)
    client.close()
    client.shutdown()
    provider.go_to(pulsar.ServiceInfo("pulsar://other"))
    assert client.get_service_info().service_url == "pulsar://h"
    assert provider.closed == 1


def test_a_client_that_nobody_holds_lets_its_provider_go() -> None:
    provider = provider_of(pulsar, "pulsar://h")
    pulsar.Client(provider)
    gc.collect()
    until(lambda: provider.closed == 1)


def test_a_url_is_a_service_too(tmp_path: Path) -> None:
    trusted = Authority(tmp_path).file
    with contextlib.closing(pulsar.Client("pulsar+ssl://h", tls_trust_certs_file_path=trusted)) as client:
        info = client.get_service_info()
        assert (info.service_url, info.use_tls, info.tls_trust_certs_file_path) == ("pulsar+ssl://h", True, trusted)


# Failover.


def test_a_cluster_that_stops_is_left_and_returned_to() -> None:
    leave_and_return(pulsar)


def test_the_official_client_leaves_and_returns_alike() -> None:
    program = [sys.executable, failing_over.__file__, "pulsar"]
    subprocess.run(program, check=True, timeout=60)  # noqa: S603 - our own text


def test_a_failover_that_begins_where_nobody_is_goes_on_at_once() -> None:
    with closed_port() as nobody, EmbeddedBroker() as other:
        failover = pulsar.AutoClusterFailover(pulsar.ServiceInfo(nobody), [pulsar.ServiceInfo(other.service_url)])
        with contextlib.closing(pulsar.Client(failover)) as client:
            client.create_producer("t").send(b"x")
            assert client.get_service_info().service_url == other.service_url


def test_a_host_that_is_silent_counts_as_gone_after_the_connection_timeout() -> None:
    with full_backlog() as silent, EmbeddedBroker() as other:
        failover = pulsar.AutoClusterFailover(pulsar.ServiceInfo(silent), [pulsar.ServiceInfo(other.service_url)])
        with contextlib.closing(pulsar.Client(failover, connection_timeout_ms=200)) as client:
            client.create_producer("t").send(b"x")


def test_one_host_of_several_is_enough() -> None:
    with closed_port() as nobody, EmbeddedBroker() as one, EmbeddedBroker() as other:
        url = f"{nobody},{one.service_url.removeprefix('pulsar://')}"
        failover = pulsar.AutoClusterFailover(pulsar.ServiceInfo(url), [pulsar.ServiceInfo(other.service_url)], **QUICK)
        with contextlib.closing(pulsar.Client(failover)) as client:
            assert not threading.Event().wait(0.5)  # several checks
            assert client.get_service_info().service_url == url


def test_a_client_that_nobody_holds_watches_over_nothing() -> None:
    with EmbeddedBroker() as one:
        info = pulsar.ServiceInfo(one.service_url)
        pulsar.Client(pulsar.AutoClusterFailover(info, [info], **QUICK))
        gc.collect()
        until(lambda: not [each for each in threading.enumerate() if "pulsar_actors-io" in each.name])


# What is refused.


@both
def test_what_belongs_to_each_service_is_refused_beside_them(module: Any) -> None:
    info = module.ServiceInfo("pulsar://h")
    for service in (module.AutoClusterFailover(info, [info]), provider_of(module, "pulsar://h")):
        for option in ({"authentication": module.AuthenticationToken("x")}, {"tls_trust_certs_file_path": "/x"}):
            with pytest.raises(ValueError, match=next(iter(option))):
                module.Client(service, **option)


@both
@pytest.mark.parametrize("arguments", [*((5,), ("nonsense",), ("",), ("pulsar://h", "token"), ("pulsar://h", None, 5))])
def test_a_service_that_is_none_is_refused(module: Any, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the texts differ
        module.ServiceInfo(*arguments)


@both
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("primary", "pulsar://h"), ("secondary", []), ("secondary", ()), ("secondary", [5])),
        *((name, value) for name in QUICK for value in (0, -1)),
    ],
)
def test_a_failover_that_could_not_work_is_refused(module: Any, name: str, value: object) -> None:
    info = module.ServiceInfo("pulsar://h")
    arguments: dict[str, Any] = {"primary": info, "secondary": [info], name: value}
    with pytest.raises(ValueError, match=name):
        module.AutoClusterFailover(**arguments)


UNUSABLE = pytest.mark.parametrize(
    ("unusable", "error", "text"),
    [
        (pulsar.ServiceInfo("pulsar://h"), pulsar.InvalidConfiguration, "pulsar://h"),
        (pulsar.ServiceInfo("pulsar+ssl://h", None, "/none"), pulsar.InvalidArgument, "/none"),
        (
            pulsar.ServiceInfo("pulsar+ssl://h", pulsar.AuthenticationTLS("/none", "/none")),
            pulsar.InvalidArgument,
            "/none",
        ),
    ],
)


@UNUSABLE
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_failover_with_a_service_that_cannot_be_used_is_refused_at_once(
    unusable: pulsar.ServiceInfo, error: type[Exception], text: str, place: int
) -> None:
    clusters = [pulsar.ServiceInfo("pulsar+ssl://g")] * 2
    clusters.insert(place, unusable)
    with pytest.raises(error, match=text):
        pulsar.Client(pulsar.AutoClusterFailover(clusters[0], clusters[1:]), use_tls=True)


@UNUSABLE
def test_an_update_to_a_service_that_cannot_be_used_is_refused_and_the_client_stays(
    unusable: pulsar.ServiceInfo, error: type[Exception], text: str
) -> None:
    provider = provider_of(pulsar, "pulsar+ssl://g")
    with contextlib.closing(pulsar.Client(provider, use_tls=True)) as client:
        with pytest.raises(error, match=text):
            provider.go_to(unusable)
        assert client.get_service_info().service_url == "pulsar+ssl://g"


def test_no_credentials_are_in_what_they_look_like() -> None:
    info = pulsar.ServiceInfo("pulsar://h", pulsar.AuthenticationToken("canary"))
    assert "canary" not in repr(info) + repr(pulsar.AutoClusterFailover(info, [info]))


def test_they_pickle() -> None:
    info = pulsar.ServiceInfo("pulsar://h", None, "/x")
    failover = pulsar.AutoClusterFailover(info, [info])
    assert pickle.loads(pickle.dumps(failover)) == failover  # noqa: S301 - our own pickle
