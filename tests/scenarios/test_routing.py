"""Producers of partitioned topics that choose the partition in each way there is, with and without growth.

Every send ends once and says the truth. What is stored is in the partition that its key, its turn or the user's router
has chosen, among partitions that never become fewer for its sender. A router that raises, or that chooses nothing there
is, costs the messages of that call, and nothing else. No more messages are pending than the options allow.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

from pulsar_actors.client.enums import BatchingType, HashingScheme, PartitionsRoutingMode
from pulsar_actors.client.interceptors import MessageToSend
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.partitioned_producer import key_hash_of
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.programs import in_troubles
from tests.scenarios.scene import PARTS, PATIENCE, Scene, play
from tests.scenarios.sent import Sender, Sent, a_producer

SINGLE, ROUND_ROBIN, CUSTOM = PartitionsRoutingMode
SCHEMES = tuple(HashingScheme)
KEYS = ("a", "b", "c", "d", "é", "the sixth")
NONSENSE = (-1, 1 << 40, None, "0", 0.0)


class Lost(PulsarException):
    """A router does not know where to."""


class Plan:
    """The options of a seed, and how the topic grows."""

    def __init__(self, scene: Scene) -> None:
        dice = Dice(scene.world.seed, "routing")
        self.first = self.last = 1 + dice.below(4)
        scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, self.first))
        at = 0.0
        for _ in range(dice.below(3) if dice.happens(0.5) else 0):
            at += 10.0 ** (dice.chance() * 3 - 2)
            self.last += 1 + dice.below(2)
            scene.world.after(at, lambda to=self.last: scene.on_broker(lambda each: each.cluster.grow(PARTS, to)))
        self.mode = (SINGLE, ROUND_ROBIN, CUSTOM)[dice.below(3)]
        self.scheme = SCHEMES[dice.below(len(SCHEMES))]
        self.keyed = (0.0, 0.5, 1.0)[dice.below(3)]
        self.by_key = dice.happens(0.3)
        self.senders = 1 + dice.below(2)
        self.across = (0, 1, 3, 12, 50_000)[dice.below(5)]
        self.options: dict[str, Any] = {
            "message_routing_mode": self.mode,
            "hashing_scheme": self.scheme,
            "batching_type": BatchingType.KeyBased if self.by_key else BatchingType.Default,
            "batching_max_allowed_size_in_bytes": (1, 20, 1000)[dice.below(3)],
            "batching_max_publish_delay_ms": (0, 10, 500)[dice.below(3)],
            "lazy_start_partitioned_producers": dice.happens(0.5),
            "max_pending_messages_across_partitions": self.across,
            "producer_name": "router" if dice.happens(0.5) else None,
        }

    def key(self, content: bytes) -> str | None:
        """Choose the key of a message, if it is to have one: by its number."""
        number = int(content.rpartition(b"-")[2])
        return KEYS[number % len(KEYS)] if Dice(number, "keyed").happens(self.keyed) else None


class UserRouter:
    """A user's router: by chance, and sometimes it takes long, raises, or returns what cannot be."""

    def __init__(self, scene: Scene, plan: Plan) -> None:
        self._scene = scene
        self._plan = plan
        self._dice = Dice(scene.world.seed, "router")
        self.chosen: dict[bytes, int | None] = {}
        """What it has returned for each message; None where that was a mistake."""

    def __call__(self, message: Message, partitions: int) -> Any:
        dice, content = self._dice, message.data()
        assert content not in self.chosen, f"asked twice for {content!r}"
        assert message.partition_key() == (self._plan.key(content) or "")
        assert message.properties() == properties_of(content)
        self.chosen[content] = None
        if dice.happens(0.1):
            self._scene.sleep(dice.chance())
        if dice.happens(0.05):
            raise Lost(f"no way for {content!r}")
        if dice.happens(0.05):
            return (partitions, *NONSENSE)[dice.below(1 + len(NONSENSE))]
        self.chosen[content] = dice.below(partitions)
        return self.chosen[content]


def properties_of(content: bytes) -> dict[str, str]:
    return {"content": content.decode()} if content.endswith(b"7") else {}


class Router:
    """A producer that gives each message the key that it is to have, and looks how many messages are pending."""

    def __init__(self, producer: Any, plan: Plan) -> None:
        self._producer = producer
        self._plan = plan
        self.flush = producer.flush

    def send(self, content: bytes) -> MessageId:
        message_id: MessageId = self._producer.send(content, **self._options(content))
        self._look()
        return message_id

    def send_async(self, content: bytes, callback: Any = None) -> Any:
        future = self._producer.send_async(content, callback, **self._options(content))
        self._look()
        return future

    def send_many(self, contents: list[bytes], *, ids: Literal[True]) -> Any:
        future = self._producer.send_many(
            [MessageToSend(content, **self._options(content)) for content in contents], ids=ids
        )
        self._look()
        return future

    def _options(self, content: bytes) -> dict[str, Any]:
        return {"partition_key": self._plan.key(content), "properties": properties_of(content) or None}

    def _look(self) -> None:
        """See that no more is pending than allowed. Each partition may have one message at least.

        What is pending when the topic grows may be more than the share that is left.
        """
        if self._plan.across and self._plan.first == self._plan.last:
            pending, most = self._producer.stats().pending, max(self._plan.across, self._plan.last)
            assert pending <= most, f"{pending} are pending, and {most} may be"


