"""Whatever callers of all kinds do at once, and whatever goes wrong meanwhile, what they are told is true.

Each seed chooses some kinds of producers, consumers and readers, and some ways to use them: a swarm of different mixes
finds more than one mix of everything. What they did is held against `tests/histories/promises.py` in the end.
"""

import contextlib
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from pulsar_actors.client.enums import BatchingType, CompressionType, ConsumerType, ProducerAccessMode
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.table_view import TableView
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from tests.histories.history import Closed, Outcome, Sent, Subscribed
from tests.histories.promises import JUDGE, check
from tests.histories.recording import RecordedConsumer, RecordedProducer, Recorder
from tests.scenarios.amnesia import Amnesia
from tests.scenarios.consumer_options import FurtherOptions
from tests.scenarios.keys import FailingKeys, Keys
from tests.scenarios.programs import subscribe_options
from tests.scenarios.scene import COORDINATOR, NAMESPACE, PARTS, PATIENCE, TOPIC, Scene, play
from tests.scenarios.troubles import Troubles
from tests.support.simulated_asyncio import AsyncioClient

SECOND = f"{TOPIC}-too"
BOTH = re.compile(f"{NAMESPACE}/topic.*")
RESULTS = "persistent://public/default/results"
PARTITIONS = 3
PARTITIONS_OF_PARTS = [f"{PARTS}-partition-{number}" for number in range(PARTITIONS)]
KEYS = ("a", "b", "c")
TIMEOUT = timedelta(seconds=15)
KINDS = tuple(ConsumerType)
CHUNK = 5
"""Bytes of a chunk: a content has three or four."""


class Mix:
    """What one seed does."""

    def __init__(self, scene: Scene) -> None:
        dice = Dice(scene.world.seed, "mix")
        self.topic = str(PARTS) if dice.happens(0.3) else TOPIC
        self.senders = 1 + dice.below(3)
        self.messages = 5 + dice.below(25)
        self.once = dice.happens(0.6)
        self.named = dice.happens(0.5)
        self.batching = dice.happens(0.6)
        self.compression = CompressionType.LZ4 if dice.happens(0.2) else CompressionType.NONE
        self.chunking = not self.batching and dice.happens(0.3)
        self.keys = dice.happens(0.5)
        self.transactions = dice.happens(0.4)
        self.kind = KINDS[dice.below(len(KINDS))]
        self.by_key = self.kind is ConsumerType.KeyShared or dice.happens(0.2)
        self.keys = self.keys or self.kind is ConsumerType.KeyShared
        self.consumers = 1 if self.kind is ConsumerType.Exclusive else 1 + dice.below(3)
        self.receipts = dice.happens(0.4)
        self.by_index = dice.happens(0.4)
        self.refuses = dice.happens(0.3)
        self.cumulative = self.kind in (ConsumerType.Exclusive, ConsumerType.Failover) and dice.happens(0.4)
        self.leaves = dice.happens(0.4)
        self.queue = (0, 1, 3, 100)[dice.below(4)] if self.topic == TOPIC else 100
        self.reader = self.topic == TOPIC and dice.happens(0.5)
        self.view = dice.happens(0.3)
        self.listener = dice.happens(0.2)
        self.encryption = dice.happens(0.2)
        # What cannot be decrypted comes again later, out of its order.
        self.loses_keys = self.encryption and self.kind is ConsumerType.Shared and dice.happens(0.7)
        self.more_brokers = dice.below(3) if dice.happens(0.5) else 0
        self.access = ProducerAccessMode.Shared
        if self.topic == TOPIC and dice.happens(0.2):  # of partitions, each sender might wait for another's
            self.access = ProducerAccessMode.WaitForExclusive
        self.amnesia = not self.transactions and dice.happens(0.4)
        self.spread = ("one", "one", "set", "pattern")[dice.below(4)] if self.topic == TOPIC else "one"
        self.topics = [self.topic] if self.spread == "one" else [TOPIC, SECOND]
        if self.spread != "one":
            self.queue = 100
        self.asyncio = dice.happens(0.25)
        if self.asyncio:
            self.view = self.listener = False  # these are called on the loop, where a caller cannot wait


