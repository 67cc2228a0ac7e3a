"""What a sender gives a message, its receivers get as it was, and Shared subscriptions not before its time.

Properties, keys, the event time, the clusters to replicate to and the time of delivery, with all that is done to a
message on its way: batches, chunks, compression, encryption and interceptors. Each interceptor is told of the outcome
of each message once, and before the sender is.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any, Literal

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import CompressionType, ConsumerType
from pulsar_actors.client.interceptors import MessageToSend, ProducerInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import Timeout
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import EPOCH_MS
from pulsar_actors.wire.batch import is_batch
from pulsar_actors.wire.entries import decode_entry
from tests.histories.history import Place
from tests.scenarios.keys import Keys
from tests.scenarios.programs import in_troubles, subscribe_options
from tests.scenarios.received import Received
from tests.scenarios.scene import PATIENCE, TOPIC, Scene, play
from tests.scenarios.sent import Sender, Sent, a_producer

SHARING = (ConsumerType.Shared, ConsumerType.KeyShared)
ORDERED = (ConsumerType.Exclusive, ConsumerType.Failover)
CHUNK = 3
"""Bytes of a chunk: a content has two."""
PROPERTIES: tuple[dict[str, str] | None, ...] = (None, {}, {"a": "1"}, {"é": "", "b": "x" * 300})
TEXTS = (None, "", "k", "ключ")
TIMES = (None, 0, 1, EPOCH_MS, 2**63 - 1)
CLUSTERS = (None, None, ["west"], ["west", "east"])
SOON = 15_000
LOCAL = ["__local__"]


def one(dice: Dice, *of: Any) -> Any:
    return of[dice.below(len(of))]


class Given:
    """What messages are given, by their content. Some have a time of delivery, which is noted when they are sent."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._dice = Dice(scene.world.seed, "given")
        self.options: dict[bytes, dict[str, Any]] = {}
        self.not_before: dict[bytes, int] = {}
        self.marks: dict[str, str] = {}
        """The properties that interceptors add."""

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + int(self._scene.world.now * 1000)

    def to(self, content: bytes) -> dict[str, Any]:
        """Choose the options of a message."""
        dice = self._dice
        options = {
            "properties": one(dice, *PROPERTIES),
            "partition_key": one(dice, *TEXTS),
            "ordering_key": one(dice, *TEXTS),
            "event_timestamp": one(dice, *TIMES),
        }
        if dice.happens(0.3):
            options["disable_replication"] = dice.happens(0.5)
            options["replication_clusters"] = one(dice, *CLUSTERS)
        if dice.happens(0.3):
            after = dice.below(SOON) - SOON // 4
            self.not_before[content] = self.now_ms + after
            if dice.happens(0.5):
                options["deliver_at"] = self.not_before[content]
            else:
                options["deliver_after"] = timedelta(milliseconds=after)
        self.options[content] = options
        return options

    def check(self, message: Message, *, is_shared: bool) -> None:
        """See that a message came as it was sent, and not too early."""
        given = self.options[message.data()]
        came = (message.properties(), message.partition_key(), message.ordering_key(), message.event_timestamp())
        asked = (
            {**(given["properties"] or {}), **self.marks},
            given["partition_key"] or "",
            given["ordering_key"] or "",
            given["event_timestamp"] or 0,
        )
        assert came == asked, f"{asked} came as {came}"
        early = self.not_before.get(message.data(), 0) - self.now_ms
        assert not is_shared or early <= 0, f"{message.data()!r} came {early} ms too early"

    def check_stored(self, scene: Scene, by_place: dict[tuple[int, int], list[bytes]]) -> None:
        """See that the broker was told whereto it is to replicate a message, and when to deliver it."""
        topic = scene.topic()
        assert topic is not None
        for offset in range(topic.managed_ledger.base, topic.managed_ledger.end):
            held = topic.managed_ledger.entry(offset)
            metadata = decode_entry(held.data).metadata
            for content in by_place.get((held.ledger_id, held.entry_id), ()):
                options = self.options[content]
                clusters = LOCAL if options.get("disable_replication") else options.get("replication_clusters") or []
                assert list(metadata.replicate_to) == clusters, f"{content!r} goes to {metadata.replicate_to}"
                assert metadata.HasField("deliver_at_time") == (content in self.not_before)
                assert not (is_batch(metadata) and (clusters or content in self.not_before))


class Giving:
    """A producer that gives each message its options."""

    def __init__(self, producer: Any, given: Given) -> None:
        self._producer = producer
        self._given = given
        self.flush = producer.flush

    def send(self, content: bytes) -> MessageId:
        message_id: MessageId = self._producer.send(content, **self._given.to(content))
        return message_id

    def send_async(self, content: bytes, callback: Any = None) -> Any:
        return self._producer.send_async(content, callback, **self._given.to(content))

    def send_many(self, contents: list[bytes], *, ids: Literal[True]) -> Any:
        return self._producer.send_many([MessageToSend(each, **self._given.to(each)) for each in contents], ids=ids)


