"""What Pulsar's specification consists of, by the names it uses: its sections, and the fields and settings in each.

Three texts are taken together: the binary protocol as it is described today and as of 3.0, which differ in a few
fields, and the system overview, which says what users may expect. What has come to the protocol since, and is described
by the definitions of its messages alone, is the last part.

A test that shows one of these says so:

    @pytest.mark.shows("Command Send", "sequence_id", "num_messages")
    @pytest.mark.shows("Keep alive")

Each setting needs a test that names it, and so does a section without settings; others may be named as a whole too.
One of these tests runs on Apache Pulsar, if one by itself can show the thing, and else `alone` says why not; one runs
on the embedded broker, or `embedded` says why not. Transactions are not in these texts.
"""

from typing import NamedTuple

__all__ = ["PARTS", "Part", "Section"]

REDIRECTS = "one broker by itself has none to redirect to"
MIGRATES = "one cluster by itself has none to migrate to"
REPLICATES = "one cluster by itself has none to replicate to"
PROXY_ONLY = "the broker hears it from a proxy, never from a client"
TRANSACTIONS = "of transactions: see tests/real_broker/test_transactions.py"
UNUSED = "nobody sets it: it is reserved"
KNOWN = "Apache Pulsar refuses only consumers that it does not know"
NO_CLUSTER = "Apache Pulsar 4 has no names with a cluster any longer"


class Section(NamedTuple):
    """One section, its settings, and which of these a single Apache Pulsar or the embedded broker cannot show: why."""

    name: str
    settings: tuple[str, ...] = ()
    alone: dict[str, str] = {}  # noqa: RUF012 - never written to
    embedded: dict[str, str] = {}  # noqa: RUF012 - likewise

    @property
    def entries(self) -> tuple[tuple[str, str], ...]:
        """All that needs a test: each of its settings, or the section itself, which has no setting's name."""
        return tuple((self.name, setting) for setting in self.settings or ("",))


class Part(NamedTuple):
    """One of the texts."""

    title: str
    sections: tuple[Section, ...]