class Everything:
    """One seed, from the first call to the verdict."""

    def __init__(self, scene: Scene, *, troubled: bool, with_further_options: bool = False) -> None:
        self.scene = scene
        self.troubled = troubled
        self.mix = Mix(scene)
        self.further = FurtherOptions(scene, self.mix.kind) if with_further_options else None
        scene.add_brokers(self.mix.more_brokers, [*PARTITIONS_OF_PARTS, TOPIC, SECOND, RESULTS, COORDINATOR])
        self.recorder = Recorder()
        self.views: list[TableView] = []
        self.clients: list[Any] = [scene.client() for _ in range(1 + scene.dice.below(3))]
        if self.mix.asyncio:
            self.clients = [AsyncioClient(scene.world, client) for client in self.clients]

    def play(self) -> None:
        scene, mix, world = self.scene, self.mix, self.scene.world
        if mix.topic != TOPIC:
            scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, PARTITIONS))
        until = 0.0
        if self.further is not None and self.further.ack_timeout:
            self.recorder.history.disturb("redelivery", "s")
        if self.troubled:
            self.recorder.history.disturb("fault")
            loses_turns = mix.access is ProducerAccessMode.Shared
            until = Troubles(scene, refuses_for_good=True, loses_turns=loses_turns).until
            if mix.amnesia:
                until = max(until, Amnesia(scene, self.recorder.history).until)
        senders = [world.spawn(lambda number=number: self._send(number)) for number in range(mix.senders)]  # type: ignore[misc]
        takers = [world.spawn(lambda number=number: self._take(number)) for number in range(mix.consumers)]  # type: ignore[misc]
        if mix.reader:
            takers.append(world.spawn(self._read))
        if mix.view:
            takers.append(world.spawn(lambda: self.views.append(self._view(self.clients[0]))))
        world.after(until + 5.0, scene.calm)
        patience = until + PATIENCE + 2 * TIMEOUT.total_seconds()
        world.run(until=lambda: scene.is_calm and all(caller.ended for caller in senders), limit=patience)
        world.block(lambda: False, 2.0)
        scene.is_over = True
        world.run(until=lambda: all(caller.ended for caller in takers), limit=patience)
        for caller in [*senders, *takers]:
            caller.result()
        for client in self.clients:
            if isinstance(client, AsyncioClient):
                client.close()

    def judge(self) -> None:
        """Take what is left, read what is stored, and compare."""
        client = self.scene.client()
        if self.further is not None:
            self.further.check(self.scene, "s")
        if self.mix.transactions:
            self.scene.sleep(2 * TIMEOUT.total_seconds())  # those that were left behind hide what is behind them
        self._take_what_is_left(client)
        latest: dict[str, bytes] = {}
        for topic in [*PARTITIONS_OF_PARTS, TOPIC]:
            if topic in self.scene.topics():
                latest.update(self._look(client, topic))
        for topic in (SECOND, RESULTS):
            if topic in self.scene.topics():
                self._look(client, topic)
        broken = check(self.recorder.history)
        for view in self.views:
            view.refresh(PATIENCE)
            if dict(view) != latest:
                broken.append(f"a table view has {dict(view)}, and not {latest}")
            view.close()
        assert not broken, f"{vars(self.mix)}\n" + "\n".join(broken)

    def see_that_all_was_done(self) -> None:
        """See that no send, subscribe or close failed."""
        asked = [each for each in self.recorder.history.operations if isinstance(each, Sent | Subscribed | Closed)]
        failed = [each for each in asked if each.outcome is not Outcome.DONE]
        assert not failed, f"{vars(self.mix)}\n{failed}"

    def _take_what_is_left(self, client: Any) -> None:
        mix = self.mix
        judge = self.scene.insist(
            lambda: self.recorder.consumer(
                client, mix.topics, "s", mix.kind, name=JUDGE, **subscribe_options(**self._reading()), **self._spread()
            )
        )
        try:
            while True:
                judge.receive(int(PATIENCE * 1000))  # a broker may take long to notice that a consumer has gone
        except Timeout:
            judge.close()

    def _look(self, client: Any, topic: str) -> dict[str, bytes]:
        """Read what is stored, and return the latest content of each key."""
        latest: dict[str, bytes] = {}
        reader = client.create_reader(topic, MessageId.earliest, **self._reading())
        while reader.has_message_available():
            message = reader.read_next(int(10 * PATIENCE * 1000))  # chunks may have to expire before there is room
            self.recorder.look(topic, message)
            if key := message.partition_key():
                latest[key] = message.data()
        reader.close()
        return latest

    def _view(self, client: Any) -> TableView:
        view: TableView = self.scene.insist(lambda: client.create_table_view(self.mix.topic, **self._reading()))
        return view

    def _reading(self) -> dict[str, Any]:
        return {"crypto_key_reader": Keys()} if self.mix.encryption else {}

    def _spread(self) -> dict[str, Any]:
        """Return how a consumer is told of its topics."""
        return {"pattern": BOTH, "pattern_auto_discovery_period": 1} if self.mix.spread == "pattern" else {}

    def _client(self, number: int) -> Any:
        return self.clients[number % len(self.clients)]

    def _producer(self, dice: Dice, client: Any, topic: str, *, once: bool) -> RecordedProducer:
        mix = self.mix
        return self.scene.insist(  # type: ignore[no-any-return]
            lambda: self.recorder.producer(
                client,
                topic,
                once=once,
                named=mix.named,
                access_mode=mix.access if topic == TOPIC else ProducerAccessMode.Shared,
                send_timeout_millis=0 if once else (3000, 30_000)[dice.below(2)],
                batching_enabled=mix.batching,
                batching_max_messages=1 + dice.below(8),
                batching_type=BatchingType.KeyBased if mix.by_key else BatchingType.Default,
                ordered_by_key=mix.by_key,
                compression_type=mix.compression,
                **({"chunking_enabled": True, "chunk_max_message_size": CHUNK} if mix.chunking else {}),
                block_if_queue_full=True,
                max_pending_messages=(2, 10, 1000)[dice.below(3)],
                **({"encryption_key": "key", **self._reading()} if mix.encryption else {}),
            )
        )

    def _send(self, number: int) -> None:
        mix, dice = self.mix, Dice(self.scene.world.seed, f"sender {number}")
        topic = mix.topics[number % len(mix.topics)]
        producer = self._producer(dice, self._client(number), topic, once=mix.once)
        for _ in range(mix.messages):
            self._send_in_some_way(dice, producer)
            if dice.happens(0.2):
                self.scene.sleep(10.0 ** (dice.chance() * 3 - 3))
        _try(producer.flush)
        _try(producer.close)

    def _send_in_some_way(self, dice: Dice, producer: RecordedProducer) -> None:
        key = KEYS[dice.below(len(KEYS))] if self.mix.keys else None
        ways: tuple[Callable[[], object], ...] = (
            lambda: producer.send(key),
            lambda: producer.send_async(key),
            lambda: producer.send_many(1 + dice.below(5)),
            lambda: producer.send_with_callback(key),
        )
        _try(ways[dice.below(len(ways) - self.mix.asyncio)])  # a callback is what asyncio has not

    def _take(self, number: int) -> None:
        mix, dice = self.mix, Dice(self.scene.world.seed, f"taker {number}")
        client = self._client(number + 1)
        results = self._producer(dice, client, RESULTS, once=True) if mix.transactions else None
        listener, handling, is_at_work = None, list[Message](), True
        if mix.listener:

            def listener(consumer: RecordedConsumer, message: Message) -> None:
                if not is_at_work:
                    return
                handling.append(message)
                try:
                    self._handle(dice, client, consumer, results, [message])
                finally:
                    handling.remove(message)

        while not self.scene.is_over:
            consumer = self._subscribe(client, listener)
            stay = 1000 if not mix.leaves else 1 + dice.below(20)
            while stay and not self.scene.is_over:
                stay -= 1
                if mix.listener:
                    self._listen(dice, consumer)
                else:
                    self._work(dice, client, consumer, results)
            _try(consumer.close)
        is_at_work = False  # a listener may still be called after the close
        self.scene.world.block(lambda: not handling)
        if results is not None:
            _try(results.close)

    def _subscribe(self, client: Any, listener: Any) -> RecordedConsumer:
        mix = self.mix
        further = {} if self.further is None else self.further.draw(listens=listener is not None)
        made: RecordedConsumer = self.scene.insist(
            lambda: self.recorder.consumer(
                client,
                mix.topics,
                "s",
                mix.kind,
                listener=listener,
                **self._spread(),
                **subscribe_options(
                    receiver_queue_size=mix.queue,
                    negative_ack_redelivery_delay_ms=200,
                    ack_receipt_enabled=mix.receipts,
                    batch_index_ack_enabled=mix.by_index,
                    **(further | self._reading() | self._losing_keys()),
                ),
            )
        )
        if further.get("start_paused"):
            self.scene.sleep(0.1)
            made.consumer.resume_message_listener()
        return made

    def _losing_keys(self) -> dict[str, Any]:
        if not (self.mix.loses_keys and self.troubled):
            return {}
        dice = Dice(self.scene.world.seed, "keys")
        keys = FailingKeys(lambda: not self.scene.is_calm and dice.happens(0.5))
        return {"crypto_key_reader": keys, "unacked_messages_timeout_ms": 10_000}

    def _listen(self, dice: Dice, consumer: RecordedConsumer) -> None:
        if self.further is not None and dice.happens(0.2):
            consumer.consumer.pause_message_listener()
            self.scene.sleep(0.3)
            consumer.consumer.resume_message_listener()
        self.scene.sleep(0.3)

    def _work(self, dice: Dice, client: Any, consumer: RecordedConsumer, results: RecordedProducer | None) -> None:
        try:
            messages = self._receive(dice, consumer)
        except PulsarException:
            return
        if messages:
            self._handle(dice, client, consumer, results, messages)

    def _receive(self, dice: Dice, consumer: RecordedConsumer) -> Sequence[Message]:
        if self.further is not None and dice.happens(0.1):
            consumer.consumer.get_broker_consumer_stats()
        if self.further is not None and self.further.batches and dice.happens(0.5):
            return consumer.batch_receive()
        return consumer.receive_many(1 + dice.below(4), 300) if dice.happens(0.3) else [consumer.receive(300)]

    def _handle(
        self, dice: Dice, client: Any, consumer: RecordedConsumer, results: RecordedProducer | None, messages: Any
    ) -> None:
        mix = self.mix
        if results is not None and dice.happens(0.5):
            self._work_in_a_transaction(dice, client, consumer, results, messages)
        elif mix.refuses and dice.happens(0.2):
            _try(lambda: consumer.negative_acknowledge(list(messages)))
        elif mix.cumulative and dice.happens(0.7):
            _try(lambda: consumer.acknowledge_cumulative(messages[-1]))
        elif dice.happens(0.8):
            _try(lambda: consumer.acknowledge_all(messages))

    def _work_in_a_transaction(
        self, dice: Dice, client: Any, consumer: RecordedConsumer, results: RecordedProducer, messages: Any
    ) -> None:
        try:
            transaction = self.recorder.transaction(client, TIMEOUT)
        except PulsarException:
            return
        for message in messages:
            _try(lambda: results.send_async(transaction=transaction))
            _try(lambda message=message: consumer.acknowledge(message, transaction))  # type: ignore[misc]
        if self.troubled:
            self.scene.perhaps_cut_soon()
        if dice.happens(0.7):
            _try(transaction.commit)
        elif dice.happens(0.7):
            _try(transaction.abort)

    def _read(self) -> None:
        reader = self.scene.insist(
            lambda: self.recorder.reader(self.clients[0], TOPIC, MessageId.earliest, **self._reading())
        )
        while not self.scene.is_over:
            _try(lambda: reader.read_next(300))
        _try(reader.close)


