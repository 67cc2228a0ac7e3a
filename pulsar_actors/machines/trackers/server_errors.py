"""Server errors: what each error of a broker means for a retry, and the exception for it.

The meaning depends on the operation. During a first creation a caller waits: an error that a retry cannot cure fails
the call at once, and any other is retried until the operation timeout. A producer or consumer that was created once
survives almost any error, since brokers restart and topics move: it ends only with a topic or subscription that was
deleted, a terminated topic, or a fenced producer. An error that ends an existing one also ends the creation of a new
one.

A lookup is retried if another broker, or the same one a moment later, may answer differently: because the broker is
starting or overloaded, or its metadata store has a fault. The last column is for a refused message.

Both tables have a row for every error. An error of a newer protocol is a missing row, which a test finds, rather than a
silent default.
"""

import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from pulsar_actors import exceptions
from pulsar_actors.exceptions import (
    BrokerRefusal,
    ConnectError,
    ConsumerNotFound,
    InternalError,
    OutcomeUnknown,
    PulsarException,
)
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import ServerError


class RetryVerdict(Enum):
    """The verdict on another try."""

    RETRY = "retry"
    FAIL = "fail"


class SendVerdict(Enum):
    """The reaction of a producer to SEND_ERROR. A refused PRODUCER ends it in the last two ways as well."""

    CHECK = "compare the payload with its checksum: corrupt in memory fails it alone, intact means reconnect and resend"
    FAIL_ONE = "fail this message alone"
    RECONNECT = "reconnect and resend"
    FENCED = "fail everything pending and end: another producer has taken the topic"
    TERMINATED = "fail everything pending and end: the topic takes no more messages"


class ErrorMeaning(NamedTuple):
    """One row of the table: what an error means at each moment."""

    first_creation: RetryVerdict
    once_created: RetryVerdict
    lookup: RetryVerdict
    send: SendVerdict


_RETRY, _FAIL = RetryVerdict.RETRY, RetryVerdict.FAIL
_CHECK, _ALONE, _AGAIN, _FENCED, _ENDED = SendVerdict

# fmt: off
MEANINGS: Mapping["ServerError.ValueType", ErrorMeaning] = MappingProxyType({
    #                                                          first    once
    #                                                          creation created lookup  send
    ServerError.UnknownError:                          ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.MetadataError:                         ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.PersistenceError:                      ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.AuthenticationError:                   ErrorMeaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.AuthorizationError:                    ErrorMeaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.ConsumerBusy:                          ErrorMeaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.ServiceNotReady:                       ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.ProducerBlockedQuotaExceededError:     ErrorMeaning(_RETRY, _RETRY, _FAIL,  _AGAIN),
    ServerError.ProducerBlockedQuotaExceededException: ErrorMeaning(_RETRY, _RETRY, _FAIL,  _AGAIN),
    ServerError.ChecksumError:                         ErrorMeaning(_RETRY, _RETRY, _FAIL,  _CHECK),
    ServerError.UnsupportedVersionError:               ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.TopicNotFound:                         ErrorMeaning(_FAIL,  _FAIL,  _FAIL,  _AGAIN),
    ServerError.SubscriptionNotFound:                  ErrorMeaning(_FAIL,  _FAIL,  _FAIL,  _AGAIN),
    ServerError.ConsumerNotFound:                      ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.TooManyRequests:                       ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.TopicTerminatedError:                  ErrorMeaning(_FAIL,  _FAIL,  _FAIL,  _ENDED),
    ServerError.ProducerBusy:                          ErrorMeaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.InvalidTopicName:                      ErrorMeaning(_RETRY, _RETRY, _FAIL,  _AGAIN),
    ServerError.IncompatibleSchema:                    ErrorMeaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.ConsumerAssignError:                   ErrorMeaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.TransactionCoordinatorNotFound:        ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.InvalidTxnStatus:                      ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.NotAllowedError:                       ErrorMeaning(_FAIL,  _RETRY, _FAIL,  _ALONE),
    ServerError.TransactionConflict:                   ErrorMeaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.TransactionNotFound:                   ErrorMeaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.ProducerFenced:                        ErrorMeaning(_FAIL,  _FAIL,  _FAIL,  _FENCED),
})
# fmt: on


