from typing import Any

import pytest

from pulsar_actors.exceptions import (
    AuthenticationError,
    ConnectionLost,
)
from pulsar_actors.machines.chart import INTERNAL
from pulsar_actors.machines.connection import State
from pulsar_actors.machines.connection_credentials import CHART, ConnectionCredentials
from pulsar_actors.machines.connection_credentials import State as CredentialsState
from pulsar_actors.machines.connection_events import (
    BrokerAccepted,
    Challenged,
    ConnectionOver,
    CredentialsFailed,
    CredentialsFetched,
    FetchCredentials,
    GiveReply,
    NotifyConnectionLost,
    Refused,
    Unawaited,
)
from pulsar_actors.wire.PulsarApi_pb2 import (
    AuthData,
    CommandAuthChallenge,
    CommandAuthResponse,
    CommandError,
    ServerError,
)
from tests.machines.connection_bench import (
    CREDENTIALS,
    asked,
    ready,
)
from tests.machines.mutants import Fault, Hunt, fault
from tests.machines.test_connection_model import HUNT, AnyConnection


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


def test_when_credentials_can_not_be_renewed_what_was_asked_is_unknown() -> None:
    driven = ready()
    asked(driven)
    driven.tell(Challenged(CommandAuthChallenge()), CredentialsFailed("expired"))
    (reply,), (lost,) = driven.did(GiveReply), driven.did(NotifyConnectionLost)
    assert (type(reply.answer), type(lost.error)) == (ConnectionLost, AuthenticationError)


# fmt: off
FAULTS = [
    fault(BrokerAccepted, CredentialsState.UNUSED, None, {"dest": CredentialsState.FETCHING},
          "a challenge without an answer", "challenge"),
    fault(Challenged, CredentialsState.ACCEPTED, "fetch", {"does": None},
          "a challenge without an answer", "challenge"),
    fault(Challenged, CredentialsState.FETCHING, "keep_last_challenge", {"does": "fetch"},
          "a broker heaps up work", "challenge"),
    fault(CredentialsFetched, CredentialsState.FETCHING, "answer", {"does": None},
          "a challenge without an answer", "challenge", "credentials_come"),
    fault(CredentialsFetched, CredentialsState.FETCHING, "answer", {"dest": INTERNAL},
          "a challenge without an answer", "challenge", "credentials_come"),
    fault(CredentialsFetched, CredentialsState.CHALLENGED_AGAIN, "answer_and_fetch_again", {"does": "answer"},
          "a challenge without an answer", "challenge", "credentials_come"),
    fault(ConnectionOver, CredentialsState.FETCHING, None, {"dest": INTERNAL},
          "not there|after the end|without an answer", "challenge", "close", "credentials_come"),
]
# fmt: on


@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_a_chart_that_breaks_a_promise_is_found_out(fault: Fault) -> None:
    Hunt(CHART, ConnectionCredentials, AnyConnection, {}, HUNT, "credentials_class").find_out(fault, 5)
