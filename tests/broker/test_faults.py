import threading
from typing import Any

import pytest

from pulsar_actors.broker import fault_rules as rules
from pulsar_actors.broker.fault_commands import plain_command
from pulsar_actors.broker.faults import Faults
from pulsar_actors.exceptions import InvalidArgument, Timeout
from pulsar_actors.wire import PulsarApi_pb2 as pb


@pytest.fixture
def released() -> list[str]:
    return []


@pytest.fixture
def faults(released: list[str]) -> Faults:
    return Faults(lambda: released.append("released"))


def sent(number: int = 0, side: rules.Side = rules.Side.CLIENT) -> rules.InterceptedCommand:
    return rules.InterceptedCommand(pb.CommandSend(producer_id=0, sequence_id=number), (), 1, side)


@pytest.mark.parametrize(
    ("nth", "times", "met"), [(1, 1, "x...."), (3, 1, "..x.."), (2, 3, ".xxx."), (4, None, "...xx"), (1, None, "xxxxx")]
)
def test_a_fault_happens_as_often_as_was_said(faults: Faults, nth: int, times: int | None, met: str) -> None:
    fault = faults.on(pb.CommandSend, nth=nth, times=times).drop()
    assert "".join(".x"[faults.judge(sent()) is not None] for _ in range(5)) == met
    assert fault.happened == met.count("x")


def test_only_commands_for_which_the_predicate_holds_are_counted(faults: Faults) -> None:
    def is_even(command: Any) -> bool:
        return bool(command.sequence_id % 2 == 0)

    faults.on(pb.CommandSend, nth=2, when=is_even).drop()
    assert [number for number in range(6) if faults.judge(sent(number))] == [2]


def test_a_fault_looks_in_one_direction(faults: Faults) -> None:
    faults.on(pb.CommandPing).drop()
    faults.on("ping", sent_by="broker").duplicate()
    assert faults.judge(rules.InterceptedCommand(pb.CommandPing(), (), 1, rules.Side.BROKER)) == rules.Duplicate()
    assert faults.judge(rules.InterceptedCommand(pb.CommandPing(), (), 1, rules.Side.CLIENT)) == rules.Drop()


SENDERS = [
    (
        rules.Side.BROKER,
        "Connected AuthChallenge SendReceipt Message Success ProducerSuccess LookupTopicResponse GetSchemaResponse",
    ),
    (rules.Side.CLIENT, "Send AuthResponse LookupTopic Flow CloseProducer Ping"),
]


@pytest.mark.parametrize(("sender", "name"), [(sender, name) for sender, names in SENDERS for name in names.split()])
def test_a_command_tells_by_its_class_who_sends_it(faults: Faults, sender: rules.Side, name: str) -> None:
    kind = getattr(pb, f"Command{name}")
    faults.on(kind, times=None).drop()
    assert [side for side in rules.Side if faults.judge(rules.InterceptedCommand(kind(), (), 1, side))] == [sender]


def test_a_command_meets_one_fault_at_most_the_first_that_was_set(faults: Faults) -> None:
    first = faults.on(pb.CommandSend).drop()
    second = faults.on(pb.CommandSend).duplicate()
    assert [faults.judge(sent()) for _ in range(3)] == [rules.Drop(), rules.Duplicate(), None]
    assert (first.happened, second.happened) == (1, 1)


def test_every_action_can_be_set(faults: Faults) -> None:
    receipt = pb.CommandSendReceipt()
    for name, arguments, action in [
        ("drop", (), rules.Drop()),
        ("delay", (1.5,), rules.Delay(1.5)),
        ("duplicate", (), rules.Duplicate()),
        ("reorder", (), rules.Reorder()),
        ("close_connection", (), rules.CloseConnection()),
        ("answer", (receipt, receipt), rules.Answer((receipt, receipt))),
        ("refuse", (pb.ServerError.ChecksumError, "no"), rules.Refuse(pb.ServerError.ChecksumError, "no")),
        ("stall", (), rules.Stall()),
        ("do", (rules.Drop(),), rules.Drop()),
    ]:
        fault = getattr(faults.on(pb.CommandSend), name)(*arguments)
        assert [faults.judge(sent()) for _ in range(2)] == [action, None]
        assert fault.happened == 1


def test_a_control_function_sees_every_command_before_the_faults(faults: Faults) -> None:
    seen: list[rules.InterceptedCommand] = []

    def control(each: rules.InterceptedCommand) -> rules.Drop | None:
        seen.append(each)
        return rules.Drop() if len(seen) == 1 else None

    fault = faults.on(pb.CommandSend).duplicate()
    controlled = faults.control(control)
    assert [faults.judge(sent(number)) for number in range(3)] == [rules.Drop(), rules.Duplicate(), None]
    assert seen == [sent(0), sent(1), sent(2)]
    assert (controlled.happened, fault.happened) == (1, 1)


