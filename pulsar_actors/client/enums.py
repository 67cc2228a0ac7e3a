"""The enums of options, and the results of send callbacks.

Members and numbers are those of the official client, whose enums are numbers that print as their names: they compare
and hash as the number, `str()` gives `ConsumerType.Shared`. Where the protocol has the choice, it has the same number,
so `int(choice)` is sent in commands.
"""

from enum import IntEnum

from pulsar_actors.exceptions import PulsarException

__all__ = [
    "BatchingType",
    "CompressionType",
    "ConsumerCryptoFailureAction",
    "ConsumerType",
    "HashingScheme",
    "InitialPosition",
    "KeySharedMode",
    "LoggerLevel",
    "PartitionsRoutingMode",
    "ProducerAccessMode",
    "RegexSubscriptionMode",
    "Result",
    "SubscriptionMode",
]


class _Choice(IntEnum):
    """A number that prints as its name, also in a format string, which differs between versions of Python."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __bool__(self) -> bool:
        """Return True, as in the official client: so `choice or default` is the choice, also if its number is 0."""
        return True


class CompressionType(_Choice):
    """The compression of a producer's messages. Any consumer can read all of them."""

    NONE = 0
    LZ4 = 1
    ZLib = 2
    ZSTD = 3
    SNAPPY = 4


class ConsumerType(_Choice):
    """The way in which consumers share the messages of a subscription."""

    Exclusive = 0
    """One consumer gets all messages, in order. A second consumer is refused."""
    Shared = 1
    """Each message goes to one of the consumers, in no particular order."""
    Failover = 2
    """One consumer gets all messages, in order. When it ends, another takes over."""
    KeyShared = 3
    """Messages with the same key go to the same consumer, in order."""


class InitialPosition(_Choice):
    """The start of a new subscription. An existing one continues at its position."""

    Latest = 0
    Earliest = 1


class SubscriptionMode(_Choice):
    """The lifetime of a subscription. The official client has no such option; the Java client has."""

    Durable = 0
    """The broker remembers what was acknowledged, until the subscription is deleted."""
    NonDurable = 1
    """The subscription ends with its last consumer, as a reader's does."""


class PartitionsRoutingMode(_Choice):
    """The partition of a message without a key."""

    UseSinglePartition = 0
    RoundRobinDistribution = 1
    CustomPartition = 2
    """The partition that `message_router` returns. That argument alone selects this mode."""


class HashingScheme(_Choice):
    """The hash that turns a key into a partition. All producers of a topic have to use the same.

    The official Python and C++ clients use BoostHash by default, the Java client JavaStringHash.
    """

    Murmur3_32Hash = 0
    BoostHash = 1
    JavaStringHash = 2


class BatchingType(_Choice):
    """The messages of a batch: in the order of their sends, or with the same key, as KeyShared consumers need it."""

    Default = 0
    KeyBased = 1


class LoggerLevel(_Choice):
    """The lowest level of lines that a logger writes."""

    Debug = 0
    Info = 1
    Warn = 2
    Error = 3


class KeySharedMode(_Choice):
    """The division of keys among KeyShared consumers: by the broker, or by ranges that each consumer names."""

    AutoSplit = 0
    Sticky = 1


class ProducerAccessMode(_Choice):
    """The access of a producer to its topic: shared with other producers, or exclusive."""

    Shared = 0
    Exclusive = 1
    """The producer is refused if there are others."""
    WaitForExclusive = 2
    """The producer waits without a limit until there are no others."""
    ExclusiveWithFencing = 3
    """The broker ends the other producers."""


class RegexSubscriptionMode(_Choice):
    """The topics that a pattern may match."""

    PersistentOnly = 0
    NonPersistentOnly = 1
    AllTopics = 2


class ConsumerCryptoFailureAction(_Choice):
    """The handling of a message that cannot be decrypted."""

    FAIL = 0
    """It is not delivered, and not acknowledged."""
    DISCARD = 1
    """It is acknowledged without being delivered."""
    CONSUME = 2
    """It is delivered encrypted."""


class Result(_Choice):
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
        kinds = (kind.__name__ for kind in type(error).__mro__ if issubclass(kind, PulsarException))
        return next((cls[name] for name in kinds if name in cls.__members__), cls.UnknownError)
