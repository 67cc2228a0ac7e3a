from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    CertificateRefused,
    ConnectError,
    ConnectionLost,
    ConnectTimeout,
    InternalError,
    Timeout,
)
from pulsar_actors.machines.connection import State
from pulsar_actors.machines.connection_events import (
    AbortConnection,
    AllowFrames,
    Answered,
    Arrived,
    Challenged,
    CloseGracefully,
    CloseIfUnused,
    CloseSocket,
    Connected,
    CredentialsFailed,
    CredentialsJudged,
    Dial,
    FetchCredentials,
    FlushTimedOut,
    GiveReply,
    HandlerRejected,
    HandshakeTimedOut,
    NotifyConnectionLost,
    OpenSocket,
    Pinged,
    Refused,
    RegisterHandler,
    RemoveHandler,
    RouteFrames,
    SendCommand,
    SendRequest,
    SocketLost,
    StartTls,
    StillUsed,
    StreamBroken,
    TcpOpened,
    TlsAgreed,
    WriteCommand,
    WriteFrames,
)
from pulsar_actors.wire.errors import FrameTooLarge
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandError,
    CommandFlow,
    CommandPong,
    CommandSuccess,
    ServerError,
)
from tests.machines.connection_bench import (
    CREDENTIALS,
    LOOKUP,
    MEMBER,
    ONE_HOST,
    OPENING,
    READY,
    TWO_HOSTS,
    WELCOME,
    asked,
    made,
    ready,
)

# The handshake.


def test_dialling_opens_a_socket_to_the_first_host() -> None:
    assert made(TWO_HOSTS, Dial()).did(OpenSocket) == [OpenSocket("a", 6650)]


def test_the_next_host_is_tried_when_one_does_not_answer() -> None:
    driven = made(TWO_HOSTS, Dial(), SocketLost("refused"))
    assert driven.did(OpenSocket) == [OpenSocket("b", 6651)]
    assert driven.machine.state is State.DIALING


def test_the_next_host_is_tried_when_tls_fails() -> None:
    driven = made(TWO_HOSTS._replace(tls=True), *OPENING, SocketLost("bad certificate"))
    assert driven.did(OpenSocket) == [OpenSocket("b", 6651, tls=True)]


@pytest.mark.parametrize("events", [(Dial(),), (*OPENING, CREDENTIALS)], ids=["tcp", "connect"])
def test_a_host_that_does_not_answer_is_left_for_the_next_one_which_has_as_long(events: Any) -> None:
    driven = made(TWO_HOSTS, *events)
    driven.fire(HandshakeTimedOut)
    assert driven.effects[0] == CloseSocket(flush=False)
    assert driven.did(OpenSocket) == [OpenSocket("b", 6651)]
    driven.tell(TcpOpened(), CREDENTIALS, WELCOME)
    assert driven.machine.state is State.READY


def test_a_host_that_hangs_up_on_connect_is_left_for_the_next_one() -> None:
    driven = made(TWO_HOSTS, *OPENING, CREDENTIALS, SocketLost("reset"))
    assert driven.did(OpenSocket) == [OpenSocket("b", 6651)]


def test_no_secret_shows_in_an_event_or_an_effect() -> None:
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    assert "secret" not in repr(CREDENTIALS) + repr(driven.effects)
    assert repr(driven.effects) == "[WriteCommand(CommandConnect)]"


@pytest.mark.parametrize("events", [(Dial(),), OPENING], ids=["tcp", "tls"])
def test_when_no_host_is_left_the_error_names_all_of_them_and_the_last_reason(events: Any) -> None:
    driven = made(TWO_HOSTS._replace(tls=True), Dial(), SocketLost("x"), *events[1:], SocketLost("refused"))
    (lost,) = driven.did(NotifyConnectionLost)
    assert isinstance(lost.error, ConnectError)
    assert str(lost.error) == "no connection to a:6650, b:6651: refused"


DISTRUSTED = SocketLost("expired", is_distrusted=True)


def test_when_no_host_shows_a_certificate_to_be_trusted_the_error_says_so_of_all_of_them() -> None:
    driven = made(TWO_HOSTS._replace(tls=True), *OPENING, RegisterHandler(MEMBER), DISTRUSTED, TcpOpened(), DISTRUSTED)
    (lost,), (turned_away,) = driven.did(NotifyConnectionLost), driven.did(HandlerRejected)
    assert type(lost.error) is type(turned_away.error) is CertificateRefused
    assert str(lost.error) == "no connection to a:6650, b:6651: expired"


