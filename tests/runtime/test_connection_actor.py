import logging
from typing import Any

import pytest

from pulsar_actors import exceptions
from pulsar_actors.machines import connection_events as events
from pulsar_actors.machines.connection_commands import CONSUMER, PRODUCER
from pulsar_actors.runtime import connection_actor, messages
from pulsar_actors.runtime.actor import ActorDied, ActorRef
from pulsar_actors.runtime.http_client import HttpClient
from pulsar_actors.runtime.socket_actor import SocketEvent
from pulsar_actors.runtime.transport import EncodedBytes
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.frames import FrameReader, decode_command, encode_command, encode_payload_command
from tests.support.manual_loop import ActorBench, Line, effects_of, of_kind

SETTINGS = events.ConnectionSettings(hosts=(("a", 6650), ("b", 6651)), client_version="test")
NO_CONTEXT: Any = None
CONNECTED = pb.CommandConnected(server_version="broker", protocol_version=21, max_message_size=1000)
LOOKUP = pb.CommandLookupTopic(topic="t", request_id=0)


class Bench(ActorBench):
    """A connection with a fake network, and those who use it."""

    def __init__(self, settings: events.ConnectionSettings = SETTINGS) -> None:
        super().__init__()
        self.challenges: list[bytes | None] = []
        access = connection_actor.ServiceAccess(self.fetch, NO_CONTEXT, HttpClient(NO_CONTEXT))
        self.credentials: Any = ("token", b"secret")
        self.actor = connection_actor.ConnectionActor.start(self.loop, self.guardian, settings, access)
        self.reader = FrameReader()

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:
        self.challenges.append(challenge)
        if isinstance(self.credentials, Exception):
            raise self.credentials
        return self.credentials  # type: ignore[no-any-return]

    @property
    def line(self) -> Line:
        return self.loop.lines[-1]

    def member(self, kind: str = PRODUCER, member_id: int = 1, number: int = 1) -> messages.HandlerRef:
        return messages.HandlerRef(kind, member_id, self.actors.make(), number)

    def join(self, kind: str = PRODUCER, member_id: int = 1, number: int = 1) -> messages.HandlerRef:
        """Add a member that has heard of it."""
        member = self.member(kind, member_id, number)
        self.tell(events.RegisterHandler(member))
        self.heard(member)
        return member

    def ask(self, timeout: float = 30.0) -> ActorRef:
        """Send a request, and give the actor that waits for its answer."""
        asker = self.actors.make()
        self.tell(events.SendRequest(LOOKUP, messages.ReplyTo(asker, "question"), timeout))
        return asker

    def heard(self, who: ActorRef | messages.HandlerRef) -> list[Any]:
        return self.actors.heard(who.address if isinstance(who, messages.HandlerRef) else who)

    def said(self) -> list[Any]:
        """What the broker has heard since the last time."""
        data = bytes(self.line.written)
        self.line.written.clear()
        return [decode_command(frame.command) for frame in self.reader.feed(data)]

    def hears(self, *commands: Any) -> None:
        """Have the broker say these, all in one read."""
        self.line.owner.received(b"".join(encode_command(command) for command in commands))
        self.loop.run()

    def dial(self) -> None:
        self.tell(events.Dial())
        self.line.owner.opened()
        self.loop.run()
        self.loop.run_blocking_calls()

    def ready(self) -> "Bench":
        self.dial()
        self.hears(CONNECTED)
        assert isinstance(self.said()[0], pb.CommandConnect)
        assert self.heard(self.guardian) == [connection_actor.ServiceAnswered(self.actor, ("a", 6650))]
        return self


@pytest.fixture
def bench() -> Bench:
    return Bench().ready()


def test_every_effect_of_the_chart_is_performed() -> None:
    assert set(connection_actor.ConnectionActor.PERFORMS) == effects_of(events)


def test_it_connects_with_the_credentials_that_were_fetched_off_the_loop() -> None:
    bench = Bench()
    bench.tell(events.Dial())
    bench.line.owner.opened()
    bench.loop.run()
    assert bench.said() == []
    bench.loop.run_blocking_calls()
    (connect,) = bench.said()
    assert (connect.auth_method_name, connect.auth_data, connect.client_version) == ("token", b"secret", "test")
    assert bench.challenges == [None]


