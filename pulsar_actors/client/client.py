"""The client, which creates producers, consumers and readers.

Most of this file explains the arguments, which are those of the official client. They become options, which check them.
`shutdown.py` closes a client.

Consumers and readers need half of the package. It is loaded with the first of them, so that a program that only sends
starts sooner.
"""

import re
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from logging import Logger
from typing import TYPE_CHECKING, Any

from pulsar_actors.client import loggers
from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.create_producer import create_producer, partition_names
from pulsar_actors.client.crypto_key_reader import EncryptionKeyReader
from pulsar_actors.client.enums import (
    BatchingType,
    CompressionType,
    ConsumerCryptoFailureAction,
    ConsumerType,
    HashingScheme,
    InitialPosition,
    PartitionsRoutingMode,
    ProducerAccessMode,
    ProducerCryptoFailureAction,
    RegexSubscriptionMode,
    SubscriptionMode,
)
from pulsar_actors.client.handle import Closeable
from pulsar_actors.client.interceptors import ProducerInterceptor
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.open_handles import OpenHandles
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.client.service_switch import ServiceSwitch
from pulsar_actors.client.shutdown import JOIN_TIME, ClientShutdown, shut_down_abandoned
from pulsar_actors.client.validation import arguments_of
from pulsar_actors.client.validation import topic as check_topic
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.fork import forget_on_fork
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.version import __version__

if TYPE_CHECKING:
    from pulsar_actors.client.consumer import Consumer
    from pulsar_actors.client.consumer_options import ConsumerOptions
    from pulsar_actors.client.history import History
    from pulsar_actors.client.inspection import FaultyBroker, Inspector
    from pulsar_actors.client.interceptors import ConsumerEventListener, ConsumerInterceptor, ReaderInterceptor
    from pulsar_actors.client.logger_options import ConsoleLogger, FileLogger
    from pulsar_actors.client.policies import (
        ConsumerBatchReceivePolicy,
        ConsumerDeadLetterPolicy,
        ConsumerKeySharedPolicy,
        MultiplierRedeliveryBackoff,
    )
    from pulsar_actors.client.reader import Reader
    from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo, ServiceInfoProvider
    from pulsar_actors.client.stats import ClientStats
    from pulsar_actors.client.table_view import TableView
    from pulsar_actors.client.telemetry import ClientTelemetry
    from pulsar_actors.client.transaction import Transaction

MessageListener = Callable[[Any, Message], object]


