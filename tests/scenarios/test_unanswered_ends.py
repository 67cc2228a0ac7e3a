"""Transactions whose end has no answer for longer than a call waits, while the program asks again, or goes.

What a call says is true in the end: of a transaction that is committed all can be read, of one that is aborted nothing.
A client may be closed meanwhile, or its coordinator move.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from pulsar_actors.broker.fault_rules import Action, Delay, Drop, InterceptedCommand
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import AlreadyClosed, OutcomeUnknown, PulsarException
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import CommandEndTxn, CommandEndTxnResponse
from tests.scenarios.scene import OPERATION_TIMEOUT, PATIENCE, TOPIC, Scene, play
from tests.scenarios.test_transactions import unload_coordinators

SHORT, LONG = timedelta(seconds=2), timedelta(minutes=5)
ENDS = (CommandEndTxn, CommandEndTxnResponse)


class Program:
    """Sends in transactions and ends them, with what it was told of each."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.dice = Dice(scene.world.seed, "program")
        self.client = scene.client()
        self.callers = [scene.world.spawn(self._run, "program")]
        self.told: dict[bytes, bool] = {}
        """Whether it was said for certain that a content is committed, or that it is not."""
        self.left = 0
        """How many of the next commands that end transactions, or answers to them, are lost or late."""

    def spawn(self, call: Callable[[], object], name: str) -> None:
        self.callers.append(self.scene.world.spawn(call, name))

    def _run(self) -> None:
        self.scene.have_broker(lambda broker: broker.faults.control(self._disturb))
        producer = self.client.create_producer(TOPIC)
        for number in range(2 + self.dice.below(4)):
            self._work(b"%d" % number, producer)

    def _disturb(self, seen: InterceptedCommand) -> Action | None:
        if not self.left or type(seen.command) not in ENDS or self.dice.happens(0.3):
            return None
        self.left -= 1
        return Drop() if self.dice.happens(0.6) else Delay(2 * OPERATION_TIMEOUT * self.dice.chance())

    def _work(self, content: bytes, producer: Any) -> None:
        dice, scene = self.dice, self.scene
        transaction = self.client.new_transaction(SHORT if dice.happens(0.3) else LONG)
        producer.send(content, transaction=transaction)
        self.left = dice.below(5)
        if dice.happens(0.3):
            scene.world.after(OPERATION_TIMEOUT * dice.chance(), lambda: scene.on_broker(unload_coordinators))
        if dice.happens(0.2):
            scene.sleep(3.0)  # a short one times out
        commits = dice.happens(0.6)
        end = transaction.commit if commits else transaction.abort
        if dice.happens(0.3):
            self.spawn(lambda: self._ask(content, end, commits=commits), "another caller")
        for _ in range(1 + dice.below(4)):
            self._ask(content, end, commits=commits)
            scene.sleep(2 * OPERATION_TIMEOUT * dice.chance() * dice.below(2))

    def _ask(self, content: bytes, end: Callable[[], object], *, commits: bool) -> None:
        note = self.scene.world.note
        try:
            end()
        except (OutcomeUnknown, AlreadyClosed) as error:  # a closed client says nothing of what it has asked before
            note(f"{content!r}: {error!r}")
        except PulsarException as error:
            note(f"{content!r}: {error!r}")
            if commits:
                self.told.setdefault(content, False)
        else:
            assert self.told.setdefault(content, commits) is commits, f"{content!r}: told one thing, and then another"


def unanswered_ends(scene: Scene) -> None:
    world = scene.world
    program = Program(scene)
    if program.dice.happens(0.3):
        go = program.client.shutdown if program.dice.happens(0.5) else program.client.close
        world.after(8 * OPERATION_TIMEOUT * program.dice.chance(), lambda: program.spawn(go, "closing"))
    world.run(until=lambda: all(caller.ended for caller in program.callers), limit=100 * OPERATION_TIMEOUT)
    for caller in program.callers:
        try:
            caller.result()
        except AlreadyClosed as error:
            world.note(f"{caller.name}: {error!r}")
    program.left = 0
    scene.calm()
    client = scene.client()
    reading = world.spawn(lambda: read(scene, client), "reading")
    world.run(until=lambda: reading.ended, limit=PATIENCE + 2 * LONG.total_seconds())
    stored = reading.result()
    assert len(stored) == len(set(stored))
    for content, is_committed in program.told.items():
        assert (content in stored) is is_committed, f"{content!r}: told {is_committed}, read {stored}"
    scene.end()


def read(scene: Scene, client: Any) -> list[bytes]:
    """Read what is there when no transaction is open any more."""
    broker = scene.broker
    assert broker is not None
    while any(each.transactions for each in broker.cluster.coordinators):
        client.new_transaction(SHORT).abort()  # a coordinator that runs nowhere lets nothing time out
        scene.sleep(30.0)
    reader = client.create_reader(TOPIC, MessageId.earliest)
    contents: list[bytes] = []
    while reader.has_message_available():
        contents.append(reader.read_next(1000).data())
    return contents


def test_what_is_told_of_a_transaction_is_true_though_its_end_has_no_answer() -> None:
    play(60, unanswered_ends, CALM)