def test_credentials_that_cannot_be_had_end_the_connection_with_an_error_that_says_so() -> None:
    bench = Bench()
    bench.credentials = OSError("no such file")
    member = bench.member()
    bench.tell(events.RegisterHandler(member))
    bench.dial()
    ((unbound),) = bench.heard(member)
    assert isinstance(unbound.error, exceptions.AuthenticationError)
    assert "no such file" in str(unbound.error)


def test_credentials_that_come_after_the_end_are_nobodys() -> None:
    bench = Bench()
    bench.tell(events.Dial())
    bench.line.owner.opened()
    bench.tell(events.CloseGracefully())
    bench.loop.run_blocking_calls()
    assert connection_actor.ConnectionEnded(bench.actor) in bench.heard(bench.guardian)


def test_a_challenge_is_answered_with_fresh_credentials(bench: Bench) -> None:
    bench.credentials = ("token", b"fresh")
    challenge = pb.CommandAuthChallenge()
    challenge.challenge.auth_data = b"who are you?"
    bench.hears(challenge)
    bench.loop.run_blocking_calls()
    (answer,) = bench.said()
    assert isinstance(answer, pb.CommandAuthResponse)
    assert answer.response.auth_data == b"fresh"
    assert bench.challenges == [None, b"who are you?"]


def test_those_who_join_are_told_when_they_can_be_served_and_how_large_messages_may_be() -> None:
    bench = Bench()
    early = bench.member(number=3)
    bench.tell(events.RegisterHandler(early))
    bench.ready()
    assert bench.heard(early) == [messages.ConnectionReady(3, bench.actor, 1000)]
    late = bench.member(member_id=2)
    bench.tell(events.RegisterHandler(late))
    assert bench.heard(late) == [messages.ConnectionReady(1, bench.actor, 1000)]


def test_a_question_is_asked_and_its_answer_goes_to_who_asked(bench: Bench) -> None:
    asker = bench.ask()
    (asked,) = bench.said()
    answer = pb.CommandLookupTopicResponse(request_id=asked.request_id, brokerServiceUrl="pulsar://b:6650")
    bench.hears(answer)
    assert bench.heard(asker) == [messages.RequestAnswered("question", answer)]


def test_a_refusal_is_an_answer_too(bench: Bench) -> None:
    asker = bench.ask()
    (asked,) = bench.said()
    bench.hears(pb.CommandError(request_id=asked.request_id, error=pb.ServerError.TopicNotFound, message="no"))
    ((replied),) = bench.heard(asker)
    assert isinstance(replied.answer, exceptions.TopicNotFound)


def test_a_question_without_an_answer_ends_when_its_time_is_up(bench: Bench) -> None:
    asker = bench.ask(5.0)
    bench.loop.pass_time(5.1)
    ((replied),) = bench.heard(asker)
    assert isinstance(replied.answer, exceptions.Timeout)


def test_commands_and_frames_are_written_in_order(bench: Bench) -> None:
    flow = pb.CommandFlow(consumer_id=1, messagePermits=5)
    bench.tell(
        events.SendCommand(flow),
        events.WriteFrames((EncodedBytes(encode_command(pb.CommandPing())),)),
        events.SendCommand(flow),
    )
    assert bench.said() == [flow, pb.CommandPing(), flow]


def test_a_ping_is_answered_and_one_is_sent_when_an_interval_has_passed(bench: Bench) -> None:
    bench.hears(pb.CommandPing())
    assert bench.said() == [pb.CommandPong()]
    bench.loop.pass_time(30.1)
    assert bench.said() == [pb.CommandPing()]
    bench.hears(pb.CommandPong())
    bench.loop.pass_time(30.1)
    assert bench.said() == [pb.CommandPing()]
    bench.loop.pass_time(60.1)
    assert bench.line.closed


