"""A producer sends messages of transactions and plain ones among them, and the broker confirms the former late.

A broker prepares a topic before it stores the first message of any transaction. Plain messages behind it are stored
and confirmed meanwhile.
"""

from collections import Counter
from contextlib import suppress
from datetime import timedelta
from typing import Any

from pulsar_actors.broker.fault_rules import Action, Delay, InterceptedCommand
from pulsar_actors.client.client import Client
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.transaction import TransactionState
from pulsar_actors.exceptions import OutcomeUnknown, PulsarException
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import CommandSend, CommandSendReceipt
from tests.histories.history import Outcome as Verdict
from tests.scenarios.disk import SHORTEST_WRITE
from tests.scenarios.programs import in_troubles
from tests.scenarios.scene import TOPIC, Scene, play

TIMEOUT = timedelta(seconds=15)
LONGEST = 3.0
"""Seconds for which a receipt may wait, which is longer than the shorter send timeout."""


class LateReceipts:
    """Delays receipts. Plain messages keep their order, and those of transactions come behind all before them."""

    def __init__(self, scene: Scene, dice: Dice) -> None:
        assert scene.broker is not None
        self._scene = scene
        self._dice = dice
        self._transactional: set[tuple[int, int, int]] = set()
        self._last_plain = self._last = 0.0
        scene.broker.faults.control(self._judge)

    def _judge(self, seen: InterceptedCommand) -> Action | None:
        command = seen.command
        if isinstance(command, CommandSend) and command.HasField("txnid_most_bits"):
            self._transactional.add((seen.connection, command.producer_id, command.sequence_id))
        if not isinstance(command, CommandSendReceipt):
            return None
        now = self._scene.world.now
        due = now + (LONGEST * self._dice.chance() if self._dice.happens(0.2) else 0.0)
        if (seen.connection, command.producer_id, command.sequence_id) in self._transactional:
            self._last = due = max(self._last + SHORTEST_WRITE, due)
        else:
            self._last_plain = due = max(self._last_plain + SHORTEST_WRITE, due)
            self._last = max(self._last, due)
        return Delay(due - now)


class Mixer:
    """Sends a few transactions, and plain messages among them."""

    def __init__(self, scene: Scene, *, troubled: bool = True) -> None:
        self.scene = scene
        self.troubled = troubled
        self.dice = Dice(scene.world.seed, "mixing")
        self.count = 0
        self.plain: dict[bytes, Any] = {}
        self.transactions: list[tuple[list[bytes], str]] = []
        LateReceipts(scene, self.dice)

    def work(self) -> None:
        dice, client = self.dice, self.scene.client()
        options = {"batching_enabled": dice.happens(0.5), "send_timeout_millis": (1000, 30_000)[dice.below(2)]}
        producer = self.scene.insist(lambda: client.create_producer(TOPIC, **options))
        for _ in range(1 + dice.below(6)):
            with suppress(PulsarException):
                self._mix(producer, client.new_transaction(TIMEOUT))
        with suppress(PulsarException):
            producer.flush()
        self.scene.world.block(lambda: self.scene.is_calm or not self.troubled)
        self.scene.sleep(TIMEOUT.total_seconds())
        self.check(client)

    def _mix(self, producer: Any, transaction: Any) -> None:
        contents: list[bytes] = []
        self.transactions.append((contents, "open"))
        for _ in range(1 + self.dice.below(8)):
            content = b"%d" % self.count
            self.count += 1
            if self.dice.happens(0.5):
                self.plain[content] = producer.send_async(content)
            else:
                contents.append(content)
                producer.send_async(content, transaction=transaction)
            if self.dice.happens(0.2):
                self.scene.sleep(self.dice.chance())
        if self.troubled:
            self.scene.perhaps_cut_soon()
        self.transactions[-1] = contents, self._end(transaction)

    def _end(self, transaction: Any) -> str:
        if self.dice.happens(0.2):
            transaction.abort_async()
            return "aborted"
        while True:
            try:
                transaction.commit()
            except OutcomeUnknown:
                if transaction.state is not TransactionState.COMMITTING:
                    return "open"
            except PulsarException as error:
                self.scene.world.note(f"not committed: {error}")
                return "aborted"
            else:
                return "committed"

    def check(self, client: Client) -> None:
        times = Counter(self._read(client))
        for contents, outcome in self.transactions:
            visible = {content for content in contents if times[content]}
            assert outcome != "aborted" or not visible, f"aborted, and visible: {visible}"
            assert outcome != "committed" or len(visible) == len(contents), f"lost: {set(contents) - visible}"
            assert len(visible) in {0, len(contents)}, f"{visible} of {contents}"
            assert all(times[content] <= 1 for content in contents), f"twice in a transaction: {times}"
        for content, future in self.plain.items():
            outcome = future.exception(0) or future.result()
            if isinstance(outcome, MessageId):
                assert times[content] >= 1, f"{content!r} was acknowledged, and is not there"
                assert not self.scene.topic_deduplicates or times[content] == 1
            elif Verdict.of_error(outcome) is Verdict.REFUSED:
                assert not times[content], f"{content!r} failed with {outcome!r}, and is there"

    def _read(self, client: Client) -> list[bytes]:
        reader = self.scene.insist(lambda: client.create_reader(TOPIC, MessageId.earliest))
        contents: list[bytes] = []
        while reader.has_message_available():
            contents.append(reader.read_next(30_000).data())
        return contents


def mixing(scene: Scene) -> None:
    in_troubles(scene, Mixer(scene).work, patience=200.0, loses_receipts=False)


def mixing_in_calm(scene: Scene) -> None:
    """Nothing goes wrong but that receipts are late, so no connection is dropped."""
    mixer = Mixer(scene, troubled=False)
    caller = scene.world.spawn(mixer.work, "program")
    scene.world.run(until=lambda: caller.ended, limit=300.0)
    caller.result()
    topic = scene.topic()
    assert topic is not None
    assert [producer.request.epoch for producer in topic.producers.values()] == [0]
    scene.end()


def test_transactions_are_whole_and_plain_messages_true_when_one_producer_sends_both() -> None:
    play(40, mixing)


def test_transactions_are_whole_and_plain_messages_stored_once_where_the_broker_drops_repeats() -> None:
    play(40, mixing, deduplication=True)


def test_late_receipts_of_transactions_cost_no_connection() -> None:
    play(20, mixing_in_calm, CALM)
