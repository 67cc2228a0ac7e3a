from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    ConnectionLost,
    InvalidArgument,
    Timeout,
    UnsupportedVersionError,
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
    HandlerAccepted,
    HandlerRejected,
    HandshakeTimedOut,
    KeepaliveDue,
    NotifyConnectionLost,
    OpenSocket,
    Pinged,
    Ponged,
    Refused,
    RegisterHandler,
    RemoveHandler,
    RequestsDue,
    RouteFrames,
    SendCommand,
    SendRequest,
    SocketLost,
    StartTls,
    StillUsed,
    StreamBroken,
    TcpOpened,
    TlsAgreed,
    Unawaited,
    WriteCommand,
    WriteFrames,
)
from pulsar_actors.machines.state_machine import StartTimer
from pulsar_actors.wire.commands import encode_command
from pulsar_actors.wire.errors import FrameTooLarge
from pulsar_actors.wire.frames import frame_limit
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandError,
    CommandFlow,
    CommandGetLastMessageId,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPing,
    CommandPong,
    CommandProducer,
    CommandProducerSuccess,
    CommandSuccess,
    ServerError,
)
from tests.machines.connection_bench import (
    CREDENTIALS,
    LOOKUP,
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
    driven = made(
        TWO_HOSTS._replace(tls=True), *OPENING, RegisterHandler("member"), DISTRUSTED, TcpOpened(), DISTRUSTED
    )
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


def test_a_challenge_later_is_answered_without_interrupting_anything() -> None:
    driven = ready()
    driven.tell(Challenged(CommandAuthChallenge()))
    assert (driven.effects, driven.machine.state) == ([FetchCredentials(b"")], State.READY)
    (write,) = driven.tell(CREDENTIALS)
    assert isinstance(write.command, CommandAuthResponse)
    assert driven.machine.state is State.READY


def test_of_challenges_that_come_while_credentials_are_fetched_the_last_is_answered() -> None:
    driven = ready()
    challenges = [Challenged(CommandAuthChallenge(challenge=AuthData(auth_data=data))) for data in (b"a", b"b", b"c")]
    assert [driven.tell(one) for one in challenges] == [[FetchCredentials(b"a")], [], []]
    write, fetch = driven.tell(CREDENTIALS)
    assert (type(write.command), fetch) == (CommandAuthResponse, FetchCredentials(b"c"))
    (write,) = driven.tell(CREDENTIALS)
    assert isinstance(write.command, CommandAuthResponse)
    assert driven.tell(Challenged(CommandAuthChallenge())) == [FetchCredentials(b"")]


def test_a_broker_that_refuses_the_fresh_credentials_ends_the_connection_with_its_error() -> None:
    driven = ready()
    asked(driven)
    driven.tell(Challenged(CommandAuthChallenge()), CREDENTIALS)
    code = ServerError.AuthenticationError
    driven.tell(Refused(CommandError(request_id=2**64 - 1, error=code, message="somebody else's")))
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(NotifyConnectionLost)
    assert str(lost.error) == "AuthenticationError: somebody else's"
    (reply,) = driven.did(GiveReply)
    assert isinstance(reply.answer, ConnectionLost)  # it was asked while the credentials were good
    assert "somebody else's" in str(reply.answer)


@pytest.mark.parametrize(
    ("request_id", "code"), [(2**64 - 1, ServerError.UnknownError), (77, ServerError.AuthenticationError)]
)
def test_an_error_that_answers_no_request_and_is_not_about_the_credentials_is_reported(
    request_id: int, code: Any
) -> None:
    driven = ready()
    error = CommandError(request_id=request_id, error=code, message="no")
    assert driven.tell(Refused(error)) == [Unawaited(error)]
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
    stage = driven.machine.state.name
    driven.fire(HandshakeTimedOut)
    (lost,) = driven.did(NotifyConnectionLost)
    assert str(lost.error) == f"no connection within 10 s: still {stage}"


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


@pytest.mark.parametrize("speech", [Pinged(), Ponged()])
def test_a_command_before_tls_is_agreed_ends_the_connection(speech: Any) -> None:
    driven = made(ONE_HOST._replace(tls=True), *OPENING, speech)
    assert driven.machine.state is State.CLOSED


@pytest.mark.shows("Keep alive", "Ping")
def test_keepalive_pings_and_ends_a_connection_whose_peer_does_not_pong() -> None:
    driven = ready()
    assert [write.command for write in driven.fire(KeepaliveDue) if isinstance(write, WriteCommand)] == [CommandPing()]
    driven.fire(KeepaliveDue)
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(NotifyConnectionLost)
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
    assert made(ONE_HOST, *events, Pinged()).effects == [WriteCommand(CommandPong())]


def test_what_the_broker_says_to_producers_and_consumers_is_handed_on_in_order() -> None:
    assert ready().tell(Arrived(("first", "second"))) == [RouteFrames(("first", "second"))]


def test_a_command_without_an_answer_is_written() -> None:
    flow = CommandFlow(consumer_id=1, messagePermits=10)
    assert ready().tell(SendCommand(flow)) == [WriteCommand(flow)]


def test_the_frames_of_a_producer_are_written_as_they_are() -> None:
    assert ready().tell(WriteFrames(("first", "second"))) == [WriteFrames(("first", "second"))]


def test_producers_and_consumers_wait_until_the_broker_accepts_and_later_ones_do_not() -> None:
    driven = made(ONE_HOST, Dial(), RegisterHandler("early"), TcpOpened(), CREDENTIALS)
    assert driven.did(HandlerAccepted) == []
    driven.tell(WELCOME)
    assert driven.did(HandlerAccepted) == [HandlerAccepted("early", WELCOME.command)]
    assert driven.tell(RegisterHandler("later")) == [HandlerAccepted("later", WELCOME.command)]


def test_a_handler_that_was_removed_before_the_broker_accepts_is_not_told() -> None:
    driven = made(
        ONE_HOST,
        RegisterHandler("stays"),
        RegisterHandler("leaves"),
        RemoveHandler("leaves"),
        *OPENING,
        CREDENTIALS,
        WELCOME,
    )
    assert driven.did(HandlerAccepted) == [HandlerAccepted("stays", WELCOME.command)]


def test_handlers_that_wait_when_a_connection_ends_are_rejected_with_the_reason() -> None:
    driven = made(ONE_HOST, Dial(), RegisterHandler("early"), SocketLost("nobody listens"))
    (turned_away,) = driven.did(HandlerRejected)
    assert turned_away.handler == "early"
    assert "nobody listens" in str(turned_away.error)


def test_handlers_that_come_after_the_end_of_a_connection_are_rejected() -> None:
    (turned_away,) = made(ONE_HOST, *READY, SocketLost("reset"), RegisterHandler("late")).effects
    assert turned_away.handler == "late"
    assert isinstance(turned_away.error, ConnectError)


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


@pytest.mark.parametrize("count", range(5))
def test_closing_before_the_connection_is_ready_ends_it_and_what_waits_for_it(count: int) -> None:
    events = (Dial(), TcpOpened(), TlsAgreed(), CREDENTIALS)[:count]
    driven = made(ONE_HOST._replace(tls=True), *events, SendRequest(LOOKUP, "token", 30.0), CloseGracefully())
    assert driven.machine.state is State.CLOSED
    assert [type(reply.answer) for reply in driven.did(GiveReply)] == [AlreadyClosed]
    assert bool(driven.did(CloseSocket)) == bool(events)


def test_a_connection_in_use_stays_open_when_it_is_asked_to_close_if_unused() -> None:
    assert ready().tell(RegisterHandler("member"), CloseIfUnused()) == [StillUsed()]
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
        RegisterHandler("member"),
        RemoveHandler("member"),
        Answered(CommandSuccess(request_id=request_id)),
        CloseIfUnused(),
    )
    assert driven.did(CloseSocket) == [CloseSocket(flush=True)]
    assert driven.machine.state is State.CLOSING
    assert driven.tell(CloseIfUnused(), RemoveHandler("member")) == []


