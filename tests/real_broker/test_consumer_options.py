"""What a consumer is given beyond the official client's options, by Java's names; and what is only seen at a broker.

`ours` is our client on either broker. Where the official client can do it too, `client` is either.
"""

import threading
import time
from typing import Any

import pytest

from tests.real_broker.exchange import SOON, contents, receive, send_all, until
from tests.support.admin import Admin
from tests.support.subjects import client_module

pulsar_actors = client_module("ours")
SHARED = pulsar_actors.ConsumerType.Shared
FAILOVER = pulsar_actors.ConsumerType.Failover


@pytest.fixture
def ours(connect: Any) -> Any:
    return connect(pulsar_actors)


def subscription(admin: Admin, topic: str) -> Any:
    return admin.stats(topic)["subscriptions"]["s"]


@pytest.mark.shows("Command AckResponse")
def test_with_receipts_an_acknowledgement_counts_when_the_call_returns(ours: Any, topic: str, admin: Admin) -> None:
    consumer = ours.subscribe(topic, "s", ack_receipt_enabled=True)
    send_all(ours.create_producer(topic), [b"%d" % number for number in range(6)])
    messages = receive(consumer, 6)
    consumer.acknowledge(messages[0])
    consumer.acknowledge([messages[1], messages[2].message_id()])
    assert subscription(admin, topic)["msgBacklog"] == 3
    consumer.acknowledge_cumulative(messages[4])
    consumer.acknowledge_async(messages[5]).result(SOON / 1000)
    assert subscription(admin, topic)["msgBacklog"] == 0


def test_receipts_come_across_an_unload(ours: Any, topic: str, admin: Admin) -> None:
    consumer = ours.subscribe(topic, "s", ack_receipt_enabled=True)
    send_all(ours.create_producer(topic), [b"a", b"b"])
    first, second = receive(consumer, 2)
    admin.unload(topic)
    consumer.acknowledge(first)
    consumer.acknowledge(second)
    assert subscription(admin, topic)["msgBacklog"] == 0


def test_without_grouping_an_acknowledgement_leaves_by_itself(ours: Any, topic: str, admin: Admin) -> None:
    consumer = ours.subscribe(topic, "s", ack_grouping_time_ms=0)
    send_all(ours.create_producer(topic), [b"a", b"b"])
    for left, message in zip((1, 0), receive(consumer, 2), strict=True):
        consumer.acknowledge(message)
        until(lambda left=left: subscription(admin, topic)["msgBacklog"] == left)


def test_a_message_that_is_refused_again_and_again_rests_longer_each_time(ours: Any, topic: str) -> None:
    backoff = pulsar_actors.MultiplierRedeliveryBackoff(100, 400, 4.0)
    consumer = ours.subscribe(topic, "s", SHARED, negative_ack_redelivery_backoff=backoff)
    ours.create_producer(topic).send(b"a")
    rests: list[float] = []
    for count in range(3):
        (message,) = receive(consumer, 1)
        assert message.redelivery_count() == count
        consumer.negative_acknowledge(message)
        refused = time.monotonic()
        until(lambda: consumer.stats().queued)
        rests.append(time.monotonic() - refused)
    assert rests[0] >= 0.1
    assert min(rests[1:]) >= 0.4


def test_what_is_not_acknowledged_in_time_comes_again_though_nobody_asks_for_more(ours: Any, topic: str) -> None:
    consumer = ours.subscribe(topic, "s", SHARED, unacked_messages_timeout_ms=200)
    ours.create_producer(topic).send(b"a")
    receive(consumer, 1)
    until(lambda: consumer.stats().queued)


def test_an_acknowledgement_timeout_may_grow_with_the_redeliveries(ours: Any, topic: str) -> None:
    backoff = pulsar_actors.MultiplierRedeliveryBackoff(0, 0, 2.0)
    options = {"unacked_messages_timeout_ms": 100, "ack_timeout_redelivery_backoff": backoff}
    consumer = ours.subscribe(topic, "s", SHARED, **options)
    ours.create_producer(topic).send(b"a")
    assert [message.redelivery_count() for message in receive(consumer, 3)] == [0, 1, 2]


class Activity(pulsar_actors.ConsumerEventListener):  # type: ignore[misc, name-defined]
    def __init__(self) -> None:
        self.heard: list[bool] = []

    def became_active(self, consumer: Any, partition: int) -> None:
        assert (consumer.subscription_name(), partition) == ("s", -1)
        self.heard.append(True)

    def became_inactive(self, consumer: Any, partition: int) -> None:
        assert (consumer.subscription_name(), partition) == ("s", -1)
        self.heard.append(False)


@pytest.mark.shows("Command ActiveConsumerChange")
@pytest.mark.shows("Command Subscribe", "priority_level")
def test_failover_consumers_hear_which_of_them_is_served_and_the_lowest_level_is(ours: Any, topic: str) -> None:
    later, first = Activity(), Activity()
    standing_by = ours.subscribe(topic, "s", FAILOVER, consumer_event_listener=later, priority_level=2)
    until(lambda: later.heard == [True])
    consumer = ours.subscribe(topic, "s", FAILOVER, consumer_event_listener=first, priority_level=1)
    until(lambda: first.heard and first.heard[-1])
    until(lambda: not later.heard[-1])
    consumer.close()
    until(lambda: later.heard[-1])
    assert standing_by.is_connected()


