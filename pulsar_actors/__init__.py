"""An Apache Pulsar client: actors, explicit state machines, and a broker to test with.

    import pulsar_actors as pulsar

    client = pulsar.Client("pulsar://localhost:6650")

The names, arguments and defaults are those of the official Python client.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING

from pulsar_actors import schema
from pulsar_actors.client.authentication import (
    Authentication,
    AuthenticationAthenz,
    AuthenticationBasic,
    AuthenticationOauth2,
    AuthenticationTLS,
    AuthenticationToken,
)
from pulsar_actors.client.client import Client
from pulsar_actors.client.crypto_key_reader import (
    CryptoKeyReader,
    EncryptionKeyInfo,
    EncryptionKeyReader,
    NamedCryptoKeyReader,
)
from pulsar_actors.client.enums import (
    BatchingType,
    CompressionType,
    ConsumerCryptoFailureAction,
    ConsumerType,
    HashingScheme,
    InitialPosition,
    KeySharedMode,
    LoggerLevel,
    PartitionsRoutingMode,
    ProducerAccessMode,
    ProducerCryptoFailureAction,
    RegexSubscriptionMode,
    Result,
    SubscriptionMode,
)
from pulsar_actors.client.interceptors import MessageToSend, ProducerInterceptor
from pulsar_actors.client.message import EncryptionContext, EncryptionKey, Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.rates import Rates
from pulsar_actors.client.schema import BytesSchema, Schema, StringSchema
from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    AuthorizationError,
    BrokerMetadataError,
    BrokerPersistenceError,
    BrokerRefusal,
    CertificateRefused,
    ChecksumError,
    ConnectError,
    ConnectionLost,
    ConnectTimeout,
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
    ListenerNotFound,
    LookupError,
    LookupsRefused,
    MemoryBufferIsFull,
    MessageTooBig,
    MessageTooBigBeforeReceipt,
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
    ProducerFencedBeforeReceipt,
    ProducerNotInitialized,
    ProducerQueueIsFull,
    PulsarException,
    ReadError,
    SendManyFailed,
    ServiceUnitNotReady,
    SubscriptionNotFound,
    Timeout,
    TooManyLookupRequestException,
    TopicNameRefused,
    TopicNotFound,
    TopicNotFoundBeforeReceipt,
    TopicTerminated,
    TopicTerminatedBeforeReceipt,
    TransactionConflict,
    TransactionCoordinatorNotFoundError,
    TransactionHasOperationFailed,
    TransactionNotFound,
    UndecodableMessage,
    UnknownError,
    UnsupportedVersionError,
    WireError,
    WrongContent,
)
from pulsar_actors.free_threading import warn_if_free_threaded
from pulsar_actors.version import __version__

__all__ = [
    "AlreadyClosed",
    "Authentication",
    "AuthenticationAthenz",
    "AuthenticationBasic",
    "AuthenticationError",
    "AuthenticationOauth2",
    "AuthenticationTLS",
    "AuthenticationToken",
    "AuthorizationError",
    "AutoClusterFailover",
    "BatchingType",
    "BrokerConsumerStats",
    "BrokerMetadataError",
    "BrokerPersistenceError",
    "BrokerRefusal",
    "BytesSchema",
    "CertificateRefused",
    "ChecksumError",
    "Client",
    "ClientStats",
    "CompressionType",
    "ConnectError",
    "ConnectTimeout",
    "ConnectionLost",
    "ConsoleLogger",
    "Consumer",
    "ConsumerAssignError",
    "ConsumerBatchReceivePolicy",
    "ConsumerBusy",
    "ConsumerCryptoFailureAction",
    "ConsumerDeadLetterPolicy",
    "ConsumerEventListener",
    "ConsumerInterceptor",
    "ConsumerKeySharedPolicy",
    "ConsumerNotFound",
    "ConsumerNotInitialized",
    "ConsumerStats",
    "ConsumerType",
    "Context",
    "CryptoError",
    "CryptoKeyReader",
    "CumulativeAcknowledgementNotAllowedError",
    "EncryptionContext",
    "EncryptionKey",
    "EncryptionKeyInfo",
    "EncryptionKeyReader",
    "ErrorGettingAuthenticationData",
    "FileLogger",
    "Function",
    "HashingScheme",
    "History",
    "IdentitySerDe",
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
    "ListenerNotFound",
    "LoggerLevel",
    "LookupError",
    "LookupsRefused",
    "MemoryBufferIsFull",
    "Message",
    "MessageBatch",
    "MessageId",
    "MessageToSend",
    "MessageTooBig",
    "MessageTooBigBeforeReceipt",
    "Misdirected",
    "MultiplierRedeliveryBackoff",
    "NamedCryptoKeyReader",
    "NotAllowedError",
    "NotConnected",
    "OperationNotSupported",
    "OutcomeUnknown",
    "PartitionsRoutingMode",
    "PickleSerDe",
    "ProcessForked",
    "Producer",
    "ProducerAccessMode",
    "ProducerBlockedQuotaExceededError",
    "ProducerBlockedQuotaExceededException",
    "ProducerBusy",
    "ProducerCryptoFailureAction",
    "ProducerFenced",
    "ProducerFencedBeforeReceipt",
    "ProducerInterceptor",
    "ProducerNotInitialized",
    "ProducerQueueIsFull",
    "ProducerStats",
    "PulsarException",
    "Rates",
    "ReadError",
    "Reader",
    "ReaderInterceptor",
    "RegexSubscriptionMode",
    "Result",
    "Schema",
    "SendManyFailed",
    "SerDe",
    "ServiceInfo",
    "ServiceInfoProvider",
    "ServiceUnitNotReady",
    "StateChange",
    "StringSchema",
    "SubscriptionMode",
    "SubscriptionNotFound",
    "TableView",
    "Timeout",
    "TooManyLookupRequestException",
    "TopicNameRefused",
    "TopicNotFound",
    "TopicNotFoundBeforeReceipt",
    "TopicTerminated",
    "TopicTerminatedBeforeReceipt",
    "Transaction",
    "TransactionConflict",
    "TransactionCoordinatorNotFoundError",
    "TransactionHasOperationFailed",
    "TransactionNotFound",
    "TransactionState",
    "UndecodableMessage",
    "UnknownError",
    "UnsupportedVersionError",
    "WireError",
    "WrongContent",
    "__version__",
    "decrypt",
    "functions",
    "schema",
    "tableview",
]

warn_if_free_threaded()

if TYPE_CHECKING:
    from pulsar_actors import functions, tableview
    from pulsar_actors.client.consumer import Consumer
    from pulsar_actors.client.decrypt import decrypt
    from pulsar_actors.client.history import History, StateChange
    from pulsar_actors.client.interceptors import ConsumerEventListener, ConsumerInterceptor, ReaderInterceptor
    from pulsar_actors.client.logger_options import ConsoleLogger, FileLogger
    from pulsar_actors.client.message import MessageBatch
    from pulsar_actors.client.policies import (
        ConsumerBatchReceivePolicy,
        ConsumerDeadLetterPolicy,
        ConsumerKeySharedPolicy,
        MultiplierRedeliveryBackoff,
    )
    from pulsar_actors.client.reader import Reader
    from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo, ServiceInfoProvider
    from pulsar_actors.client.stats import BrokerConsumerStats, ClientStats, ConsumerStats, ProducerStats
    from pulsar_actors.client.table_view import TableView
    from pulsar_actors.client.transaction import Transaction, TransactionState
    from pulsar_actors.functions import Context, Function, IdentitySerDe, PickleSerDe, SerDe
else:  # with a __getattr__, type checkers would accept every name
    _ON_DEMAND = {
        "AutoClusterFailover": "service_info",
        "BrokerConsumerStats": "stats",
        "ClientStats": "stats",
        "ConsoleLogger": "logger_options",
        "Consumer": "consumer",
        "ConsumerBatchReceivePolicy": "policies",
        "ConsumerDeadLetterPolicy": "policies",
        "ConsumerEventListener": "interceptors",
        "ConsumerInterceptor": "interceptors",
        "ConsumerKeySharedPolicy": "policies",
        "ConsumerStats": "stats",
        "FileLogger": "logger_options",
        "History": "history",
        "MessageBatch": "message",
        "MultiplierRedeliveryBackoff": "policies",
        "ProducerStats": "stats",
        "Reader": "reader",
        "ReaderInterceptor": "interceptors",
        "ServiceInfo": "service_info",
        "ServiceInfoProvider": "service_info",
        "StateChange": "history",
        "TableView": "table_view",
        "Transaction": "transaction",
        "TransactionState": "transaction",
        "decrypt": "decrypt",
    }
    """Names that a program which only sends may not need, and their modules of `client`: half of the package."""

    _FUNCTIONS = frozenset({"Context", "Function", "IdentitySerDe", "PickleSerDe", "SerDe"})
    _SUBMODULES = frozenset({"asyncio", "functions", "tableview"})

    def __getattr__(name: str) -> object:
        """Load a name on its first use."""
        if name in _SUBMODULES:
            return import_module(f"{__name__}.{name}")
        if name in _FUNCTIONS:
            return getattr(import_module(f"{__name__}.functions"), name)
        module = _ON_DEMAND.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
        return getattr(import_module(f"{__name__}.client.{module}"), name)

    def __dir__() -> list[str]:
        """List all names, loaded or not."""
        return sorted({*globals(), *_ON_DEMAND, *_FUNCTIONS, *_SUBMODULES})