def test_commands_need_only_be_looked_at_while_there_is_a_fault(faults: Faults) -> None:
    assert not faults.active
    first, second = faults.on(pb.CommandSend).drop(), faults.control(lambda _: None)
    faults.on_accept().hang_up()
    assert faults.active
    first.remove()
    assert faults.active
    second.remove()
    assert not faults.active
    assert faults.judge(sent()) is None


def test_a_release_removes_the_fault_and_lets_the_stalled_go_on(faults: Faults, released: list[str]) -> None:
    fault = faults.on(pb.CommandSend, times=None).stall()
    assert faults.judge(sent()) == rules.Stall()
    fault.release()
    assert released == ["released"]
    assert faults.judge(sent()) is None


def test_clearing_removes_everything_and_lets_the_stalled_go_on(faults: Faults, released: list[str]) -> None:
    faults.on(pb.CommandSend).drop()
    faults.control(lambda _: rules.Drop())
    faults.on_accept().hang_up()
    faults.clear()
    assert released == ["released"]
    assert (faults.active, faults.judge(sent()), faults.receive()) == (False, None, None)


def test_connections_meet_faults_by_their_number(faults: Faults) -> None:
    fault = faults.on_accept(nth=2, times=2).hang_up()
    faults.on_accept(nth=2).say_nothing()
    faults.on_accept(nth=2).cut_after(received=5, sent=0)
    assert not faults.active  # commands need not be looked at
    assert [faults.receive() for _ in range(6)] == [
        None,  # the first of each
        rules.Reception(hang_up=True),
        rules.Reception(hang_up=True),
        rules.Reception(silent=True),  # the second that the first fault has left it
        rules.Reception(received=5, sent=0),
        None,
    ]
    assert fault.happened == 2


def test_waiting_ends_when_the_fault_has_happened_so_often(faults: Faults) -> None:
    fault = faults.on(pb.CommandSend, times=None).drop()
    threads = [threading.Thread(target=faults.judge, args=(sent(),), daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    fault.wait(3)
    assert fault.happened == 3
    for thread in threads:
        thread.join()


def test_waiting_ends_with_an_error_when_it_does_not_happen(faults: Faults) -> None:
    fault = faults.on(pb.CommandSend).drop()
    with pytest.raises(Timeout, match=r"in 0\.01 s it did not happen 1 times: <Fault on\('send'.* 0 times>$"):
        fault.wait(timeout=0.01)


def test_a_fault_says_what_it_waits_for_and_how_often_it_has_happened(faults: Faults) -> None:
    fault = faults.on(pb.CommandSend, nth=2, times=None).delay(0.5)
    said = "<Fault on('send', nth=2, times=None, sent_by='client').delay(0.5): happened"
    assert repr(fault) == f"{said} 0 times>"
    faults.judge(sent())
    faults.judge(sent())
    assert repr(fault) == f"{said} once>"
    assert repr(faults.on(pb.CommandPing, when=bool).drop()) == (
        "<Fault on('ping', nth=1, times=1, sent_by='client', when=<class 'bool'>).drop(): happened 0 times>"
    )


def test_a_fault_of_connections_and_a_control_function_say_so_too(faults: Faults) -> None:
    assert repr(faults.on_accept(times=2).cut_after(sent=7)) == (
        "<Fault on_accept(nth=1, times=2).cut_after(received=None, sent=7): happened 0 times>"
    )
    assert repr(faults.control(print)) == "<Fault control(<built-in function print>): happened 0 times>"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("send", pb.CommandSend), ("receipt", pb.CommandSendReceipt), ("lookup", pb.CommandLookupTopic),
        ("lookup_response", pb.CommandLookupTopicResponse), ("message", pb.CommandMessage), ("ack", pb.CommandAck),
        ("partitioned_metadata", pb.CommandPartitionedTopicMetadata), ("subscribe", pb.CommandSubscribe),
        ("get_last_message_id", pb.CommandGetLastMessageId), ("ping", pb.CommandPing), ("new_txn", pb.CommandNewTxn),
    ],
)  # fmt: skip
def test_commands_are_chosen_by_their_names_in_the_protocol(faults: Faults, name: str, kind: Any) -> None:
    assert repr(faults.on(name).drop()) == repr(faults.on(kind).drop())


def test_the_error_of_a_refusal_is_given_by_its_name(faults: Faults) -> None:
    by_name = faults.on("send").refuse("TopicTerminatedError", "no more")
    assert repr(by_name) == repr(faults.on("send").refuse(pb.ServerError.TopicTerminatedError, "no more"))


def test_every_command_of_the_protocol_has_a_name(faults: Faults) -> None:
    names = {"receipt" if name == "SEND_RECEIPT" else name.lower() for name in pb.BaseCommand.Type.keys()}  # noqa: SIM118
    for name in names:
        faults.on(name).drop()


