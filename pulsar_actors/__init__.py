"""An Apache Pulsar client: actors, explicit state machines, and a broker to test with.

    import pulsar_actors as pulsar

    client = pulsar.Client("pulsar://localhost:6650")

The names, arguments and defaults are those of the official Python client.
"""

from typing import TYPE_CHECKING

from pulsar_actors import schema
from pulsar_actors.client.authentication import (
    Authentication,
    AuthenticationBasic,
    AuthenticationTLS,
    AuthenticationToken,
)
from pulsar_actors.client.client import Client
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.encryption_context import EncryptionContext
from pulsar_actors.client.enums import (
    BatchingType,
    CompressionType,
    ConsumerCryptoFailureAction,
    ConsumerType,
    InitialPosition,
    KeySharedMode,
    LoggerLevel,
    PartitionsRoutingMode,
    ProducerAccessMode,
    RegexSubscriptionMode,
    Result,
)
from pulsar_actors.client.loggers import ConsoleLogger, FileLogger
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_batch import MessageBatch
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.not_yet import missing
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy, ConsumerDeadLetterPolicy, ConsumerKeySharedPolicy
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.reader import Reader
from pulsar_actors.client.schema import BytesSchema, Schema, StringSchema
from pulsar_actors.client.stats import ClientStats, ConsumerStats, ProducerStats, Rates
from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    AuthorizationError,
    BrokerMetadataError,
    BrokerPersistenceError,
    BrokerRefusal,
    ChecksumError,
    ConnectError,
    ConnectionLost,
    ConsumerAssignError,
    ConsumerBusy,
    ConsumerNotFound,
    ConsumerNotInitialized,
    CryptoError,
    CumulativeAcknowledgementNotAllowedError,
    ErrorGettingAuthenticationData,
    IncompatibleSchema,
    InternalError,
    Interrupted,
    InvalidArgument,
    InvalidConfiguration,
    InvalidMessage,
    InvalidTopicName,
    InvalidTxnStatusError,
    InvalidUrl,
    LimitReached,
    LookupError,
    LookupsRefused,
    MemoryBufferIsFull,
    MessageTooBig,
    Misdirected,
    NotAllowedError,
    NotConnected,
    OperationNotSupported,
    OutcomeUnknown,
    ProcessForked,
    ProducerBlockedQuotaExceededError,
    ProducerBlockedQuotaExceededException,
    ProducerBusy,
    ProducerFenced,
    ProducerNotInitialized,
    ProducerQueueIsFull,
    PulsarException,
    ReadError,
    ServiceUnitNotReady,
    SubscriptionNotFound,
    Timeout,
    TooManyLookupRequestException,
    TopicNameRefused,
    TopicNotFound,
    TopicTerminated,
    TransactionConflict,
    TransactionCoordinatorNotFoundError,
    TransactionNotFound,
    UnknownError,
    UnsupportedVersionError,
    WireError,
    WrongContent,
)
from pulsar_actors.version import __version__

__all__ = [
    "AlreadyClosed",
    "Authentication",
    "AuthenticationBasic",
    "AuthenticationError",
    "AuthenticationTLS",
    "AuthenticationToken",
    "AuthorizationError",
    "BatchingType",
    "BrokerMetadataError",
    "BrokerPersistenceError",
    "BrokerRefusal",
    "BytesSchema",
    "ChecksumError",
    "Client",
    "ClientStats",
    "CompressionType",
    "ConnectError",
    "ConnectionLost",
    "ConsoleLogger",
    "Consumer",
    "ConsumerAssignError",
    "ConsumerBatchReceivePolicy",
    "ConsumerBusy",
    "ConsumerCryptoFailureAction",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "ConsumerNotFound",
    "ConsumerNotInitialized",
    "ConsumerStats",
    "ConsumerType",
    "CryptoError",
    "CumulativeAcknowledgementNotAllowedError",
    "EncryptionContext",
    "ErrorGettingAuthenticationData",
    "FileLogger",
    "IncompatibleSchema",
    "InitialPosition",
    "InternalError",
    "Interrupted",
    "InvalidArgument",
    "InvalidConfiguration",
    "InvalidMessage",
    "InvalidTopicName",
    "InvalidTxnStatusError",
    "InvalidUrl",
    "KeySharedMode",
    "LimitReached",
    "LoggerLevel",
    "LookupError",
    "LookupsRefused",
    "MemoryBufferIsFull",
    "Message",
    "MessageBatch",
    "MessageId",
    "MessageTooBig",
    "Misdirected",
    "NotAllowedError",
    "NotConnected",
    "OperationNotSupported",
    "OutcomeUnknown",
    "PartitionsRoutingMode",
    "ProcessForked",
    "Producer",
    "ProducerAccessMode",
    "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException",
    "ProducerBusy",
    "ProducerFenced",
    "ProducerNotInitialized",
    "ProducerQueueIsFull",
    "ProducerStats",
    "PulsarException",
    "Rates",
    "ReadError",
    "Reader",
    "RegexSubscriptionMode",
    "Result",
    "Schema",
    "ServiceUnitNotReady",
    "StringSchema",
    "SubscriptionNotFound",
    "Timeout",
    "TooManyLookupRequestException",
    "TopicNameRefused",
    "TopicNotFound",
    "TopicTerminated",
    "TransactionConflict",
    "TransactionCoordinatorNotFoundError",
    "TransactionNotFound",
    "UnknownError",
    "UnsupportedVersionError",
    "WireError",
    "WrongContent",
    "__version__",
    "schema",
]

if not TYPE_CHECKING:  # which would take it for a promise that every name is there

    def __getattr__(name: str) -> object:
        """Say that a name is not there, and of the official client's that they are not there yet."""
        raise missing(__name__, name)
