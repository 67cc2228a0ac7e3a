"""The choices that options take, and the results that callbacks are told.

Members and numbers are those of the official client, whose enums are numbers that print as their names: they compare
and hash as the number, `str()` gives `ConsumerType.Shared`. Where the protocol knows the choice it has the same number
for it, so `int(choice)` is what goes on the wire.
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
    """A number that prints as its name, in a format string as well: which Pythons differ about."""

    def __str__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)


class CompressionType(_Choice):
    """How a producer compresses what it sends. Any consumer can read all of them."""

    NONE = 0
    LZ4 = 1
    ZLib = 2
    ZSTD = 3
    SNAPPY = 4


class ConsumerType(_Choice):
    """How the consumers of one subscription share its messages."""

    Exclusive = 0
    """One consumer gets all, in order; a second one is refused."""
    Shared = 1
    """Each message goes to one of them, in no order."""
    Failover = 2
    """One gets all, in order; when it goes, the next one takes over."""
    KeyShared = 3
    """Messages of one key go to one of them, in order."""


class InitialPosition(_Choice):
    """Where a new subscription begins; one that exists goes on where it was."""

    Latest = 0
    Earliest = 1


class SubscriptionMode(_Choice):
    """Whether a subscription outlives its consumers. The official client has no such choice, the Java client has."""

    Durable = 0
    """The broker remembers what was acknowledged, until the subscription is deleted."""
    NonDurable = 1
    """It ends with its last consumer, as that of a reader does."""


class PartitionsRoutingMode(_Choice):
    """Which partition a message without a key goes to."""

    UseSinglePartition = 0
    RoundRobinDistribution = 1
    CustomPartition = 2
    """As `message_router` says; that argument alone is enough."""


class HashingScheme(_Choice):
    """What turns a key into the partition that it belongs to. All producers of a topic have to choose alike.

    The official Python and C++ clients use BoostHash unless told otherwise, the Java client JavaStringHash.
    """

    Murmur3_32Hash = 0
    BoostHash = 1
    JavaStringHash = 2


class BatchingType(_Choice):
    """What a batch holds: messages as they come, or those of one key, which KeyShared consumers need."""

    Default = 0
    KeyBased = 1


class LoggerLevel(_Choice):
    """The least important lines that a logger writes."""

    Debug = 0
    Info = 1
    Warn = 2
    Error = 3


class KeySharedMode(_Choice):
    """Who divides the keys among KeyShared consumers: the broker, or each consumer for itself by its ranges."""

    AutoSplit = 0
    Sticky = 1


class ProducerAccessMode(_Choice):
    """Whether a producer wants the topic for itself, and what becomes of those that are there."""

    Shared = 0
    Exclusive = 1
    """Refused if there are others."""
    WaitForExclusive = 2
    """Waits, as long as it takes, until there are none."""
    ExclusiveWithFencing = 3
    """Ends the others."""


class RegexSubscriptionMode(_Choice):
    """Which topics a pattern is held against."""

    PersistentOnly = 0
    NonPersistentOnly = 1
    AllTopics = 2


class ConsumerCryptoFailureAction(_Choice):
    """What becomes of a message that cannot be decrypted."""

    FAIL = 0
    """It is not delivered, and not acknowledged."""
    DISCARD = 1
    """It is acknowledged without being delivered."""
    CONSUME = 2
    """It is delivered as it is."""


class Result(_Choice):
    """How a send ended, as its callback is told; all but `Ok` have an exception of the same name."""

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
        """Give the result that stands for an error, or for none.

        An error without a result of its own goes by that of the kind it belongs to, and failing that is unknown.
        """
        if error is None:
            return cls.Ok
        kinds = (kind.__name__ for kind in type(error).__mro__ if issubclass(kind, PulsarException))
        return next((cls[name] for name in kinds if name in cls.__members__), cls.UnknownError)