def test_after_a_bug_the_tokens_and_handlers_that_wait_are_returned_once() -> None:
    driven = made(ONE_HOST, Dial(), RegisterHandler("joining"), SendRequest(LOOKUP, "asking", 30.0))
    assert driven.machine.abandon() == (["asking"], ["joining"])
    assert driven.machine.abandon() == ([], [])


def test_a_connection_is_over_when_it_is_closed_and_not_before() -> None:
    driven = ready()
    assert not driven.machine.is_over
    driven.tell(CloseGracefully())
    assert not driven.machine.is_over
    driven.tell(SocketLost("closed"))
    assert driven.machine.is_over


# Requests.


def test_what_was_never_sent_does_not_claim_to_be_unknown() -> None:
    driven = made(ONE_HOST, SendRequest(LOOKUP, "token", 30.0), *OPENING, CREDENTIALS, SocketLost("reset"))
    (reply,) = driven.did(GiveReply)
    assert isinstance(reply.answer, ConnectError)


SMALL_BROKER = Connected(CommandConnected(server_version="x", max_message_size=1000))
ROOM = 1000 + 10 * 1024 - 64


def lookup_of(size: int) -> CommandLookupTopic:
    """Make a command of this size."""
    empty = CommandLookupTopic(topic="x" * 1000, request_id=0).ByteSize() - 1000
    return CommandLookupTopic(topic="x" * (size - empty), request_id=0)


