import json
from typing import Any

import pytest

from pulsar_actors.broker.model.entry import EARLIEST_POSITION, LATEST_POSITION, Position
from pulsar_actors.broker.model.interfaces import Address, Conflict, Missing, Refusal
from pulsar_actors.broker.model.schemas import SchemaData
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, ProducerAccessMode, Schema, ServerError

NUMBERS = [b"%d" % number for number in range(5)]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        (EARLIEST_POSITION, NUMBERS),
        (LATEST_POSITION, []),
        (Position(1, 3), NUMBERS[3:]),
        (Position(1, -1), NUMBERS),
        (Position(1, 4), NUMBERS[4:]),
        (Position(1, 5), []),
        (Position(1, 99), []),
        (Position(0, 7), NUMBERS),
        (Position(2**63 - 1, 2**48 - 1), []),
    ],
)
def test_a_reader_begins_with_the_entry_it_names(world: Any, start: Position, expected: Any) -> None:
    world.producer().send_all(NUMBERS)
    assert world.consumer(durable=False, start=start).got == expected


def test_a_reader_that_names_what_is_not_there_yet_may_begin_at_the_earliest(world: Any) -> None:
    world.producer().send_all(NUMBERS)
    assert world.consumer(durable=False, start=Position(9, 9), earliest=True).got == NUMBERS


def test_a_durable_subscription_does_not_heed_a_start(world: Any) -> None:
    world.producer().send_all(NUMBERS)
    assert world.consumer(start=Position(1, 3)).got == []


@pytest.mark.parametrize("durable", [True, False])
def test_a_subscription_may_begin_some_time_ago(world: Any, durable: bool) -> None:  # noqa: FBT001 - a case
    producer = world.producer()
    for data in NUMBERS:
        producer.send(data, publish_time=world.clock.now_ms)
        world.pass_time(10)
    assert world.consumer(durable=durable, rollback_seconds=30).got == NUMBERS[2:]


def test_the_end_of_a_topic_lets_its_producers_go_and_no_other_comes(world: Any) -> None:
    producer = world.producer(access_mode=ProducerAccessMode.Exclusive)
    waiting = world.producer(access_mode=ProducerAccessMode.WaitForExclusive)
    position = producer.send(b"0")
    assert world.topic().terminate() == position
    assert [str(each) for each in waiting.heard] == ["TopicTerminatedError: Topic was already terminated"]
    assert (producer.made.connected, waiting.made.connected) == (False, False)
    with pytest.raises(Refusal, match="TopicTerminatedError"):
        world.producer()


def test_a_producer_that_has_gone_publishes_nothing(world: Any) -> None:
    producer = world.producer()
    producer.close()
    producer.close()
    with pytest.raises(Refusal, match="PersistenceError: Producer is closed"):
        producer.send()


def test_an_unload_sends_everybody_away_and_opens_a_ledger(world: Any) -> None:
    producer, consumer, reader = world.producer(), world.consumer(), world.consumer(subscription="r", durable=False)
    producer.send_all([b"0", b"1"])
    consumer.ack(b"0")
    moved_to = Address("pulsar://b:1", "pulsar+ssl://b:2")
    world.topic().unload(moved_to)
    assert [each.heard for each in (producer, consumer, reader)] == [[("closed", moved_to)]] * 3
    assert list(world.topic().subscriptions) == ["s"]
    assert world.producer().send(b"2") == (2, 0)
    assert world.consumer().got == [b"1", b"2"]


def test_a_subscription_is_made_once(world: Any) -> None:
    world.topic().create_subscription("s", at=LATEST_POSITION)
    with pytest.raises(Conflict):
        world.topic().create_subscription("s", at=LATEST_POSITION)


def test_a_producer_may_have_a_subscription_made(world: Any) -> None:
    world.producer(initial_subscription="first").send(b"0")
    world.producer(initial_subscription="first")
    assert world.consumer(subscription="first").got == [b"0"]
    world.cluster.namespace("public/default").policies.allow_auto_subscription_creation = False
    world.producer(initial_subscription="first")
    with pytest.raises(Refusal, match="initial subscription"):
        world.producer(initial_subscription="second")


def test_a_namespace_may_demand_encryption(world: Any) -> None:
    world.cluster.namespace("public/default").policies.encryption_required = True
    with pytest.raises(Refusal, match="Encryption is required"):
        world.producer()
    producer = world.producer(encrypted=True)
    with pytest.raises(Refusal, match="Messages must be encrypted"):
        producer.send()
    producer.send(encryption_keys=[{"key": "k", "value": b"v"}])


def test_a_topic_keeps_only_so_much_of_what_no_subscription_needs(world: Any) -> None:
    world.settings.kept_bytes = 1000
    world.producer().send_all([b"x"] * 3000)
    assert world.topic().managed_ledger.base == 2049 - 1000
    assert len(world.consumer(durable=False, start=EARLIEST_POSITION, permits=9999).got) == 3000 - 1049