def test_what_the_broker_says_goes_to_whom_it_names_all_of_one_read_together(bench: Bench) -> None:
    producer, consumer = bench.join(PRODUCER), bench.join(CONSUMER, number=4)
    receipt = pb.CommandSendReceipt(producer_id=1, sequence_id=0)
    change = pb.CommandActiveConsumerChange(consumer_id=1, is_active=True)
    end = pb.CommandReachedEndOfTopic(consumer_id=1)
    closes = pb.CommandCloseConsumer(consumer_id=1, request_id=9), pb.CommandCloseProducer(producer_id=1, request_id=9)
    bench.hears(receipt, change, receipt, end, *closes)
    ((to_producer),) = bench.heard(producer)
    ((to_consumer),) = bench.heard(consumer)
    assert [command for command, _ in to_producer.commands] == [receipt, receipt, closes[1]]
    assert [command for command, _ in to_consumer.commands] == [change, end, closes[0]]
    assert (to_producer.number, to_consumer.number) == (1, 4)


def test_a_message_comes_with_its_entry(bench: Bench) -> None:
    consumer = bench.join(CONSUMER)
    command = pb.CommandMessage(consumer_id=1, message_id=pb.MessageIdData(ledgerId=1, entryId=1))
    bench.line.owner.received(b"".join(encode_payload_command(command, b"entry")))
    (((_, entry),),) = [heard.commands for heard in bench.heard(consumer)]
    assert bytes(entry) == b"entry"


@pytest.mark.parametrize(("kind", "other"), [(PRODUCER, CONSUMER), (CONSUMER, PRODUCER)])
def test_a_migration_goes_to_the_kind_that_it_names(bench: Bench, kind: str, other: str) -> None:
    one, another = bench.join(kind), bench.join(other)
    resource = pb.CommandTopicMigrated.Producer if kind == PRODUCER else pb.CommandTopicMigrated.Consumer
    bench.hears(pb.CommandTopicMigrated(resource_id=1, resource_type=resource, brokerServiceUrl="pulsar://c:6650"))
    assert len(of_kind(messages.CommandsReceived, bench.heard(one))) == 1
    assert bench.heard(another) == []


def test_an_answer_between_messages_keeps_its_place(bench: Bench) -> None:
    consumer = bench.member(CONSUMER)
    bench.tell(
        events.RegisterHandler(consumer),
        events.SendRequest(LOOKUP, messages.ReplyTo(consumer.address, "question"), 30.0),
    )
    asked = bench.said()[-1]
    bench.heard(consumer)
    end = pb.CommandReachedEndOfTopic(consumer_id=1)
    bench.hears(end, pb.CommandSuccess(request_id=asked.request_id), end)
    assert [type(one) for one in bench.heard(consumer)] == [
        messages.CommandsReceived,
        messages.RequestAnswered,
        messages.CommandsReceived,
    ]


def test_one_that_has_left_hears_nothing_more(bench: Bench) -> None:
    member = bench.member(CONSUMER)
    bench.tell(events.RegisterHandler(member), events.RemoveHandler(member))
    bench.heard(member)
    bench.hears(pb.CommandReachedEndOfTopic(consumer_id=1))
    bench.line.owner.lost("reset")
    assert bench.heard(member) == []


def test_a_late_farewell_does_not_end_a_newer_use_of_the_connection(bench: Bench) -> None:
    older = bench.member(CONSUMER, number=1)
    newer = older._replace(number=2)
    bench.tell(
        events.RegisterHandler(older),
        events.RegisterHandler(newer),
        events.RemoveHandler(older),
    )
    bench.heard(newer)
    bench.hears(pb.CommandReachedEndOfTopic(consumer_id=1))
    assert [heard.number for heard in bench.heard(newer)] == [2]


def test_what_is_for_nobody_here_is_ignored_and_said_once(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "pulsar_actors")
    bench.hears(*[pb.CommandSendReceipt(producer_id=99, sequence_id=number) for number in range(2)])
    bench.hears(pb.CommandPing())
    assert bench.said() == [pb.CommandPong()]
    assert caplog.text.count("is for no producer or consumer of this connection") == 1


def test_a_command_that_only_clients_send_is_ignored(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "pulsar_actors"):
        bench.hears(pb.CommandFlow(consumer_id=1, messagePermits=5), pb.CommandPing())
    assert bench.said() == [pb.CommandPong()]
    assert "CommandFlow" in caplog.text