@pytest.mark.parametrize("early", [False, True])
def test_a_command_that_the_broker_does_not_take_is_refused_and_costs_nobody_the_connection(early: bool) -> None:  # noqa: FBT001 - a case
    asks = [SendRequest(lookup_of(ROOM + 1), "large", 30.0), SendRequest(lookup_of(ROOM), "fits", 30.0)]
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(*asks, SMALL_BROKER) if early else driven.tell(SMALL_BROKER)
    effects = driven.effects if early else [effect for ask in asks for effect in driven.tell(ask)]
    (reply,) = [effect for effect in effects if isinstance(effect, GiveReply)]
    assert (reply.token, type(reply.answer)) == ("large", InvalidArgument)
    assert str(reply.answer) == (
        "CommandLookupTopic takes 11,177 bytes, and the broker takes 11,176 at most: names and properties have to be"
        " shorter"
    )
    (written,) = [effect for effect in effects if isinstance(effect, WriteCommand)]
    frame_size = len(encode_command(written.command))
    assert ROOM < frame_size <= frame_limit(1000)
    assert driven.machine.state is State.READY


@pytest.mark.parametrize("early", [False, True])
def test_a_command_that_the_broker_is_too_old_for_is_refused_with_both_versions(early: bool) -> None:  # noqa: FBT001 - a case
    last = CommandGetLastMessageId(consumer_id=1, request_id=0)
    asks = [SendRequest(last, "last", 30.0), SendRequest(LOOKUP, "lookup", 30.0)]
    old = Connected(CommandConnected(server_version="x", protocol_version=11))
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(*asks, old) if early else driven.tell(old)
    effects = driven.effects if early else [effect for ask in asks for effect in driven.tell(ask)]
    (reply,) = [effect for effect in effects if isinstance(effect, GiveReply)]
    assert (reply.token, type(reply.answer)) == ("last", UnsupportedVersionError)
    assert reply.answer.reason == (
        "CommandGetLastMessageId came with version 12 of the protocol, and the broker speaks version 11"
    )
    (written,) = [effect for effect in effects if isinstance(effect, WriteCommand)]
    assert isinstance(written.command, CommandLookupTopic)


def test_a_request_after_the_network_has_ended_the_connection_may_be_repeated_elsewhere() -> None:
    driven = ready()
    driven.tell(SocketLost("reset"))
    (reply,) = driven.tell(SendRequest(LOOKUP, "token", 30.0))
    assert (type(reply.answer), str(reply.answer)) == (ConnectError, "it was not sent: reset")


def test_when_credentials_can_not_be_renewed_what_was_asked_is_unknown() -> None:
    driven = ready()
    asked(driven)
    driven.tell(Challenged(CommandAuthChallenge()), CredentialsFailed("expired"))
    (reply,), (lost,) = driven.did(GiveReply), driven.did(NotifyConnectionLost)
    assert (type(reply.answer), type(lost.error)) == (ConnectionLost, AuthenticationError)


def test_what_is_asked_before_the_connection_is_ready_is_sent_once_it_is() -> None:
    driven = made(
        ONE_HOST, SendRequest(LOOKUP, "first", 30.0), *OPENING, CREDENTIALS, SendRequest(LOOKUP, "second", 30.0)
    )
    assert driven.effects == []
    driven.tell(WELCOME)
    assert [write.command.request_id for write in driven.did(WriteCommand)] == [0, 1]
    (reply,) = driven.tell(Answered(CommandLookupTopicResponse(request_id=1)))
    assert reply.token == "second"


def test_each_request_has_an_id_of_its_own_and_its_answer_finds_it() -> None:
    driven = ready()
    first, second = asked(driven, "first"), asked(driven, "second")
    assert first != second
    answer = CommandLookupTopicResponse(request_id=first)
    assert driven.tell(Answered(answer)) == [GiveReply("first", answer)]


def test_the_callers_command_is_not_changed_by_being_sent() -> None:
    driven = ready()
    asked(driven)
    asked(driven)
    assert LOOKUP.request_id == 0


