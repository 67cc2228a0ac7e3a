import pulsar
import pytest

from pulsar_actors import exceptions
from pulsar_actors.exceptions import BrokerRefusal
from pulsar_actors.machines.trackers.server_errors import (
    MEANINGS,
    REFUSALS,
    RetryVerdict,
    SendVerdict,
    last_failure_text,
    meaning_of,
    refusal,
)
from pulsar_actors.wire.PulsarApi_pb2 import ServerError

FATAL_AT_FIRST_CREATION = {
    "AuthenticationError",
    "AuthorizationError",
    "ConsumerAssignError",
    "ConsumerBusy",
    "IncompatibleSchema",
    "NotAllowedError",
    "ProducerBusy",
    "SubscriptionNotFound",
    "TopicNotFound",
    "TransactionConflict",
}
FATAL_ALWAYS = {"TopicNotFound", "SubscriptionNotFound", "TopicTerminatedError", "ProducerFenced"}

# What pulsar-client 3.x asked of a listener that answered every lookup with this error: it gave up after one try.
OFFICIAL_GIVES_UP_ON_LOOKUP = {
    "AuthenticationError",
    "AuthorizationError",
    "ChecksumError",
    "ConsumerAssignError",
    "ConsumerBusy",
    "IncompatibleSchema",
    "NotAllowedError",
    "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException",
    "ProducerBusy",
    "TooManyRequests",
    "TopicNotFound",
    "TopicTerminatedError",
}
# Here we differ, on purpose: an overloaded broker recovers; the others will say the same again.
LOOKUP_DIFFERS = {
    "InvalidTopicName",
    "ProducerFenced",
    "SubscriptionNotFound",
    "TooManyRequests",
    "TransactionConflict",
}

# The protocol's word, and what the official client calls it where that is not the same.
OFFICIAL_NAME = {
    "MetadataError": "BrokerMetadataError",
    "PersistenceError": "BrokerPersistenceError",
    "ServiceNotReady": "ServiceUnitNotReady",
    "TooManyRequests": "TooManyLookupRequestException",
    "TopicTerminatedError": "TopicTerminated",
    "TransactionCoordinatorNotFound": "TransactionCoordinatorNotFoundError",
    "InvalidTxnStatus": "InvalidTxnStatusError",
}


def _names(column: str, verdict: RetryVerdict | SendVerdict) -> set[str]:
    return {ServerError.Name(error) for error, row in MEANINGS.items() if getattr(row, column) is verdict}


@pytest.mark.parametrize("table", [MEANINGS, REFUSALS], ids=["meanings", "refusals"])
def test_every_error_of_the_protocol_has_its_row(table: dict[int, object]) -> None:
    assert set(table) == set(ServerError.values())


@pytest.mark.parametrize("word", ServerError.keys())
def test_a_refusal_is_caught_by_the_name_that_the_official_client_has_for_it(word: str) -> None:
    error = refusal(ServerError.Value(word), "no, and again no")
    name = OFFICIAL_NAME.get(word, word)
    assert hasattr(pulsar, name)
    assert isinstance(error, getattr(exceptions, name))
    assert isinstance(error, exceptions.BrokerRefusal)


@pytest.mark.parametrize("word", ServerError.keys())
def test_a_refusal_says_what_the_broker_said_and_is_found_in_the_table_again(word: str) -> None:
    error = refusal(ServerError.Value(word), "no, and again no")
    assert (error.code, error.reason, str(error)) == (word, "no, and again no", f"{word}: no, and again no")
    assert meaning_of(error) is MEANINGS[ServerError.Value(word)]


def test_no_two_errors_become_the_same_exception() -> None:
    assert len(set(REFUSALS.values())) == len(REFUSALS)


def test_a_first_creation_fails_on_what_no_retry_cures() -> None:
    assert _names("first_creation", RetryVerdict.FAIL) == FATAL_AT_FIRST_CREATION | FATAL_ALWAYS


def test_once_created_only_not_found_terminated_and_fenced_are_final() -> None:
    assert _names("once_created", RetryVerdict.FAIL) == FATAL_ALWAYS


def test_lookups_give_up_where_the_official_client_does_with_the_named_differences() -> None:
    assert _names("lookup", RetryVerdict.FAIL) ^ OFFICIAL_GIVES_UP_ON_LOOKUP == LOOKUP_DIFFERS


@pytest.mark.parametrize("error", ["ServiceNotReady", "TooManyRequests", "MetadataError"])
def test_a_lookup_asks_a_struggling_broker_again(error: str) -> None:
    assert error in _names("lookup", RetryVerdict.RETRY)


@pytest.mark.parametrize(
    ("verdict", "errors"),
    [
        (SendVerdict.CHECK, {"ChecksumError"}),
        (SendVerdict.FAIL_ONE, {"NotAllowedError"}),
        (SendVerdict.FENCED, {"ProducerFenced"}),
        (SendVerdict.TERMINATED, {"TopicTerminatedError"}),
    ],
)
def test_a_refused_message_is_judged_by_its_error(verdict: SendVerdict, errors: set[str]) -> None:
    assert _names("send", verdict) == errors


def test_any_other_refusal_of_a_message_means_reconnect() -> None:
    assert len(_names("send", SendVerdict.RECONNECT)) == len(ServerError.values()) - 4


def test_a_failure_is_named_at_the_end_of_a_sentence_and_none_adds_nothing() -> None:
    assert (
        last_failure_text(BrokerRefusal("ServiceNotReady", "starting"))
        == "; the last failure was: ServiceNotReady: starting"
    )
    assert last_failure_text(None) == ""


@pytest.mark.parametrize("code", [ServerError.ServiceNotReady, ServerError.UnknownError])
def test_an_unknown_listener_is_final_though_its_code_is_that_of_a_broker_that_starts(
    code: "ServerError.ValueType",
) -> None:
    error = refusal(code, "PulsarServerException: the broker do not have nowhere listener")
    assert isinstance(error, exceptions.ListenerNotFound)
    assert meaning_of(error).lookup is RetryVerdict.FAIL
    assert meaning_of(refusal(code, "later")).lookup is RetryVerdict.RETRY


def test_a_demand_for_encryption_is_final_though_its_code_has_many_meanings() -> None:
    error = refusal(ServerError.MetadataError, "Encryption is required in persistent://public/default/t")
    assert meaning_of(error).first_creation is RetryVerdict.FAIL
    assert meaning_of(error).once_created is RetryVerdict.RETRY
    assert meaning_of(refusal(ServerError.MetadataError, "later")).first_creation is RetryVerdict.RETRY