REFUSALS: Mapping["ServerError.ValueType", type[BrokerRefusal]] = MappingProxyType(
    {
        ServerError.UnknownError: exceptions.UnknownError,
        ServerError.MetadataError: exceptions.BrokerMetadataError,
        ServerError.PersistenceError: exceptions.BrokerPersistenceError,
        ServerError.AuthenticationError: exceptions.AuthenticationError,
        ServerError.AuthorizationError: exceptions.AuthorizationError,
        ServerError.ConsumerBusy: exceptions.ConsumerBusy,
        ServerError.ServiceNotReady: exceptions.ServiceUnitNotReady,
        ServerError.ProducerBlockedQuotaExceededError: exceptions.ProducerBlockedQuotaExceededError,
        ServerError.ProducerBlockedQuotaExceededException: exceptions.ProducerBlockedQuotaExceededException,
        ServerError.ChecksumError: exceptions.ChecksumError,
        ServerError.UnsupportedVersionError: exceptions.UnsupportedVersionError,
        ServerError.TopicNotFound: exceptions.TopicNotFound,
        ServerError.SubscriptionNotFound: exceptions.SubscriptionNotFound,
        ServerError.ConsumerNotFound: exceptions.ConsumerNotFound,
        ServerError.TooManyRequests: exceptions.LookupsRefused,
        ServerError.TopicTerminatedError: exceptions.TopicTerminated,
        ServerError.ProducerBusy: exceptions.ProducerBusy,
        ServerError.InvalidTopicName: exceptions.TopicNameRefused,
        ServerError.IncompatibleSchema: exceptions.IncompatibleSchema,
        ServerError.ConsumerAssignError: exceptions.ConsumerAssignError,
        ServerError.TransactionCoordinatorNotFound: exceptions.TransactionCoordinatorNotFoundError,
        ServerError.InvalidTxnStatus: exceptions.InvalidTxnStatusError,
        ServerError.NotAllowedError: exceptions.NotAllowedError,
        ServerError.TransactionConflict: exceptions.TransactionConflict,
        ServerError.TransactionNotFound: exceptions.TransactionNotFound,
        ServerError.ProducerFenced: exceptions.ProducerFenced,
    }
)


LISTENER_MISSING: Final = re.compile("the broker do not have .* listener")
"""A broker's text for an unknown listener. Its code is ServiceNotReady, or 500 over HTTP, as if it could change."""

LISTENER_MEANING: Final = ErrorMeaning(_FAIL, _RETRY, _FAIL, _AGAIN)

ENCRYPTION_MISSING: Final = "Encryption is required"
"""The start of a broker's text for a producer that does not encrypt. Its code, MetadataError, has many meanings."""

ENCRYPTION_MEANING: Final = ErrorMeaning(_FAIL, _RETRY, _RETRY, _AGAIN)


def refusal(error: "ServerError.ValueType", message: str) -> BrokerRefusal:
    """Return the exception for an error of a broker."""
    kind = REFUSALS[error]
    if kind in {exceptions.ServiceUnitNotReady, exceptions.UnknownError} and LISTENER_MISSING.search(message):
        kind = exceptions.ListenerNotFound
    return kind(ServerError.Name(error), message)


def meaning_of(refused: BrokerRefusal) -> ErrorMeaning:
    """Return the row of the table for a refusal."""
    if isinstance(refused, exceptions.ListenerNotFound):
        return LISTENER_MEANING
    if isinstance(refused, exceptions.BrokerMetadataError) and refused.reason.startswith(ENCRYPTION_MISSING):
        return ENCRYPTION_MEANING
    return MEANINGS[ServerError.Value(refused.code)]


def not_sent_error(error: PulsarException) -> PulsarException:
    """Return the error of what was never sent, which an OutcomeUnknown of its producer or consumer does not say."""
    return ConnectError(f"it was not sent: {error}") if isinstance(error, OutcomeUnknown) else error


def unconfirmed_error(error: PulsarException, what: str) -> PulsarException:
    """Return the error of what was sent and has no answer. It leaves open whether that was done."""
    leaves_it_open = isinstance(error, (OutcomeUnknown, InternalError))
    return error if leaves_it_open else OutcomeUnknown(f"{what}: {error}")


def last_failure_text(failure: PulsarException | None) -> str:
    """Return a clause for the end of an error's text that names the last failure; empty if nothing has failed."""
    return "" if failure is None else f"; the last failure was: {failure}"


NOT_FOUND_TEXT: Final = "Consumer not found"
"""A broker's text for a consumer that it does not know any longer. The error code, MetadataError, has many meanings."""


def is_consumer_not_found(error: PulsarException) -> bool:
    """Return whether the broker has refused because it does not know the consumer any longer: it has done nothing."""
    return isinstance(error, ConsumerNotFound) or (isinstance(error, BrokerRefusal) and error.reason == NOT_FOUND_TEXT)
