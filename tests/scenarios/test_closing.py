"""However a client is closed, whatever its callers do: it is in time, everybody hears of it, and nothing is left."""

import contextlib
import gc
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pulsar_actors.broker.broker import Broker
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType, InitialPosition
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.shared_transaction import SharedTransaction, join_transaction, open_shared_transaction
from pulsar_actors.exceptions import (
    AlreadyClosed,
    InternalError,
    InvalidTxnStatusError,
    OutcomeUnknown,
    PulsarException,
    Timeout,
)
from pulsar_actors.simulation.connection import NetworkConditions
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import CommandAddPartitionToTxn, CommandSend, CommandSendReceipt
from tests.scenarios.scene import CLOSING, NAMESPACE, OPERATION_TIMEOUT, PARTS, TOPIC, Scene, play
from tests.scenarios.sent import Sent
from tests.scenarios.troubles import Troubles

MADE = ("producer", "consumer", "reader", "transaction", "future")


class Meddler:
    """A caller that makes things and uses what all have made, as its dice say, until the client is closed."""

    def __init__(self, scene: Scene, client: Client, made: dict[str, list[Any]], name: str) -> None:
        self.scene = scene
        self.client = client
        self.made = made
        self.dice = Dice(scene.world.seed, name)
        self.name = name
        self.calls = 0
        self.topics = [TOPIC, TOPIC, TOPIC + "-2", str(PARTS)]
        self.patience: int | None = None
        self.content = b"content" * (10_000 if self.dice.happens(0.2) else 1)
        """Large ones fill a connection that nobody reads."""

    def run(self) -> None:
        while True:
            try:
                self.act()
            except AlreadyClosed:
                if self.is_over():
                    return
            except InternalError:
                raise
            except PulsarException as error:
                self.scene.world.note(f"{self.name}: {error!r}"[:200])

    def is_over(self) -> bool:
        """Tell whether it is the client that is closed, and not just something of it."""
        try:
            self.client.get_topic_partitions(TOPIC)
        except AlreadyClosed:
            return True
        except PulsarException:
            return False
        return False

    def act(self) -> None:
        ways = (
            self.make_a_producer, self.make_a_consumer, self.make_a_reader, self.send, self.send, self.send_async,
            self.send_async, self.flush, self.receive, self.receive, self.receive_async, self.receive_several, self.ask,
            self.seek, self.redeliver, self.refuse, self.unsubscribe, self.close_one, self.rest, self.look,
            self.join_a_transaction, self.send_in_a_transaction, self.send_in_a_transaction,
            self.acknowledge_in_a_transaction, self.end_a_transaction, self.end_a_transaction,
        )  # fmt: skip
        ways[self.dice.below(len(ways))]()

    def topic(self) -> str:
        return self.topics[self.dice.below(len(self.topics))]

    def one(self, kind: str) -> Any:
        made = self.made[kind]
        if not made:
            makers = {
                "producer": self.make_a_producer,
                "consumer": self.make_a_consumer,
                "reader": self.make_a_reader,
                "transaction": self.make_a_transaction,
            }
            makers[kind]()
        return made[self.dice.below(len(made))]

    def make_a_producer(self) -> None:
        batching = self.dice.happens(0.5)
        waits = self.dice.happens(0.5)
        producer = self.client.create_producer(
            self.topic(),
            batching_enabled=batching,
            max_pending_messages=5,
            block_if_queue_full=waits,
            lazy_start_partitioned_producers=True,
        )
        self.made["producer"].append(producer)

    def make_a_consumer(self) -> None:
        kind = (ConsumerType.Exclusive, ConsumerType.Shared)[self.dice.below(2)]
        consumer = self.client.subscribe(
            self.topic(),
            f"subscription-{kind}-{self.dice.below(2)}",
            consumer_type=kind,
            initial_position=InitialPosition.Earliest,
            receiver_queue_size=(0, 1, 3, 100)[self.dice.below(4)],
            message_listener=self.listen if self.patience is None and self.dice.happens(0.2) else None,
        )
        self.made["consumer"].append(consumer)

    def make_a_reader(self) -> None:
        start = (MessageId.earliest, MessageId.latest)[self.dice.below(2)]
        size = (0, 1, 100)[self.dice.below(3)]
        self.made["reader"].append(self.client.create_reader(self.topic(), start, receiver_queue_size=size))

    def make_a_transaction(self) -> None:
        timeout = timedelta(seconds=(0.3, 3.0, 30.0)[self.dice.below(3)])
        if self.dice.happens(0.7):
            transaction = self.client.new_transaction(timeout)
        else:
            transaction = open_shared_transaction(self.client, timeout, 1)
        self.made["transaction"].append(transaction)

    def join_a_transaction(self) -> None:
        opened = self.one("transaction")
        self.made["transaction"].append(join_transaction(self.client, opened.txn_id, timedelta(seconds=3)))

    def listen(self, consumer: Any, message: Any) -> None:
        try:
            consumer.acknowledge(message)
            if self.dice.happens(0.1):
                consumer.close()
        except PulsarException as error:
            self.scene.world.note(f"in a listener: {error!r}")

    def send(self) -> None:
        self.one("producer").send(self.content)

    def send_async(self) -> None:
        producer = self.one("producer")
        if self.dice.happens(0.2):
            producer.send_async(self.content, lambda *_: producer.close())
        elif self.dice.happens(0.3):
            producer.send_async(self.content, lambda *_: None)
        else:
            future = producer.send_async(self.content)
            self.made["future"].append(future)

    def send_in_a_transaction(self) -> None:
        producer, transaction = self.one("producer"), self.one("transaction")
        if self.dice.happens(0.3):
            producer.send(self.content, transaction=transaction)
        elif self.dice.happens(0.3):
            self.made["future"].append(producer.send_many([self.content] * 3, transaction=transaction))
        else:
            self.made["future"].append(producer.send_async(self.content, transaction=transaction))

    def acknowledge_in_a_transaction(self) -> None:
        consumer, transaction = self.one("consumer"), self.one("transaction")
        message = consumer.receive(100)
        ways = (consumer.acknowledge_async, consumer.acknowledge_async, consumer.acknowledge_cumulative_async)
        self.made["future"].append(ways[self.dice.below(3)](message, transaction=transaction))

    def end_a_transaction(self) -> None:
        transaction = self.one("transaction")
        if isinstance(transaction, SharedTransaction) and self.dice.happens(0.5):
            transaction.leave()
            if self.dice.happens(0.2):
                transaction.leave()
        elif self.dice.happens(0.5):
            (transaction.commit, transaction.abort)[self.dice.below(2)]()
        else:
            end = (transaction.commit_async, transaction.abort_async)[self.dice.below(2)]
            self.made["future"].append(end())
        if self.dice.happens(0.5):
            with contextlib.suppress(ValueError):  # another caller was quicker
                self.made["transaction"].remove(transaction)

    def flush(self) -> None:
        self.one("producer").flush()

    def receive(self) -> None:
        consumer = self.one("consumer")
        consumer.acknowledge(consumer.receive((self.patience, 100, 1000)[self.dice.below(3)]))

    def receive_async(self) -> None:
        future = self.one("consumer").receive_async()
        self.made["future"].append(future)
        if self.dice.happens(0.2):
            future.cancel()

    def receive_several(self) -> None:
        if self.patience is None:
            self.one("consumer").batch_receive()

    def ask(self) -> None:
        reader = self.one("reader")
        if self.dice.happens(0.5):
            reader.has_message_available()
        else:
            reader.read_next(300)

    def seek(self) -> None:
        self.one(("consumer", "reader")[self.dice.below(2)]).seek(MessageId.earliest)

    def redeliver(self) -> None:
        self.one("consumer").redeliver_unacknowledged_messages()

    def refuse(self) -> None:
        consumer = self.one("consumer")
        consumer.negative_acknowledge(consumer.receive(100))

    def unsubscribe(self) -> None:
        if self.dice.happens(0.3):
            self.one("consumer").unsubscribe()

    def close_one(self) -> None:
        if self.dice.happens(0.5):
            handle = self.one(("consumer", "reader", "producer")[self.dice.below(3)])
            began = self.scene.world.now
            handle.close()
            took = self.scene.world.now - began
            assert took <= CLOSING, f"close() of {handle} took {took:.3f} s"

    def rest(self) -> None:
        self.scene.sleep(10.0 ** (self.dice.chance() * 3 - 3))

    def look(self) -> None:
        self.client.stats()