WRONG: list[Any] = [
    (lambda faults: faults.on(pb.MessageMetadata), "given by its name, such as 'send', not <class"),
    (lambda faults: faults.on(pb.BaseCommand), "given by its name, such as 'send', not <class"),
    (lambda faults: faults.on("sent"), "by its name, such as 'send', not 'sent'; the nearest is 'send'$"),
    (lambda faults: faults.on("send_receipt"), "not 'send_receipt'; the nearest is 'receipt'$"),
    (lambda faults: faults.on(""), "a command is given by its name, such as 'send', not ''$"),
    (lambda faults: faults.on(pb.CommandSend()), "given by its name, such as 'send', not "),
    (lambda faults: faults.on("ping", sent_by="server"), "sent_by is 'client' or 'broker', not 'server'"),
    (lambda faults: faults.on("send", sent_by="broker"), "'send' is sent by the client, never by the broker"),
    (lambda faults: faults.on("receipt", sent_by="client"), "'receipt' is sent by the broker, never by the client"),
    (lambda faults: faults.on("ping", sent_by=["broker"]), "sent_by is 'client' or 'broker', not "),
    (lambda faults: faults.on(pb.CommandSend, nth=0), "nth counts from 1, and is 0"),
    (lambda faults: faults.on(pb.CommandSend, times=0), "at least once"),
    (lambda faults: faults.on_accept(nth=-1), "nth counts from 1"),
    (lambda faults: faults.on(pb.CommandSend, nth="first"), "nth counts from 1, and is 'first'"),
    (lambda faults: faults.on(pb.CommandSend, times=1.5), "at least once, or None for always; it is 1.5"),
    (lambda faults: faults.on(pb.CommandSend).delay("soon"), "number of seconds from 0 on, not 'soon'"),
    (lambda faults: faults.on_accept().cut_after(received="all"), "from 0 on, not 'all'"),
    (lambda faults: faults.on(pb.CommandSend).delay(-1), "number of seconds from 0 on, not -1"),
    (lambda faults: faults.on(pb.CommandSend).delay(float("nan")), "not nan"),
    (lambda faults: faults.on(pb.CommandSend).answer(pb.MessageMetadata()), "an answer is the name of a command"),
    (lambda faults: faults.on(pb.CommandSend).answer(pb.CommandSuccess), "such as 'success', .*, not <class"),
    (lambda faults: faults.on("flow").refuse(pb.ServerError.UnknownError, ""), "^'flow' cannot be refused"),
    (lambda faults: faults.on_accept().cut_after(sent=-1), "from 0 on, not -1"),
    (lambda faults: faults.on_accept().cut_after(), "received or sent"),
    (
        lambda faults: faults.on(pb.CommandSend).refuse(99, ""),
        "the name of an error, not 99: UnknownError, ",
    ),
    (
        lambda faults: faults.on(pb.CommandSend).refuse("NotReady", ""),
        "the name of an error, not 'NotReady': Unkn.*; the nearest is 'ServiceNotReady'$",
    ),
]


WRONG_TYPES: list[Any] = [
    (lambda faults: faults.on(pb.CommandSend, when="x"), "a predicate is a function, not str"),
    (lambda faults: faults.control(None), "a control function is a function, not NoneType"),
    (lambda faults: faults.on(pb.CommandSend).do("drop"), r"an action is one of .*Drop.*, not str"),
    (lambda faults: faults.on(pb.CommandSend).refuse(pb.ServerError.UnknownError, None), "a str, not NoneType"),
]


LOOKUP = "lookup_response"