def test_an_error_of_a_newer_protocol_is_read_as_far_as_possible(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    asker = bench.ask()
    (asked,) = bench.said()
    data = bytearray(
        encode_command(
            pb.CommandError(request_id=asked.request_id, error=pb.ServerError.Value("UnknownError"), message="m")
        )
    )
    marker = bytes([0x10, pb.ServerError.Value("UnknownError")])
    assert data.count(marker) == 1
    data[data.index(marker) + 1] = 99
    with caplog.at_level(logging.WARNING, "pulsar_actors"):
        bench.line.owner.received(bytes(data))
        bench.loop.run()
    assert len(bench.heard(asker)) == 1
    assert "newer protocol" in caplog.text


def test_when_it_ends_everybody_hears_why_once_and_the_guardian_that_it_is_gone_and_then_buried(bench: Bench) -> None:
    member, asker = bench.member(), bench.actors.make()
    bench.tell(
        events.RegisterHandler(member),
        events.SendRequest(LOOKUP, messages.ReplyTo(asker, "question"), 30.0),
    )
    bench.heard(member)
    bench.line.owner.lost("reset by the peer")
    ((unbound),) = bench.heard(member)
    assert isinstance(unbound.error, exceptions.ConnectionLost)
    assert "reset by the peer" in str(unbound.error)
    assert isinstance(bench.heard(asker)[0].answer, exceptions.ConnectionLost)
    assert bench.heard(bench.guardian) == [
        connection_actor.ConnectionUnusable(bench.actor),
        connection_actor.ConnectionEnded(bench.actor),
    ]


def test_whoever_comes_after_the_end_is_answered(bench: Bench) -> None:
    bench.line.owner.lost("reset")
    bench.loop.run()
    member, asker = bench.member(number=9), bench.actors.make()
    bench.tell(
        events.RegisterHandler(member),
        events.SendRequest(LOOKUP, messages.ReplyTo(asker, "question"), 30.0),
        events.RemoveHandler(member),
        events.CloseIfUnused(),
    )
    ((unbound),) = bench.heard(member)
    assert (unbound.number, type(unbound.error)) == (9, exceptions.ConnectionLost)
    assert isinstance(bench.heard(asker)[0].answer, exceptions.ConnectionLost)


def test_the_next_host_is_dialled_and_the_socket_before_it_has_no_voice_any_longer() -> None:
    bench = Bench()
    bench.tell(events.Dial())
    first = bench.line
    first.owner.lost("refused")
    bench.loop.run()
    assert (first.host, bench.line.host) == ("a", "b")
    bench.tell(SocketEvent(1, events.SocketLost("said before it was closed")))
    bench.line.owner.opened()
    bench.loop.run()
    bench.loop.run_blocking_calls()
    bench.hears(CONNECTED)
    member = bench.member()
    bench.tell(events.RegisterHandler(member))
    assert of_kind(messages.ConnectionReady, bench.heard(member))


def test_a_host_that_says_nothing_is_given_up_and_its_socket_closed() -> None:
    bench = Bench()
    member = bench.member()
    bench.tell(events.RegisterHandler(member), events.Dial())
    first = bench.line
    bench.loop.pass_time(SETTINGS.handshake_timeout + 0.1)
    assert first.closed
    assert bench.line.host == "b"
    first.owner.opened()
    bench.loop.run()
    bench.loop.pass_time(SETTINGS.handshake_timeout + 0.1)
    assert isinstance(bench.heard(member)[0].error, exceptions.ConnectError)


def test_a_close_lets_what_is_written_leave(bench: Bench) -> None:
    member = bench.join()
    bench.line.room = 0
    bench.tell(
        events.SendCommand(pb.CommandFlow(consumer_id=1, messagePermits=5)),
        events.CloseGracefully(),
    )
    assert isinstance(bench.heard(member)[0].error, exceptions.AlreadyClosed)
    assert not bench.line.closed
    bench.line.make_room(None)
    bench.loop.run()
    assert len(bench.said()) == 1
    assert connection_actor.ConnectionEnded(bench.actor) in bench.heard(bench.guardian)


def test_one_that_is_asked_to_retire_says_whether_it_is_used_and_ends_if_it_is_not(bench: Bench) -> None:
    member = bench.member()
    bench.tell(events.RegisterHandler(member), events.CloseIfUnused())
    assert bench.heard(bench.guardian) == [connection_actor.ConnectionInUse(bench.actor)]
    bench.tell(events.RemoveHandler(member), events.CloseIfUnused())
    assert bench.heard(bench.guardian) == [
        connection_actor.ConnectionUnusable(bench.actor),
        connection_actor.ConnectionEnded(bench.actor),
    ]


def test_a_bug_of_its_own_is_a_lost_connection_to_members_and_named_to_those_who_asked(bench: Bench) -> None:
    member, asker = bench.member(), bench.actors.make()
    bench.tell(
        events.RegisterHandler(member),
        events.SendRequest(LOOKUP, messages.ReplyTo(asker, "question"), 30.0),
    )
    bench.heard(member)
    bench.tell(KeyError("no event"))
    ((unbound),) = bench.heard(member)
    assert isinstance(unbound.error, exceptions.ConnectionLost)
    assert isinstance(bench.heard(asker)[0].answer, exceptions.InternalError)
    assert bench.line.closed
    assert [type(one) for one in bench.heard(bench.guardian)] == [connection_actor.ConnectionUnusable, ActorDied]


def test_those_who_wait_for_a_connection_that_dies_of_a_bug_are_turned_away() -> None:
    bench = Bench()
    member = bench.member()
    bench.tell(events.RegisterHandler(member), KeyError("no event"))
    ((unbound),) = bench.heard(member)
    assert isinstance(unbound.error, exceptions.InternalError)


def test_a_bug_of_its_socket_is_the_loss_of_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    member = bench.join()

    def broken(self: FrameReader, data: bytes) -> list[Any]:
        raise KeyError("planted")

    monkeypatch.setattr(FrameReader, "feed", broken)
    bench.line.owner.received(b"x")
    ((unbound),) = bench.heard(member)
    assert "planted" in str(unbound.error)
    assert bench.heard(bench.guardian) == [
        connection_actor.ConnectionUnusable(bench.actor),
        connection_actor.ConnectionEnded(bench.actor),
    ]


ERROR = pb.CommandError(request_id=5, error=pb.ServerError.UnknownError, message="a broker's words")
MESSAGE = pb.CommandMessage(consumer_id=1, message_id=pb.MessageIdData(ledgerId=1, entryId=1))


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="pulsar_actors")


