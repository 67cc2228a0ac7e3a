"""The results of operations: a number for each kind of error, as the official client has them.

They are below the errors, because each error has its result.
"""

from enum import IntEnum

__all__ = ["Choice", "Result"]


class Choice(IntEnum):
    """A number that prints as its name, also in a format string, which differs between versions of Python."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __bool__(self) -> bool:
        """Return True, as in the official client: so `choice or default` is the choice, also if its number is 0."""
        return True


class Result(Choice):
    """The result of a send, for its callback; all but `Ok` have an exception of the same name."""

    Ok = 0
    UnknownError = 1
    InvalidConfiguration = 2
    Timeout = 3
    LookupError = 4
    ConnectError = 5
    ReadError = 6
    AuthenticationError = 7
    AuthorizationError = 8
    ErrorGettingAuthenticationData = 9
    BrokerMetadataError = 10
    BrokerPersistenceError = 11
    ChecksumError = 12
    ConsumerBusy = 13
    NotConnected = 14
    AlreadyClosed = 15
    InvalidMessage = 16
    ConsumerNotInitialized = 17
    ProducerNotInitialized = 18
    ProducerBusy = 19
    TooManyLookupRequestException = 20
    InvalidTopicName = 21
    InvalidUrl = 22
    ServiceUnitNotReady = 23
    OperationNotSupported = 24
    ProducerBlockedQuotaExceededError = 25
    ProducerBlockedQuotaExceededException = 26
    ProducerQueueIsFull = 27
    MessageTooBig = 28
    TopicNotFound = 29
    SubscriptionNotFound = 30
    ConsumerNotFound = 31
    UnsupportedVersionError = 32
    TopicTerminated = 33
    CryptoError = 34
    IncompatibleSchema = 35
    ConsumerAssignError = 36
    CumulativeAcknowledgementNotAllowedError = 37
    TransactionCoordinatorNotFoundError = 38
    InvalidTxnStatusError = 39
    NotAllowedError = 40
    TransactionConflict = 41
    TransactionNotFound = 42
    ProducerFenced = 43
    MemoryBufferIsFull = 44
    Interrupted = 45

    @classmethod
    def of(cls, error: BaseException | None) -> "Result":
        """Return the result for an error, or for none.

        An error without a result of its own has that of its nearest base class, or UnknownError.
        """
        if error is None:
            return cls.Ok
        # Python has a LookupError, too, which is none of ours.
        kinds = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ != "builtins")
        return next((cls[name] for name in kinds if name in cls.__members__), cls.UnknownError)