WRONG_ANSWERS: list[Any] = [
    ("succes", "by its name, such as 'send', not 'succes'; the nearest is 'success'$"),
    ("", "by its name, such as 'send', not ''$"),
    ({"error": "TopicNotFound"}, r"an answer is the name of a command, .*, not {'error': 'TopicNotFound'}$"),
    (("success", []), r"the fields of 'success' are a dict, not \[\]$"),
    ((LOOKUP, {"respons": "Failed"}), "no field 'respons': it has broker.*, response, .*; the nearest is 'response'$"),
    (("ping", {"id": 1}), "'ping' has no field 'id': it has no fields$"),
    (("success", {3: 1}), "'success' has no field 3: it has request_id, schema$"),
    ((LOOKUP, {"response": "failed"}), "is one of Redirect, Connect, Failed, not 'failed'; the nearest is 'Failed'$"),
    ((LOOKUP, {"response": 2}), "response of 'lookup_response' is one of Redirect, Connect, Failed, not 2$"),
    ((LOOKUP, {"request_id": -1}), "request_id of 'lookup_response' is a whole number of 64 bits, from 0 on, not -1$"),
    ((LOOKUP, {"authoritative": "yes"}), "authoritative of 'lookup_response' is True or False, not 'yes'$"),
    ((LOOKUP, {"message": 3}), "message of 'lookup_response' is a text, not 3$"),
    (("message", {"ack_set": 3}), "ack_set of 'message' is a list, not 3$"),
    (("message", {"ack_set": [2**63]}), "ack_set of 'message' is a whole number of 64 bits, not "),
    (("success", {"schema": {"schema_data": "x"}}), "schema_data of schema of 'success' is bytes, not 'x'$"),
    (("success", {"schema": {"properties": [{"kee": "x"}]}}), "properties of .* no field 'kee': it has key, value"),
    (("message", {"message_id": 3}), "the fields of message_id of 'message' are a dict, not 3$"),
    (("success", {"schema": {"name": "x"}}), "^'success' as the answer to 'lookup' needs schema.schema_data, schema.t"),
    ("receipt", "^'receipt' as the answer to 'lookup' needs producer_id, sequence_id$"),
    (pb.CommandSendReceipt(), "^'receipt' as the answer to 'lookup' needs producer_id, sequence_id$"),
]


@pytest.mark.parametrize(("answer", "text"), WRONG_ANSWERS)
def test_an_answer_that_there_is_not_is_refused_at_once(faults: Faults, answer: Any, text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        faults.on("lookup").answer(answer)
    assert not faults.active


@pytest.mark.parametrize(
    ("plain", "command"),
    [
        ("success", pb.CommandSuccess()),
        (("receipt", {"message_id": {"ledgerId": 1, "entryId": 2}}),
         pb.CommandSendReceipt(message_id=pb.MessageIdData(ledgerId=1, entryId=2))),
        (("send_error", {"error": "TopicTerminatedError", "message": "no more"}),
         pb.CommandSendError(error=pb.ServerError.TopicTerminatedError, message="no more")),
        (("message", {"message_id": {"ledgerId": 1, "entryId": 2}, "ack_set": [-1, 3], "consumer_id": 0}),
         pb.CommandMessage(message_id=pb.MessageIdData(ledgerId=1, entryId=2), ack_set=[-1, 3], consumer_id=0)),
        (("subscribe", {"topic": "t", "subscription": "s", "subType": "Shared", "consumer_id": 0, "durable": False,
                        "metadata": [{"key": "a", "value": "b"}]}),
         pb.CommandSubscribe(topic="t", subscription="s", subType=pb.CommandSubscribe.Shared, consumer_id=0,
                             durable=False, metadata=[pb.KeyValue(key="a", value="b")])),
        (("auth_challenge", {"challenge": {"auth_data": b"x"}}),
         pb.CommandAuthChallenge(challenge=pb.AuthData(auth_data=b"x"))),
        (("connected", {"server_version": "x", "feature_flags": {}}),
         pb.CommandConnected(server_version="x", feature_flags=pb.FeatureFlags())),
    ],
)  # fmt: skip
def test_an_answer_is_given_by_names_and_plain_values(faults: Faults, plain: Any, command: Any) -> None:
    is_request = "request_id" in command.DESCRIPTOR.fields_by_name
    seen = pb.CommandSeek(consumer_id=1, request_id=2) if is_request else pb.CommandSend(producer_id=1, sequence_id=2)
    faults.on(type(seen)).answer(plain)
    judged = faults.judge(rules.InterceptedCommand(seen, (), 1, rules.Side.CLIENT))
    assert judged == rules.Answer((command,))
    assert plain_command(command) == plain


def test_a_fault_says_how_it_was_set(faults: Faults) -> None:
    send, failed = faults.on("send"), ("send_error", {"error": "UnknownError", "message": "x"})
    for fault, call in [
        (send.drop(), "drop()"),
        (send.delay(0.5), "delay(0.5)"),
        (send.duplicate(), "duplicate()"),
        (send.reorder(), "reorder()"),
        (send.close_connection(), "close_connection()"),
        (send.stall(), "stall()"),
        (send.refuse("ServiceNotReady", "busy"), "refuse('ServiceNotReady', 'busy')"),
        (send.answer("pong", failed), f"answer('pong', {failed})"),
        (faults.on_accept().hang_up(), "hang_up()"),
        (faults.on_accept().say_nothing(), "say_nothing()"),
    ]:
        assert repr(fault).endswith(f").{call}: happened 0 times>")


@pytest.mark.parametrize(
    ("error", "call", "text"),
    [*((InvalidArgument, *wrong) for wrong in WRONG), *((TypeError, *wrong) for wrong in WRONG_TYPES)],
)
def test_what_cannot_work_is_refused_at_once(faults: Faults, error: type[Exception], call: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        call(faults)
    assert not faults.active