def test_each_kind_has_one_line_however_often_it_comes_on_a_connection(caplog: pytest.LogCaptureFixture) -> None:
    two = connection_actor.ProtocolWarnings(), connection_actor.ProtocolWarnings()
    for warnings in two * 1000:
        warnings.unexpected(pb.CommandConnect(client_version="x"), "b:1")
        warnings.unexpected(pb.CommandSend(producer_id=1, sequence_id=1), "b:1")
        warnings.unawaited(pb.CommandSuccess(request_id=5), "b:1")
        warnings.unawaited(ERROR, "b:1")
        warnings.unaddressed(MESSAGE, "b:1")
    assert len(lines(caplog)) == 2 * 5
    assert all("b:1" in line for line in lines(caplog))
    warned = lines(caplog, logging.WARNING)
    assert len(warned) == 2 * 3, "the answer and the message may come in good order"
    assert any("a broker's words" in line for line in warned)


def test_a_broker_s_words_are_cut_short(caplog: pytest.LogCaptureFixture) -> None:
    long = pb.CommandError(request_id=5, error=pb.ServerError.UnknownError, message="x" * 100_000)
    connection_actor.ProtocolWarnings().unawaited(long, "b:1")
    assert len(lines(caplog)[0]) < 500


def test_commands_that_cannot_be_decoded_cost_themselves_alone_and_a_line_for_each_kind(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    unknown, missing = b"\x08\xff\x01", pb.BaseCommand(type=pb.BaseCommand.SUCCESS).SerializePartialToString()
    for body in [unknown, missing, b"\xff\xff"] * 1000:
        frame = (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
        bench.line.owner.received(frame + encode_command(pb.CommandPing()))
    bench.loop.run()
    assert bench.said() == [pb.CommandPong()] * 3000
    assert 0 < len([line for line in lines(caplog) if "a command was ignored" in line]) <= 3
