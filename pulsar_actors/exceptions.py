"""The errors of the package, as a tree: the branch says who is at fault, and what can be done.

PulsarException
├── InvalidArgument         a local mistake: nothing was sent, and repeating the call will not help
│   ├── InvalidTopicName
│   ├── InvalidUrl
│   ├── InvalidConfiguration
│   ├── InvalidMessage
│   │   ├── MessageTooBig
│   │   │   └── MessageTooBigBeforeReceipt  is OutcomeUnknown as well
│   │   └── WrongContent
│   └── CumulativeAcknowledgementNotAllowedError
├── AlreadyClosed           a local mistake too: the handle was closed before the call, or while it waited
├── ProcessForked           a local mistake too: the handle is the parent process's; make a new Client in the child
├── ProducerNotInitialized  a local mistake too: a Producer, or
├── ConsumerNotInitialized  a Consumer, that no client made
├── OperationNotSupported   this client or this kind of handle cannot do it: nothing was done
├── UndecodableMessage      the payload of a message does not fit its schema: its `data()` is still there
├── CryptoError             keys are missing, or do not fit the message
├── ConnectError            no broker was reached: nothing was done, trying later may help
│   ├── CertificateRefused  the broker's certificate is not trusted: renew it, or name its authority
│   ├── ConnectTimeout      no host of the service URL answers in time
│   └── NotConnected
├── LookupError             no broker was found that serves the topic: nothing was done, trying later may help
│   └── Misdirected
├── LimitReached            a limit of this client is reached: nothing was done, trying later helps
│   ├── ProducerQueueIsFull
│   ├── MemoryBufferIsFull
│   └── TooManyLookupRequestException
├── BrokerRefusal           the broker refused the request; `code` is its name for the reason
│   ├── AuthenticationError
│   │   └── ErrorGettingAuthenticationData
│   ├── AuthorizationError
│   ├── TopicNotFound
│   │   └── TopicNotFoundBeforeReceipt      and so is this one,
│   ├── TopicNameRefused
│   ├── ListenerNotFound
│   ├── TopicTerminated
│   │   └── TopicTerminatedBeforeReceipt    this one
│   ├── SubscriptionNotFound
│   ├── ConsumerNotFound
│   ├── ConsumerBusy
│   ├── ConsumerAssignError
│   ├── ProducerBusy
│   ├── ProducerFenced
│   │   └── ProducerFencedBeforeReceipt     and this one
│   ├── ProducerBlockedQuotaExceededError
│   ├── ProducerBlockedQuotaExceededException
│   ├── NotAllowedError
│   ├── IncompatibleSchema
│   ├── UnsupportedVersionError
│   ├── ServiceUnitNotReady
│   ├── LookupsRefused
│   ├── BrokerMetadataError
│   ├── BrokerPersistenceError
│   ├── ChecksumError
│   ├── TransactionCoordinatorNotFoundError
│   ├── TransactionNotFound
│   ├── TransactionConflict
│   ├── InvalidTxnStatusError
│   └── UnknownError
├── OutcomeUnknown          the request left and no answer came: it may have been done, or not
│   ├── Timeout
│   └── ReadError
│       └── ConnectionLost
├── TransactionHasOperationFailed   a part of a transaction failed, so the commit has aborted it: nothing was done
├── SendManyFailed          messages of one `send_many` were not stored: `errors` has the error of each
├── Interrupted             Ctrl-C ended the wait: the operation may have been done, or may still be done
├── WireError               bytes that break the protocol; the tree below it is in `wire/errors.py`
└── InternalError           a bug of this package: please report it with the text

Names of `pulsar.exceptions` in the official Python client mean the same here. There all errors are direct subclasses of
`PulsarException`; the tree is our own. The branch tells an error handler whether anything was done (only
OutcomeUnknown, Interrupted and InternalError leave that open), whether trying again can help, and who has to change
something.

All errors can be pickled: an error of a Spark worker is read on the driver.
"""

from typing import Any

from pulsar_actors.result import Result


class PulsarException(Exception):
    """The root of all errors that this package raises on purpose."""

    def error(self) -> Result:
        """Return the result of this kind of error. Programs for the official `pulsar.asyncio` distinguish errors by it.

        Such a program may also make an error of a result: `PulsarException(Result.Timeout)`.
        """
        given = self.args[0] if self.args else None
        return given if isinstance(given, Result) else Result.of(self)


class InvalidArgument(PulsarException, ValueError):
    """An argument that cannot work."""


class InvalidTopicName(InvalidArgument):
    """A topic name that has none of Pulsar's forms."""


class InvalidUrl(InvalidArgument):
    """A service URL with an unknown scheme, no host, or a bad port."""


class InvalidConfiguration(InvalidArgument):
    """Options that cannot go together, or a file they name that cannot be used.

    One option that is wrong by itself is an InvalidArgument; here each may be right alone.
    """


