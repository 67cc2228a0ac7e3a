"""The client, which creates producers, consumers and readers.

Most of this file is the arguments of the official client, each with its meaning. They become options, which check them.
The close of a client is in `shutdown.py`.

Consumers and readers need half of the package. It is loaded with the first of them, so that a program that only sends
starts sooner.
"""

import re
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pulsar_actors.client import loggers
from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.create_producer import create_producer, partition_names
from pulsar_actors.client.enums import (
    BatchingType,
    CompressionType,
    ConsumerCryptoFailureAction,
    ConsumerType,
    HashingScheme,
    InitialPosition,
    PartitionsRoutingMode,
    ProducerAccessMode,
    RegexSubscriptionMode,
    SubscriptionMode,
)
from pulsar_actors.client.handle import Closeable
from pulsar_actors.client.interceptors import ProducerInterceptor
from pulsar_actors.client.loggers import LoggerOption
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.open_handles import OpenHandles
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo, ServiceInfoProvider
from pulsar_actors.client.service_switch import ServiceSwitch
from pulsar_actors.client.shutdown import JOIN_TIME, ClientShutdown, shut_down_abandoned
from pulsar_actors.client.stats import ClientStats
from pulsar_actors.client.validation import arguments_of
from pulsar_actors.client.validation import topic as check_topic
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.process import forget_on_fork
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.version import __version__

if TYPE_CHECKING:
    from pulsar_actors.client.consumer import Consumer
    from pulsar_actors.client.consumer_options import ConsumerOptions
    from pulsar_actors.client.interceptors import ConsumerEventListener, ConsumerInterceptor, ReaderInterceptor
    from pulsar_actors.client.policies import (
        ConsumerBatchReceivePolicy,
        ConsumerDeadLetterPolicy,
        ConsumerKeySharedPolicy,
        MultiplierRedeliveryBackoff,
    )
    from pulsar_actors.client.reader import Reader

MessageListener = Callable[[Any, Message], object]


