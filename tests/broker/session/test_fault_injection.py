from typing import Any

import pytest
from google.protobuf.message import Message

from pulsar_actors.broker.fault_rules import (
    Action,
    Answer,
    CloseConnection,
    Delay,
    Drop,
    Duplicate,
    InterceptedCommand,
    Refuse,
    Reorder,
    Side,
    Stall,
)
from pulsar_actors.broker.session.fault_injection import FaultInjector
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandFlow,
    CommandGetLastMessageId,
    CommandSend,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    ServerError,
)
from tests.support.bench_loop import BenchLoop


class Rig:
    """A gate; whatever has a number in `meet` meets that action."""

    number = 7

    def __init__(self, meet: dict[int, Action]) -> None:
        self.meet = meet
        self.active = True
        self.seen: list[InterceptedCommand] = []
        self.passed: list[int] = []
        self.replies: list[Message] = []
        self.closed: list[str] = []
        self.loop = BenchLoop()
        self.gate = FaultInjector(self.loop, self, self, Side.CLIENT, self._pass)

    def judge(self, seen: InterceptedCommand) -> Action | None:
        self.seen.append(seen)
        command: Any = seen.command
        return self.meet.get(command.sequence_id)

    def reply(self, command: Message) -> None:
        self.replies.append(command)

    def close(self, reason: str) -> None:
        self.closed.append(reason)

    def _pass(self, command: Any, entry: Any) -> None:
        assert list(entry) == [b"entry"]
        self.passed.append(command.sequence_id)

    def take(self, *numbers: int) -> list[int]:
        for number in numbers:
            self.gate.take(CommandSend(producer_id=3, sequence_id=number), [b"entry"])
        return self.passed


def test_what_meets_no_fault_passes_in_order_with_its_entry() -> None:
    rig = Rig({})
    assert rig.take(1, 2, 3) == [1, 2, 3]
    assert rig.seen[0] == InterceptedCommand(CommandSend(producer_id=3, sequence_id=1), [b"entry"], 7, Side.CLIENT)


def test_what_is_dropped_does_not_pass() -> None:
    assert Rig({2: Drop()}).take(1, 2, 3) == [1, 3]


def test_what_is_duplicated_passes_twice() -> None:
    assert Rig({2: Duplicate()}).take(1, 2, 3) == [1, 2, 2, 3]


def test_what_is_delayed_is_overtaken_and_passes_in_its_time() -> None:
    rig = Rig({2: Delay(5.0)})
    assert rig.take(1, 2, 3) == [1, 3]
    rig.loop.advance(4.9)
    assert rig.passed == [1, 3]
    rig.loop.advance(0.2)
    assert rig.passed == [1, 3, 2]


def test_what_is_reordered_passes_after_the_next() -> None:
    rig = Rig({2: Reorder()})
    assert rig.take(1, 2) == [1]
    assert not rig.gate.is_idle
    assert rig.take(3, 4) == [1, 3, 2, 4]


def test_a_reordered_command_waits_for_one_that_really_passes() -> None:
    assert Rig({1: Reorder(), 2: Drop()}).take(1, 2, 3) == [3, 1]


def test_a_duplicate_lets_a_reordered_one_pass_between() -> None:
    assert Rig({1: Reorder(), 2: Duplicate()}).take(1, 2) == [2, 1, 2]


def test_the_connection_closes_in_the_place_of_a_command_when_the_turn_in_which_it_came_is_over() -> None:
    rig = Rig({2: CloseConnection()})
    assert rig.take(1, 2, 3) == [1]
    assert rig.closed == []
    rig.loop.advance(0)
    assert rig.closed == ["a scripted fault"]


def test_from_a_stalled_command_on_nothing_passes_until_the_release() -> None:
    rig = Rig({2: Stall()})
    assert rig.take(1, 2, 3) == [1]
    assert not rig.gate.is_idle
    assert len(rig.seen) == 2
    rig.meet.clear()
    rig.gate.release()
    assert rig.passed == [1, 2, 3]
    rig.active = False
    assert rig.gate.is_idle


def test_what_a_release_lets_go_may_meet_another_fault() -> None:
    rig = Rig({2: Stall()})
    rig.take(2, 3, 4)
    rig.meet = {3: Drop()}
    rig.gate.release()
    assert rig.passed == [2, 4]


def test_a_release_where_nothing_stalls_does_nothing() -> None:
    rig = Rig({})
    rig.gate.release()
    assert rig.take(1) == [1]


def test_a_gate_is_only_idle_without_faults() -> None:
    rig = Rig({})
    assert not rig.gate.is_idle
    rig.active = False
    assert rig.gate.is_idle


def test_an_answer_comes_in_the_place_of_what_was_asked_and_knows_whom_it_is_for() -> None:
    rig = Rig({2: Answer((CommandSendReceipt(), CommandSendReceipt(producer_id=9, sequence_id=8), CommandFlow()))})
    assert rig.take(1, 2) == [1]
    assert rig.replies == [
        CommandSendReceipt(producer_id=3, sequence_id=2),
        CommandSendReceipt(producer_id=9, sequence_id=8),
        CommandFlow(),
    ]


def test_an_answer_takes_the_id_of_the_request() -> None:
    rig = Rig({})
    rig.judge = lambda _: Answer((CommandSuccess(),))  # type: ignore[method-assign]
    rig.gate.take(CommandGetLastMessageId(consumer_id=1, request_id=55), ())
    assert rig.replies == [CommandSuccess(request_id=55)]


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        (
            CommandSend(producer_id=3, sequence_id=2),
            [CommandSendError(producer_id=3, sequence_id=2, error=ServerError.NotAllowedError, message="no")],
        ),
        (CommandAck(consumer_id=1, ack_type=CommandAck.Individual), []),
        (CommandFlow(consumer_id=1, messagePermits=1), []),
    ],
)
def test_a_refusal_comes_in_the_form_of_the_command_and_never_where_nobody_waits(
    command: Message, refused: list[Message]
) -> None:
    rig = Rig({})
    rig.judge = lambda _: Refuse(ServerError.NotAllowedError, "no")  # type: ignore[method-assign]
    rig.gate.take(command, [b"entry"])
    assert rig.replies == refused
    assert rig.passed == []