class InvalidMessage(InvalidArgument):
    """A message that cannot be sent the way it was given."""


class MessageTooBig(InvalidMessage):
    """A message over the broker's limit: make it smaller, or let the producer send it in chunks."""


class WrongContent(InvalidMessage, TypeError):
    """The content of a message is not of the type that its schema takes; a TypeError to programs that expect one."""


class CumulativeAcknowledgementNotAllowedError(InvalidArgument):
    """A cumulative acknowledgement on a subscription whose messages several consumers share.

    It would acknowledge what the others are still working on: acknowledge each message by itself.
    """


class AlreadyClosed(PulsarException):
    """The client, producer, consumer or connection is closed."""


class ProcessForked(PulsarException):
    """The process was forked after the object was made: make a new Client in the child.

    The connections belong to the parent, which goes on using them, and its threads were not copied.
    """


class ProducerNotInitialized(PulsarException):
    """A Producer that no client created: get one from `Client.create_producer`."""


class ConsumerNotInitialized(PulsarException):
    """A Consumer or Reader that no client created: get one from `Client.subscribe` or `Client.create_reader`."""


class OperationNotSupported(PulsarException):
    """The client, or this kind of producer, consumer or topic, has no such operation."""


class UndecodableMessage(PulsarException, ValueError):
    """A payload that does not fit the schema that it is decoded by. The message and its `data()` are still there."""


class CryptoError(PulsarException):
    """A message could not be encrypted or decrypted: check which keys the producer and the consumer have."""


class ConnectError(PulsarException):
    """No connection could be made."""


class CertificateRefused(ConnectError):
    """No host showed a trusted certificate. The text says what is wrong with the certificate, and what can be done.

    Trying again helps once that has been done. Producers and consumers that were connected before go on trying by
    themselves, because certificates are renewed.
    """


class ConnectTimeout(ConnectError):
    """No host of the service URL has answered within the connection timeout, and none had before.

    A client that was connected before goes on trying, for as long as the operation timeout of the call allows.
    """


class NotConnected(ConnectError):
    """The producer or consumer has no connection just now, and the call does not wait for one."""


class LookupError(PulsarException):  # noqa: A001 - the official client's name for it
    """No broker was found that serves the topic."""


class Misdirected(LookupError):
    """The answers of brokers name no broker, or lead in a circle."""


class LimitReached(PulsarException):
    """More was asked for at once than a limit of this client allows."""


class ProducerQueueIsFull(LimitReached):
    """As many messages wait for the broker as `max_pending_messages` allows.

    Wait until some are stored, or set `block_if_queue_full`.
    """


class MemoryBufferIsFull(LimitReached):
    """The messages that wait for the broker take as much memory as `memory_limit_bytes` allows."""


class TooManyLookupRequestException(LimitReached):
    """More lookups at once than this client, or the broker, allows to run and to wait."""


class BrokerRefusal(PulsarException):
    """The broker answered with an error: `code` is the name of its ServerError, `reason` its text.

    Both may be left out, for example in a test that raises the error itself.
    """

    def __init__(self, code: str = "", reason: str = "") -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        """Join both."""
        return ": ".join(filter(None, (self.code, self.reason)))


class AuthenticationError(BrokerRefusal):
    """The broker did not accept the credentials, or there were none."""


class ErrorGettingAuthenticationData(AuthenticationError):
    """The credentials could not be fetched: a file, a callable or a service failed.

    No broker refused anything. The base class is a broker's error because programs handle both in the same way.
    """


class AuthorizationError(BrokerRefusal):
    """The credentials are valid, but do not permit the operation."""


class TopicNotFound(BrokerRefusal):
    """There is no such topic, and the broker does not create it by itself."""


class TopicNameRefused(BrokerRefusal, InvalidTopicName):
    """The broker refuses a topic name that this client accepted: as malformed, or as forbidden."""


class ListenerNotFound(BrokerRefusal, InvalidConfiguration):
    """The broker advertises no listener of the name that `listener_name` has."""


class TopicTerminated(BrokerRefusal):
    """The topic is terminated: it takes no more messages. Those it has can be read."""


class SubscriptionNotFound(BrokerRefusal):
    """The topic has no such subscription, and the broker does not create it by itself."""


class ConsumerNotFound(BrokerRefusal):
    """The broker has no consumer with this id: the broker has closed it."""


class ConsumerBusy(BrokerRefusal):
    """Another consumer has the subscription exclusively, or with another subscription type."""


class ConsumerAssignError(BrokerRefusal):
    """The broker could not assign keys to the consumer: check the key-shared policy."""


class ProducerBusy(BrokerRefusal):
    """The topic has a producer of that name, or one with exclusive access."""


class ProducerFenced(BrokerRefusal):
    """Another producer took exclusive access: this producer has ended, and its pending messages were refused."""