PROTOCOL = Part(
    "Binary protocol",
    (
        Section("Connection sharing"),
        Section("Framing", ("maximum frame size",)),
        Section("Simple commands", ("totalSize", "commandSize", "message")),
        Section(
            "Payload commands",
            (
                "totalSize",
                "commandSize",
                "message",
                "magicNumberOfBrokerEntryMetadata",
                "brokerEntryMetadataSize",
                "brokerEntryMetadata",
                "magicNumber",
                "checksum",
                "metadataSize",
                "metadata",
                "payload",
            ),
        ),
        Section("Broker entry metadata", ("broker_timestamp", "index")),
        Section(
            "Message metadata",
            (
                "producer_name",
                "sequence_id",
                "publish_time",
                "properties",
                "replicated_from",
                "partition_key",
                "compression",
                "uncompressed_size",
                "num_messages_in_batch",
            ),
            {"replicated_from": REPLICATES},
        ),
        Section(
            "Batch messages",
            ("metadataSizeN", "metadataN", "payloadN", "properties", "partition key", "payload_size", "compression"),
        ),
        Section(
            "Connection establishment",
            (
                "client_version",
                "auth_method_name",
                "auth_data",
                "protocol_version",
                "original_principal",
                "original_auth_method",
                "original_auth_data",
                "proxy_version",
                "server_version",
                "newer commands are not sent",
                "Error",
            ),
            {"newer commands are not sent": "one that is new enough for all commands cannot show it"},
        ),
        Section("Keep alive", ("Ping", "Pong")),
        Section("Producer", ("lookup first", "close before creating again")),
        Section("Command Producer", ("topic", "producer_id", "request_id", "producer_name")),
        Section("Command ProducerSuccess", ("request_id", "producer_name")),
        Section("Command Send", ("producer_id", "sequence_id", "num_messages")),
        Section("Command SendReceipt", ("producer_id", "sequence_id", "message_id")),
        Section("Command CloseProducer", ("from the client", "from the broker")),
        Section("Consumer", ("lookup first", "close before creating again")),
        Section("Flow control", ("half of the queue",)),
        Section(
            "Command Subscribe", ("topic", "subscription", "subType", "consumer_id", "request_id", "consumer_name")
        ),
        Section("Command Flow", ("consumer_id", "messagePermits")),
        Section("Command Message", ("consumer_id", "message_id")),
        Section(
            "Command Ack",
            (
                "consumer_id",
                "ack_type",
                "message_id",
                "validation_error",
                "UncompressedSizeCorruption",
                "DecompressionError",
                "ChecksumMismatch",
                "BatchDeSerializeError",
                "properties",
                "txnid_most_bits",
                "txnid_least_bits",
                "request_id",
            ),
            {"properties": UNUSED, "txnid_most_bits": TRANSACTIONS, "txnid_least_bits": TRANSACTIONS},
            {"properties": UNUSED, "txnid_most_bits": TRANSACTIONS, "txnid_least_bits": TRANSACTIONS},
        ),
        Section("Command AckResponse", ("consumer_id", "request_id", "error"), {"error": "Apache Pulsar refuses none"}),
        Section("Command CloseConsumer", ("from the client", "from the broker")),
        Section("Command RedeliverUnacknowledgedMessages", ("message_ids", "all", "spread across the consumers")),
        Section("Command ReachedEndOfTopic"),
        Section("Command ConsumerStats", ("request_id", "consumer_id")),
        Section(
            "Command ConsumerStatsResponse",
            ("error_code", "error_message"),
            dict.fromkeys(
                ("error_code", "error_message"), "Apache Pulsar refuses only consumers that it does not know"
            ),
        ),
        Section("Command Unsubscribe", ("request_id", "consumer_id")),
        Section("Topic lookup", ("topic", "request_id", "authoritative", "HTTP"), {"authoritative": REDIRECTS}),
        Section(
            "Command LookupTopicResponse",
            ("Connect", "Redirect", "brokerServiceUrl", "brokerServiceUrlTls", "authoritative"),
            {"Redirect": REDIRECTS, "authoritative": REDIRECTS},
        ),
        Section("Partitioned topics discovery", ("partition-X", "only the first time")),
        Section("Command PartitionedTopicMetadata", ("topic", "request_id")),
        Section("Command PartitionedTopicMetadataResponse", ("partitions",)),
        Section("Protobuf interface"),
    ),
)

OVERVIEW = Part(
    "System overview",
    (
        Section("Topic", ("created by use",)),
        Section("Subscription", ("durable", "backlog while nobody is attached", "unsubscribe")),
        Section("Exclusive", ("a second consumer is refused", "distinct subscriptions")),
        Section("Shared", ("round robin", "what a consumer leaves goes to others")),
        Section("Failover", ("sorted by name", "the next in line", "what was not acknowledged goes along")),
        Section(
            "Property and namespace",
            ("property", "namespace", "cluster"),
            {"cluster": NO_CLUSTER},
            {"cluster": NO_CLUSTER},
        ),
        Section("Producing", ("synchronous", "asynchronous", "block or fail when the queue is full")),
        Section("Compression", ("LZ4", "ZLIB")),
        Section("Batching", ("maximum messages", "maximum latency")),
        Section("Consuming", ("synchronous", "asynchronous", "individual", "cumulative", "listener")),
        Section("Cumulative acknowledgement", ("not on a shared subscription",)),
        Section(
            "Partitioned topic",
            ("key hash", "single default partition", "round robin distribution", "custom routing policy"),
        ),
        Section("Persistence", ("persistent", "non-persistent")),
        Section("Replication", ("replication clusters",)),
        Section("Authentication and authorisation", ("authentication", "authorisation")),
        Section(
            "Client library",
            ("transparent reconnection", "queuing until acknowledged", "backoff"),
            {"backoff": "who cannot be reached is no broker of any kind"},
        ),
        Section("Client setup phase", ("lookup", "connection", "authentication")),
        Section(
            "ClientConfiguration",
            (
                "authentication",
                "operationTimeout",
                "ioThreads",
                "listenerThreads",
                "connectionsPerBroker",
                "useTcpNoDelay",
            ),
        ),
        Section("ConsumerConfiguration", ("ackTimeout", "subscriptionType", "messageListener", "receiverQueueSize")),
        Section(
            "ProducerConfiguration",
            (
                "sendTimeout",
                "maxPendingMessages",
                "blockIfQueueFull",
                "messageRoutingMode",
                "compressionType",
                "messageRouter",
                "batchingEnabled",
                "batchingMaxPublishDelay",
                "batchingMaxMessages",
            ),
        ),
    ),
)