class Client(Closeable):
    """A connection to a Pulsar cluster, for any number of producers, consumers and readers, and any number of threads.

    They share its connections and its threads. `with` closes the client, and all that was made with it, at the end of
    its block; the same is done by `close`. A client cannot be used in a process that was forked after it was made:
    make another there.
    """

    def __init__(
        self,
        service_url: str | AutoClusterFailover | ServiceInfoProvider,
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
        logger: LoggerOption = None,
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
    ) -> None:
        """Make a client; no connection is made before it is needed. Seconds may have a fraction.

        service_url
            `pulsar://host:6650`, or `pulsar+ssl://host:6651` for an encrypted connection; several hosts are separated
            by commas and tried in turn. `http://host:8080` or `https://host:8443` for lookups over HTTP, at the web
            port: credentials go to the hosts that are named here, and follow no redirect to others. Or an
            `AutoClusterFailover` or a `ServiceInfoProvider`: then the cluster can change while the client runs.
        authentication = None
            Credentials: `AuthenticationToken`, `AuthenticationTLS`, `AuthenticationBasic`, `AuthenticationOauth2` or
            your own.
        operation_timeout_seconds = 30
            Seconds for creating, closing, seeking and the like, retries included.
        io_threads = 1
            Threads that talk to brokers. One is enough for almost everything.
        message_listener_threads = 1
            Threads that call message listeners; each consumer keeps to one.
        concurrent_lookup_requests = 50000
            Concurrent lookups. Others wait, up to 50,000 together, and the rest fail at once.
        log_conf_file_path = None
            Without effect, as in the official client.
        stats_interval_in_seconds = 600
            Without effect: nothing is logged regularly, and `stats()` tells at any time.
        use_tls = False
            Without effect, for the scheme of the URL decides; True is refused where that does not encrypt.
        tls_trust_certs_file_path = None
            A file of certificates (PEM) to trust, instead of the usual ones; the issuer of OAuth2 tokens is trusted by
            it too. This file and the two below are read again by later connections when they have changed.
        tls_allow_insecure_connection = False
            Accept any certificate. Then anybody on the way can read and change the data.
        tls_validate_hostname = True
            Demand that the certificate is the host's. On by default, other than in the official client.
        logger = None
            A `logging.Logger`, a `ConsoleLogger` or a `FileLogger` for log lines. By default they go to the logger
            `pulsar_actors`, which is silent unless your program sets up logging.
        connection_timeout_ms = 10000
            Milliseconds for opening a connection, for each host.
        listener_name = None
            The name of the advertised listeners of brokers that this client can reach.
        tls_private_key_file_path = None
        tls_certificate_file_path = None
            Files (PEM) with the certificate that the client shows, and its key, which is not encrypted; without a file
            of its own, the key is in the certificate's. Brokers that go by it for who the client is want an
            `AuthenticationTLS` instead.
        connections_per_broker = 1
            Connections to one broker, which producers and consumers share.
        keep_alive_interval_seconds = 30
            Each connection is tried every so many seconds, and lost if it has not answered by the next time.
        connection_max_idle_seconds = 60
            Seconds for which an unused connection is kept; 0: for ever.
        tcp_no_delay = True
            Send small writes at once. Otherwise they may wait a little for more bytes.
        initial_backoff_interval_ms = 100
        max_backoff_interval_ms = 60000
            The first and the longest pause before trying again, in milliseconds.
        memory_limit_bytes = 0
            Bytes of messages that all producers together may have pending; 0: any number. A message that comes when
            they have so many raises MemoryBufferIsFull, or waits, where its producer has `block_if_queue_full`. What
            consumers hold does not count: their queues have limits of their own.
        partitions_update_interval = 60
            Every so many seconds, producers, consumers and readers of partitioned topics look whether there are more
            partitions; 0: never.
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
            self._context = ClientContext(engine, self._service_switch.options, f"pulsar_actors-{__version__}")
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
            self._service_switch.start(self._context.guardian, self._context.registrations)
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
        crypto_key_reader: object = None,
        access_mode: ProducerAccessMode = ProducerAccessMode.Shared,
        message_router: Callable[[Message, int], int] | None = None,
        *,
        hashing_scheme: HashingScheme = HashingScheme.BoostHash,
        chunk_max_message_size: int = -1,
        interceptors: Sequence[ProducerInterceptor] = (),
    ) -> Producer:
        """Make a producer on a topic, which is created if the cluster allows that.

        topic
            `orders`, `tenant/namespace/orders`, or the complete name.
        producer_name = None
            A name that no other producer of the topic has; by default the broker chooses one.
        schema = BytesSchema()
            Turns the content of messages into bytes.
        initial_sequence_id = None
            The sequence id that counts as used; the first message gets the next one.
        send_timeout_millis = 30000
            Milliseconds that a message may be pending before it fails, and all after it; 0: any number.
        compression_type = CompressionType.NONE
            LZ4, ZLib, ZSTD or SNAPPY.
        max_pending_messages = 1000
            Messages that may be pending; 0: any number. One more raises ProducerQueueIsFull, or waits for room:
            see `block_if_queue_full`.
        max_pending_messages_across_partitions = 50000
            Of a partitioned topic, so many may be pending on all partitions together; each gets its share of them, if
            that is less than `max_pending_messages`. 0: any number.
        block_if_queue_full = False
            Let `send` and `send_async` wait for room instead of raising ProducerQueueIsFull, or MemoryBufferIsFull.
        batching_enabled = False
            Messages of `send_async` travel together, which is how many are sent in little time. A batch leaves with so
            many messages or bytes, or so many milliseconds after its first message, as the next three say.
        batching_max_messages = 1000
        batching_max_allowed_size_in_bytes = 131072
        batching_max_publish_delay_ms = 10
        chunking_enabled = False
            A message that is too large for the broker travels in several pieces. Not with batching.
        message_routing_mode = PartitionsRoutingMode.RoundRobinDistribution
            The partition of a message without a key: one after the other, a batch at a time; or always the same
            one, with UseSinglePartition; or as `message_router` says, with CustomPartition. Messages of one key always
            go to one partition.
        lazy_start_partitioned_producers = False
            Begin with the producer of one partition; the others start with the first message for them. It counts with
            ProducerAccessMode.Shared only.
        properties = None
            Shown by the broker's statistics: a dict of str.
        batching_type = BatchingType.Default
            With KeyBased, the messages of a batch share their key, as KeyShared subscriptions need it.
        encryption_key = None
        crypto_key_reader = None
            Of end-to-end encryption, which this version does not have.
        access_mode = ProducerAccessMode.Shared
            Shared: other producers may publish to the topic as well. Exclusive: no other may, and if there is one,
            ProducerFenced is raised. WaitForExclusive: exclusive, but `create_producer` waits until there is no other,
            for as long as it takes. ExclusiveWithFencing: exclusive, and the broker ends the others.
        message_router = None
            Called with each message, as a `Message`, and the number of partitions; gives the number of the partition,
            from 0 on, also for messages with a key. In the thread that sends.
        hashing_scheme = HashingScheme.BoostHash
            Turns a key into a partition. All producers of a topic have to choose alike: BoostHash is what official
            Python and C++ clients do by themselves, JavaStringHash what Java clients do.
        chunk_max_message_size = -1
            With chunking, how many bytes a piece holds at most; 0 or less: as many as the broker takes.
        interceptors = ()
            See `ProducerInterceptor`: what watches, or changes, the messages that are sent.
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
        crypto_key_reader: object = None,
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
        """Subscribe to a topic; the subscription, and the topic if that is allowed, are created if need be.

        topic
            `orders`, `tenant/namespace/orders`, or the complete name; a list of topics; or a compiled pattern, which is
            written like a name, and which the whole name has to match: `re.compile("public/default/orders-.*")`. A str
            is always the name of one topic. The partitions of a topic count as that topic. Topics of a pattern may come
            and go. Each message, and the id of each, has its `topic_name()`.
        subscription_name
            The name under which the broker remembers what was acknowledged.
        consumer_type = ConsumerType.Exclusive
            Exclusive: one consumer. Failover: one at a time. Shared: messages are shared out among all. KeyShared: the
            messages of one key go to one consumer.
        schema = BytesSchema()
            Turns the bytes of messages into `Message.value()`.
        message_listener = None
            Called with the consumer and each message, on a listener thread; then there is nothing to `receive`.
        receiver_queue_size = 1000
            Messages that wait in the client for `receive`. 0: they are asked for one at a time; of a single topic only.
        max_total_receiver_queue_size_across_partitions = 50000
            Of several topics or partitions, so many wait here for all of them together; each has its share of them, if
            that is less than `receiver_queue_size`.
        consumer_name = None
            Shown by the broker's statistics.
        unacked_messages_timeout_ms = None
            A message that is not acknowledged for so many milliseconds is delivered again; None or 0: it is not, while
            the consumer is there.
        broker_consumer_stats_cache_time_ms = 30000
            For how many milliseconds `get_broker_consumer_stats()` gives what the broker said last.
        negative_ack_redelivery_delay_ms = 60000
            Milliseconds before a negatively acknowledged message is redelivered.
        is_read_compacted = False
            Read the compacted version of the topic: the last message of each key.
        properties = None
            Shown by the broker's statistics: a dict of str.
        pattern_auto_discovery_period = 60
            Every so many seconds, a consumer of a pattern looks which topics match.
        initial_position = InitialPosition.Latest
            The start of a new subscription: Latest, or Earliest for all that the topic still has. It counts for topics
            of a pattern that come later, too: with Latest, what they got before they were noticed is passed over.
        crypto_key_reader = None
            Of end-to-end encryption, which this version does not have.
        replicate_subscription_state_enabled = False
            Have the brokers keep the subscription in step between clusters.
        max_pending_chunked_message = 10
            Chunked messages that are put together at once; 0: any number.
        auto_ack_oldest_chunked_message_on_queue_full = False
            Of more than those, the oldest is acknowledged unread; otherwise the newest waits, and is delivered again.
        start_message_id_inclusive = False
            Let a `seek` to a message lead to that one instead of the one after it.
        batch_receive_policy = None
            When `batch_receive` returns; by default with 10 MiB, or what comes within 100 milliseconds.
        key_shared_policy = None
            The keys of a KeyShared consumer; by default the broker divides them.
        batch_index_ack_enabled = False
            Messages inside a batch are acknowledged one by one, if the broker does so too.
        regex_subscription_mode = RegexSubscriptionMode.PersistentOnly
            The topics that a pattern means: persistent ones, non-persistent ones, or all.
        dead_letter_policy = None
            The topic for messages that have failed too often, and with `enable_retry` the topic for those that are put
            off. Of Shared and KeyShared subscriptions.
        crypto_failure_action = ConsumerCryptoFailureAction.FAIL
            Of end-to-end encryption, which this version does not have.
        ack_receipt_enabled = False
            Have the broker confirm each acknowledgement. `acknowledge` and `acknowledge_cumulative` then wait for that,
            and raise if it refuses; `acknowledge_async` and `acknowledge_cumulative_async` return futures of it.
        ack_grouping_time_ms = 100
            Milliseconds in which acknowledgements are held back, to leave together; 0: not at all.
        ack_grouping_max_size = 1000
            The most acknowledgements that are held back.
        negative_ack_redelivery_backoff = None
            The delay before a negatively acknowledged message is redelivered, by the number of its deliveries; instead
            of `negative_ack_redelivery_delay_ms`.
        ack_timeout_redelivery_backoff = None
            A time beyond `unacked_messages_timeout_ms` in which a message may stay unacknowledged, by the number of its
            deliveries.
        expire_time_of_incomplete_chunked_message_ms = 60000
            Milliseconds after which the chunks of an incomplete message are acknowledged unread; 0: never.
        priority_level = 0
            Consumers of the lowest level come first: in Shared they get messages while they take any, in Failover one
            of them is served.
        subscription_mode = SubscriptionMode.Durable
            NonDurable: the broker forgets the subscription with its last consumer. Without a subscription this one
            begins at `initial_position`, and after a lost connection behind what it has received.
        subscription_properties = None
            Shown by the broker's statistics, if the subscription is new: a dict of str.
        start_paused = False
            Do not call the listener before `resume_message_listener()`.
        consumer_event_listener = None
            Told whether this is the consumer of a Failover subscription that is served.
        interceptors = ()
            Objects that see, and may change, what passes between the consumer and its user.
        enable_retry = False
            Let messages be put off: see `Consumer.reconsume_later`. The consumer then has a retry topic beside
            its own, and gives up on a message as its `dead_letter_policy` says, or when it was put off 16 times. Of
            Shared and KeyShared subscriptions; with a pattern, the policy has to name both topics.
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
        crypto_key_reader: object = None,
        start_message_id_inclusive: bool = False,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
        *,
        max_pending_chunked_message: int = 10,
        auto_ack_oldest_chunked_message_on_queue_full: bool = False,
        expire_time_of_incomplete_chunked_message_ms: int = 60000,
        interceptors: "Sequence[ReaderInterceptor]" = (),
    ) -> "Reader":
        """Make a reader of a topic, from a message on. It leaves no subscription behind.

        topic
            `orders`, `tenant/namespace/orders`, or the complete name; or a list of topics.
        start_message_id
            `MessageId.earliest`, `MessageId.latest`, or any other: reading begins after it. With several topics or
            partitions, all of them begin there, as in the official client; but the id of a message says little of where
            that is in others: give one of the two, and then `seek`.
        schema = BytesSchema()
            Turns the bytes of messages into `Message.value()`.
        reader_listener = None
            Called with the reader and each message, on a listener thread; then there is nothing to `read_next`.
        receiver_queue_size = 1000
            Messages that wait in the client for `read_next`. 0: they are asked for one at a time.
        reader_name = None
            Shown by the broker's statistics.
        subscription_role_prefix = None
            The prefix of the name under which the broker lists the reader.
        is_read_compacted = False
            Read the compacted version of the topic: the last message of each key.
        crypto_key_reader = None
            Of end-to-end encryption, which this version does not have.
        start_message_id_inclusive = False
            Begin with the `start_message_id` itself; a `seek` begins with its message, too.
        crypto_failure_action = ConsumerCryptoFailureAction.FAIL
            Of end-to-end encryption, which this version does not have.
        max_pending_chunked_message = 10
            Chunked messages that are put together at once; 0: any number.
        auto_ack_oldest_chunked_message_on_queue_full = False
            Of more than those, the oldest is given up; otherwise the newest waits, and is delivered again.
        expire_time_of_incomplete_chunked_message_ms = 60000
            Milliseconds after which an incomplete chunked message is given up; 0: never.
        interceptors = ()
            Objects that see, and may change, what is read.
        """
        arguments = arguments_of(locals())
        from pulsar_actors.client.consumer_options import ReaderOptions  # noqa: PLC0415 - see the top
        from pulsar_actors.client.create_consumer import create_reader  # noqa: PLC0415 - see the top

        options = ReaderOptions(**arguments)
        self._shutdown.refuse("create_reader()")
        return create_reader(self._context, self._open_handles, options, self)

    def get_topic_partitions(self, topic: str) -> list[str]:
        """Return the names of a topic's partitions; of a topic that has none, its own name."""
        check_topic("topic", topic)
        self._shutdown.refuse("get_topic_partitions()")
        return partition_names(self._context, topic)

    def get_service_info(self) -> ServiceInfo:
        """Return the service that the client uses at the moment."""
        return self._service_switch.info

    def stats(self) -> ClientStats:
        """Return statistics: connections, lookups, and every producer, consumer and reader that is open."""
        self._shutdown.refuse_if_forked()
        return self._open_handles.stats(self._context.counters)

    # The end.

    def close(self) -> None:
        """Close all producers, consumers and readers in good order, then the connections. Doing it again does nothing.

        It takes no longer than the operation timeout, whatever brokers do. In a callback it begins, and does not wait.
        """
        try:
            self._service_switch.close()
        finally:
            self._shutdown.close()
            self._finalizer.detach()

    def shutdown(self) -> None:
        """Close everything at once, without waiting for any broker; what is pending fails."""
        try:
            self._service_switch.close()
        finally:
            self._shutdown.shut_down()
            self._finalizer.detach()

    def __repr__(self) -> str:
        return f"<Client of {self._service_switch.info.service_url}>"

    def forget_everything(self) -> None:
        """Refuse everything from now on, in a forked child."""
        self._finalizer.detach()
        self._service_switch.forget_everything()
        self._shutdown.forget_everything()


def subscribe_to_existing(client: Client, options: "ConsumerOptions") -> "Consumer":
    """Subscribe to a topic without partitions, or to one partition, without creating it."""
    from pulsar_actors.client.create_consumer import create_consumer_of_existing  # noqa: PLC0415 - see the top

    context, open_handles = client._context, client._open_handles  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return create_consumer_of_existing(context, open_handles, options, client)


def context_of(client: Client) -> ClientContext:
    """Return the context of a client, for requests that users do not make."""
    return client._context  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