def _try(call: Callable[[], object]) -> None:
    """Let the history have the error."""
    with contextlib.suppress(PulsarException):
        call()


def everything(scene: Scene, *, troubled: bool = True, with_further_options: bool = False) -> None:
    story = Everything(scene, troubled=troubled, with_further_options=with_further_options)
    story.play()
    story.judge()
    if not troubled:
        story.see_that_all_was_done()
    scene.end()


def test_what_callers_are_told_is_true() -> None:
    play(60, everything, once_failed=(2_000_401, 9_030_010), deduplication=True)


def test_nothing_is_repeated_or_refused_while_nothing_goes_wrong() -> None:
    def calm(scene: Scene) -> None:
        everything(scene, troubled=False)

    play(30, calm, CALM, once_failed=(2_000_071,), deduplication=True)


def test_what_callers_are_told_is_true_whatever_the_options_of_their_consumers() -> None:
    def optional(scene: Scene) -> None:
        everything(scene, with_further_options=True)

    play(20, optional, deduplication=True)


def test_no_option_of_a_consumer_repeats_or_refuses_anything_while_nothing_goes_wrong() -> None:
    def calm(scene: Scene) -> None:
        everything(scene, troubled=False, with_further_options=True)

    play(15, calm, CALM, once_failed=(100,), deduplication=True)
