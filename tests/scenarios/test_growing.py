"""A producer of a topic that grows: every send ends once and says the truth, and the order of a key is kept.

A key's partition is found by their number, so a key may move when there are more of them. What holds: the messages of a
key that are in one partition are there in the order in which they were sent, and to who sends it seems as if the topic
grew between two messages, once for all keys; never does it seem smaller again. Sooner or later all growth is noticed.
"""

from typing import Any, Literal

from pulsar_actors.client.enums import BatchingType
from pulsar_actors.client.interceptors import MessageToSend
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.machines.trackers.message_routing import HASHES, HashName
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import in_troubles
from tests.scenarios.scene import PARTS, PATIENCE, Scene, play
from tests.scenarios.sent import Sender, Sent, a_producer


class Growth:
    """How many partitions the topic has, and will have; and keys for its messages, one of which is for the last."""

    def __init__(self, scene: Scene) -> None:
        dice = Dice(scene.world.seed, "growth")
        self.first = 1 + dice.below(3)
        self.last = self.first
        scene.on_broker(lambda broker: broker.cluster.create_partitioned(PARTS, self.first))
        at = 0.0
        for _ in range(1 + dice.below(2)):
            at += 10.0 ** (dice.chance() * 2 - 2)
            self.last += 1 + dice.below(3)
            scene.world.after(at, lambda count=self.last: scene.on_broker(lambda each: each.cluster.grow(PARTS, count)))
        numbers = range(1000)
        self._keys = [f"k{number}" for number in numbers[:9]]
        self._keys.append(next(f"l{number}" for number in numbers if _hash(f"l{number}") % self.last == self.last - 1))

    def key(self, content: bytes) -> str:
        """Choose the key of a message, which ends with its number."""
        return self._keys[int(content.rpartition(b"-")[2]) % len(self._keys)]

    def check(self, scene: Scene, sent: Sent) -> None:
        """See that each message is where its key belongs, among partitions that never became fewer for its sender."""
        where = {
            message.content: index
            for index in range(self.last)
            for message in scene.stored(str(PARTS.partition(index)))
        }
        for contents in sent.lines.values():
            among = self.first
            for content in contents:
                at = where.get(content)
                if at is None:
                    continue
                number = _hash(self.key(content))
                possible = [count for count in range(among, self.last + 1) if number % count == at]
                assert possible, f"{content!r} with {self.key(content)} went to {at}, among {among} or more"
                among = possible[0]


def _hash(key: str) -> int:
    return HASHES[HashName.BOOST](key)


class Keyed:
    """A producer that gives each message the key that it is to have."""

    def __init__(self, producer: Any, growth: Growth) -> None:
        self._producer = producer
        self._growth = growth
        self.flush = producer.flush

    def send(self, content: bytes) -> MessageId:
        message_id: MessageId = self._producer.send(content, partition_key=self._growth.key(content))
        return message_id

    def send_async(self, content: bytes, callback: Any = None) -> Any:
        return self._producer.send_async(content, callback, partition_key=self._growth.key(content))

    def send_many(self, contents: list[bytes], *, ids: Literal[True]) -> Any:
        keyed = [MessageToSend(content, partition_key=self._growth.key(content)) for content in contents]
        return self._producer.send_many(keyed, ids=ids)


def growing(scene: Scene) -> None:
    world, sent = scene.world, Sent()
    client = scene.client(partitions_update_interval=0.3)
    growth = Growth(scene)
    dice = Dice(world.seed, "growing")

    def program() -> None:
        chosen = Dice(world.seed, "producer")
        kind = (BatchingType.Default, BatchingType.KeyBased)[chosen.below(2)]
        is_lazy = chosen.happens(0.4)
        producer = a_producer(
            scene, client, chosen, str(PARTS), batching_type=kind, lazy_start_partitioned_producers=is_lazy
        )
        keyed = Keyed(producer, growth)
        senders = [Sender(scene, sent, name) for name in "ab"[: 1 + dice.below(2)]]

        def work(sender: Sender) -> None:
            for _ in range(4 + dice.below(40)):
                sender.do(keyed)
            while not reaches_the_last(sender):
                scene.sleep(0.2)

        def reaches_the_last(sender: Sender) -> bool:
            sender.send(keyed)
            outcomes = sent.outcomes[f"{sender.name}-{sender.count}".encode()]
            return any(isinstance(each, MessageId) and each.partition() == growth.last - 1 for each in outcomes)

        others = [world.spawn(lambda sender=sender: work(sender)) for sender in senders[1:]]  # type: ignore[misc]
        work(senders[0])
        world.block(lambda: all(other.ended for other in others))
        for other in others:
            other.result()
        producer.close()

    in_troubles(scene, program, patience=2 * PATIENCE, loses_receipts=True)
    sent.check(scene, once=False, topics=scene.topics(), key=growth.key)
    growth.check(scene, sent)


def test_every_send_to_a_topic_that_grows_ends_once_and_says_the_truth_and_keys_keep_their_order() -> None:
    play(20, growing, once_failed=(1_000_079,))