class Client(Closeable):
    """A connection to a Pulsar cluster, for any number of producers, consumers and readers, and any number of threads.

    They share its connections and its threads. `close`, or the end of a `with` block, closes the client with all its
    producers, consumers and readers. A client cannot be used in a process that was forked after the client was made:
    make another client there.
    """

    def __init__(
        self,
        service_url: "str | AutoClusterFailover | ServiceInfoProvider",
        authentication: Authentication | None = None,
        operation_timeout_seconds: float = 30,
        io_threads: int = 1,
        message_listener_threads: int = 1,
        concurrent_lookup_requests: int = 50000,
        log_conf_file_path: str | None = None,
        stats_interval_in_seconds: int = 600,
        use_tls: bool = False,
        tls_trust_certs_file_path: str | None = None,
        tls_allow_insecure_connection: bool = False,
        tls_validate_hostname: bool = True,
        logger: "Logger | ConsoleLogger | FileLogger | None" = None,
        connection_timeout_ms: int = 10000,
        listener_name: str | None = None,
        tls_private_key_file_path: str | None = None,
        tls_certificate_file_path: str | None = None,
        *,
        connections_per_broker: int = 1,
        keep_alive_interval_seconds: float = 30,
        connection_max_idle_seconds: float = 60,
        tcp_no_delay: bool = True,
        initial_backoff_interval_ms: int = 100,
        max_backoff_interval_ms: int = 60000,
        memory_limit_bytes: int = 0,
        partitions_update_interval: float = 60,
        telemetry: "ClientTelemetry | None" = None,
    ) -> None:
        """Make a client. It connects when a connection is first needed. Seconds may have a fraction.

        service_url
            `pulsar://host:6650`, or `pulsar+ssl://host:6651` for an encrypted connection; several hosts are separated
            by commas and tried in turn. `http://host:8080` or `https://host:8443` for lookups over HTTP, at the web
            port: credentials go to the hosts that are named here, and follow no redirect to others. Or an
            `AutoClusterFailover` or a `ServiceInfoProvider`: then the cluster can change while the client runs.
        authentication = None
            Credentials: `AuthenticationToken`, `AuthenticationTLS`, `AuthenticationBasic`, `AuthenticationOauth2` or
            your own.
        operation_timeout_seconds = 30
            Seconds for calls such as creating, closing and seeking, including retries. Creating has two steps with so
            many seconds each: first a broker is asked for the partitions.
        io_threads = 1
            Threads for the connections to brokers. One is enough for almost all programs.
        message_listener_threads = 1
            Threads that call message listeners; each consumer uses one of them.
        concurrent_lookup_requests = 50000
            Concurrent lookups; over HTTP, 8 at most are sent at once. Further ones wait, up to 50,000 in all, and any
            beyond that fail at once.
        log_conf_file_path = None
            Without effect, as in the official client.
        stats_interval_in_seconds = 600
            Without effect: statistics are not logged. Call `stats()` at any time.
        use_tls = False
            Without effect: the scheme of the URL decides. True is refused together with a URL that does not encrypt.
        tls_trust_certs_file_path = None
            A file of certificates (PEM) to trust, instead of the usual ones, for brokers and for the issuer of OAuth2
            tokens. If this file or the two below change, later connections read them again.
        tls_allow_insecure_connection = False
            Accept any certificate. Then anybody between client and broker can read and change the data.
        tls_validate_hostname = True
            Require that the certificate is for the host. On by default, unlike in the official client.
        logger = None
            A `logging.Logger`, a `ConsoleLogger` or a `FileLogger` for log lines. By default they go to the logger
            `pulsar_actors`, which is silent unless your program sets up logging.
        connection_timeout_ms = 10000
            Milliseconds for opening a connection, for each host.
        listener_name = None
            The name of the brokers' advertised listener to connect to.
        tls_private_key_file_path = None
        tls_certificate_file_path = None
            Files (PEM) with the certificate that the client shows, and its unencrypted key. Without a file for the key,
            it is read from the certificate's file. If brokers authenticate clients by the certificate, use
            `AuthenticationTLS` instead.
        connections_per_broker = 1
            The number of connections to one broker, which producers and consumers share.
        keep_alive_interval_seconds = 30
            Seconds between pings on each connection. A connection without an answer by the next ping counts as lost.
        connection_max_idle_seconds = 60
            Seconds for which an unused connection is kept, `operation_timeout_seconds` at least; 0: for ever.
        tcp_no_delay = True
            Send small writes at once (TCP_NODELAY). Otherwise the system may hold them back for more bytes.
        initial_backoff_interval_ms = 100
        max_backoff_interval_ms = 60000
            The first and the longest wait before a retry, in milliseconds.
        memory_limit_bytes = 0
            The most bytes of pending messages of all producers together; 0: no limit. At the limit, a further message
            raises MemoryBufferIsFull, or waits if its producer has `block_if_queue_full`. Messages of consumers do not
            count: their queues have separate limits.
        partitions_update_interval = 60
            Seconds between two checks for new partitions, by producers, consumers and readers of partitioned topics; 0:
            no checks.
        telemetry = None
            A `pulsar_actors.otel.Telemetry`: metrics, and traces if you wish, for OpenTelemetry.
        """
        options = ClientOptions(**arguments_of(locals()))
        engine = ThreadEngine(options.io_threads, options.message_listener_threads)
        try:
            self._begin(options, engine)
        except BaseException:
            engine.stop(JOIN_TIME)
            raise

    @classmethod
    def on(cls, engine: Engine, options: ClientOptions) -> "Client":
        """Make a client on another engine, such as a simulated one."""
        client = cls.__new__(cls)
        client._begin(options, engine)  # noqa: SLF001 - it is this class's own
        return client

    def _begin(self, options: ClientOptions, engine: Engine) -> None:
        self._options = options
        self._engine = engine
        with ExitStack() as undo:
            self._service_switch = ServiceSwitch(options)
            undo.callback(self._service_switch.close)
            log = loggers.add_log_destination(options.logger)
            undo.callback(log.detach)
            self._context = ClientContext(
                engine,
                self._service_switch.options,
                f"pulsar_actors-{__version__}",
                service_can_change=not isinstance(options.service_url, str),
            )
            undo.pop_all()
        self._open_handles = OpenHandles()
        self._shutdown = ClientShutdown(
            engine, self._context, self._open_handles, log, float(options.operation_timeout_seconds)
        )
        self._finalizer = weakref.finalize(
            self, shut_down_abandoned, self._context.guardian, engine, log, self._service_switch
        )
        self._finalizer.atexit = False
        forget_on_fork(self)
        try:
            context = self._context
            self._service_switch.start(context.guardian, context.registrations, context.counters)
        except BaseException:
            self.shutdown()
            raise

    # Producers, consumers and readers.

    def create_producer(
        self,
        topic: str,
        producer_name: str | None = None,
        schema: Schema = BYTES,
        initial_sequence_id: int | None = None,
        send_timeout_millis: int = 30000,
        compression_type: CompressionType = CompressionType.NONE,
        max_pending_messages: int = 1000,
        max_pending_messages_across_partitions: int = 50000,
        block_if_queue_full: bool = False,
        batching_enabled: bool = False,
        batching_max_messages: int = 1000,
        batching_max_allowed_size_in_bytes: int = 128 * 1024,
        batching_max_publish_delay_ms: int = 10,
        chunking_enabled: bool = False,
        message_routing_mode: PartitionsRoutingMode = PartitionsRoutingMode.RoundRobinDistribution,
        lazy_start_partitioned_producers: bool = False,
        properties: dict[str, str] | None = None,
        batching_type: BatchingType = BatchingType.Default,
        encryption_key: str | None = None,
        crypto_key_reader: EncryptionKeyReader | None = None,
        access_mode: ProducerAccessMode = ProducerAccessMode.Shared,
        message_router: Callable[[Message, int], int] | None = None,
        *,
        hashing_scheme: HashingScheme = HashingScheme.BoostHash,
        chunk_max_message_size: int = -1,
        interceptors: Sequence[ProducerInterceptor] = (),
        encryption_keys: Sequence[str] = (),
        crypto_failure_action: ProducerCryptoFailureAction = ProducerCryptoFailureAction.FAIL,
    ) -> Producer:
        """Make a producer of a topic. A missing topic is created if the cluster allows that.

        topic
            `orders`, `tenant/namespace/orders`, or the complete name.
        producer_name = None
            A name that no other producer of the topic has, and that does not end with `/chunks`. By default the broker
            chooses one.
        schema = BytesSchema()
            Encodes the content of messages as bytes.
        initial_sequence_id = None
            The last sequence id that counts as used: the first message gets the next one. None or -1: the last one that
            the broker has stored of the producer's name, if it removes duplicates.
        send_timeout_millis = 30000
            Milliseconds that a message may be pending. After that it fails, and with it all later messages; 0: no
            limit.
        compression_type = CompressionType.NONE
            LZ4, ZLib, ZSTD or SNAPPY.
        max_pending_messages = 1000
            The most pending messages; 0: no limit. One more raises ProducerQueueIsFull, or waits for room: see
            `block_if_queue_full`.
        max_pending_messages_across_partitions = 50000
            The most pending messages of a partitioned topic. Each partition gets an equal share of this number, if that
            is less than `max_pending_messages`. 0: no limit.
        block_if_queue_full = False
            Let `send` and `send_async` wait for room instead of raising ProducerQueueIsFull, or MemoryBufferIsFull.
        batching_enabled = False
            Send messages of `send_async` in batches, which is much faster. A batch is sent when it has as many messages
            or bytes, or is as old, as the next three arguments say.
        batching_max_messages = 1000
        batching_max_allowed_size_in_bytes = 131072
        batching_max_publish_delay_ms = 10
        chunking_enabled = False
            Send a message that is too large for the broker in several pieces. Not possible with batching.
        message_routing_mode = PartitionsRoutingMode.RoundRobinDistribution
            The partition of a message without a key. RoundRobinDistribution: all partitions in turn, a batch at a time.
            UseSinglePartition: always the same one. CustomPartition: the one that `message_router` returns. Messages
            with the same key go to the same partition.
        lazy_start_partitioned_producers = False
            Create only the producer of one partition at first. The others are created by the first message for their
            partition. Only with ProducerAccessMode.Shared.
        properties = None
            Shown by the broker's statistics: a dict of str.
        batching_type = BatchingType.Default
            With KeyBased, all messages of a batch have the same key, as KeyShared subscriptions need it.
        encryption_key = None
        crypto_key_reader = None
            Encrypt messages, so that only consumers with the private key of this name can read them. The reader reads
            the public key: see `CryptoKeyReader` and `EncryptionKeyReader`. If that fails, CryptoError is raised.
        access_mode = ProducerAccessMode.Shared
            Shared: other producers may publish to the topic as well. Exclusive: no other producer may publish; if there
            is one already, ProducerFenced is raised. WaitForExclusive: exclusive, but `create_producer` waits without a
            limit until there is no other producer. ExclusiveWithFencing: exclusive, and the broker ends the others. Of
            a topic with partitions, two that wait may each get some, and then wait for ever: use Exclusive there, and
            try again.
        message_router = None
            A function that is called with each message, as a `Message`, and the number of partitions. It returns the
            number of the partition, from 0 on, also for messages with a key. It is called in the thread that sends.
        hashing_scheme = HashingScheme.BoostHash
            The hash function that maps a key to a partition. All producers of a topic have to use the same: BoostHash
            is the default of the official Python and C++ clients, JavaStringHash that of the Java client.
        chunk_max_message_size = -1
            With chunking, the most bytes in one piece; 0 or less: as many as the broker takes. Over a slow link, one
            must take less than half a minute: see `docs/large-messages.md`.
        interceptors = ()
            Objects that see, and may change, the messages that are sent: see `ProducerInterceptor`.
        encryption_keys = ()
            The names of further keys: a consumer needs the private key of one of them, or of `encryption_key`.
        crypto_failure_action = ProducerCryptoFailureAction.FAIL
            What is done if a public key cannot be had. With SEND, messages are sent unencrypted.
        """
        options = ProducerOptions(**arguments_of(locals()))
        self._shutdown.refuse("create_producer()")
        return create_producer(self._context, self._open_handles, options, self)

    def subscribe(
        self,
        topic: str | list[str] | re.Pattern[str],
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema = BYTES,
        message_listener: MessageListener | None = None,
        receiver_queue_size: int = 1000,
        max_total_receiver_queue_size_across_partitions: int = 50000,
        consumer_name: str | None = None,
        unacked_messages_timeout_ms: int | None = None,
        broker_consumer_stats_cache_time_ms: int = 30000,
        negative_ack_redelivery_delay_ms: int = 60000,
        is_read_compacted: bool = False,
        properties: dict[str, str] | None = None,
        pattern_auto_discovery_period: int = 60,
        initial_position: InitialPosition = InitialPosition.Latest,
        crypto_key_reader: EncryptionKeyReader | None = None,
        replicate_subscription_state_enabled: bool = False,
        max_pending_chunked_message: int = 10,
        auto_ack_oldest_chunked_message_on_queue_full: bool = False,
        start_message_id_inclusive: bool = False,
        batch_receive_policy: "ConsumerBatchReceivePolicy | None" = None,
        key_shared_policy: "ConsumerKeySharedPolicy | None" = None,
        batch_index_ack_enabled: bool = False,
        regex_subscription_mode: RegexSubscriptionMode = RegexSubscriptionMode.PersistentOnly,
        dead_letter_policy: "ConsumerDeadLetterPolicy | None" = None,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
        *,
        ack_receipt_enabled: bool = False,
        ack_grouping_time_ms: int = 100,
        ack_grouping_max_size: int = 1000,
        negative_ack_redelivery_backoff: "MultiplierRedeliveryBackoff | None" = None,
        ack_timeout_redelivery_backoff: "MultiplierRedeliveryBackoff | None" = None,
        expire_time_of_incomplete_chunked_message_ms: int = 60000,
        priority_level: int = 0,
        subscription_mode: SubscriptionMode = SubscriptionMode.Durable,
        subscription_properties: dict[str, str] | None = None,
        start_paused: bool = False,
        consumer_event_listener: "ConsumerEventListener | None" = None,
        interceptors: "Sequence[ConsumerInterceptor]" = (),
        enable_retry: bool = False,
    ) -> "Consumer":
        """Subscribe to a topic. A missing subscription is created, and a missing topic if the cluster allows that.

        topic
            `orders`, `tenant/namespace/orders`, or the complete name; a list of topics; or a compiled pattern, which is
            written like a name and must match the whole name: `re.compile("public/default/orders-.*")`. A str is always
            the name of one topic. A pattern matches partitioned topics, not their partitions. Topics that match a
            pattern may be created and deleted meanwhile. Each message and each message id has its `topic_name()`.
        subscription_name
            The name under which the broker remembers what was acknowledged.
        consumer_type = ConsumerType.Exclusive
            Exclusive: only one consumer. Failover: one consumer at a time receives. Shared: each message goes to one of
            all consumers. KeyShared: messages with the same key go to the same consumer.
        schema = BytesSchema()
            Turns the bytes of messages into `Message.value()`.
        message_listener = None
            Called with the consumer and each message, on a listener thread; then there is nothing to `receive`.
        receiver_queue_size = 1000
            The most messages that wait in the client for `receive`. 0: messages are requested one at a time, which is
            possible for a single topic only.
        max_total_receiver_queue_size_across_partitions = 50000
            The most messages that wait in the client, for several topics or partitions together. Each gets an equal
            share of this number, if that is less than `receiver_queue_size`.
        consumer_name = None
            Shown by the broker's statistics.
        unacked_messages_timeout_ms = None
            Milliseconds after which an unacknowledged message is delivered again; None or 0: never, while the consumer
            is open.
        broker_consumer_stats_cache_time_ms = 30000
            Milliseconds for which `get_broker_consumer_stats()` returns the broker's last answer.
        negative_ack_redelivery_delay_ms = 60000
            Milliseconds before a negatively acknowledged message is redelivered. One of a batch comes sooner if another
            message of the batch does, because its acknowledgement is overdue: brokers deliver whole batches.
        is_read_compacted = False
            Read the compacted version of the topic: the last message of each key. When messages are redelivered, those
            that are on their way come twice, first before the redelivered ones: brokers do not tell which these are.
        properties = None
            Shown by the broker's statistics: a dict of str.
        pattern_auto_discovery_period = 60
            Seconds between two searches for topics that match a pattern. They are also the checks for new partitions,
            which `partitions_update_interval` may ask for more often.
        initial_position = InitialPosition.Latest
            The start of a new subscription: Latest, or Earliest for all messages that the topic still has. It also
            applies to topics that match a pattern later: with Latest, their messages from before they were discovered
            are not received.
        crypto_key_reader = None
            Decrypts messages: it reads the private keys. See `CryptoKeyReader` and `EncryptionKeyReader`.
        replicate_subscription_state_enabled = False
            Let the brokers replicate the state of the subscription between clusters.
        max_pending_chunked_message = 10
            Chunked messages that are put together at once; 0: any number.
        auto_ack_oldest_chunked_message_on_queue_full = False
            If there are more, acknowledge the one unread to which no chunk has come for longest. Otherwise the newest
            is refused, and delivered again later.
        start_message_id_inclusive = False
            Let a `seek` to a message start at that message, instead of after it.
        batch_receive_policy = None
            The limits of `batch_receive`. By default it returns up to 10 MiB of messages, after 100 milliseconds at the
            latest.
        key_shared_policy = None
            The keys of a KeyShared consumer; by default the broker divides them.
        batch_index_ack_enabled = False
            Acknowledge messages inside a batch one by one, if the broker supports that.
        regex_subscription_mode = RegexSubscriptionMode.PersistentOnly
            The topics that a pattern may match: persistent ones, non-persistent ones, or all.
        dead_letter_policy = None
            The topic for messages that have failed too often; with `enable_retry` also the topic for messages of
            `reconsume_later`. For Shared and KeyShared subscriptions.
        crypto_failure_action = ConsumerCryptoFailureAction.FAIL
            What is done with a message that no key decrypts. FAIL: it is not delivered, and stays unacknowledged until
            a consumer can decrypt it. DISCARD: it is acknowledged. CONSUME: it is delivered encrypted, and a batch as
            one message; see `Message.encryption_context`.
        ack_receipt_enabled = False
            Let the broker confirm each acknowledgement. `acknowledge` and `acknowledge_cumulative` then wait for the
            confirmation, and raise if the broker refuses; `acknowledge_async` and `acknowledge_cumulative_async` return
            futures of it.
        ack_grouping_time_ms = 100
            Milliseconds for which acknowledgements are collected, to be sent together; 0: they are sent at once.
        ack_grouping_max_size = 1000
            The most acknowledgements that are collected.
        negative_ack_redelivery_backoff = None
            The delay before a negatively acknowledged message is redelivered, which grows with the number of its
            redeliveries. It replaces `negative_ack_redelivery_delay_ms`.
        ack_timeout_redelivery_backoff = None
            A time that is added to `unacked_messages_timeout_ms`, and that grows with the number of redeliveries.
        expire_time_of_incomplete_chunked_message_ms = 60000
            Milliseconds after the latest chunk of an incomplete message, after which its chunks are acknowledged
            unread; 0: never. Until then a cumulative acknowledgement ends before them. Longer, while the receiver queue
            is full. Shared and Key_Shared: they come again once before that. A broker that does not send the next chunk
            for longer, as a transaction hides it or its storage is slow, makes the message lost: see
            `docs/large-messages.md`.
        priority_level = 0
            Consumers with the lowest level come first. Shared: they get messages as long as they have permits.
            Failover: one of them is the active consumer.
        subscription_mode = SubscriptionMode.Durable
            NonDurable: the broker deletes the subscription with its last consumer. The consumer starts at
            `initial_position`, and after a lost connection it resumes after the messages that it has received.
        subscription_properties = None
            Shown by the broker's statistics: a dict of str. Ignored if the subscription exists already.
        start_paused = False
            Do not call the listener before `resume_message_listener()`.
        consumer_event_listener = None
            An object that is told when this consumer becomes the active one of a Failover subscription, or no longer
            is.
        interceptors = ()
            Objects that see, and may change, the messages between the consumer and its user: see `ConsumerInterceptor`.
        enable_retry = False
            Allow `Consumer.reconsume_later`. The consumer then also subscribes to a retry topic. A message that was put
            off too often goes to the dead letter topic: the limit is in the `dead_letter_policy`, or 16. For Shared and
            KeyShared subscriptions. With a pattern, the policy must name both topics.
        """
        arguments = arguments_of(locals())
        from pulsar_actors.client.consumer_options import ConsumerOptions  # noqa: PLC0415 - see the top
        from pulsar_actors.client.create_consumer import create_consumer  # noqa: PLC0415 - see the top

        options = ConsumerOptions(**arguments)
        self._shutdown.refuse("subscribe()")
        return create_consumer(self._context, self._open_handles, options, self)

    def create_reader(
        self,
        topic: str | list[str],
        start_message_id: MessageId,
        schema: Schema = BYTES,
        reader_listener: MessageListener | None = None,
        receiver_queue_size: int = 1000,
        reader_name: str | None = None,
        subscription_role_prefix: str | None = None,
        is_read_compacted: bool = False,
        crypto_key_reader: EncryptionKeyReader | None = None,
        start_message_id_inclusive: bool = False,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
        *,
        max_pending_chunked_message: int = 10,
        auto_ack_oldest_chunked_message_on_queue_full: bool = False,
        expire_time_of_incomplete_chunked_message_ms: int = 60000,
        interceptors: "Sequence[ReaderInterceptor]" = (),
    ) -> "Reader":
        """Make a reader of a topic, starting at a message. It leaves no subscription behind.

        topic
            `orders`, `tenant/namespace/orders`, or the complete name; or a list of topics.
        start_message_id
            `MessageId.earliest`, `MessageId.latest`, or the id of a message: reading starts after it. With several
            topics or partitions, reading of all of them starts at this id, as in the official client. But the id of a
            message has no meaning in other topics: start at one of the two, and then `seek`.
        schema = BytesSchema()
            Turns the bytes of messages into `Message.value()`.
        reader_listener = None
            Called with the reader and each message, on a listener thread; then there is nothing to `read_next`.
        receiver_queue_size = 1000
            The most messages that wait in the client for `read_next`. 0: messages are requested one at a time.
        reader_name = None
            Shown by the broker's statistics.
        subscription_role_prefix = None
            The prefix of the reader's subscription name at the broker.
        is_read_compacted = False
            Read the compacted version of the topic: the last message of each key.
        crypto_key_reader = None
            Decrypts messages: it reads the private keys. See `CryptoKeyReader` and `EncryptionKeyReader`.
        start_message_id_inclusive = False
            Start at the `start_message_id` itself, and after a `seek` at its message, instead of after them.
        crypto_failure_action = ConsumerCryptoFailureAction.FAIL
            What is done with a message that no key decrypts. FAIL: it is not delivered, and stays unacknowledged until
            a consumer can decrypt it. DISCARD: it is acknowledged. CONSUME: it is delivered encrypted, and a batch as
            one message; see `Message.encryption_context`.
        max_pending_chunked_message = 10
            With `auto_ack_oldest_chunked_message_on_queue_full`, the chunked messages that are put together at once; 0:
            any number.
        auto_ack_oldest_chunked_message_on_queue_full = False
            If there are more, drop the one to which no chunk has come for longest. Otherwise there is no limit: no
            broker sends a reader again what it has left behind.
        expire_time_of_incomplete_chunked_message_ms = 60000
            Milliseconds after its latest chunk, after which an incomplete chunked message is dropped; 0: never.
        interceptors = ()
            Objects that see, and may change, the messages that are read: see `ReaderInterceptor`.
        """
        arguments = arguments_of(locals())
        from pulsar_actors.client.consumer_options import ReaderOptions  # noqa: PLC0415 - see the top
        from pulsar_actors.client.create_consumer import create_reader  # noqa: PLC0415 - see the top

        options = ReaderOptions(**arguments)
        self._shutdown.refuse("create_reader()")
        return create_reader(self._context, self._open_handles, options, self)

    def create_table_view(
        self,
        topic: str,
        subscription_name: str | None = None,
        schema: Schema = BYTES,
        *,
        crypto_key_reader: EncryptionKeyReader | None = None,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
    ) -> "TableView":
        """Make a view of the latest value of each key of a topic. It has all values that the topic has now.

        topic
            `orders`, `tenant/namespace/orders`, or the complete name. Of a non-persistent topic, the view has what is
            published from now on.
        subscription_name = None
            The name of the view's subscription, for the broker's statistics: no two views of a topic may have the same
            at a time. By default a random name. The subscription ends with the view.
        schema = BytesSchema()
            Turns the bytes of messages into values.
        crypto_key_reader = None
            Decrypts messages: it reads the private keys. See `CryptoKeyReader` and `EncryptionKeyReader`.
        crypto_failure_action = ConsumerCryptoFailureAction.FAIL
            What is done if no key decrypts a message. FAIL: values are missing, so this call and `refresh` raise
            CryptoError. DISCARD: the view goes without it.
        """
        arguments = arguments_of(locals())
        from pulsar_actors.client.consumer_options import TableViewOptions  # noqa: PLC0415 - see the top
        from pulsar_actors.client.table_view import create_table_view  # noqa: PLC0415 - see the top

        options = TableViewOptions(**arguments)
        self._shutdown.refuse("create_table_view()")
        return create_table_view(self._context, self._open_handles, options, self)

    def new_transaction(self, timeout: timedelta = timedelta(minutes=1)) -> "Transaction":
        """Open a transaction, in which messages are sent and acknowledged, and commit it at the end of a `with` block.

        timeout = timedelta(minutes=1)
            The time after which the cluster aborts the transaction if it has not ended. Readers of the topics that it
            has sent to wait for its end, so it should be no longer than necessary.

        The brokers need transactionCoordinatorEnabled=true.
        """
        from pulsar_actors.client.new_transaction import open_transaction  # noqa: PLC0415 - see the top

        self._shutdown.refuse("new_transaction()")
        return open_transaction(self._context, timeout, self)

    def get_topic_partitions(self, topic: str) -> list[str]:
        """Return the names of a topic's partitions. For a topic that is not partitioned, return its own name."""
        check_topic("topic", topic)
        self._shutdown.refuse("get_topic_partitions()")
        return partition_names(self._context, topic)

    def get_service_info(self) -> "ServiceInfo":
        """Return the service that the client uses at the moment."""
        return self._service_switch.info

    def stats(self) -> "ClientStats":
        """Return statistics of the connections, the lookups, and all open producers, consumers and readers."""
        self._shutdown.refuse_if_forked()
        return self._open_handles.stats(self._context.counters)

    def history(self) -> "History":
        """Return the last changes of state of all that the client has: producers, consumers, connections, lookups.

        Of each it has the last 24, also of the 16 that ended last. `History.save` writes them to a file.
        """
        from pulsar_actors.client.history import History  # noqa: PLC0415 - see the top

        return History.of(self._context.guardian)

    def inspect(self, *, port: int = 0, broker: "FaultyBroker | None" = None) -> "Inspector":
        """Serve a page for your browser that shows the state machines at work, and return it; `url` is its address.

        Nobody else can read it: it is served on the loopback address, and its address has a secret in it.

        port = 0
            The port to serve it on; 0 takes a free one.
        broker = None
            An `EmbeddedBroker`, whose faults can be clicked on the page.
        """
        from pulsar_actors.client.inspection import inspect  # noqa: PLC0415 - see the top

        self._shutdown.refuse_if_forked()
        return inspect(self._context, self._service_switch.info.service_url, broker, port)

    # The end.

    def close(self) -> None:
        """Close all producers, consumers and readers, then the connections. A second call does nothing.

        Pending messages and acknowledgements are sent first. It takes no longer than about the operation timeout,
        whatever brokers do. In a callback it starts the close, and does not wait.
        """
        try:
            self._service_switch.close()
        finally:
            self._shutdown.close()
            self._finalizer.detach()

    def shutdown(self) -> None:
        """Close everything at once, without waiting for any broker. Pending messages and calls fail."""
        try:
            self._service_switch.close()
        finally:
            self._shutdown.shut_down()
            self._finalizer.detach()

    def __repr__(self) -> str:
        return f"<Client of {self._service_switch.info.service_url}>"

    def forget_everything(self) -> None:
        """Refuse all calls from now on, in a forked child."""
        self._finalizer.detach()
        self._service_switch.forget_everything()
        self._shutdown.forget_everything()


def subscribe_to_existing(client: Client, options: "ConsumerOptions") -> "Consumer":
    """Subscribe to a topic without partitions, or to one partition, without creating it."""
    from pulsar_actors.client.create_consumer import create_consumer_of_existing  # noqa: PLC0415 - see the top

    context, open_handles = client._context, client._open_handles  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return create_consumer_of_existing(context, open_handles, options, client)


def context_of(client: Client) -> ClientContext:
    """Return the context of a client, for other code of this package."""
    return client._context  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
