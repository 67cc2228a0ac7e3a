from typing import Any

import pytest
from connection_bench import CREDENTIALS, LOOKUP, ONE_HOST, OPENING, READY, WELCOME, asked, made, ready

from pulsar_actors.exceptions import (
    AlreadyClosed,
    ConnectError,
    ConnectionLost,
    Timeout,
)
from pulsar_actors.machines.connection import State
from pulsar_actors.machines.connection_events import (
    AllowFrames,
    Answered,
    Arrived,
    Ask,
    Close,
    CloseSocket,
    Connected,
    Dial,
    Drop,
    FlushTimedOut,
    Join,
    KeepaliveDue,
    Leave,
    Lost,
    Pinged,
    Ponged,
    Reply,
    Retire,
    Route,
    Ship,
    SocketLost,
    StillUsed,
    StreamBroken,
    TcpOpened,
    Tell,
    TlsAgreed,
    TurnAway,
    Welcome,
    Write,
    WriteParcels,
)
from pulsar_actors.wire.errors import FrameTooLarge
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnected,
    CommandFlow,
    CommandPing,
    CommandPong,
    CommandSuccess,
)


@pytest.mark.parametrize(("announced", "limit"), [(1000, 1000 + 10240), (0, 5 * 1024 * 1024 + 10240)])
def test_the_frame_limit_is_what_the_broker_announces(announced: int, limit: int) -> None:
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(Connected(CommandConnected(server_version="broker", max_message_size=announced)))
    assert driven.did(AllowFrames) == [AllowFrames(limit)]


def test_a_connection_that_is_not_trusted_ends_like_one_that_is_lost() -> None:
    driven = ready()
    asked(driven)
    driven.tell(Drop(Timeout("no answer to CLOSE_PRODUCER")))
    close, reply, lost = driven.effects
    assert close == CloseSocket(flush=False)
    assert (type(reply.answer), type(lost.error)) == (ConnectionLost, ConnectionLost)
    assert str(lost.error) == "the connection was dropped: no answer to CLOSE_PRODUCER"
    assert driven.tell(Drop(Timeout("again"))) == []


def test_a_connection_that_is_dropped_before_it_is_ready_has_done_nothing() -> None:
    driven = made(ONE_HOST, *OPENING, Drop(ConnectionLost("the client has gone elsewhere")))
    (lost,) = driven.did(Lost)
    assert type(lost.error) is ConnectError


@pytest.mark.parametrize("speech", [Pinged(), Ponged()])
def test_nothing_can_have_been_said_before_tls_is_agreed(speech: Any) -> None:
    driven = made(ONE_HOST._replace(tls=True), *OPENING, speech)
    assert driven.machine.state is State.CLOSED


@pytest.mark.shows("Keep alive", "Ping")
def test_keepalive_pings_and_ends_a_connection_whose_peer_does_not_pong() -> None:
    driven = ready()
    assert [write.command for write in driven.fire(KeepaliveDue) if isinstance(write, Write)] == [CommandPing()]
    driven.fire(KeepaliveDue)
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(Lost)
    assert str(lost.error) == "no PONG for 30 s"


def test_a_pong_keeps_the_connection() -> None:
    driven = ready()
    for _ in range(3):
        driven.fire(KeepaliveDue)
        driven.tell(Ponged())
    assert driven.machine.state is State.READY


def test_other_traffic_and_the_peers_own_pings_do_not_count_as_a_pong() -> None:
    driven = ready()
    driven.fire(KeepaliveDue)
    driven.tell(Pinged(), Arrived(("frame",)))
    driven.fire(KeepaliveDue)
    assert driven.machine.state is State.CLOSED


@pytest.mark.shows("Keep alive", "Pong")
@pytest.mark.parametrize("events", [(*OPENING, CREDENTIALS), READY])
def test_every_ping_is_answered_even_during_the_handshake(events: Any) -> None:
    assert made(ONE_HOST, *events, Pinged()).effects == [Write(CommandPong())]


def test_what_the_broker_says_to_producers_and_consumers_is_handed_on_in_order() -> None:
    assert ready().tell(Arrived(("first", "second"))) == [Route(("first", "second"))]


def test_a_command_without_an_answer_is_written() -> None:
    flow = CommandFlow(consumer_id=1, messagePermits=10)
    assert ready().tell(Tell(flow)) == [Write(flow)]


def test_what_a_producer_has_packed_is_written_as_it_is() -> None:
    assert ready().tell(Ship(("first", "second"))) == [WriteParcels(("first", "second"))]


def test_producers_and_consumers_are_welcome_once_the_broker_accepts_and_from_then_on_at_once() -> None:
    driven = made(ONE_HOST, Dial(), Join("early"), TcpOpened(), CREDENTIALS)
    assert driven.did(Welcome) == []
    driven.tell(WELCOME)
    assert driven.did(Welcome) == [Welcome("early", WELCOME.command)]
    assert driven.tell(Join("later")) == [Welcome("later", WELCOME.command)]


