from typing import Any

import pytest

from pulsar_actors.broker.model.entry import EARLIEST_POSITION, LATEST_POSITION, Position
from pulsar_actors.broker.model.interfaces import Address, Busy, Missing, Refusal
from pulsar_actors.broker.model.stats import topic_stats
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode, ServerError
from pulsar_actors.wire.topic_name import TopicName

TYPES = CommandSubscribe.SubType
NUMBERS = [b"%d" % number for number in range(5)]


def test_the_type_is_that_of_the_consumers_and_may_change_when_all_have_gone(world: Any) -> None:
    subscription = world.topic().create_subscription("s", at=EARLIEST_POSITION)
    assert (subscription.subscription_type, subscription.consumers) == (None, [])
    first = world.consumer(subscription_type=TYPES.Shared)
    assert subscription.subscription_type == TYPES.Shared
    first.close()
    assert subscription.subscription_type == TYPES.Shared
    world.consumer(subscription_type=TYPES.Failover)
    assert subscription.subscription_type == TYPES.Failover


def test_a_cumulative_acknowledgement_takes_all_before_along(world: Any) -> None:
    consumer = world.consumer()
    world.producer().send_all(NUMBERS)
    consumer.ack_up_to(b"3")
    assert consumer.subscription.cursor.mark_delete_position == consumer.position_of(b"3")
    consumer.ack_up_to(b"1")
    consumer.redeliver()
    assert consumer.got[5:] == [b"4"]


def test_a_cumulative_acknowledgement_may_end_inside_a_batch(world: Any) -> None:
    consumer = world.consumer()
    producer = world.producer()
    producer.send(b"0")
    producer.send(b"batch", num_messages_in_batch=4)
    consumer.ack_up_to(b"batch", ack_set=0b1000)
    consumer.take()
    consumer.redeliver()
    assert [(each.entry.data, each.ack_set) for each in consumer.deliveries] == [(b"batch", 0b1000)]


def test_a_cumulative_acknowledgement_of_what_would_be_before_a_ledger_takes_the_ledger_before(world: Any) -> None:
    """So do clients name the entry before a batch that is the first of its ledger."""
    consumer = world.consumer()
    world.producer().send_all([b"0", b"1"])
    world.topic().managed_ledger.roll()
    world.producer().send(b"2")
    first = consumer.deliveries[-1].entry.position
    consumer.deliveries.append(consumer.deliveries[-1]._replace(entry=Elsewhere(first._replace(entry_id=-1))))
    consumer.ack_up_to(b"elsewhere")
    consumer.take()
    consumer.redeliver()
    assert consumer.got == [b"2"]


@pytest.mark.parametrize("position", [(1, 99), (99, 0), (-1, -1)])
def test_acknowledging_what_is_not_there_does_nothing(world: Any, position: tuple[int, int]) -> None:
    consumer = world.consumer()
    world.producer().send(b"0")
    wrong = consumer.deliveries[0]._replace(entry=Elsewhere(Position(*position)))
    consumer.deliveries.append(wrong)
    consumer.ack(b"elsewhere")
    consumer.ack_up_to(b"elsewhere")
    assert consumer.subscription.backlog() == 1


class Elsewhere:
    data = b"elsewhere"

    def __init__(self, position: Position) -> None:
        self.position = position


@pytest.mark.parametrize(
    ("position", "expected"), [(Position(1, 77), []), (Position(0, 0), NUMBERS), (Position(1, -1), NUMBERS)]
)
def test_a_seek_to_where_nothing_is_goes_to_the_next_entry(world: Any, position: Position, expected: Any) -> None:
    consumer = world.consumer()
    world.producer().send_all(NUMBERS)
    consumer.subscription.reset(position, 0b1)
    again = world.consumer()
    assert again.got == expected
    assert all(each.ack_set is None for each in again.deliveries)


def test_a_seek_closes_all_consumers_that_share(world: Any) -> None:
    consumers = [world.consumer(subscription_type=TYPES.Shared) for _ in range(2)]
    world.producer().send_all(NUMBERS)
    consumers[0].subscription.reset(EARLIEST_POSITION)
    assert [each.heard for each in consumers] == [[("closed", None)]] * 2
    assert len(consumers[0].got + consumers[1].got) == 5
    assert world.consumer(subscription_type=TYPES.Shared).got == NUMBERS