def make_it_worse(scene: Scene) -> None:
    """Let the broker be out of reach just now, or dead, or let all be as it is."""
    faults, dice = scene.world.faults, scene.dice
    ways: tuple[Callable[[], object], ...] = (
        lambda: faults.partition("broker", 100.0),
        lambda: faults.stall("broker"),
        lambda: faults.stall("client1"),
        lambda: (faults.cut(), faults.refuse("broker", 1000)),
        lambda: (faults.cut(), faults.ignore("broker", 1000)),
        lambda: scene.on_broker(Broker.close),
    )
    way = dice.below(2 * len(ways))
    if way < len(ways):
        ways[way]()


def close_in_a_callback(scene: Scene, client: Client) -> None:
    """Close it on one of its own loops, where nothing may wait."""
    engine = client._engine
    engine.loops[-1].post(lambda _: client.close(), None)
    scene.world.block(lambda: client._shutdown.ended is not None and client._shutdown.ended.done())


def send_by_all(made: dict[str, list[Any]]) -> None:
    """Send by all producers, just before the client closes: lazy partitions are starting then."""
    for producer in made["producer"]:
        with contextlib.suppress(PulsarException):
            made["future"] += [producer.send_async(b"last") for _ in range(3)]


def close_in_time(scene: Scene, close: Callable[[], object]) -> None:
    began = scene.world.now
    close()
    took = scene.world.now - began
    assert took <= CLOSING + 1.0, f"closing took {took:.3f} s"