SINCE = Part(
    "Since then",
    (
        Section(
            "Feature flags",
            (
                "supports_auth_refresh",
                "supports_broker_entry_metadata",
                "supports_partial_producer",
                "supports_topic_watchers",
            ),
        ),
        Section("Command Connect", ("proxy_to_broker_url",)),
        Section("Command Connected", ("max_message_size",)),
        Section("Command AuthChallenge"),
        Section("Command AuthResponse"),
        Section(
            "Command Producer",
            (
                "epoch",
                "metadata",
                "user_provided_producer_name",
                "producer_access_mode",
                "topic_epoch",
                "initial_subscription_name",
                "encrypted",
            ),
        ),
        Section("Command ProducerSuccess", ("last_sequence_id", "producer_ready", "topic_epoch")),
        Section("Command Send", ("highest_sequence_id", "is_chunk")),
        Section(
            "Command SendError",
            ("ChecksumError", "NotAllowedError", "TopicTerminatedError"),
            {
                "TopicTerminatedError": "Apache Pulsar sends its producers away instead",
            },
        ),
        Section(
            "Command Subscribe",
            (
                "priority_level",
                "durable",
                "start_message_id",
                "metadata",
                "read_compacted",
                "initialPosition",
                "replicate_subscription_state",
                "keySharedMeta",
                "subscription_properties",
                "consumer_epoch",
            ),
        ),
        Section("Command Message", ("redelivery_count", "ack_set", "consumer_epoch")),
        Section("Command Seek", ("message_id", "message_publish_time")),
        Section("Command GetLastMessageId", ("consumer_mark_delete_position",)),
        Section("Command ActiveConsumerChange"),
        Section("Command Unsubscribe", ("force",)),
        Section("Command CloseProducer", ("assignedBrokerServiceUrl",), {"assignedBrokerServiceUrl": REDIRECTS}),
        Section("Command CloseConsumer", ("assignedBrokerServiceUrl",), {"assignedBrokerServiceUrl": REDIRECTS}),
        Section("Command TopicMigrated", (), {"": MIGRATES}),
        Section("Command LookupTopic", ("advertised_listener_name",)),
        Section("Command LookupTopicResponse", ("proxy_through_service_url",)),
        Section("Command GetTopicsOfNamespace", ("namespace", "mode")),
        Section("Command WatchTopicList"),
        Section("Command WatchTopicUpdate", ("new_topics", "deleted_topics")),
        Section(
            "Message metadata",
            (
                "deliver_at_time",
                "event_time",
                "ordering_key",
                "replicate_to",
                "null_value",
                "uuid",
                "chunk_id",
                "num_chunks_from_msg",
                "total_chunk_msg_size",
                "highest_sequence_id",
                "encryption_keys",
                "encryption_algo",
                "encryption_param",
            ),
            {"encryption_algo": "no client sets it"},
        ),
    ),
)

PARTS = (PROTOCOL, OVERVIEW, SINCE)