def test_one_that_has_left_before_the_broker_accepts_is_not_made_welcome() -> None:
    driven = made(ONE_HOST, Join("stays"), Join("leaves"), Leave("leaves"), *OPENING, CREDENTIALS, WELCOME)
    assert driven.did(Welcome) == [Welcome("stays", WELCOME.command)]


def test_those_who_wait_when_a_connection_ends_are_turned_away_with_the_reason() -> None:
    driven = made(ONE_HOST, Dial(), Join("early"), SocketLost("nobody listens"))
    (turned_away,) = driven.did(TurnAway)
    assert turned_away.member == "early"
    assert "nobody listens" in str(turned_away.error)


def test_those_who_come_after_the_end_of_a_connection_are_turned_away() -> None:
    (turned_away,) = made(ONE_HOST, *READY, SocketLost("reset"), Join("late")).effects
    assert turned_away.member == "late"
    assert isinstance(turned_away.error, ConnectError)


def test_bytes_that_break_the_protocol_end_the_connection_and_say_which() -> None:
    driven = ready()
    driven.tell(StreamBroken(FrameTooLarge("a frame of 2 GiB", 0, 2**31)))
    assert "a frame of 2 GiB" in str(driven.did(Lost)[0].error)


@pytest.mark.parametrize(
    "event",
    [Answered(CommandSuccess(request_id=1)), Arrived(("frame",)), WELCOME],
    ids=["answer", "message", "second welcome"],
)
def test_a_broker_that_speaks_out_of_turn_is_left(event: Any) -> None:
    state = State.READY if event is WELCOME else State.CONNECTING
    driven = ready() if event is WELCOME else made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(event)
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(Lost)
    assert isinstance(lost.error, ConnectionLost if state is State.READY else ConnectError)
    assert state.name in str(lost.error)


def test_a_lost_connection_fails_everything_asked_of_it() -> None:
    driven = ready()
    asked(driven, "first")
    asked(driven, "second")
    driven.tell(SocketLost("reset by peer"))
    (lost,) = driven.did(Lost)
    assert isinstance(lost.error, ConnectionLost)
    assert driven.did(Reply) == [Reply("first", lost.error), Reply("second", lost.error)]


def test_closing_lets_what_is_written_leave_first() -> None:
    driven = ready()
    asked(driven, "token")
    driven.tell(Close())
    assert driven.machine.state is State.CLOSING
    assert driven.did(CloseSocket) == [CloseSocket(flush=True)]
    assert [type(reply.answer) for reply in driven.did(Reply)] == [AlreadyClosed]
    assert driven.tell(SocketLost("closed")) == []
    assert driven.machine.state is State.CLOSED


def test_closing_does_not_wait_for_ever_for_a_peer_that_does_not_read() -> None:
    driven = ready()
    driven.tell(Close())
    assert driven.fire(FlushTimedOut) == [CloseSocket(flush=False)]
    assert driven.machine.state is State.CLOSED


@pytest.mark.parametrize("count", range(5))
def test_closing_before_the_connection_is_ready_ends_it_and_what_waits_for_it(count: int) -> None:
    events = (Dial(), TcpOpened(), TlsAgreed(), CREDENTIALS)[:count]
    driven = made(ONE_HOST._replace(tls=True), *events, Ask(LOOKUP, "token", 30.0), Close())
    assert driven.machine.state is State.CLOSED
    assert [type(reply.answer) for reply in driven.did(Reply)] == [AlreadyClosed]
    assert bool(driven.did(CloseSocket)) == bool(events)


def test_a_connection_that_is_used_says_so_when_it_is_asked_to_retire() -> None:
    assert ready().tell(Join("member"), Retire()) == [StillUsed()]
    driven = ready()
    asked(driven)
    assert driven.tell(Retire()) == [StillUsed()]


@pytest.mark.parametrize("events", [(Dial(),), OPENING, (*OPENING, CREDENTIALS)], ids=["tcp", "fetching", "connect"])
def test_a_connection_that_is_being_opened_does_not_retire(events: Any) -> None:
    assert made(ONE_HOST, *events, Retire()).effects == [StillUsed()]


def test_a_connection_that_nobody_uses_any_longer_retires() -> None:
    driven = ready()
    request_id = asked(driven)
    driven.tell(Join("member"), Leave("member"), Answered(CommandSuccess(request_id=request_id)), Retire())
    assert driven.did(CloseSocket) == [CloseSocket(flush=True)]
    assert driven.machine.state is State.CLOSING
    assert driven.tell(Retire(), Leave("member")) == []


def test_after_a_bug_whoever_waits_is_known_once() -> None:
    driven = made(ONE_HOST, Dial(), Join("joining"), Ask(LOOKUP, "asking", 30.0))
    assert driven.machine.abandon() == (["asking"], ["joining"])
    assert driven.machine.abandon() == ([], [])


def test_a_connection_is_over_when_it_is_closed_and_not_before() -> None:
    driven = ready()
    assert not driven.machine.is_over
    driven.tell(Close())
    assert not driven.machine.is_over
    driven.tell(SocketLost("closed"))
    assert driven.machine.is_over