@pytest.mark.parametrize(
    "events",
    [
        (Dial(), SocketLost("refused"), TcpOpened(), DISTRUSTED),
        (Dial(), TcpOpened(), DISTRUSTED, SocketLost("refused")),
        (Dial(), TcpOpened(), DISTRUSTED, TcpOpened(), SocketLost("reset")),
    ],
)
def test_a_host_that_was_away_may_yet_show_a_good_certificate(events: Any) -> None:
    (lost,) = made(TWO_HOSTS._replace(tls=True), *events).did(NotifyConnectionLost)
    assert type(lost.error) is ConnectError


def test_a_host_that_was_too_slow_may_yet_show_a_good_certificate() -> None:
    driven = made(TWO_HOSTS._replace(tls=True), Dial())
    driven.fire(HandshakeTimedOut)
    driven.tell(TcpOpened(), DISTRUSTED)
    (lost,) = driven.did(NotifyConnectionLost)
    assert type(lost.error) is ConnectError


def test_tls_is_agreed_with_the_host_that_was_dialled() -> None:
    driven = made(TWO_HOSTS._replace(tls=True), Dial(), SocketLost("refused"), TcpOpened())
    assert driven.effects == [StartTls("b")]
    assert driven.tell(TlsAgreed()) == [FetchCredentials(None)]


def test_connect_carries_the_credentials_and_what_this_client_can_do() -> None:
    (write,) = made(ONE_HOST, *OPENING, CREDENTIALS).effects
    connect = write.command
    assert isinstance(connect, CommandConnect)
    assert (connect.auth_method_name, connect.auth_data, connect.client_version) == ("token", b"secret", "test")
    assert connect.protocol_version == 21
    assert connect.feature_flags.supports_auth_refresh
    assert connect.feature_flags.supports_partial_producer
    assert connect.feature_flags.supports_topic_watchers
    assert not connect.HasField("proxy_to_broker_url")


@pytest.mark.shows("Command Connect", "proxy_to_broker_url")
def test_through_a_proxy_connect_names_the_broker_behind_it() -> None:
    (write,) = made(ONE_HOST._replace(proxy_to_broker_url="broker:6650"), *OPENING, CREDENTIALS).effects
    assert write.command.proxy_to_broker_url == "broker:6650"


def test_a_refused_connect_ends_the_connection_with_the_brokers_error_at_once() -> None:
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    code = ServerError.AuthenticationError
    driven.tell(
        SendRequest(LOOKUP, "token", 30.0), Refused(CommandError(request_id=2**64 - 1, error=code, message="no"))
    )
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(NotifyConnectionLost)
    assert isinstance(lost.error, AuthenticationError)
    assert driven.did(GiveReply) == [GiveReply("token", lost.error)]
    assert driven.did(CloseSocket) == [CloseSocket(flush=False)]


def test_it_is_reported_whether_the_broker_accepts_the_credentials() -> None:
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    assert CredentialsJudged(accepted=True) in driven.tell(WELCOME)
    no = Refused(CommandError(request_id=2**64 - 1, error=ServerError.AuthenticationError, message="no"))
    assert driven.tell(no)[0] == CredentialsJudged(accepted=False)
    for events in ((), (Challenged(CommandAuthChallenge()),)):
        driven = made(ONE_HOST, *OPENING, CREDENTIALS, *events)
        assert driven.tell(no)[0] == CredentialsJudged(accepted=False)
        driven = made(ONE_HOST, *OPENING, CREDENTIALS, *events)
        driven.tell(Refused(CommandError(request_id=2**64 - 1, error=ServerError.ServiceNotReady, message="later")))
        assert driven.did(CredentialsJudged) == []
        assert driven.did(NotifyConnectionLost)


def test_a_challenge_during_the_handshake_is_answered_with_fresh_credentials() -> None:
    challenge = Challenged(CommandAuthChallenge(challenge=AuthData(auth_method_name="token", auth_data=b"again")))
    driven = made(ONE_HOST, *OPENING, CREDENTIALS, challenge)
    assert driven.effects == [FetchCredentials(b"again")]
    (write,) = driven.tell(CREDENTIALS)
    assert isinstance(write.command, CommandAuthResponse)
    assert write.command.response.auth_data == b"secret"
    driven.tell(WELCOME)
    assert driven.machine.state is State.READY


@pytest.mark.parametrize("events", [OPENING, (*OPENING, CREDENTIALS, Challenged(CommandAuthChallenge())), READY])
def test_without_credentials_the_connection_ends(events: Any) -> None:
    driven = made(ONE_HOST, *events, CredentialsFailed("file not found"))
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(NotifyConnectionLost)
    assert "file not found" in str(lost.error)