def try_to(make: Callable[[], object]) -> None:
    with contextlib.suppress(PulsarException):
        make()


def closing(scene: Scene) -> None:
    world, dice = scene.world, scene.dice
    scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 3))
    client = scene.client()
    Troubles(scene, loses_receipts=True)
    made: dict[str, list[Any]] = {kind: [] for kind in MADE}
    callers = [world.spawn(Meddler(scene, client, made, name).run, name) for name in "abcd"[: 1 + dice.below(4)]]
    scene.sleep(10.0 ** (dice.chance() * 4.3 - 3))  # from a thousandth of a second to twenty
    make_it_worse(scene)
    ways: tuple[Callable[[], None], ...] = (client.close, client.shutdown, lambda: close_in_a_callback(scene, client))
    sends_before = dice.happens(0.25)

    def close() -> None:
        if sends_before:
            send_by_all(made)
        close_in_time(scene, ways[dice.below(3)])

    closers = [world.spawn(close, f"closer {number}") for number in range(1 + dice.below(2))]
    late = Meddler(scene, client, made, "late")
    makers = (late.make_a_producer, late.make_a_consumer, late.make_a_transaction)
    callers += [world.spawn(lambda maker=maker: try_to(maker)) for maker in makers[: dice.below(4)]]  # type: ignore[misc]
    world.run(until=lambda: all(closer.ended for closer in closers), limit=5 * CLOSING)
    for closer in closers:
        closer.result()
    world.run(until=lambda: all(caller.ended for caller in callers), limit=5.0)
    for caller in callers:
        caller.result()
    open_still = [future for future in made["future"] if not future.done()]
    assert not open_still, f"{len(open_still)} futures have not ended: {open_still}"
    for handle in [*made["producer"], *made["consumer"], *made["reader"]]:
        handle.close()
        assert not handle.is_connected()
    with pytest.raises(AlreadyClosed):
        client.create_producer(TOPIC)
    client.close()
    scene.check_nothing_is_left()


def dropping(scene: Scene) -> None:
    """Make things, use them, and forget them without closing anything. Only a listener keeps its client alive."""
    world, dice = scene.world, scene.dice
    made: dict[str, list[Any]] = {kind: [] for kind in MADE}
    scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 3))
    Troubles(scene, loses_receipts=True)

    def program() -> None:
        meddler = Meddler(scene, scene.client(), made, "dropper")
        meddler.patience = 500
        for _ in range(dice.below(8)):
            with contextlib.suppress(PulsarException):
                meddler.act()

    caller = world.spawn(program)
    world.run(until=lambda: caller.ended, limit=20 * CLOSING)
    caller.result()
    scene.clients.clear()
    for each in made.values():
        each.clear()
    for _ in range(3):  # a timer may hold an actor for a while, and through it an error with the frames of its caller
        gc.collect()
        scene.sleep(2 * CLOSING)
    scene.check_nothing_is_left()


def disturb_what_is_closed(scene: Scene, within: float) -> bool:
    """Perhaps have the broker do something with the topics of the producer that is closed."""
    assert scene.broker is not None
    dice = Dice(scene.world.seed, "disturbance")
    if dice.happens(0.5):
        return False
    scene.add_brokers(1, [])

    def with_each_topic(act: Callable[[Broker, str], object]) -> None:
        for topic in scene.topics():
            scene.on_broker(lambda broker, topic=topic: act(broker, topic))  # type: ignore[misc]

    def unload(broker: Broker, topic: str) -> None:
        broker.cluster.namespace(NAMESPACE).topics[topic].unload()

    ways: tuple[Callable[[], object], ...] = (
        lambda: with_each_topic(scene.move),
        lambda: with_each_topic(unload),
        scene.world.faults.cut,
    )
    way = dice.below(len(ways) + 1)
    if way == len(ways):
        scene.broker.faults.on(CommandSendReceipt, nth=1 + dice.below(3)).reorder()
    else:
        scene.world.after(within * dice.chance(), ways[way])
    return True


