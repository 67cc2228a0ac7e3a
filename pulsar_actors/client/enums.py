"""The enums of options, and the results of send callbacks.

Members and numbers are those of the official client, whose enums are numbers that print as their names: they compare
and hash as the number, `str()` gives `ConsumerType.Shared`. Where the protocol has the choice, it has the same number,
so `int(choice)` is sent in commands.
"""

from pulsar_actors.result import Choice, Result

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
    "ProducerCryptoFailureAction",
    "RegexSubscriptionMode",
    "Result",
    "SubscriptionMode",
]


class CompressionType(Choice):
    """The compression of a producer's messages. Any consumer can read all of them."""

    NONE = 0
    LZ4 = 1
    ZLib = 2
    ZSTD = 3
    SNAPPY = 4


class ConsumerType(Choice):
    """The way in which consumers share the messages of a subscription."""

    Exclusive = 0
    """One consumer gets all messages, in order. A second consumer is refused."""
    Shared = 1
    """Each message goes to one of the consumers, in no particular order."""
    Failover = 2
    """One consumer gets all messages, in order. When it ends, another takes over."""
    KeyShared = 3
    """Messages with the same key go to the same consumer, in order."""


class InitialPosition(Choice):
    """The start of a new subscription. An existing one continues at its position."""

    Latest = 0
    Earliest = 1


class SubscriptionMode(Choice):
    """The lifetime of a subscription. The official client has no such option; the Java client has."""

    Durable = 0
    """The broker remembers what was acknowledged, until the subscription is deleted."""
    NonDurable = 1
    """The subscription ends with its last consumer, as a reader's does."""


class PartitionsRoutingMode(Choice):
    """The partition of a message without a key."""

    UseSinglePartition = 0
    RoundRobinDistribution = 1
    CustomPartition = 2
    """The partition that `message_router` returns. That argument alone selects this mode."""


class HashingScheme(Choice):
    """The hash that turns a key into a partition. All producers of a topic have to use the same.

    The official Python and C++ clients use BoostHash by default, the Java client JavaStringHash.
    """

    Murmur3_32Hash = 0
    BoostHash = 1
    JavaStringHash = 2


class BatchingType(Choice):
    """The messages of a batch: in the order of their sends, or with the same key, as KeyShared consumers need it."""

    Default = 0
    KeyBased = 1


class LoggerLevel(Choice):
    """The lowest level of lines that a logger writes."""

    Debug = 0
    Info = 1
    Warn = 2
    Error = 3


class KeySharedMode(Choice):
    """The division of keys among KeyShared consumers: by the broker, or by ranges that each consumer names."""

    AutoSplit = 0
    Sticky = 1


class ProducerAccessMode(Choice):
    """The access of a producer to its topic: shared with other producers, or exclusive."""

    Shared = 0
    Exclusive = 1
    """The producer is refused if there are others."""
    WaitForExclusive = 2
    """The producer waits without a limit until there are no others."""
    ExclusiveWithFencing = 3
    """The broker ends the other producers."""


class RegexSubscriptionMode(Choice):
    """The topics that a pattern may match."""

    PersistentOnly = 0
    NonPersistentOnly = 1
    AllTopics = 2


class ProducerCryptoFailureAction(Choice):
    """The handling of messages when the public keys cannot be had, so that there is nothing to encrypt them with."""

    FAIL = 0
    """No producer is created."""
    SEND = 1
    """They are sent unencrypted: anybody who may read the topic can read them. Each time is logged."""


class ConsumerCryptoFailureAction(Choice):
    """The handling of a message that cannot be decrypted."""

    FAIL = 0
    """It is not delivered, and not acknowledged."""
    DISCARD = 1
    """It is acknowledged without being delivered."""
    CONSUME = 2
    """It is delivered encrypted."""