def test_shared_consumers_of_the_lowest_level_come_first(ours: Any, topic: str) -> None:
    second = ours.subscribe(topic, "s", SHARED, priority_level=1)
    first = ours.subscribe(topic, "s", SHARED, receiver_queue_size=4)
    send_all(ours.create_producer(topic), [b"%d" % number for number in range(6)])
    until(lambda: first.stats().queued == 4)
    until(lambda: second.stats().queued == 2)


@pytest.mark.shows("Command ConsumerStatsResponse")
@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "KeyShared"])
def test_the_broker_tells_what_it_counts_of_a_consumer(ours: Any, topic: str, kind: str) -> None:
    kind_of = getattr(pulsar_actors.ConsumerType, kind)
    consumer = ours.subscribe(topic, "s", kind_of, consumer_name="c", receiver_queue_size=10)
    send_all(ours.create_producer(topic), [b"a", b"b"])
    receive(consumer, 2)
    stats = consumer.get_broker_consumer_stats()
    assert (stats.consumer_name, stats.consumer_type, stats.msg_backlog) == ("c", kind_of, 2)
    assert stats.available_permits == 8
    assert stats.unacked_messages == (2 if kind in {"Shared", "KeyShared"} else stats.unacked_messages)
    assert not stats.is_blocked_consumer_on_unacked_msgs
    assert "127.0.0.1" in stats.address
    assert stats.connected_since


def test_what_the_broker_said_last_counts_for_a_while(ours: Any, topic: str) -> None:
    fresh = ours.subscribe(topic, "s", SHARED, broker_consumer_stats_cache_time_ms=0)
    cached = ours.subscribe(topic, "s", SHARED)
    assert fresh.get_broker_consumer_stats().msg_backlog == cached.get_broker_consumer_stats().msg_backlog == 0
    ours.create_producer(topic).send(b"a")
    assert (fresh.get_broker_consumer_stats().msg_backlog, cached.get_broker_consumer_stats().msg_backlog) == (1, 0)


@pytest.mark.shows("Command Unsubscribe", "force")
def test_a_subscription_can_be_deleted_although_others_use_it(ours: Any, topic: str, admin: Admin) -> None:
    consumer = ours.subscribe(topic, "s", SHARED)
    other = ours.subscribe(topic, "s", SHARED)
    with pytest.raises(pulsar_actors.BrokerRefusal):
        consumer.unsubscribe()
    assert consumer.is_connected()
    consumer.unsubscribe(force=True)
    with pytest.raises(pulsar_actors.AlreadyClosed):
        consumer.receive(0)
    other.close()  # it would subscribe again, and make the subscription anew
    assert consumer.is_open is False


@pytest.mark.shows("Command Subscribe", "replicate_subscription_state")
def test_the_wish_for_replication_is_known_to_the_broker(client: Any, topic: str, admin: Admin) -> None:
    client.subscribe(topic, "s", replicate_subscription_state_enabled=True)
    client.subscribe(topic, "other")
    subscriptions = admin.stats(topic)["subscriptions"]
    assert (subscriptions["s"]["isReplicated"], subscriptions["other"]["isReplicated"]) == (True, False)


@pytest.mark.shows("Command Subscribe", "durable")
@pytest.mark.parametrize("start", ["Earliest", "Latest"])
def test_a_subscription_that_is_not_durable_ends_with_its_consumer(
    ours: Any, topic: str, admin: Admin, start: str
) -> None:
    producer = ours.create_producer(topic)
    producer.send(b"before")
    consumer = ours.subscribe(
        topic,
        "s",
        subscription_mode=pulsar_actors.SubscriptionMode.NonDurable,
        initial_position=getattr(pulsar_actors.InitialPosition, start),
    )
    assert not subscription(admin, topic)["isDurable"]
    send_all(producer, [b"a", b"b", b"c"])
    before = [b"before"] if start == "Earliest" else []
    taken = receive(consumer, len(before) + 2)
    assert contents(taken) == [*before, b"a", b"b"]
    admin.unload(topic)
    assert contents(receive(consumer, 1)) == [b"c"], "it goes on behind what was received"
    consumer.acknowledge_cumulative(taken[-1])
    consumer.close()
    until(lambda: "s" not in admin.stats(topic)["subscriptions"])


@pytest.mark.shows("Command Subscribe", "subscription_properties")
def test_the_properties_of_a_subscription_are_known_to_the_broker(ours: Any, topic: str, admin: Admin) -> None:
    consumer = ours.subscribe(topic, "s", subscription_properties={"owner": "grün"}, properties={"host": "a"})
    known = subscription(admin, topic)
    assert known["subscriptionProperties"] == {"owner": "grün"}
    assert known["consumers"][0]["metadata"] == {"host": "a"}
    assert consumer.is_connected()