class Witness(ProducerInterceptor):
    """Marks messages, and notes what it is told."""

    def __init__(self, sent: Sent, name: str) -> None:
        self._sent = sent
        self.mark = {f"seen by {name}": "yes"}
        self.told: list[bytes] = []
        self.closed = 0

    def before_send(self, producer: Any, message: MessageToSend) -> MessageToSend:
        return message._replace(properties={**(message.properties or {}), **self.mark})

    def on_send_acknowledgement(
        self, producer: Any, message: MessageToSend, message_id: MessageId | None, error: Exception | None
    ) -> None:
        assert isinstance(message.content, bytes)
        assert self.mark.items() <= (message.properties or {}).items()
        assert (message_id is None) != (error is None)
        assert not self.closed
        assert not self._sent.outcomes[message.content], f"the sender of {message.content!r} was told first"
        self.told.append(message.content)

    def close(self) -> None:
        self.closed += 1


class Post:
    """A producer and two subscriptions."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.dice = dice = Dice(scene.world.seed, "post")
        self.client: Client = scene.client()
        self.sent = Sent()
        self.given = Given(scene)
        self.has_ended = False
        self.witnesses = [Witness(self.sent, name) for name in "xy"[: dice.below(3)]]
        self.given.marks = {name: text for witness in self.witnesses for name, text in witness.mark.items()}
        self.encrypted = {"crypto_key_reader": Keys()} if dice.happens(0.2) else {}
        self.options: dict[str, Any] = {
            "compression_type": one(dice, CompressionType.NONE, CompressionType.LZ4),
            "interceptors": self.witnesses,
            **self.encrypted,
            **({"encryption_key": "key"} if self.encrypted else {}),
        }
        self.in_chunks = dice.happens(0.2)
        self.kinds = (one(dice, *SHARING), one(dice, *ORDERED))
        self.received = [Received() for _ in self.kinds]

    def send(self) -> None:
        scene, dice = self.scene, self.dice
        chosen = Dice(scene.world.seed, "producer")
        if self.in_chunks:
            options = {**self.options, "chunking_enabled": True, "chunk_max_message_size": CHUNK}
            producer = scene.insist(lambda: self.client.create_producer(TOPIC, send_timeout_millis=3000, **options))
        else:
            producer = a_producer(scene, self.client, chosen, **self.options)
        sender = Sender(scene, self.sent, "a")
        for _ in range(4 + dice.below(40)):
            sender.do(Giving(producer, self.given))
        producer.close()
        self.has_ended = True

    def receive(self, number: int) -> None:
        kind, received = self.kinds[number], self.received[number]
        consumer = self.scene.insist(
            lambda: self.client.subscribe(
                TOPIC, f"s{number}", consumer_type=kind, **subscribe_options(**self.encrypted)
            )
        )
        while not (self.scene.is_calm and self.has_ended and not self.missing(received)):
            with suppress(Timeout):
                message = consumer.receive(1000)
                self.given.check(message, is_shared=kind in SHARING)
                received.note(message, f"{kind}")
                consumer.acknowledge(message)
        consumer.close()

    def missing(self, received: Received) -> set[bytes]:
        """Return what was stored for certain, and has not come."""
        done = {content for content, [outcome] in self.sent.outcomes.items() if isinstance(outcome, MessageId)}
        return done - {arrival.content for arrival in received.arrivals}

    def check(self) -> None:
        scene = self.scene
        is_plain = not (self.in_chunks or self.encrypted) and self.options["compression_type"] is CompressionType.NONE
        if is_plain:
            self.sent.check(scene, once=False)
        self.received[1].check_order()
        by_place: dict[tuple[int, int], list[bytes]] = {}
        for arrival in self.received[1].arrivals:
            contents = by_place.setdefault(Place(*arrival.place)[:2], [])
            if arrival.content not in contents:
                contents.append(arrival.content)
        self.given.check_stored(scene, by_place)
        for witness in self.witnesses:
            assert witness.closed == 1
            assert sorted(witness.told) == sorted(self.sent.outcomes), "an interceptor was not told of all, or twice"


def posting(scene: Scene) -> None:
    world, post = scene.world, Post(scene)

    def program() -> None:
        callers = [world.spawn(lambda number=number: post.receive(number)) for number in range(2)]  # type: ignore[misc]
        post.send()
        world.block(lambda: all(caller.ended for caller in callers))
        for caller in callers:
            caller.result()

    in_troubles(scene, program, patience=2 * PATIENCE, loses_receipts=True, sets_clocks=False)
    post.check()


def test_messages_come_as_they_were_sent_and_not_before_their_time() -> None:
    play(30, posting)