def closing_while_registering(scene: Scene) -> None:
    """Close a producer while the coordinator is slow, refuses or never answers to register some of its partitions."""
    world, dice = scene.world, scene.dice
    assert scene.broker is not None
    topic = TOPIC
    if dice.happens(0.5):
        topic = str(PARTS)
        scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 1 + dice.below(3)))
    client = scene.client()
    batching, lazy = dice.happens(0.5), dice.happens(0.3)
    producer = client.create_producer(topic, batching_enabled=batching, lazy_start_partitioned_producers=lazy)
    for _ in range(20 if dice.happens(0.7) else 0):
        producer.send(b"first")  # a lazy partition is open then, too
    transactions = [client.new_transaction(timedelta(seconds=60)) for _ in range(1 + dice.below(3))]
    trigger = scene.broker.faults.on(CommandAddPartitionToTxn, nth=1 + dice.below(2), times=None)
    seconds = 1.5 * OPERATION_TIMEOUT * dice.chance()
    way = dice.below(4)
    if way == 0:
        trigger.drop()
    elif way == 1:
        trigger.refuse("InvalidTxnStatus", "no")
    else:
        trigger.delay(seconds)
    plain, transactional = list[Any](), list[Any]()
    for number in range(dice.below(12)):
        chosen = dice.below(len(transactions) + 1)
        if chosen < len(transactions):
            sent = producer.send_async(b"in %d" % number, transaction=transactions[chosen])
            transactional.append(sent)
        else:
            plain.append(producer.send_async(b"plain %d" % number))
        scene.sleep(0.01 * dice.below(2))
    scene.sleep(dice.below(2) * dice.chance() * OPERATION_TIMEOUT)
    is_disturbed = disturb_what_is_closed(scene, min(seconds, OPERATION_TIMEOUT))
    began = world.now
    closed, limit = (producer, CLOSING) if dice.happens(0.7) else (client, CLOSING + 1.0)
    closed.close()
    took = world.now - began
    assert took <= limit, f"close() of {closed} took {took:.3f} s"
    with pytest.raises(AlreadyClosed):
        producer.send(b"late")
    failed = [error for sent in plain if (error := sent.exception(0)) is not None]
    in_trouble = (OutcomeUnknown, Timeout, AlreadyClosed) if is_disturbed else ()
    assert all(isinstance(error, in_trouble) for error in failed), f"not sent, in no transaction: {failed}"
    failed = [error for sent in transactional if (error := sent.exception(0)) is not None]
    in_time = way > 1 and seconds < OPERATION_TIMEOUT - 1 and not is_disturbed
    assert not (failed and in_time), f"not sent, though registered in time: {failed}"
    reasons = (InvalidTxnStatusError, Timeout, *in_trouble, *[AlreadyClosed] * (closed is client))
    assert all(isinstance(error, reasons) for error in failed), failed
    scene.broker.faults.clear()
    scene.end()


def closing_in_a_transfer(scene: Scene) -> None:
    """Close a producer while its topic goes to another broker: until then, its broker drops messages without a word."""
    dice, sent = scene.dice, Sent()
    assert scene.broker is not None
    scene.have_broker(Broker.add_listener)
    client = scene.client()
    producer = client.create_producer(TOPIC, batching_enabled=dice.happens(0.5))
    futures: dict[bytes, Any] = {}

    def send(number: int) -> None:
        for _ in range(number):
            content = b"%d" % len(futures)
            sent.begin("a", content)
            futures[content] = producer.send_async(content)
            scene.sleep(0.01 * dice.below(2))

    send(dice.below(10))
    transfer = scene.broker.faults.on(CommandSend, times=None).drop()

    def end_transfer() -> None:
        transfer.remove()
        scene.on_broker(lambda broker: scene.move(broker, TOPIC))

    scene.world.after(OPERATION_TIMEOUT / 2 * dice.chance(), end_transfer)
    send(1 + dice.below(10))
    began = scene.world.now
    producer.close()
    assert scene.world.now - began <= CLOSING
    for content, future in futures.items():
        sent.ended(content, future.result(0))
    sent.check(scene, once=True)
    scene.sleep(OPERATION_TIMEOUT)
    scene.end()


def test_a_client_that_is_forgotten_leaves_nothing_behind() -> None:
    gc.collect()
    gc.freeze()  # for good: what other tests have left in memory would be looked through again and again
    play(20, dropping)


def test_a_close_sends_what_waits_for_a_registration_and_fails_no_more_than_it_must() -> None:
    play(100, closing_while_registering, NetworkConditions())


def test_a_close_sends_what_a_broker_drops_that_gives_the_topic_away() -> None:
    play(60, closing_in_a_transfer, NetworkConditions())


def test_a_client_closes_in_time_whatever_is_going_on() -> None:
    play(120, closing, once_failed=(9_040_101,))