@pytest.mark.parametrize("count", range(1, 5))
def test_a_handshake_that_takes_too_long_ends_the_connection_wherever_it_is(count: int) -> None:
    events = (Dial(), TcpOpened(), TlsAgreed(), CREDENTIALS)[:count]
    driven = made(ONE_HOST._replace(tls=True), *events)
    stage = driven.machine.state
    driven.fire(HandshakeTimedOut)
    (lost,) = driven.did(NotifyConnectionLost)
    by_peer = stage is not State.AUTHENTICATING  # there our own credentials are awaited
    assert type(lost.error) is (ConnectTimeout if by_peer else ConnectError)
    whom = "to a:6650 " if by_peer else ""
    assert str(lost.error) == f"no connection {whom}within 10 s: still {stage.name}"


@pytest.mark.parametrize(
    ("first", "silence_may_end", "error"),
    [
        (HandshakeTimedOut, False, ConnectTimeout),
        (HandshakeTimedOut, True, ConnectError),
        (SocketLost, False, ConnectError),
    ],
)
def test_hosts_that_all_let_the_time_pass_are_told_from_those_of_which_one_refused_or_that_may_answer_later(
    first: Any, silence_may_end: Any, error: Any
) -> None:
    driven = made(TWO_HOSTS._replace(silence_may_end=silence_may_end), Dial())
    if first is HandshakeTimedOut:
        driven.fire(first)
    else:
        driven.tell(SocketLost("refused"))
    assert driven.machine.state is State.DIALING
    driven.fire(HandshakeTimedOut)
    (lost,) = driven.did(NotifyConnectionLost)
    assert type(lost.error) is error


@pytest.mark.parametrize("last", [HandshakeTimedOut(0), SocketLost("no", is_distrusted=True)])
def test_hosts_that_are_not_dialled_because_they_have_answered_make_a_failure_of_the_others_no_final_one(
    last: Any,
) -> None:
    driven = made(ONE_HOST._replace(tls=True, others_have_answered=True), Dial())
    if isinstance(last, HandshakeTimedOut):
        driven.fire(HandshakeTimedOut)
    else:
        driven.tell(TcpOpened(), last)
    (lost,) = driven.did(NotifyConnectionLost)
    assert type(lost.error) is ConnectError


def test_the_handshake_timer_of_an_established_connection_means_nothing() -> None:
    driven = ready()
    assert driven.fire(HandshakeTimedOut) == []
    assert driven.machine.state is State.READY


def test_the_secret_of_the_credentials_is_in_no_error_text() -> None:
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(SocketLost("reset"))
    assert "secret" not in str(driven.effects)


# In use, and the end.


@pytest.mark.parametrize(("announced", "limit"), [(1000, 1000 + 10240), (0, 5 * 1024 * 1024 + 10240)])
def test_the_frame_limit_is_what_the_broker_announces(announced: int, limit: int) -> None:
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(Connected(CommandConnected(server_version="broker", max_message_size=announced)))
    assert driven.did(AllowFrames) == [AllowFrames(limit)]


def test_a_connection_that_is_not_trusted_ends_like_one_that_is_lost() -> None:
    driven = ready()
    asked(driven)
    driven.tell(AbortConnection(Timeout("no answer to CLOSE_PRODUCER")))
    close, reply, lost = driven.effects
    assert close == CloseSocket(flush=False)
    assert (type(reply.answer), type(lost.error)) == (ConnectionLost, ConnectionLost)
    assert str(lost.error) == "the connection was dropped: no answer to CLOSE_PRODUCER"
    assert driven.tell(AbortConnection(Timeout("again"))) == []


def test_a_connection_that_is_dropped_before_it_is_ready_has_done_nothing() -> None:
    driven = made(ONE_HOST, *OPENING, AbortConnection(ConnectionLost("the client has gone elsewhere")))
    (lost,) = driven.did(NotifyConnectionLost)
    assert type(lost.error) is ConnectError


@pytest.mark.shows("Keep alive", "Pong")
@pytest.mark.parametrize("events", [(*OPENING, CREDENTIALS), READY])
def test_every_ping_is_answered_even_during_the_handshake(events: Any) -> None:
    assert made(ONE_HOST, *events, Pinged()).effects == [WriteCommand(CommandPong())]


def test_what_the_broker_says_to_producers_and_consumers_is_handed_on_in_order() -> None:
    assert ready().tell(Arrived(("first", "second"))) == [RouteFrames(("first", "second"))]


def test_a_command_without_an_answer_is_written() -> None:
    flow = CommandFlow(consumer_id=1, messagePermits=10)
    assert ready().tell(SendCommand(flow)) == [WriteCommand(flow)]


def test_the_frames_of_a_producer_are_written_as_they_are() -> None:
    assert ready().tell(WriteFrames(("first", "second"))) == [WriteFrames(("first", "second"))]