def check_places(plan: Plan, sent: Sent, where: dict[bytes, int], router: UserRouter, most_in_turn: int) -> None:
    """See that each message is where it was to go."""
    if plan.mode is CUSTOM:
        chosen = {content: router.chosen[content] for content in where}
        assert where == chosen, f"{set(where.items()) ^ set(chosen.items())}: not where the router said"
        return
    without = {
        line: [content for content in contents if plan.key(content) is None] for line, contents in sent.lines.items()
    }
    for contents in sent.lines.values():
        check_keys(plan, where, [content for content in contents if content in where])
    if plan.mode is SINGLE:
        used = {where[content] for contents in without.values() for content in contents if content in where}
        assert len(used) <= 1, f"messages without a key went to {used}"
    elif plan.senders == 1:
        for contents in without.values():
            places = [where.get(content) for content in contents]
            if most_in_turn == 1:
                check_turns(plan, places)
            elif plan.first == plan.last:
                check_runs(plan.last, places, most_in_turn)


def check_keys(plan: Plan, where: dict[bytes, int], contents: Sequence[bytes]) -> None:
    """See that a key has its partition, among those that the sender knew of, or more."""
    among = plan.first
    for content in contents:
        key = plan.key(content)
        if key is not None:
            among = grown(range(among, plan.last + 1), key_hash_of(plan.scheme)(key), where[content])


def check_turns(plan: Plan, places: Sequence[int | None]) -> None:
    """See that messages without a key go to one partition after the other, wherever the first of them went."""
    for start in range(plan.last + 1):
        among = plan.first
        try:
            for number, place in enumerate(places, start):
                if place is not None:
                    among = grown(range(among, plan.last + 1), number, place)
        except AssertionError:
            continue
        return
    raise AssertionError(f"{places} are not one partition after the other")


def grown(counts: range, number: int, at: int) -> int:
    """Return the lowest number of partitions with which a message belongs where it is."""
    possible = [count for count in counts if number % count == at]
    assert possible, f"{number} went to {at}, among {counts}"
    return possible[0]


def check_runs(partitions: int, places: Sequence[int | None], most: int) -> None:
    """See that a partition gets a batch at most, and then the next one has its turn."""
    run = 1
    for before, after in pairwise(places):
        if before is None or after is None:
            run = 1
            continue
        run = run + 1 if before == after else 1
        assert after in (before, (before + 1) % partitions), f"{after} had its turn after {before}"
        assert run <= most or partitions == 1, f"{run} messages in a row for one partition"


def routing(scene: Scene) -> None:
    world, sent = scene.world, Sent()
    client = scene.client(partitions_update_interval=0.3)
    plan = Plan(scene)
    router = UserRouter(scene, plan)
    in_turn: list[int] = []

    def program() -> None:
        chosen = Dice(world.seed, "producer")
        options = {**plan.options, **({"message_router": router} if plan.mode is CUSTOM else {})}
        producer = a_producer(scene, client, chosen, str(PARTS), **options)
        made = producer._options
        in_turn.append(made.batching_max_messages if made.batching_enabled else 1)
        senders = [Sender(scene, sent, name) for name in "ab"[: plan.senders]]

        def work(sender: Sender) -> None:
            dice = Dice(world.seed, f"working {sender.name}")
            for _ in range(4 + dice.below(40)):
                sender.do(Router(producer, plan))

        others = [world.spawn(lambda sender=sender: work(sender)) for sender in senders[1:]]  # type: ignore[misc]
        work(senders[0])
        world.block(lambda: all(other.ended for other in others))
        for other in others:
            other.result()
        producer.close()

    in_troubles(scene, program, patience=2 * PATIENCE, loses_receipts=True)
    by_key = plan.by_key
    sent.check(scene, once=False, topics=scene.topics(), key=plan.key if by_key else lambda _: None)
    where = {
        message.content: index for index in range(plan.last) for message in scene.stored(str(PARTS.partition(index)))
    }
    check_places(plan, sent, where, router, in_turn[0])


def test_every_message_goes_where_its_key_its_turn_or_the_router_of_the_user_says() -> None:
    play(60, routing)
