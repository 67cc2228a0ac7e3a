from typing import Any

import pytest
from connection_bench import CREDENTIALS, LOOKUP, ONE_HOST, OPENING, READY, TWO_HOSTS, WELCOME, asked, made, ready

from pulsar_actors.exceptions import (
    AuthenticationError,
    CertificateRefused,
    ConnectError,
    ConnectionLost,
)
from pulsar_actors.machines.connection import State
from pulsar_actors.machines.connection_events import (
    Ask,
    Challenged,
    CloseSocket,
    CredentialsFailed,
    CredentialsJudged,
    Dial,
    FetchCredentials,
    HandshakeTimedOut,
    Join,
    Lost,
    OpenSocket,
    Refused,
    Reply,
    SocketLost,
    StartTls,
    TcpOpened,
    TlsAgreed,
    TurnAway,
    Unawaited,
)
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandConnect,
    CommandError,
    ServerError,
)


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
    assert repr(driven.effects) == "[Write(CommandConnect)]"


@pytest.mark.parametrize("events", [(Dial(),), OPENING], ids=["tcp", "tls"])
def test_when_no_host_is_left_the_error_names_all_of_them_and_the_last_reason(events: Any) -> None:
    driven = made(TWO_HOSTS._replace(tls=True), Dial(), SocketLost("x"), *events[1:], SocketLost("refused"))
    (lost,) = driven.did(Lost)
    assert isinstance(lost.error, ConnectError)
    assert str(lost.error) == "no connection to a:6650, b:6651: refused"


DISTRUSTED = SocketLost("expired", is_distrusted=True)


def test_when_no_host_shows_a_certificate_to_be_trusted_the_error_says_so_of_all_of_them() -> None:
    driven = made(TWO_HOSTS._replace(tls=True), *OPENING, Join("member"), DISTRUSTED, TcpOpened(), DISTRUSTED)
    (lost,), (turned_away,) = driven.did(Lost), driven.did(TurnAway)
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
    (lost,) = made(TWO_HOSTS._replace(tls=True), *events).did(Lost)
    assert type(lost.error) is ConnectError


def test_a_host_that_was_too_slow_may_yet_show_a_good_certificate() -> None:
    driven = made(TWO_HOSTS._replace(tls=True), Dial())
    driven.fire(HandshakeTimedOut)
    driven.tell(TcpOpened(), DISTRUSTED)
    (lost,) = driven.did(Lost)
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


def test_a_refused_connect_ends_the_connection_with_the_brokers_word_at_once() -> None:
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    code = ServerError.AuthenticationError
    driven.tell(Ask(LOOKUP, "token", 30.0), Refused(CommandError(request_id=2**64 - 1, error=code, message="no")))
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(Lost)
    assert isinstance(lost.error, AuthenticationError)
    assert driven.did(Reply) == [Reply("token", lost.error)]
    assert driven.did(CloseSocket) == [CloseSocket(flush=False)]


def test_whoever_keeps_credentials_hears_whether_they_were_accepted() -> None:
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
        assert driven.did(Lost)


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


def test_of_challenges_that_come_while_one_is_seen_to_the_last_is_answered() -> None:
    driven = ready()
    challenges = [Challenged(CommandAuthChallenge(challenge=AuthData(auth_data=data))) for data in (b"a", b"b", b"c")]
    assert [driven.tell(one) for one in challenges] == [[FetchCredentials(b"a")], [], []]
    write, fetch = driven.tell(CREDENTIALS)
    assert (type(write.command), fetch) == (CommandAuthResponse, FetchCredentials(b"c"))
    (write,) = driven.tell(CREDENTIALS)
    assert isinstance(write.command, CommandAuthResponse)
    assert driven.tell(Challenged(CommandAuthChallenge())) == [FetchCredentials(b"")]


def test_a_broker_that_does_not_accept_the_fresh_credentials_ends_the_connection_with_its_word() -> None:
    driven = ready()
    asked(driven)
    driven.tell(Challenged(CommandAuthChallenge()), CREDENTIALS)
    code = ServerError.AuthenticationError
    driven.tell(Refused(CommandError(request_id=2**64 - 1, error=code, message="somebody else's")))
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(Lost)
    assert str(lost.error) == "AuthenticationError: somebody else's"
    (reply,) = driven.did(Reply)
    assert isinstance(reply.answer, ConnectionLost)  # it was asked while the credentials were good
    assert "somebody else's" in str(reply.answer)


@pytest.mark.parametrize(
    ("request_id", "code"), [(2**64 - 1, ServerError.UnknownError), (77, ServerError.AuthenticationError)]
)
def test_an_error_that_answers_nothing_and_disowns_nobody_is_noted(request_id: int, code: Any) -> None:
    driven = ready()
    error = CommandError(request_id=request_id, error=code, message="no")
    assert driven.tell(Refused(error)) == [Unawaited(error)]
    assert driven.machine.state is State.READY


@pytest.mark.parametrize("events", [OPENING, (*OPENING, CREDENTIALS, Challenged(CommandAuthChallenge())), READY])
def test_without_credentials_the_connection_ends(events: Any) -> None:
    driven = made(ONE_HOST, *events, CredentialsFailed("file not found"))
    assert driven.machine.state is State.CLOSED
    (lost,) = driven.did(Lost)
    assert "file not found" in str(lost.error)


@pytest.mark.parametrize("count", range(1, 5))
def test_a_handshake_that_takes_too_long_ends_the_connection_wherever_it_is(count: int) -> None:
    events = (Dial(), TcpOpened(), TlsAgreed(), CREDENTIALS)[:count]
    driven = made(ONE_HOST._replace(tls=True), *events)
    stage = driven.machine.state.name
    driven.fire(HandshakeTimedOut)
    (lost,) = driven.did(Lost)
    assert str(lost.error) == f"no connection within 10 s: still {stage}"


def test_the_handshake_timer_of_an_established_connection_means_nothing() -> None:
    driven = ready()
    assert driven.fire(HandshakeTimedOut) == []
    assert driven.machine.state is State.READY


def test_the_secret_of_the_credentials_is_in_no_error_text() -> None:
    driven = made(ONE_HOST, *OPENING, CREDENTIALS)
    driven.tell(SocketLost("reset"))
    assert "secret" not in str(driven.effects)