def test_bytes_that_break_the_protocol_end_the_connection_and_say_which() -> None:
    driven = ready()
    driven.tell(StreamBroken(FrameTooLarge("a frame of 2 GiB", 0, 2**31)))
    assert "a frame of 2 GiB" in str(driven.did(NotifyConnectionLost)[0].error)


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
    (lost,) = driven.did(NotifyConnectionLost)
    assert isinstance(lost.error, ConnectionLost if state is State.READY else ConnectError)
    assert state.name in str(lost.error)


def test_a_lost_connection_fails_everything_asked_of_it() -> None:
    driven = ready()
    asked(driven, "first")
    asked(driven, "second")
    driven.tell(SocketLost("reset by peer"))
    (lost,) = driven.did(NotifyConnectionLost)
    assert isinstance(lost.error, ConnectionLost)
    assert driven.did(GiveReply) == [GiveReply("first", lost.error), GiveReply("second", lost.error)]


def test_closing_lets_what_is_written_leave_first() -> None:
    driven = ready()
    asked(driven, "token")
    driven.tell(CloseGracefully())
    assert driven.machine.state is State.CLOSING
    assert driven.did(CloseSocket) == [CloseSocket(flush=True)]
    assert [type(reply.answer) for reply in driven.did(GiveReply)] == [AlreadyClosed]
    assert driven.tell(SocketLost("closed")) == []
    assert driven.machine.state is State.CLOSED


def test_closing_does_not_wait_for_ever_for_a_peer_that_does_not_read() -> None:
    driven = ready()
    driven.tell(CloseGracefully())
    assert driven.fire(FlushTimedOut) == [CloseSocket(flush=False)]
    assert driven.machine.state is State.CLOSED


@pytest.mark.parametrize("count", range(1, 5))
def test_closing_before_the_connection_is_ready_ends_it_and_what_waits_for_it(count: int) -> None:
    events = (Dial(), TcpOpened(), TlsAgreed(), CREDENTIALS)[:count]
    driven = made(ONE_HOST._replace(tls=True), *events, SendRequest(LOOKUP, "token", 30.0), CloseGracefully())
    assert driven.machine.state is State.CLOSED
    assert [type(reply.answer) for reply in driven.did(GiveReply)] == [AlreadyClosed]
    assert driven.did(CloseSocket) == [CloseSocket(flush=False)]


def test_a_connection_in_use_stays_open_when_it_is_asked_to_close_if_unused() -> None:
    assert ready().tell(RegisterHandler(MEMBER), CloseIfUnused()) == [StillUsed()]
    driven = ready()
    asked(driven)
    assert driven.tell(CloseIfUnused()) == [StillUsed()]


@pytest.mark.parametrize("events", [(Dial(),), OPENING, (*OPENING, CREDENTIALS)], ids=["tcp", "fetching", "connect"])
def test_a_connection_that_is_being_opened_does_not_close_if_unused(events: Any) -> None:
    assert made(ONE_HOST, *events, CloseIfUnused()).effects == [StillUsed()]


def test_a_connection_that_is_no_longer_used_closes_if_unused() -> None:
    driven = ready()
    request_id = asked(driven)
    driven.tell(
        RegisterHandler(MEMBER),
        RemoveHandler(MEMBER),
        Answered(CommandSuccess(request_id=request_id)),
        CloseIfUnused(),
    )
    assert driven.did(CloseSocket) == [CloseSocket(flush=True)]
    assert driven.machine.state is State.CLOSING
    assert driven.tell(CloseIfUnused(), RemoveHandler(MEMBER)) == []


def test_after_a_bug_those_that_wait_get_the_bug_once() -> None:
    bug = InternalError("a bug")
    driven = made(ONE_HOST, Dial(), RegisterHandler(MEMBER), SendRequest(LOOKUP, "asking", 30.0))
    reply, turned_away, lost = driven.machine.abandon(bug)
    assert (reply, turned_away) == (GiveReply("asking", bug), HandlerRejected(MEMBER, bug))
    assert type(lost.error) is ConnectionLost
    assert [type(effect) for effect in driven.machine.abandon(bug)] == [NotifyConnectionLost]


def test_after_a_bug_those_that_use_the_connection_connect_again() -> None:
    turned_away, _ = made(ONE_HOST, *READY, RegisterHandler(MEMBER)).machine.abandon(InternalError("a bug"))
    assert (turned_away.handler, type(turned_away.error)) == (MEMBER, ConnectionLost)


def test_a_connection_is_over_when_it_is_closed_and_not_before() -> None:
    driven = ready()
    assert not driven.machine.is_over
    driven.tell(CloseGracefully())
    assert not driven.machine.is_over
    driven.tell(SocketLost("closed"))
    assert driven.machine.is_over