def test_a_seek_closes_only_the_active_one_of_a_failover(world: Any) -> None:
    first, second = world.failover_pair()
    world.producer("fo-3").send_all(NUMBERS)
    first.ack_up_to(b"4")
    first.subscription.reset(EARLIEST_POSITION)
    assert (first.heard[-1], second.heard[-1]) == (("closed", None), "standby")
    world.pass_time(1)
    assert second.got == NUMBERS


def test_the_admin_may_seek_without_any_consumer(world: Any) -> None:
    subscription = world.topic().create_subscription("s", at=EARLIEST_POSITION)
    positions = world.producer().send_all(NUMBERS)
    subscription.reset(positions[4])
    assert subscription.backlog() == 1
    world.consumer().close()
    subscription.reset_to_time(0)
    assert subscription.backlog() == 5


def test_a_subscription_that_is_not_durable_goes_with_its_last_consumer(world: Any) -> None:
    reader = world.consumer(durable=False)
    reader.close()
    assert world.topic().subscriptions == {}


def test_a_reader_that_comes_back_after_a_seek_goes_on_from_there_whatever_its_start(world: Any) -> None:
    reader = world.consumer(durable=False)
    positions = world.producer().send_all(NUMBERS)
    reader.subscription.reset(positions[3])
    assert reader.heard == [("closed", None)]
    again = world.consumer(durable=False, start=EARLIEST_POSITION)
    assert (again.got, again.subscription.cursor.mark_delete_position) == (NUMBERS[3:], positions[2])
    again.close()
    assert world.topic().subscriptions == {}


@pytest.mark.parametrize("durable", [True, False])
def test_unsubscribing_deletes_the_subscription(world: Any, durable: bool) -> None:  # noqa: FBT001 - a case
    consumer = world.consumer(durable=durable)
    consumer.unsubscribe()
    assert (consumer.heard, world.topic().subscriptions) == ([], {})


@pytest.mark.parametrize("subscription_type", [TYPES.Shared, TYPES.Failover])
def test_unsubscribing_is_refused_while_others_are_there(world: Any, subscription_type: Any) -> None:
    first = world.consumer(subscription_type=subscription_type)
    second = world.consumer(subscription_type=subscription_type)
    with pytest.raises(Refusal, match="Unconnected or shared consumer attempting to unsubscribe") as refusal:
        first.unsubscribe()
    assert refusal.value.code == ServerError.MetadataError
    first.unsubscribe(force=True)
    assert ("closed", None) in second.heard
    assert world.topic().subscriptions == {}


def test_a_subscription_in_use_is_deleted_by_force_only(world: Any) -> None:
    consumer = world.consumer()
    with pytest.raises(Busy, match="active connected consumers"):
        world.topic().delete_subscription("s")
    world.topic().delete_subscription("s", force=True)
    assert consumer.heard == [("closed", None)]
    with pytest.raises(Missing):
        world.topic().delete_subscription("s")


def test_the_oldest_are_skipped(world: Any) -> None:
    subscription = world.topic().create_subscription("s", at=EARLIEST_POSITION)
    world.producer().send_all(NUMBERS)
    subscription.skip(2)
    assert subscription.peek(1).data == b"2"
    subscription.skip(0)
    assert subscription.backlog() == 3
    subscription.skip()
    assert subscription.backlog() == 0
    subscription.skip(1)


def test_what_is_too_old_expires(world: Any) -> None:
    subscription = world.topic().create_subscription("s", at=EARLIEST_POSITION)
    producer = world.producer()
    for data in NUMBERS:
        producer.send(data, publish_time=world.clock.now_ms)
        world.pass_time(1)
    subscription.expire(2)
    assert subscription.backlog() == 2
    assert topic_stats(world.topic())["subscriptions"]["s"]["totalMsgExpired"] == 3


@pytest.mark.parametrize("number", [0, 6, -1])
def test_only_what_is_there_can_be_looked_at(world: Any, number: int) -> None:
    subscription = world.topic().create_subscription("s", at=EARLIEST_POSITION)
    world.producer().send_all(NUMBERS)
    with pytest.raises(Missing):
        subscription.peek(number)


