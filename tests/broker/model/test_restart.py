"""What a cluster has stored, and what the next one with the same storage has: the same.

Hypothesis changes a cluster at random, and kills it now and then: the files are copied as they are, without closing
them. What was not committed is gone as a whole; all else is there.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pulsar_actors.broker.data_folder import DataFolder
from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.consumer import AckedEntry
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.machines.trackers.ack_set import full
from pulsar_actors.wire.entries import encode_entry
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandSubscribe,
    KeySharedMode,
    MessageMetadata,
    ProducerAccessMode,
    Schema,
)
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId, set_transaction
from tests.broker.model.conftest import World

TOPICS = ("one", "two", "three-partition-0", "three-partition-1")
SUBSCRIPTIONS = ("s", "r")
PRODUCERS = ("p", "q")
SHARED = CommandSubscribe.SubType.Shared

a_topic = st.sampled_from(TOPICS)
a_subscription = st.sampled_from(SUBSCRIPTIONS)
a_producer = st.sampled_from(PRODUCERS)


def kept_of(cluster: Cluster) -> dict[str, Any]:
    """All that a restart must not change, as a client or an administrator could see it."""
    return {
        "tenants": cluster.tenants,
        "producers": cluster._last_producer,
        "namespaces": {
            name: (
                each.policies,
                each.partitioned,
                {topic: _kept_of_topic(each.topics[topic]) for topic in each.topics},
            )
            for name, each in cluster.namespaces.items()
        },
        "schemas": {name: cluster.schemas_of(TopicName.parse(name)).versions() for name in TOPICS},
        "coordinators": [
            (
                each.last,
                [
                    (one.id, one.opened_ms, one.timeout_ms, one.status, one.topics, one.subscriptions)
                    for one in each.transactions.values()
                ],
            )
            for each in cluster.coordinators
        ],
    }


def _kept_of_topic(topic: Any) -> dict[str, Any]:
    ledger = topic.managed_ledger
    return {
        "facts": (topic.properties, topic.deduplication, topic.terminated, topic.counters.created_ms),
        "epoch": topic._producers.epoch,
        "entries": [_kept_of_entry(ledger.entry(offset)) for offset in range(ledger.base, ledger.end)],
        "range": (ledger.base, ledger.readable_end, ledger.end, ledger.messages, ledger.size),
        "last": (ledger.last_position if ledger.end else None, ledger.last_message),
        "sequence ids": {name: topic._message_deduplication.last_of(name) for name in PRODUCERS},
        "transactions": (
            topic.transaction_buffer.ongoing,
            topic.transaction_buffer.aborted,
            topic.transaction_buffer.committed,
        ),
        "subscriptions": {
            name: (
                each.properties,
                each.backlog(),
                each.cursor.mark_delete,
                each.cursor.ranges(),
                each.cursor.batch_ack_sets,
                {at: held for at, held in each.cursor.pending_acks.items() if not each.cursor.is_acknowledged(at)},
                each.cursor.replicated,
                each.pending_acks.ongoing,
            )
            for name, each in topic.subscriptions.items()
        },
    }


def _kept_of_entry(entry: Any) -> tuple[Any, ...]:
    facts = (entry.data, entry.position, entry.offset, entry.index, entry.messages, entry.is_batch, entry.is_hidden)
    times = (entry.broker_timestamp, entry.publish_time, entry.deliver_at)
    return (*facts, *times, entry.author, entry.key_hash, entry.chunk_of, entry.is_last_chunk)


class Restarts(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folders = Path(tempfile.mkdtemp(prefix="pulsar-restart-"))
        self._count = 0
        self._now_ms = 1_700_000_000_000
        self.world: Any = None

    @initialize(deduplication=st.booleans(), kept_bytes=st.sampled_from([0, 100, 1 << 20]))
    def begin(self, deduplication: bool, kept_bytes: int) -> None:  # noqa: FBT001 - a strategy
        self._settings = Settings(deduplication=deduplication, kept_bytes=kept_bytes, transaction_coordinators=2)
        self._open(self._folders / "0")
        self.world.cluster.create_partitioned(TopicName.parse("three"), 2)
        for topic in ("one", "two"):
            self.subscribe(topic, "s", {}, earliest=True)
            for number, messages in enumerate((0, 0, 3, 70)):
                self.publish(topic, "p", b"x", messages, None, number, -1)
        self.commit()

    def _open(self, folder: Path) -> None:
        self.folder = folder
        self.data = DataFolder(folder)
        self.world = World(self._settings, self.data)
        self.world.clock.now_ms = self._now_ms
        self.consumers: dict[tuple[str, str], Any] = {}

    def teardown(self) -> None:
        self.data.close()
        shutil.rmtree(self._folders)

    # Crashes.

    @rule()
    def commit(self) -> None:
        assert self.data.commit()
        self.expected = deepcopy(kept_of(self.world.cluster))

    @rule()
    def crash(self) -> None:
        self._now_ms = self.world.clock.now_ms
        self._count += 1
        image = self._folders / str(self._count)
        shutil.copytree(self.folder, image)
        self.data.forget()
        self.data.close()  # without a commit
        self._open(image)
        assert kept_of(self.world.cluster) == self.expected
        self.commit()

    # Changes.

    def _topic(self, name: str) -> Any:
        return self.world.topic(name)

    @rule(
        topic=a_topic,
        producer=a_producer,
        payload=st.binary(max_size=40),
        messages=st.sampled_from([0, 0, 1, 3, 70]),
        key=st.sampled_from([None, "k"]),
        sequence_id=st.integers(0, 30),
        number=st.integers(-1, 3),
    )
    def publish(  # noqa: PLR0913 - strategies
        self, topic: str, producer: str, payload: bytes, messages: int, key: str | None, sequence_id: int, number: int
    ) -> None:
        if self._topic(topic).terminated:
            return
        sender = self.world.producer(topic, name=producer)
        metadata = MessageMetadata(
            producer_name=producer, sequence_id=sequence_id, publish_time=self.world.clock.now_ms
        )
        if messages:
            metadata.num_messages_in_batch = messages
        if key is not None:
            metadata.partition_key = key
        transaction = TransactionId(number % 2, number) if number >= 0 else None
        if transaction is not None:
            set_transaction(metadata, transaction)
        data = b"".join(encode_entry(metadata, payload))
        ids = {"sequence_id": sequence_id, "highest_sequence_id": -1, "transaction": transaction}
        with suppress(Refusal):  # the transaction has ended
            sender.topic.publish(sender.made, data, metadata, **ids)
        sender.close()

    @rule(
        topic=a_topic, subscription=a_subscription, properties=st.sampled_from([{}, {"a": "b"}]), earliest=st.booleans()
    )
    def subscribe(self, topic: str, subscription: str, properties: dict[str, str], earliest: bool) -> None:  # noqa: FBT001 - a strategy
        if (topic, subscription) not in self.consumers:
            self.consumers[topic, subscription] = self.world.consumer(
                topic,
                subscription,
                SHARED,
                earliest=earliest,
                properties=properties,
                replicated=bool(properties) or None,
            )

    @precondition(lambda self: self.consumers)
    @rule(data=st.data())
    def acknowledge(self, data: Any) -> None:
        receiver = self._a_consumer(data)
        if not receiver.deliveries:
            return
        entry = data.draw(st.sampled_from([each.entry for each in receiver.deliveries]))
        ack_set = data.draw(st.none() | st.integers(1, full(min(entry.messages, 90))))
        acked = [AckedEntry(entry.position, ack_set if entry.is_batch else None)]
        number = data.draw(st.sampled_from([-1, -1, -1, 0, 1, 2]))
        if number < 0:
            receiver.subscription.acknowledge(receiver.made, acked)
            return
        transaction = TransactionId(number % 2, number)
        with suppress(Refusal):  # it is acknowledged already
            receiver.subscription.acknowledge_in_transaction(receiver.made, transaction, acked)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), number=st.integers(-1, 3))
    def acknowledge_up_to(self, data: Any, number: int) -> None:
        subscription = self._a_consumer(data).subscription
        ledger = subscription.cursor.managed_ledger
        if ledger.base == ledger.end:
            return
        position = ledger.position(data.draw(st.integers(ledger.base, ledger.end - 1)))
        if number < 0:
            subscription.cursor.acknowledge_up_to(position, None)
        else:
            with suppress(Refusal):  # another transaction has one, or it is acknowledged already
                subscription.pending_acks.add_cumulative(
                    TransactionId(number % 2, number), AckedEntry(position, data.draw(st.none() | st.integers(1, 7)))
                )

    @rule(topic=a_topic, subscription=a_subscription)
    def subscribe_in_vain(self, topic: str, subscription: str) -> None:
        """A consumer with hash ranges that overlap is refused: nothing may be left of it."""
        there = set(self._topic(topic).subscriptions)
        with suppress(Refusal):
            self.world.consumer(
                topic,
                subscription,
                CommandSubscribe.SubType.Key_Shared,
                key_shared_mode=KeySharedMode.STICKY,
                hash_ranges=[(0, 9), (5, 20)],
            )
        assert set(self._topic(topic).subscriptions) == there

    @rule(topic=a_topic)
    def terminate(self, topic: str) -> None:
        if topic == "two":
            self._topic(topic).terminate()

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), how=st.sampled_from(["skip", "replicate", "expire", "unsubscribe"]))
    def administrate(self, data: Any, how: str) -> None:
        receiver = self._a_consumer(data)
        subscription = receiver.subscription
        if how == "skip":
            subscription.skip(data.draw(st.integers(0, 3)))
        elif how == "expire":
            subscription.expire(data.draw(st.integers(0, 20)))
        elif how == "replicate":
            replicated = data.draw(st.booleans())
            self.world.consumer(str(subscription._topic), subscription.name, SHARED, replicated=replicated)
        else:
            receiver.unsubscribe(force=True)
            self._forget(receiver)

    @precondition(lambda self: self.consumers)
    @rule(data=st.data(), ack_set=st.sampled_from([None, 1, 5]))
    def seek(self, data: Any, ack_set: int | None) -> None:
        receiver = self._a_consumer(data)
        ledger = receiver.subscription.cursor.managed_ledger
        if not receiver.subscription.pending_acks.ongoing:
            receiver.subscription.reset(ledger.position(data.draw(st.integers(ledger.base, ledger.end))), ack_set)
            self._forget(receiver)

    def _a_consumer(self, data: Any) -> Any:
        return self.consumers[data.draw(st.sampled_from(sorted(self.consumers)))]

    def _forget(self, receiver: Any) -> None:
        self.consumers = {key: each for key, each in self.consumers.items() if each is not receiver}

    @rule(number=st.integers(0, 1), timeout_ms=st.sampled_from([50, 5000, 60_000]), topic=a_topic)
    def open_transaction(self, number: int, timeout_ms: int, topic: str) -> None:
        coordinator = self.world.cluster.coordinators.find(number)
        coordinator.load()
        transaction = coordinator.begin(timeout_ms)
        if timeout_ms > 100:
            coordinator.add_topics(transaction, [str(TopicName.parse(topic))])
            coordinator.add_subscriptions(transaction, [(str(TopicName.parse(topic)), "s")])

    @rule(number=st.integers(0, 1), commit=st.booleans(), data=st.data())
    def end_transaction(self, number: int, commit: bool, data: Any) -> None:  # noqa: FBT001 - a strategy
        coordinator = self.world.cluster.coordinators.find(number)
        if coordinator.transactions:
            which = data.draw(st.sampled_from(sorted(coordinator.transactions)))
            with suppress(Refusal):  # it is being ended otherwise
                coordinator.end(TransactionId(number, which), commit=commit, when_ended=lambda _: None)

    @rule(topic=a_topic, number=st.integers(0, 3), commit=st.booleans())
    def end_transaction_in_a_topic(self, topic: str, number: int, commit: bool) -> None:  # noqa: FBT001 - a strategy
        transaction = TransactionId(number % 2, number)
        found = self._topic(topic)
        for each in (found, *found.subscriptions.values()):
            each.end_transaction(transaction, commit=commit, low_water_mark=-1)

    @rule(seconds=st.sampled_from([0, 0.2, 10]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(topic=a_topic, how=st.sampled_from(["unload", "delete", "trim", "policy", "exclusive"]))
    def change_topic(self, topic: str, how: str) -> None:
        found = self._topic(topic)
        name = TopicName.parse(topic)
        if how == "policy":
            found.set_deduplication(not found.deduplication)
        elif how == "trim":
            found._trim()
        elif how == "exclusive" and not found.terminated:
            self.world.producer(topic, access_mode=ProducerAccessMode.Exclusive).close()
        elif how in ("unload", "delete"):
            self.consumers = {key: each for key, each in self.consumers.items() if key[0] != topic}
            if how == "delete":
                self.world.cluster.delete_topic(name, force=True)
            else:
                self.world.cluster.unload(name)

    @rule(topic=a_topic, data=st.binary(max_size=5), delete=st.booleans())
    def change_schemas(self, topic: str, data: bytes, delete: bool) -> None:  # noqa: FBT001 - a strategy
        schemas = self.world.cluster.schemas_of(TopicName.parse(topic))
        if delete:
            schemas.delete()
        else:
            schemas.get_or_create(SchemaData("s", Schema.Type.String, data, (("a", "b"),)), self.world.clock.now_ms)

    @rule(name=st.sampled_from(["t1", "t2"]), encryption=st.booleans())
    def change_namespaces(self, name: str, encryption: bool) -> None:  # noqa: FBT001 - a strategy
        cluster = self.world.cluster
        if name not in cluster.tenants:
            cluster.create_tenant(name)
        elif f"{name}/ns" not in cluster.namespaces:
            namespace = cluster.create_namespace(f"{name}/ns")
            namespace.policies.encryption_required = encryption
            namespace.changed()
            cluster.create_topic(TopicName.parse(f"{name}/ns/t"), {"a": "b"})
        else:
            cluster.delete_namespace(f"{name}/ns", force=True)
            cluster.delete_tenant(name)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Callable[..., World]]:
    """Makes clusters that store what they have. With a world, the new one finds what that one has committed."""
    opened: list[DataFolder] = []

    def make(settings: Settings | None = None, before: World | None = None) -> World:
        if before is not None:
            assert opened[-1].commit()
            shutil.copytree(tmp_path / str(len(opened)), tmp_path / str(len(opened) + 1))
        opened.append(DataFolder(tmp_path / str(len(opened) + 1)))
        world = World(settings, opened[-1])
        if before is not None:
            world.clock.now_ms = before.clock.now_ms
        return world

    yield make
    for data in opened:
        data.close()


def test_what_was_acknowledged_otherwise_while_a_transaction_had_it_is_not_held_again(folder: Any) -> None:
    world = folder(Settings(kept_bytes=0))
    consumer = world.consumer(earliest=True, subscription_type=SHARED)
    sender = world.producer()
    sender.send_all([b"0", b"1"])
    transaction = TransactionId(0, 0)
    consumer.ack_in(transaction, b"0")
    consumer.subscription.skip(2)
    world.topic()._trim()
    sender.send_all([b"2", b"3", b"4"])
    again = folder(Settings(kept_bytes=0), world)
    subscription = again.topic().subscriptions["s"]
    subscription.end_transaction(transaction, commit=True, low_water_mark=0)
    assert again.consumer(subscription_type=SHARED).got == [b"2", b"3", b"4"]


def test_a_subscription_that_was_refused_is_not_stored_and_the_next_one_of_its_name_begins_anew(folder: Any) -> None:
    world = folder(None)
    world.producer().send_all([b"0", b"1"])
    with pytest.raises(Refusal):
        world.consumer(
            subscription_type=CommandSubscribe.SubType.Key_Shared,
            key_shared_mode=KeySharedMode.STICKY,
            hash_ranges=[(0, 9), (5, 20)],
        )
    assert folder(Settings(), world).topic().subscriptions == {}
    assert world.consumer(earliest=True).got == [b"0", b"1"]


def test_a_broker_with_fewer_coordinators_keeps_those_that_it_had(folder: Any) -> None:
    world = folder(Settings(transaction_coordinators=2))
    coordinator = world.cluster.coordinators.find(1)
    coordinator.load()
    transaction = coordinator.begin(1000)
    coordinator.add_topics(transaction, ["persistent://public/default/t"])
    sender = world.producer()
    sender.send(b"never", transaction=transaction)
    sender.send(b"plain")
    again = folder(Settings(transaction_coordinators=0), world)
    again.pass_time(2)  # the transaction times out
    assert b"plain" in again.consumer(earliest=True).got


def test_a_seek_into_a_batch_is_kept(folder: Any) -> None:
    world = folder()
    consumer = world.consumer(subscription_type=SHARED)
    position = world.producer().send(b"batch", num_messages_in_batch=3)
    consumer.subscription.reset(position, 0b110)
    again = folder(None, world).consumer(subscription_type=SHARED)
    assert [each.ack_set for each in again.deliveries] == [0b110]


def test_a_part_of_a_batch_that_was_acknowledged_does_not_come_again(folder: Any) -> None:
    world = folder()
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send(b"batch", num_messages_in_batch=3)
    consumer.ack(b"batch", ack_set=0b011)
    again = folder(None, world).consumer(subscription_type=SHARED)
    assert [each.ack_set for each in again.deliveries] == [0b011]


def test_a_number_of_partitions_that_grew_or_went_is_kept(folder: Any) -> None:
    world = folder()
    cluster = world.cluster
    for name in ("t", "u"):
        cluster.create_partitioned(TopicName.parse(name), 2)
    world = folder(None, world)
    world.cluster.grow(TopicName.parse("t"), 3)
    world.cluster.delete_partitioned(TopicName.parse("u"))
    again = folder(None, world).cluster
    assert again.partitions(TopicName.parse("t")) == 3
    assert str(TopicName.parse("u")) not in again.namespace("public/default").partitioned


@pytest.mark.parametrize("commit", [True, False])
def test_a_cumulative_acknowledgement_in_a_transaction_is_kept_until_its_end(folder: Any, commit: bool) -> None:  # noqa: FBT001 - a case
    world = folder()
    world.consumer("t")
    world.producer().send_all([b"0", b"1"])
    world = folder(None, world)
    consumer = world.consumer()
    transaction = TransactionId(0, 0)
    consumer.ack_up_to_in(transaction, b"1")
    world = folder(None, world)
    subscription = world.topic().subscriptions["s"]
    assert subscription.pending_acks.ongoing == 1
    subscription.end_transaction(transaction, commit=commit, low_water_mark=-1)
    again = folder(None, world).topic().subscriptions["s"]
    assert (again.pending_acks.ongoing, again.backlog()) == (0, 0 if commit else 2)


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_of_a_transaction_leaves_no_acknowledgement_pending(folder: Any, commit: bool) -> None:  # noqa: FBT001 - a case
    world = folder()
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send(b"0")
    consumer.ack_in(TransactionId(0, 0), b"0")
    world = folder(None, world)
    world.topic().subscriptions["s"].end_transaction(TransactionId(0, 0), commit=commit, low_water_mark=-1)
    again = folder(None, world).consumer(subscription_type=SHARED)
    assert (again.got, again.subscription.pending_acks.ongoing) == ([] if commit else [b"0"], 0)


def test_a_transaction_whose_messages_were_acknowledged_otherwise_is_forgotten_at_its_end(folder: Any) -> None:
    world = folder()
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send(b"0")
    consumer.ack_in(TransactionId(0, 0), b"0")
    consumer.subscription.skip()
    world = folder(None, world)
    world.topic().subscriptions["s"].end_transaction(TransactionId(0, 0), commit=True, low_water_mark=-1)
    assert folder(None, world).topic().subscriptions["s"].pending_acks.ongoing == 0


def test_what_an_abort_hides_stays_hidden(folder: Any) -> None:
    world = folder()
    transaction = TransactionId(0, 0)
    data = encoded(b"never", transaction)
    sender = world.producer()
    topic = world.topic()
    topic.publish(sender.made, *data, sequence_id=0, highest_sequence_id=-1, transaction=transaction)
    world = folder(None, world)
    world.topic().end_transaction(transaction, commit=False, low_water_mark=-1)
    again = folder(None, world)
    again.producer().send(b"plain")
    assert again.consumer(earliest=True).got == [b"plain"]


def encoded(payload: bytes, transaction: TransactionId) -> tuple[bytes, MessageMetadata]:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    set_transaction(metadata, transaction)
    return b"".join(encode_entry(metadata, payload)), metadata


def test_the_schemas_of_a_topic_that_was_deleted_are_gone(folder: Any) -> None:
    world, name = folder(), TopicName.parse("t")
    world.topic()
    world.cluster.schemas_of(name).get_or_create(SchemaData("s", Schema.Type.String, b"x"), 0)
    world = folder(None, world)
    assert len(world.cluster.schemas_of(name).versions()) == 1
    world.cluster.delete_topic(name)
    assert folder(None, world).cluster.schemas_of(name).versions() == []


def test_what_is_trimmed_is_removed_from_the_disk(folder: Any) -> None:
    world = folder(Settings(kept_bytes=0))
    world.producer().send_all([bytes(1000)] * 3)
    world = folder(Settings(kept_bytes=0), world)
    world.topic()._trim()
    world = folder(Settings(kept_bytes=0), world)
    assert world.topic().managed_ledger.base == 3
    assert world.cluster._storage.query("SELECT count(*) FROM entries") == [(0,)]


@pytest.mark.parametrize("stored_before_the_seek", [True, False])
def test_a_seek_back_brings_what_was_acknowledged_again(folder: Any, stored_before_the_seek: bool) -> None:  # noqa: FBT001 - a case
    world = folder()
    consumer = world.consumer(subscription_type=SHARED)
    first, _ = world.producer().send_all([b"0", b"1"])
    consumer.ack(b"1")
    if stored_before_the_seek:
        world = folder(None, world)
    world.topic().subscriptions["s"].reset(first)
    assert folder(None, world).consumer(subscription_type=SHARED).got == [b"0", b"1"]


def test_a_topic_has_nothing_of_another_that_was_deleted(folder: Any) -> None:
    world = folder()
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send_all([b"0", b"1"])
    consumer.ack(b"1")
    world = folder(None, world)
    world.cluster.delete_topic(TopicName.parse("t"), force=True)
    world.consumer("u", subscription_type=SHARED)
    world.producer("u").send_all([b"2", b"3"])
    assert folder(None, world).consumer("u", subscription_type=SHARED).got == [b"2", b"3"]


def test_a_subscription_has_nothing_of_another_that_was_deleted(folder: Any) -> None:
    world = folder()
    consumer = world.consumer(subscription_type=SHARED)
    world.producer().send(b"0")
    consumer.ack_in(TransactionId(0, 0), b"0")
    world = folder(None, world)
    world.topic().delete_subscription("s", force=True)
    world.consumer(subscription_type=SHARED, earliest=True).close()
    assert folder(None, world).consumer(subscription_type=SHARED).got == [b"0"]


def test_the_entries_that_were_stored_with_deduplication_count_again_after_a_restart(folder: Any) -> None:
    """First chunks, too, as in Pulsar."""

    def send(world: World, name: str) -> None:
        chunk = {"uuid": "u", "chunk_id": 0, "num_chunks_from_msg": 2}
        metadata = MessageMetadata(producer_name=name, sequence_id=7, publish_time=1, **chunk)
        world.producer(name=name).send(b"".join(encode_entry(metadata, b"0")), sequence_id=7, **chunk)

    world = folder(Settings(deduplication=False))
    send(world, "p")
    world = folder(Settings(deduplication=True), world)
    send(world, "q")
    again = folder(Settings(deduplication=True), world)
    assert [again.producer(name=name).made.last_sequence_id for name in "pq"] == [-1, 7]


def test_sequence_ids_are_forgotten_when_deduplication_is_switched_off(folder: Any) -> None:
    world = folder(Settings(deduplication=True))
    world.producer(name="p").send(b"0", sequence_id=7)
    world = folder(Settings(deduplication=False), world)
    world.producer(name="p").send(b"0", sequence_id=7)
    again = folder(Settings(deduplication=True), world)
    assert again.producer(name="p").made.last_sequence_id == -1


@pytest.mark.parametrize("coordinators", [0, 1])
def test_a_cluster_whose_namespaces_were_all_deleted_starts_again(folder: Any, coordinators: int) -> None:
    world = folder(Settings(transaction_coordinators=coordinators))
    for name in list(world.cluster.namespaces):
        world.cluster.delete_namespace(name, force=True)
    again = folder(Settings(), world)
    assert set(again.cluster.namespaces) == {"pulsar/system"}


def test_a_namespace_that_is_deleted_takes_the_schemas_of_partitioned_topics_with_it(world: World) -> None:
    name = TopicName.parse("t")
    for schema in (b"one", b"two"):
        if "public/default" not in world.cluster.namespaces:
            world.cluster.create_namespace("public/default")
        world.cluster.create_partitioned(name, 2)
        world.cluster.schemas_of(name).get_or_create(SchemaData("s", Schema.Type.String, schema), 0)
        world.cluster.delete_namespace("public/default", force=True)
    assert world.cluster.schemas_of(name).versions() == []


class RestartsAfterEachStep(Restarts):
    """The same, with a commit after each change, and another cluster that finds what it has stored."""

    @invariant()
    def everything_is_stored(self) -> None:
        if self.world is None:
            return
        self.commit()
        image = self._folders / "image"
        shutil.copytree(self.folder, image)
        data = DataFolder(image)
        again = World(self._settings, data)
        assert kept_of(again.cluster) == self.expected
        ledgers = [
            ledger
            for each in again.cluster.namespaces.values()
            for topic in each.topics.values()
            for ledger, _ in topic.managed_ledger.ledgers
        ]
        assert len(ledgers) == len(set(ledgers))
        data.close()
        shutil.rmtree(image)


TestRestarts = Restarts.TestCase
TestRestarts.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestRestartsAfterEachStep = RestartsAfterEachStep.TestCase
TestRestartsAfterEachStep.settings = settings(max_examples=20, stateful_step_count=40, deadline=None)