@pytest.mark.shows("Command ReachedEndOfTopic")
def test_the_end_of_a_topic_can_be_asked_for(ours: Any, topic: str, admin: Admin) -> None:
    consumer = ours.subscribe(topic, "s")
    reader = ours.create_reader(topic, pulsar_actors.MessageId.earliest)
    ours.create_producer(topic).send(b"a")
    (message,) = receive(consumer, 1)
    assert not consumer.has_reached_end_of_topic()
    assert not reader.has_reached_end_of_topic()
    admin.terminate(topic)
    consumer.acknowledge(message)
    until(consumer.has_reached_end_of_topic)
    assert contents([reader.read_next(SOON)]) == [b"a"]
    until(lambda: nothing_is_left(reader))


def nothing_is_left(reader: Any) -> bool:
    """The broker says that it is the end once all was acknowledged, which a reader does when it is asked again."""
    try:
        reader.read_next(10)
    except pulsar_actors.Timeout:
        return False
    except pulsar_actors.TopicTerminated:
        return bool(reader.has_reached_end_of_topic())
    return False


def test_a_listener_may_start_paused(ours: Any, topic: str) -> None:
    heard: list[bytes] = []
    options = {"message_listener": lambda _, message: heard.append(message.data()), "start_paused": True}
    consumer = ours.subscribe(topic, "s", **options)
    ours.create_producer(topic).send(b"a")
    until(lambda: consumer.stats().queued)
    assert heard == []
    consumer.resume_message_listener()
    until(lambda: heard == [b"a"])


def test_interceptors_see_what_passes(ours: Any, topic: str) -> None:
    seen: list[Any] = []
    closed = threading.Event()

    class Interceptor(pulsar_actors.ConsumerInterceptor):  # type: ignore[misc, name-defined]
        def before_consume(self, consumer: Any, message: Any) -> Any:
            seen.append((consumer, message.data()))
            return message

        def on_acknowledge(self, consumer: Any, message_id: Any, error: Exception | None) -> None:
            seen.append((consumer, message_id, error))

        def close(self) -> None:
            closed.set()

    consumer = ours.subscribe(topic, "s", interceptors=[Interceptor()])
    message_id = ours.create_producer(topic).send(b"a")
    consumer.acknowledge(*receive(consumer, 1))
    assert seen == [(consumer, b"a"), (consumer, message_id, None)]
    consumer.close()
    assert closed.wait(SOON / 1000)


def test_several_messages_come_by_one_future(ours: Any, topic: str) -> None:
    policy = pulsar_actors.ConsumerBatchReceivePolicy(3, -1, -1)
    consumer = ours.subscribe(topic, "s", batch_receive_policy=policy)
    batch = consumer.batch_receive_async()
    send_all(ours.create_producer(topic, batching_enabled=True), [b"a", b"b", b"c"])
    assert contents(batch.result(SOON / 1000)) == [b"a", b"b", b"c"]


@pytest.mark.parametrize("queue", [0, 1])
def test_batches_come_whole_with_no_queue_to_speak_of(ours: Any, topic: str, queue: int) -> None:
    consumer = ours.subscribe(topic, "s", receiver_queue_size=queue)
    producer = ours.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=1000)
    send_all(producer, [b"%d" % number for number in range(10)])
    assert contents(receive(consumer, 5)) == [b"0", b"1", b"2", b"3", b"4"]
    futures = [consumer.receive_async() for _ in range(5)]
    assert contents(future.result(SOON / 1000) for future in futures) == [b"5", b"6", b"7", b"8", b"9"]
    producer.send(b"last")
    assert contents(receive(consumer, 1)) == [b"last"]


@pytest.mark.shows("Persistence", "non-persistent")
def test_a_topic_that_is_not_stored_can_be_consumed_and_read(pulsar: Any, client: Any, topic: str) -> None:
    name = topic.replace("persistent", "non-persistent")
    consumer = client.subscribe(name, "s", consumer_type=pulsar.ConsumerType.Shared)
    reader = client.create_reader(name, pulsar.MessageId.latest)
    producer = client.create_producer(name)
    for payload in (b"a", b"b"):
        producer.send(payload)
    messages = receive(consumer, 2)
    assert contents(messages) == [b"a", b"b"]
    for message in messages:
        consumer.acknowledge(message)
    assert contents(reader.read_next(SOON) for _ in range(2)) == [b"a", b"b"]


def test_a_seek_that_meets_an_unload_is_not_refused_for_want_of_its_consumer(
    ours: Any, topic: str, admin: Admin
) -> None:
    consumer = ours.subscribe(topic, "s")
    ours.create_producer(topic).send(b"a")
    refusals: list[str] = []
    for _ in range(5):
        assert contents(receive(consumer, 1)) == [b"a"]
        unloading = threading.Thread(target=admin.unload, args=(topic,), daemon=True)
        unloading.start()
        try:
            consumer.seek(pulsar_actors.MessageId.earliest)
        except pulsar_actors.ConnectionLost:  # nobody can know; then the unload has brought the message back
            pass
        except pulsar_actors.BrokerRefusal as refused:
            refusals.append(str(refused))
        finally:
            unloading.join()
    assert all("resetting subscription" in refusal for refusal in refusals)