class ProducerBlockedQuotaExceededError(BrokerRefusal):
    """The topic's backlog is at its quota: producers have to wait until the backlog is consumed."""


class ProducerBlockedQuotaExceededException(BrokerRefusal):
    """The topic's backlog is at its quota: the broker refuses producers until the backlog is consumed."""


class NotAllowedError(BrokerRefusal):
    """The broker's policies forbid this for everyone."""


class IncompatibleSchema(BrokerRefusal):
    """The schema does not agree with those that the topic has."""


class UnsupportedVersionError(BrokerRefusal):
    """The broker is too old for the request."""


class ServiceUnitNotReady(BrokerRefusal):
    """The broker is starting, or is still loading the topic: trying later helps."""


class LookupsRefused(BrokerRefusal, TooManyLookupRequestException):
    """The broker has too many lookups at the moment: trying later helps."""


class BrokerMetadataError(BrokerRefusal):
    """The broker's metadata store failed: trying later may help."""


class BrokerPersistenceError(BrokerRefusal):
    """The broker could not read or write its storage: trying later may help."""


class ChecksumError(BrokerRefusal):
    """The broker got a message that does not match its checksum.

    The message was damaged in memory, before it was sent: a message that is damaged on its way to the broker is sent
    again without an error. A message that is damaged on its way to a consumer raises no error either: the consumer
    reports it to the broker, which sends it again.
    """


class TransactionCoordinatorNotFoundError(BrokerRefusal):
    """No broker coordinates the transaction at the moment."""


class TransactionNotFound(BrokerRefusal):
    """The transaction does not exist, or not any longer."""


class TransactionConflict(BrokerRefusal):
    """Another transaction has acknowledged the same message, or others of the subscription in another way."""


class InvalidTxnStatusError(BrokerRefusal):
    """The transaction has ended, or is about to."""


class UnknownError(BrokerRefusal):
    """The broker failed for a reason without a code; `reason` is all there is.

    A bug of this package is an InternalError.
    """


class OutcomeUnknown(PulsarException):
    """The operation may have been done, or not."""


class Timeout(OutcomeUnknown):
    """No answer came in time.

    From a receive: no message came in time. Nothing is lost; the next receive gets the next message.
    """


class ReadError(OutcomeUnknown):
    """The broker's answer could not be read completely."""


class ConnectionLost(ReadError):
    """The connection ended before the answer came."""


class MessageTooBigBeforeReceipt(MessageTooBig, OutcomeUnknown):
    """A message was sent, and before its receipt came, a broker with a smaller limit took the topic over.

    It may have been stored before, and is not sent again.
    """


class TopicNotFoundBeforeReceipt(TopicNotFound, OutcomeUnknown):
    """The topic was deleted after a message was sent and before its receipt came: it may have been stored before."""


class TopicTerminatedBeforeReceipt(TopicTerminated, OutcomeUnknown):
    """The topic was terminated after a message was sent and before its receipt came: it may be stored all the same.

    Brokers have been seen to store such messages without an answer. Read the topic to find out.
    """


class ProducerFencedBeforeReceipt(ProducerFenced, OutcomeUnknown):
    """Another producer took the topic after a message was sent and before its receipt came: it may be stored."""


class TransactionHasOperationFailed(PulsarException):
    """A message or an acknowledgement of a transaction failed, so its commit has aborted it.

    Its `__cause__` is the first error. Try again from the start, in another transaction.
    """


class SendManyFailed(PulsarException):
    """Some messages of a `send_many`, or all, were not stored.

    The others are stored. `errors` has the error of each message that is not, by its position in the call. `ids` has
    the id of each message, and None for those that are not stored; it is None itself unless the call asked for ids.
    """

    def __init__(self, *args: object) -> None:
        super().__init__(*args)
        self.errors: dict[int, Exception] = {}
        self.ids: list[Any] | None = None

    def error(self) -> Result:
        """Return the result of the first error."""
        return next((Result.of(one) for one in self.errors.values()), super().error())


class Interrupted(PulsarException, KeyboardInterrupt):
    """Ctrl-C ended a call that was waiting. A request that was sent may still be done. No received message is lost.

    It is a KeyboardInterrupt as well, so a program that does not catch it ends as usual.
    """


class WireError(PulsarException):
    """Bytes that break the protocol: `what` is wrong, `at` which byte of the part being read, and the part's `size`."""

    def __init__(self, what: str, at: int, size: int) -> None:
        super().__init__(what, at, size)
        self.what = what
        self.at = at
        self.size = size

    def __str__(self) -> str:
        """Join the fields into one sentence for a log line."""
        return f"{self.what} (at byte {self.at:,}, {self.size:,} bytes)"


class InternalError(PulsarException):
    """A bug of this package, not of its caller or of the broker."""
