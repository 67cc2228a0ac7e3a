from typing import Any

import pytest
from google.protobuf.message import Message

from pulsar_actors.broker import fault_rules as rules
from pulsar_actors.broker.session.fault_injection import FaultInjector
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support.bench_loop import BenchLoop


class Rig:
    """A gate; whatever has a number in `meet` meets that action."""

    number = 7

    def __init__(self, meet: dict[int, rules.Action]) -> None:
        self.meet = meet
        self.active = True
        self.seen: list[rules.InterceptedCommand] = []
        self.passed: list[int] = []
        self.replies: list[Message] = []
        self.closed: list[str] = []
        self.loop = BenchLoop()
        self.gate = FaultInjector(self.loop, self, self, rules.Side.CLIENT, self._pass)

    def judge(self, seen: rules.InterceptedCommand) -> rules.Action | None:
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
            self.gate.take(pb.CommandSend(producer_id=3, sequence_id=number), [b"entry"])
        return self.passed


def test_what_meets_no_fault_passes_in_order_with_its_entry() -> None:
    rig = Rig({})
    assert rig.take(1, 2, 3) == [1, 2, 3]
    assert rig.seen[0] == rules.InterceptedCommand(
        pb.CommandSend(producer_id=3, sequence_id=1), [b"entry"], 7, rules.Side.CLIENT
    )


@pytest.mark.parametrize(
    ("meet", "passed"),
    [
        ({2: rules.Drop()}, [1, 3, 4]),
        ({2: rules.Duplicate()}, [1, 2, 2, 3, 4]),
        ({2: rules.Reorder()}, [1, 3, 2, 4]),
        ({1: rules.Reorder(), 2: rules.Drop()}, [3, 1, 4]),
        ({1: rules.Reorder(), 2: rules.Duplicate()}, [2, 1, 2, 3, 4]),
    ],
    ids=["drop", "duplicate", "reorder", "reorder behind one that passes", "reorder between duplicates"],
)
def test_an_action_decides_how_often_and_in_which_order_commands_pass(
    meet: dict[int, rules.Action], passed: list[int]
) -> None:
    assert Rig(meet).take(1, 2, 3, 4) == passed


def test_what_is_delayed_is_overtaken_and_passes_in_its_time() -> None:
    rig = Rig({2: rules.Delay(5.0)})
    assert rig.take(1, 2, 3) == [1, 3]
    rig.loop.advance(4.9)
    assert rig.passed == [1, 3]
    rig.loop.advance(0.2)
    assert rig.passed == [1, 3, 2]


def test_the_connection_closes_in_the_place_of_a_command_when_the_turn_in_which_it_came_is_over() -> None:
    rig = Rig({2: rules.CloseConnection()})
    assert rig.take(1, 2, 3) == [1]
    assert rig.closed == []
    rig.loop.advance(0)
    assert rig.closed == ["a scripted fault"]


def test_from_a_stalled_command_on_nothing_passes_until_the_release() -> None:
    rig = Rig({2: rules.Stall()})
    assert rig.take(1, 2, 3) == [1]
    assert not rig.gate.is_idle
    assert len(rig.seen) == 2
    rig.meet.clear()
    rig.gate.release()
    assert rig.passed == [1, 2, 3]
    rig.active = False
    assert rig.gate.is_idle


def test_what_a_release_lets_go_may_meet_another_fault() -> None:
    rig = Rig({2: rules.Stall()})
    rig.take(2, 3, 4)
    rig.meet = {3: rules.Drop()}
    rig.gate.release()
    assert rig.passed == [2, 4]


def test_a_release_where_nothing_stalls_does_nothing() -> None:
    rig = Rig({})
    rig.gate.release()
    assert rig.take(1) == [1]


def test_a_gate_is_only_idle_without_faults_and_when_it_keeps_nothing_back() -> None:
    rig = Rig({2: rules.Reorder()})
    assert not rig.gate.is_idle
    rig.active = False
    assert rig.gate.is_idle
    assert rig.take(1, 2) == [1]
    assert not rig.gate.is_idle


def test_an_answer_comes_in_the_place_of_what_was_asked_and_knows_whom_it_is_for() -> None:
    rig = Rig(
        {
            2: rules.Answer(
                (pb.CommandSendReceipt(), pb.CommandSendReceipt(producer_id=9, sequence_id=8), pb.CommandFlow())
            )
        }
    )
    assert rig.take(1, 2) == [1]
    assert rig.replies == [
        pb.CommandSendReceipt(producer_id=3, sequence_id=2),
        pb.CommandSendReceipt(producer_id=9, sequence_id=8),
        pb.CommandFlow(),
    ]


NO = rules.Refuse(pb.ServerError.NotAllowedError, "no")


@pytest.mark.parametrize(
    ("action", "command", "replies"),
    [
        (
            rules.Answer((pb.CommandSuccess(),)),
            pb.CommandGetLastMessageId(consumer_id=1, request_id=55),
            [pb.CommandSuccess(request_id=55)],
        ),
        (
            NO,
            pb.CommandSend(producer_id=3, sequence_id=2),
            [pb.CommandSendError(producer_id=3, sequence_id=2, error=pb.ServerError.NotAllowedError, message="no")],
        ),
        (NO, pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual), []),
        (NO, pb.CommandFlow(consumer_id=1, messagePermits=1), []),
    ],
)
def test_an_answer_has_the_id_of_the_request_and_a_refusal_its_form_and_never_comes_where_nobody_waits(
    action: rules.Action, command: Message, replies: list[Message]
) -> None:
    rig = Rig({})
    rig.judge = lambda _: action  # type: ignore[method-assign]
    rig.gate.take(command, [b"entry"])
    assert (rig.replies, rig.passed) == (replies, [])
