"""Messages in chunks arrive whole, whoever dies half way through another one, and whatever goes wrong.

Some producers die while the chunks of a message are on their way, and nobody sends the rest. Their chunks take room and
permits for a time, and no more: in the end the consumers have all whole messages, nothing is left on the subscription
or in the memory of a consumer, and the permits add up. Consumers of a Key_Shared subscription come and go, also in the
middle of messages. Only with `auto_ack_oldest_chunked_message_on_queue_full` whole messages may be lost.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.enums import ConsumerType, KeySharedMode
from pulsar_actors.client.policies import ConsumerKeySharedPolicy
from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.entries import decode_entry
from tests.scenarios.programs import subscribe
from tests.scenarios.scene import CHANGEABLE, PATIENCE, SUBSCRIPTION, TOPIC, Scene, play
from tests.scenarios.test_consuming import check_permits
from tests.scenarios.troubles import Troubles

CHUNK = 5
"""Bytes of a chunk."""
EXPIRY = 30.0
"""Virtual seconds for which a message may stay incomplete: longer than whole ones take through all troubles."""
LONGEST = 100 * EXPIRY
"""Virtual seconds after which all is done: with room for one message, incomplete ones expire one by one. There are
many, because a broker that drops repeats still stores all chunks of a repeated message but the last."""
AT_LAST = 2.0
"""Virtual seconds after which all has arrived that was on its way."""
KINDS = tuple(ConsumerType)


class Chunking:
    """Producers of whole and of incomplete messages, and consumers of one subscription."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        dice = self.dice = Dice(scene.world.seed, "chunking")
        self.kind = KINDS[dice.below(len(KINDS))]
        self.queue = (0, 1, 2, 5, 1000)[dice.below(5)]
        self.most = dice.below(4)
        self.may_lose = self.most > 0 and dice.happens(0.2)
        self.refuses = dice.happens(0.3)
        self.joining = Dice(scene.world.seed, "joining")
        self.keys = 1 + self.joining.below(3) if self.kind is ConsumerType.KeyShared else 0
        self.keeps_order = not self.joining.happens(0.3)
        self.client = scene.client()
        self.sent: set[bytes] = set()
        self.received: Counter[bytes] = Counter()
        self.consumers: list[Consumer] = []
        self.some_left = False

    def play(self) -> None:
        scene, dice, world = self.scene, self.dice, self.scene.world
        until = Troubles(scene, sets_clocks=False).until  # whether a chunk is old is seen by when it was published
        writers = [self._spawn(self._write, f"writer {number}") for number in range(1 + dice.below(3))]
        dying = [self._spawn(self._die_half_way, f"dying {number}") for number in range(dice.below(5))]
        several = self.kind in (ConsumerType.Shared, ConsumerType.Failover) and dice.happens(0.4)
        readers = [self._spawn(self._read, f"reader {number}") for number in range(1 + several)]
        if self.keys:
            readers += [self._spawn(self._join, f"joining {number}") for number in range(self.joining.below(3))]
        world.after(until + 5.0, scene.calm)
        world.run(
            until=lambda: scene.is_calm and all(each.ended for each in [*writers, *dying]), limit=until + PATIENCE
        )
        world.block(lambda: False, AT_LAST)
        world.run(until=self._is_drained, limit=LONGEST)
        world.run(until=lambda: not any(self._incomplete()), limit=EXPIRY + AT_LAST)
        scene.is_over = True
        world.run(until=lambda: all(caller.ended for caller in readers), limit=PATIENCE)
        for caller in [*writers, *dying, *readers]:
            caller.result()

    def _spawn(self, run: Any, name: str) -> Caller:
        return self.scene.world.spawn(lambda: run(name), name)

    def _write(self, name: str) -> None:
        """Send messages of one or several chunks, each until it is stored."""
        scene, dice = self.scene, Dice(self.scene.world.seed, name)
        producer = self._producer(self.client, name)
        sent = []
        for number in range(1 + dice.below(10)):
            content = f"{name} {number} ".encode() + b"x" * (CHUNK * dice.below(6))
            self.sent.add(content)
            sent.append(producer.send_async(content, partition_key=self._key()))
            if dice.happens(0.3):
                scene.sleep(10.0 ** (dice.chance() * 3 - 3))
        for future in sent:
            scene.world.block(future)
            future.result()
        producer.close()

    def _key(self) -> str | None:
        return f"key {self.joining.below(self.keys)}" if self.keys else None

    def _producer(self, client: Client, name: str) -> Any:
        return self.scene.insist(
            lambda: client.create_producer(
                TOPIC,
                producer_name=name,
                send_timeout_millis=0,
                batching_enabled=False,
                chunking_enabled=True,
                chunk_max_message_size=CHUNK,
                max_pending_messages=0,
            )
        )

    def _die_half_way(self, name: str) -> None:
        scene, dice = self.scene, Dice(self.scene.world.seed, name)
        client = scene.client()
        scene.sleep(dice.chance() * dice.below(8))
        producer = self._producer(client, name)
        content = f"{name} ".encode() + b"y" * (CHUNK * (2 + dice.below(10)))
        self.sent.add(content)
        producer.send_async(content, partition_key=self._key())
        scene.sleep(5 * dice.chance() * CHANGEABLE.latency)
        scene.world.faults.cut()
        try:
            client.shutdown()
        except PulsarException as error:
            scene.world.note(f"{name}: {error!r}")

    def _join(self, name: str) -> None:
        """Read now and then for a while, and in the end until all is over."""
        scene, dice = self.scene, Dice(self.scene.world.seed, name)
        while not scene.is_calm:
            scene.sleep(10.0 ** (dice.chance() * 3 - 2))
            client = scene.client()
            consumer = self._subscribe(client)
            leaves = scene.world.now + 10.0 ** (dice.chance() * 3 - 2)
            self._receive(consumer, dice, lambda leaves=leaves: scene.is_calm or scene.world.now > leaves)  # type: ignore[misc]
            self.some_left = True
            try:
                client.close()
            except PulsarException as error:
                scene.world.note(f"{name}: {error!r}")
        if dice.happens(0.5):
            scene.sleep(EXPIRY * dice.chance())
            self._read(name)

    def _read(self, name: str) -> None:
        scene, dice = self.scene, Dice(self.scene.world.seed, name)
        consumer = self._subscribe(self.client)
        self.consumers.append(consumer)
        self._receive(consumer, dice, lambda: scene.is_over, Dice(scene.world.seed, f"rests of {name}"))

    def _subscribe(self, client: Client) -> Consumer:
        policy = ConsumerKeySharedPolicy(KeySharedMode.AutoSplit, not self.keeps_order)
        return subscribe(
            self.scene,
            client,
            key_shared_policy=policy if self.keys else None,
            consumer_type=self.kind,
            receiver_queue_size=self.queue,
            max_pending_chunked_message=self.most,
            auto_ack_oldest_chunked_message_on_queue_full=self.may_lose,
            expire_time_of_incomplete_chunked_message_ms=int(EXPIRY * 1000),
            negative_ack_redelivery_delay_ms=200,
        )

    def _receive(
        self, consumer: Consumer, dice: Dice, has_ended: Callable[[], bool], rests: Dice | None = None
    ) -> None:
        scene, likely = self.scene, 0.0 if rests is None else (0.02, 0.02, 0.3)[rests.below(3)]
        while not has_ended():
            if rests is not None and rests.happens(likely):
                scene.sleep(2 * EXPIRY)  # the queue fills, maybe in the middle of a message
            try:
                message = consumer.receive((30, 500)[dice.below(2)])
            except Timeout:
                continue
            self.received[message.data()] += 1
            if self.refuses and not scene.is_calm and dice.happens(0.2):
                consumer.negative_acknowledge(message)
            else:
                consumer.acknowledge(message)

    def _is_drained(self) -> bool:
        topic = self.scene.topic()
        subscription = topic.subscriptions.get(SUBSCRIPTION) if topic is not None else None
        return subscription is not None and subscription.backlog() == 0

    def _incomplete(self) -> list[int]:
        """Count the messages of which each consumer has some chunks. Others may acknowledge these."""
        return [len(consumer._state.machine.messages.trackers.chunks._pending) for consumer in self.consumers]

    def check(self) -> None:
        stored = self._stored_whole()
        made_up = set(self.received) - self.sent
        assert not made_up, f"received, and never sent: {made_up}"
        lost = stored - set(self.received)
        assert self.may_lose or not lost, f"stored as a whole, and never received: {lost}"
        are_undisturbed = all(consumer.stats().reconnects == 0 for consumer in self.consumers) and not self.some_left
        if not self.refuses and are_undisturbed:
            repeated = [content for content, times in self.received.items() if times > 1]
            assert not repeated, f"came more than once, for no reason: {repeated}"
        for consumer in self.consumers:
            chunks = consumer._state.machine.messages.trackers.chunks
            # Others get what comes again then, and all that another active consumer leaves behind in its queue.
            others = self.kind is ConsumerType.Failover or consumer.stats().reconnects
            if not self.some_left and (len(self.consumers) == 1 or not others):
                assert not len(chunks._finished), "chunks of messages that are acknowledged or came again"
        check_permits(self.scene, self.consumers, prefetches=self.queue > 0)

    def _stored_whole(self) -> set[bytes]:
        """Return the messages whose chunks are all there, each in one piece."""
        topic = self.scene.topic()
        assert topic is not None
        parts: dict[str, list[bytes]] = {}
        whole: set[bytes] = set()
        for offset in range(topic.managed_ledger.base, topic.managed_ledger.end):
            entry = decode_entry(topic.managed_ledger.entry(offset).data)
            metadata = entry.metadata
            if metadata.num_chunks_from_msg <= 1:
                whole.add(bytes(entry.payload))
                continue
            if metadata.chunk_id == 0:
                parts[metadata.uuid] = []
            begun = parts.get(metadata.uuid, [])
            if metadata.chunk_id == len(begun):
                begun.append(bytes(entry.payload))
            if len(begun) == metadata.num_chunks_from_msg:
                whole.add(b"".join(parts.pop(metadata.uuid)))
        self.scene.troubled["half a message"] += len(parts)
        return whole


def chunking(scene: Scene) -> None:
    story = Chunking(scene)
    story.play()
    story.check()
    scene.end()


def test_whole_messages_arrive_beside_those_whose_producer_died_half_way() -> None:
    play(40, chunking, once_failed=(66, 132), deduplication=True)
