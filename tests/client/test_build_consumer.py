from typing import Any

import pytest

from pulsar_actors.client import build_consumer as consuming
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.context import HandleSettings
from pulsar_actors.client.enums import ConsumerType, InitialPosition, KeySharedMode
from pulsar_actors.client.policies import ConsumerDeadLetterPolicy, ConsumerKeySharedPolicy
from pulsar_actors.client.schema import StringSchema
from pulsar_actors.machines.consumer import ConsumerMachine
from pulsar_actors.machines.consumer_trackers import ConsumerTrackers
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.message_id import EARLIEST, MessageId
from tests.support.manual_loop import ManualLoop

COMMON = HandleSettings(20.0, first_backoff=0.5, longest_backoff=4.0)


def options(topic: str = "t", **given: Any) -> ConsumerOptions:
    return ConsumerOptions(topic=topic, subscription_name="s", **given)


def command(start: consuming.ReaderStart | None = None, **given: Any) -> pb.CommandSubscribe:
    return consuming.subscribe_command(options(**given), 7, start)


def machine(start: consuming.ReaderStart | None = None, **given: Any) -> ConsumerMachine:
    return consuming.new_consumer_machine(options(**given), command(start, **given), start, COMMON, ManualLoop())


def trackers(start: consuming.ReaderStart | None = None, **given: Any) -> ConsumerTrackers:
    return machine(start, **given).messages.trackers


def test_the_broker_is_told_what_the_user_chose() -> None:
    told = command(
        consumer_name="mine",
        properties={"a": "1"},
        schema=StringSchema(),
        is_read_compacted=True,
        initial_position=InitialPosition.Earliest,
        replicate_subscription_state_enabled=True,
    )
    assert (told.topic, told.subscription, told.consumer_id) == ("persistent://public/default/t", "s", 7)
    assert (told.consumer_name, told.schema.type) == ("mine", pb.Schema.String)
    assert [(pair.key, pair.value) for pair in told.metadata] == [("a", "1")]
    assert (told.read_compacted, told.replicate_subscription_state) == (True, True)
    assert told.initialPosition == pb.CommandSubscribe.Earliest
    assert told.durable


def test_what_the_user_did_not_choose_is_left_to_the_broker() -> None:
    told = command()
    assert not told.HasField("consumer_name")
    assert not told.HasField("schema")
    assert not told.HasField("keySharedMeta")
    assert told.initialPosition == pb.CommandSubscribe.Latest


def test_a_readers_subscription_does_not_last() -> None:
    assert not command(consuming.ReaderStart(EARLIEST, inclusive=False)).durable


def test_keys_are_shared_as_the_policy_says_and_by_themselves_without_one() -> None:
    alone = command(consumer_type=ConsumerType.KeyShared).keySharedMeta
    assert (alone.keySharedMode, len(alone.hashRanges)) == (pb.AUTO_SPLIT, 0)
    policy = ConsumerKeySharedPolicy(
        key_shared_mode=KeySharedMode.Sticky, allow_out_of_order_delivery=True, sticky_ranges=[(0, 9), (20, 29)]
    )
    sticky = command(consumer_type=ConsumerType.KeyShared, key_shared_policy=policy).keySharedMeta
    assert (sticky.keySharedMode, sticky.allowOutOfOrderDelivery) == (pb.STICKY, True)
    assert [(one.start, one.end) for one in sticky.hashRanges] == [(0, 9), (20, 29)]
    split = ConsumerKeySharedPolicy(key_shared_mode=KeySharedMode.AutoSplit)
    meta = command(consumer_type=ConsumerType.KeyShared, key_shared_policy=split).keySharedMeta
    assert (meta.keySharedMode, list(meta.hashRanges)) == (pb.AUTO_SPLIT, [])


def test_a_machine_has_the_clients_timeout_and_pauses() -> None:
    made = machine()
    assert made.operation_timeout == 20.0
    assert [made._backoff.next_delay() for _ in range(4)] == [0.5, 1.0, 2.0, 4.0]


def test_timeouts_of_acknowledgements_are_kept_where_they_are_wanted() -> None:
    assert trackers().unacked_messages is None
    assert trackers(unacked_messages_timeout_ms=0).unacked_messages is None
    assert trackers(unacked_messages_timeout_ms=20_000).unacked_messages is not None


def test_dead_letters_are_of_shared_subscriptions_with_a_policy() -> None:
    policy = ConsumerDeadLetterPolicy(3)
    assert trackers(consumer_type=ConsumerType.Shared, dead_letter_policy=policy).dead_letters is not None
    assert trackers(consumer_type=ConsumerType.Shared).dead_letters is None
    for kind in (ConsumerType.Exclusive, ConsumerType.Failover):
        assert consuming._dead_letters(_with(policy, kind)) is None


def _with(policy: ConsumerDeadLetterPolicy, kind: ConsumerType) -> Any:
    """Options as they may be one day: today these two exclude each other."""

    class Given:
        dead_letter_policy = policy
        consumer_type = kind

    return Given


def test_a_reader_starts_where_it_says_and_a_consumer_where_the_broker_says() -> None:
    at = consuming.ReaderStart(MessageId(3, 4), inclusive=True)
    assert trackers(at).start.subscribe(0).message_id == MessageId(3, 4, batch_index=0)
    assert not trackers(at).start.durable
    assert trackers().start.subscribe(0).message_id is None
    assert trackers(start_message_id_inclusive=True).start.inclusive


def test_any_number_of_messages_in_chunks_may_be_put_together_where_none_is_named() -> None:
    assert trackers(max_pending_chunked_message=0).chunks is not None
    assert trackers(max_pending_chunked_message=3).chunks is not None


@pytest.mark.parametrize(("drops_oldest", "limited"), [(False, False), (True, True)])
def test_a_reader_limits_its_chunked_messages_only_if_the_oldest_may_be_lost(
    *, drops_oldest: bool, limited: bool
) -> None:
    start = consuming.ReaderStart(MessageId(3, 4), inclusive=True)
    limits = {"max_pending_chunked_message": 3, "auto_ack_oldest_chunked_message_on_queue_full": drops_oldest}
    assert (trackers(start, **limits).chunks.max_pending == 3) is limited
    assert trackers(**limits).chunks.max_pending == 3


@pytest.mark.parametrize(("topic", "persistent"), [("t", True), ("non-persistent://public/default/t", False)])
def test_topics_that_are_not_stored_are_told_apart(topic: str, *, persistent: bool) -> None:
    made = machine(topic=topic)
    assert made.messages._persistent is persistent