def test_consumers_hear_of_the_end_when_everything_is_acknowledged(world: Any) -> None:
    consumer = world.consumer()
    world.producer().send_all([b"0", b"1"])
    world.topic().terminate()
    consumer.ack(b"0")
    assert consumer.heard == []
    consumer.ack(b"1")
    assert consumer.heard == ["end"]


def test_one_that_comes_after_the_end_hears_of_it(world: Any) -> None:
    world.topic().create_subscription("s", at=LATEST_POSITION)
    world.topic().terminate()
    assert world.consumer().heard == ["end"]


def test_consumers_that_are_let_go_together_do_not_get_what_the_others_had(world: Any) -> None:
    consumers = [world.consumer(subscription_type=TYPES.Shared) for _ in range(2)]
    world.producer().send_all(NUMBERS)
    world.topic().unload(Address("pulsar://elsewhere:6650"))
    assert [each.heard for each in consumers] == [[("closed", Address("pulsar://elsewhere:6650"))]] * 2
    assert len(consumers[0].got + consumers[1].got) == 5


def test_a_topic_that_is_not_stored_has_no_last_message(world: Any) -> None:
    consumer = world.consumer(str(TopicName.parse("non-persistent://public/default/t")))
    with pytest.raises(Refusal, match="Non-persistent"):
        consumer.subscription.last_message()


def test_asking_a_subscription_that_never_had_consumers_does_nothing(world: Any) -> None:
    consumer = world.consumer()
    bare = world.topic().create_subscription("bare", at=LATEST_POSITION)
    bare.detach(consumer.made)
    bare.acknowledge(consumer.made, [])
    bare.resume(consumer.made)
    bare.redeliver(consumer.made, [], -1)
    with pytest.raises(Refusal):
        bare.unsubscribe(consumer.made, force=False)
    assert consumer.heard == []


EXCLUSIVE, FAILOVER, SHARED, KEY_SHARED = (
    {"subscription_type": each} for each in (TYPES.Exclusive, TYPES.Failover, TYPES.Shared, TYPES.Key_Shared)
)
STICKY = {**KEY_SHARED, "key_shared_mode": KeySharedMode.STICKY, "hash_ranges": [(0, 5)]}
IN_ANY_ORDER = {**KEY_SHARED, "allow_out_of_order": True}


@pytest.mark.parametrize(
    ("there", "new", "complaint"),
    [
        (SHARED, KEY_SHARED, "type of 'Shared' .* type 'Key_Shared'"),
        (EXCLUSIVE, FAILOVER, "type of 'Exclusive' .* type 'Failover'"),
        (KEY_SHARED, STICKY, "key_shared mode of 'AUTO_SPLIT' .* key_shared mode 'STICKY'"),
        (KEY_SHARED, IN_ANY_ORDER, "does not allow out of order delivery while the connecting consumer allows it"),
        (IN_ANY_ORDER, KEY_SHARED, "allows out of order delivery while the connecting consumer does not allow it"),
    ],
)
def test_consumers_of_different_kinds_do_not_mix(world: Any, there: Any, new: Any, complaint: str) -> None:
    first = world.consumer(**there)
    with pytest.raises(Refusal, match=f"^ConsumerBusy: Subscription is of different type.*{complaint}") as refusal:
        world.consumer(**new)
    assert refusal.value.code == ServerError.ConsumerBusy
    first.close()
    world.consumer(**new)


def test_closing_twice_does_nothing(world: Any) -> None:
    consumer = world.consumer()
    consumer.close()
    consumer.close()
    assert world.consumer().heard == []


def test_one_that_has_gone_gets_nothing_and_can_ask_for_nothing(world: Any) -> None:
    consumer = world.consumer(**SHARED)
    consumer.close()
    world.producer().send(b"0")
    consumer.flow(10)
    consumer.redeliver()
    assert consumer.got == []


def test_the_end_is_told_once(world: Any) -> None:
    consumer = world.consumer()
    world.topic().terminate()
    consumer.flow(1)
    assert consumer.heard == ["end"]