def test_a_topic_keeps_what_a_durable_subscription_needs(world: Any) -> None:
    world.settings.kept_bytes = 0
    world.topic().create_subscription("s", at=EARLIEST_POSITION)
    reader = world.consumer(subscription="r", durable=False, permits=0)
    world.producer().send_all([b"x"] * 3000)
    assert world.topic().managed_ledger.base == 0
    world.topic().subscriptions["s"].skip(2500)
    world.producer().send_all([b"x"] * 100)
    assert world.topic().managed_ledger.base == 2500
    reader.flow(9999)
    assert len(reader.got) == 600


@pytest.fixture(params=["settings", "namespace", "topic"])
def deduplicating(request: Any, world: Any) -> Any:
    """A world whose topic drops duplicates, because of any of three who may say so."""
    where = {
        "settings": world.settings,
        "namespace": world.cluster.namespace("public/default").policies,
        "topic": world.topic(),
    }[request.param]
    where.deduplication = True
    return world


def test_what_was_sent_before_is_not_stored_again(deduplicating: Any) -> None:
    producer = deduplicating.producer()
    positions = [producer.send(sequence_id=number) for number in (5, 4, 5, 6)]
    assert [position == EARLIEST_POSITION for position in positions] == [False, True, True, False]
    assert deduplicating.topic().managed_ledger.end == 2


def test_a_batch_counts_up_to_its_last_message(deduplicating: Any) -> None:
    producer = deduplicating.producer()
    producer.send(sequence_id=0, highest=9)
    assert producer.send(sequence_id=9) == EARLIEST_POSITION
    assert producer.send(sequence_id=10) != EARLIEST_POSITION


def test_names_are_told_apart_and_remembered(deduplicating: Any) -> None:
    first = deduplicating.producer(name="a")
    assert first.made.last_sequence_id == -1
    first.send(sequence_id=7)
    first.close()
    assert deduplicating.producer(name="a").made.last_sequence_id == 7
    assert deduplicating.producer(name="b").send(sequence_id=7) != EARLIEST_POSITION


def test_chunks_are_judged_by_the_last_one(deduplicating: Any) -> None:
    producer = deduplicating.producer()

    def send_chunked() -> list[bool]:
        chunks = [producer.send(sequence_id=3, uuid="u", chunk_id=number, num_chunks_from_msg=3) for number in range(3)]
        return [position == EARLIEST_POSITION for position in chunks]

    assert send_chunked() == [False, False, False]
    assert send_chunked() == [False, False, True]


def test_a_topic_that_is_loaded_again_takes_the_first_chunk_for_the_whole_message(deduplicating: Any) -> None:
    """As Pulsar does, which goes by the name and the sequence id in the metadata."""
    producer = deduplicating.producer(name="a")
    producer.send(sequence_id=3, uuid="u", chunk_id=0, num_chunks_from_msg=2)
    producer.send(sequence_id=9, producer_name="b", uuid="u", chunk_id=0, num_chunks_from_msg=2)
    deduplicating.topic().unload()
    again = deduplicating.producer(name="a")
    assert again.made.last_sequence_id == 3
    assert again.send(sequence_id=3, uuid="u", chunk_id=1, num_chunks_from_msg=2) == EARLIEST_POSITION
    assert deduplicating.producer(name="b").made.last_sequence_id == 9


def test_a_topic_that_is_loaded_again_goes_by_the_last_entry_of_a_name(deduplicating: Any) -> None:
    """As Pulsar does, even if the topic has had a higher sequence id."""
    producer = deduplicating.producer(name="a")
    producer.send(sequence_id=2, highest=4, highest_sequence_id=4)
    deduplicating.topic().unload()
    assert deduplicating.producer(name="a").made.last_sequence_id == 4
    deduplicating.topic().unload()
    producer = deduplicating.producer(name="a")
    producer.send(sequence_id=3, uuid="u", chunk_id=0, num_chunks_from_msg=2)
    deduplicating.topic().unload()
    assert deduplicating.producer(name="a").made.last_sequence_id == 3


def test_what_was_stored_without_deduplication_does_not_count_when_the_topic_is_loaded_again(world: Any) -> None:
    topic = world.topic()
    world.producer(name="a").send(sequence_id=5)
    topic.deduplication = True
    world.producer(name="b").send(sequence_id=5)
    topic.unload()
    assert [world.producer(name=name).made.last_sequence_id for name in "ab"] == [-1, 5]


def test_without_deduplication_everything_is_stored(world: Any) -> None:
    producer = world.producer(name="a")
    positions = [producer.send(sequence_id=0) for _ in range(2)]
    assert EARLIEST_POSITION not in positions
    producer.close()
    assert world.producer(name="a").made.last_sequence_id == -1


def test_switching_it_off_forgets_what_was_known(world: Any) -> None:
    topic = world.topic()
    topic.deduplication = True
    producer = world.producer()
    producer.send(sequence_id=5)
    topic.deduplication = False
    producer.send(sequence_id=5)
    topic.deduplication = True
    assert producer.send(sequence_id=5) != EARLIEST_POSITION