def test_an_error_in_place_of_an_answer_reaches_the_request_with_the_brokers_words() -> None:
    driven = ready()
    error = CommandError(request_id=asked(driven), error=ServerError.TopicNotFound, message="no such topic")
    (reply,) = driven.tell(Refused(error))
    assert isinstance(reply.answer, BrokerRefusal)
    assert str(reply.answer) == "TopicNotFound: no such topic"


def test_a_request_is_answered_once() -> None:
    driven = ready()
    answer = Answered(CommandSuccess(request_id=asked(driven)))
    assert [type(effect) for effect in driven.tell(answer)] == [GiveReply]
    assert driven.tell(answer) == [Unawaited(answer.command)]


def test_a_request_without_an_answer_times_out_and_a_late_answer_is_dropped() -> None:
    driven = ready()
    first = asked(driven, "first", timeout=5.0)
    asked(driven, "second", timeout=8.0)
    (reply, timer) = driven.fire(RequestsDue)
    assert (reply.token, type(reply.answer)) == ("first", Timeout)
    assert timer.delay == pytest.approx(3.0)
    late = CommandSuccess(request_id=first)
    assert driven.tell(Answered(late)) == [Unawaited(late)]
    error = CommandError(request_id=first, error=ServerError.UnknownError, message="")
    assert driven.tell(Refused(error)) == [Unawaited(error)]


def test_the_time_of_a_request_runs_while_the_connection_is_being_made() -> None:
    driven = made(ONE_HOST, SendRequest(LOOKUP, "token", 5.0), Dial())
    driven.now += 4.0
    driven.tell(TcpOpened(), CREDENTIALS, WELCOME)
    assert driven.timers[RequestsDue].delay == 5.0
    driven.now += 1.0
    (reply,) = driven.tell(driven.timers[RequestsDue].event)
    assert (reply.token, type(reply.answer)) == ("token", Timeout)


def test_a_request_that_times_out_before_the_broker_accepts_is_never_sent() -> None:
    driven = made(ONE_HOST, SendRequest(LOOKUP, "late", 1.0), SendRequest(LOOKUP, "patient", 30.0), Dial())
    (reply, _) = driven.fire(RequestsDue)
    assert (reply.token, type(reply.answer)) == ("late", ConnectError)
    assert str(reply.answer) == "it was not sent: still DIALING"
    driven.tell(TcpOpened(), CREDENTIALS, WELCOME)
    assert len(driven.did(WriteCommand)) == 1


def test_a_shorter_timeout_moves_the_timer_forward() -> None:
    driven = ready()
    asked(driven, "slow", timeout=30.0)
    asked(driven, "quick", timeout=1.0)
    assert [reply.token for reply in driven.fire(RequestsDue) if isinstance(reply, GiveReply)] == ["quick"]


def test_one_timer_serves_all_requests_that_are_answered_before_it_is_due() -> None:
    driven = ready()
    first = driven.tell(SendRequest(LOOKUP, "first", 5.0))
    assert [type(effect) for effect in first] == [WriteCommand, StartTimer]
    driven.tell(Answered(CommandSuccess(request_id=first[0].command.request_id)))
    driven.now += 2.0
    assert [type(effect) for effect in driven.tell(SendRequest(LOOKUP, "second", 5.0))] == [WriteCommand]
    driven.now += 3.0
    (timer,) = driven.tell(driven.timers[RequestsDue].event)
    assert timer.delay == pytest.approx(2.0)
    (reply,) = driven.fire(RequestsDue)
    assert (reply.token, type(reply.answer)) == ("second", Timeout)


def test_a_producer_that_has_to_queue_waits_without_a_timeout_and_hears_the_end() -> None:
    driven = ready()
    producer = CommandProducer(topic="t", producer_id=1, request_id=0)
    request_id = asked(driven, "creation", timeout=5.0, command=producer)
    queued = CommandProducerSuccess(request_id=request_id, producer_name="p", producer_ready=False)
    assert driven.tell(Answered(queued)) == [GiveReply("creation", queued)]
    assert driven.fire(RequestsDue) == []
    ready_now = CommandProducerSuccess(request_id=request_id, producer_name="p")
    assert driven.tell(Answered(ready_now)) == [GiveReply("creation", ready_now)]


@pytest.mark.parametrize("ending", [(CloseGracefully(),), (CloseGracefully(), SocketLost("closed"))])
def test_what_is_asked_after_the_end_is_refused_at_once(ending: Any) -> None:
    driven = ready()
    driven.tell(*ending)
    (reply,) = driven.tell(SendRequest(LOOKUP, "late", 30.0))
    assert (reply.token, type(reply.answer)) == ("late", AlreadyClosed)
