"""What each error of a broker means for whoever asked.

The same error weighs differently with the moment. A first creation has a user waiting for it: what a retry cannot
cure fails the call at once, and the rest is retried until the operation timeout. Once created, a producer or consumer
outlives almost anything, for brokers restart, forget and change their minds: only a topic or subscription that has
gone, a terminated topic and a fenced producer end it. What would end a living one also ends the creation of a new one.

A lookup is retried when another broker, or the same one a moment later, may answer differently: it is starting or
overloaded, or its metadata store has hiccups. A refused message is judged by itself, in the last column.

A second table has the exception that a caller gets. Both have a row for every error: one of a newer protocol is a
missing row, which a test finds, and not a silent default.
"""

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from pulsar_actors import exceptions
from pulsar_actors.exceptions import BrokerRefusal
from pulsar_actors.wire.PulsarApi_pb2 import ServerError


class Verdict(Enum):
    """Whether trying again makes sense."""

    RETRY = "retry"
    FAIL = "fail"


class SendVerdict(Enum):
    """What SEND_ERROR asks of a producer."""

    CHECK = "compare the payload with its checksum: corrupt in memory fails it alone, intact means reconnect and resend"
    FAIL_ONE = "fail this message alone"
    STOP = "fail everything pending and stop"
    RECONNECT = "reconnect and resend"


class Meaning(NamedTuple):
    """One row: what an error means at each moment."""

    first_creation: Verdict
    once_created: Verdict
    lookup: Verdict
    send: SendVerdict


_RETRY, _FAIL = Verdict.RETRY, Verdict.FAIL
_CHECK, _ALONE, _STOP, _AGAIN = SendVerdict

# fmt: off
MEANINGS: Mapping["ServerError.ValueType", Meaning] = MappingProxyType({
    #                                                          first    once
    #                                                          creation created lookup  send
    ServerError.UnknownError:                          Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.MetadataError:                         Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.PersistenceError:                      Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.AuthenticationError:                   Meaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.AuthorizationError:                    Meaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.ConsumerBusy:                          Meaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.ServiceNotReady:                       Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.ProducerBlockedQuotaExceededError:     Meaning(_RETRY, _RETRY, _FAIL,  _AGAIN),
    ServerError.ProducerBlockedQuotaExceededException: Meaning(_RETRY, _RETRY, _FAIL,  _AGAIN),
    ServerError.ChecksumError:                         Meaning(_RETRY, _RETRY, _FAIL,  _CHECK),
    ServerError.UnsupportedVersionError:               Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.TopicNotFound:                         Meaning(_FAIL,  _FAIL,  _FAIL,  _AGAIN),
    ServerError.SubscriptionNotFound:                  Meaning(_FAIL,  _FAIL,  _FAIL,  _AGAIN),
    ServerError.ConsumerNotFound:                      Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.TooManyRequests:                       Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.TopicTerminatedError:                  Meaning(_FAIL,  _FAIL,  _FAIL,  _STOP),
    ServerError.ProducerBusy:                          Meaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.InvalidTopicName:                      Meaning(_RETRY, _RETRY, _FAIL,  _AGAIN),
    ServerError.IncompatibleSchema:                    Meaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.ConsumerAssignError:                   Meaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.TransactionCoordinatorNotFound:        Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.InvalidTxnStatus:                      Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.NotAllowedError:                       Meaning(_FAIL,  _RETRY, _FAIL,  _ALONE),
    ServerError.TransactionConflict:                   Meaning(_FAIL,  _RETRY, _FAIL,  _AGAIN),
    ServerError.TransactionNotFound:                   Meaning(_RETRY, _RETRY, _RETRY, _AGAIN),
    ServerError.ProducerFenced:                        Meaning(_FAIL,  _FAIL,  _FAIL,  _STOP),
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


def refusal(error: "ServerError.ValueType", message: str) -> BrokerRefusal:
    """Make the exception for what a broker answered."""
    return REFUSALS[error](ServerError.Name(error), message)


def meaning_of(refused: BrokerRefusal) -> Meaning:
    """Look up what a refusal means."""
    return MEANINGS[ServerError.Value(refused.code)]