def test_the_topic_decides_before_the_namespace(world: Any) -> None:
    world.cluster.namespace("public/default").policies.deduplication = True
    world.topic().deduplication = False
    assert not world.topic().deduplicates


def test_a_topic_that_is_not_stored_knows_nothing(world: Any) -> None:
    world.settings.deduplication = True
    assert not world.topic("non-persistent://public/default/t").deduplicates


TYPES = CommandSubscribe.SubType


def refusal_of(world: Any, **fields: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        world.consumer(**fields)
    return refusal.value


def test_a_blank_name_is_refused(world: Any) -> None:
    assert refusal_of(world, subscription=" ").reason == "Empty subscription name"


def test_only_one_consumer_at_a_time_may_read_what_is_compacted(world: Any) -> None:
    for subscription_type in (TYPES.Shared, TYPES.Key_Shared):
        assert (
            refusal_of(world, subscription_type=subscription_type, read_compacted=True).code
            == ServerError.NotAllowedError
        )
    world.consumer(read_compacted=True)


def test_a_name_is_durable_or_it_is_not(world: Any) -> None:
    world.consumer(subscription="d", subscription_type=TYPES.Shared)
    world.consumer(subscription="n", subscription_type=TYPES.Shared, durable=False)
    durable = refusal_of(world, subscription="d", subscription_type=TYPES.Shared, durable=False)
    assert durable.reason == "Durable subscription with the same name already exists."
    other = refusal_of(world, subscription="n", subscription_type=TYPES.Shared)
    assert (other.code, other.reason) == (
        ServerError.NotAllowedError,
        "NonDurable subscription with the same name already exists.",
    )
    world.consumer(subscription="n", subscription_type=TYPES.Shared, durable=False)


def test_where_subscriptions_are_not_made_by_themselves_only_readers_come_without(world: Any) -> None:
    world.cluster.namespace("public/default").policies.allow_auto_subscription_creation = False
    refusal = refusal_of(world)
    assert isinstance(refusal, Missing)
    assert refusal.code == ServerError.SubscriptionNotFound
    world.consumer(durable=False, subscription="reader")
    world.consumer("non-persistent://public/default/t")
    world.topic().create_subscription("s", at=EARLIEST_POSITION)
    world.consumer()


JSON = SchemaData("t", Schema.Type.Json, b"{}")
STRING = SchemaData("t", Schema.Type.String, b"")
ANYTHING = SchemaData("t", Schema.Type.AutoConsume, b"")


def test_the_schema_of_the_first_producer_is_the_topics(world: Any) -> None:
    assert world.producer(schema=JSON).made.schema_version == bytes(8)
    assert world.consumer(schema=JSON).heard == []
    for make in (world.producer, world.consumer):
        with pytest.raises(Refusal) as refusal:
            make(schema=STRING)
        assert refusal.value.code == ServerError.IncompatibleSchema


def test_a_producer_that_is_refused_leaves_no_schema(world: Any) -> None:
    world.producer(name="p")
    with pytest.raises(Refusal):
        world.producer(name="p", schema=JSON)
    assert world.topic().schemas.versions() == []


def test_the_schema_of_the_first_consumer_is_that_of_an_idle_topic(world: Any) -> None:
    world.consumer(schema=JSON)
    assert world.topic().schemas.get().schema == JSON


def test_a_topic_with_bytes_in_it_takes_no_schema_from_a_consumer(world: Any) -> None:
    producer = world.producer()
    with pytest.raises(Refusal, match="empty\\(BYTES\\) schema: new schema type Json"):
        world.consumer(schema=JSON)
    producer.send()
    producer.close()
    with pytest.raises(Refusal):
        world.consumer(schema=JSON)


def test_the_schema_of_a_consumer_has_only_to_read_what_the_latest_one_writes(world: Any) -> None:
    """As brokers check it with the default strategy, which is FULL for producers."""
    fields = [{"name": "a", "type": "string"}, {"name": "b", "type": "int"}]
    both, first, more = (
        SchemaData("t", Schema.Type.Avro, json.dumps({"type": "record", "name": "R", "fields": some}).encode())
        for some in (fields, fields[:1], [*fields, {"name": "c", "type": "int"}])
    )
    world.producer(schema=both)
    world.consumer(schema=first)
    for make, schema in ((world.producer, first), (world.consumer, more)):
        with pytest.raises(Refusal) as refusal:
            make(schema=schema)
        assert refusal.value.code == ServerError.IncompatibleSchema


def test_without_a_schema_or_with_any_one_may_always_come(world: Any) -> None:
    world.producer(schema=JSON)
    assert world.producer().made.schema_version is None
    world.consumer(subscription="a")
    world.consumer(subscription="b", schema=ANYTHING)


def test_a_namespace_may_demand_a_schema_of_producers(world: Any) -> None:
    world.cluster.namespace("public/default").policies.schema_validation_enforced = True
    world.producer()
    world.producer(schema=JSON)
    world.producer(schema=JSON)
    with pytest.raises(Refusal, match="SchemaValidationEnforced"):
        world.producer()
