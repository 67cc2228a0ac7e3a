"""The client: what producers, consumers and readers are made with.

Most of it is the official client's arguments, each with what it is for. They become options, which check them; the
makers make a handle of these; the roll has what was made; and how a client ends is a file of its own.

What consumers and readers need is half of the package. It is loaded with the first of them, so that a program that only
sends starts sooner.
"""

import re
import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pulsar_actors.client import log_outlet
from pulsar_actors.client.arguments import topic as check_topic
from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.closeable import Closeable
from pulsar_actors.client.closing import JOIN, Closing, let_go
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
from pulsar_actors.client.loggers import LoggerOption
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.partitions import partition_names
from pulsar_actors.client.producer_maker import make_producer
from pulsar_actors.client.producing.producer import Producer
from pulsar_actors.client.producing.producer_interceptor import ProducerInterceptor
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.roll import Roll
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo, ServiceInfoProvider
from pulsar_actors.client.service_link import ServiceLink
from pulsar_actors.client.stats import ClientStats
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.forks import watch
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.version import __version__

if TYPE_CHECKING:
    from pulsar_actors.client.consuming.consumer import Consumer
    from pulsar_actors.client.consuming.consumer_event_listener import ConsumerEventListener
    from pulsar_actors.client.consuming.consumer_interceptor import ConsumerInterceptor, ReaderInterceptor
    from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
    from pulsar_actors.client.consuming.reader import Reader
    from pulsar_actors.client.policies import (
        ConsumerBatchReceivePolicy,
        ConsumerDeadLetterPolicy,
        ConsumerKeySharedPolicy,
        MultiplierRedeliveryBackoff,
    )

ListensTo = Callable[[Any, Message], object]


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
            Who the client is: `AuthenticationToken`, `AuthenticationTLS`, `AuthenticationBasic`, `AuthenticationOauth2`
            or your own.
        operation_timeout_seconds = 30
            How many seconds creating, closing, seeking and the like may take, retries included.
        io_threads = 1
            Threads that talk to brokers. One is enough for almost everything.
        message_listener_threads = 1
            Threads that call message listeners; each consumer keeps to one.
        concurrent_lookup_requests = 50000
            How many lookups are on their way at once. Others wait, up to 50,000 together, and the rest fail at once.
        log_conf_file_path = None
            Without effect, as in the official client.
        stats_interval_in_seconds = 600
            Without effect: nothing is logged regularly, and `stats()` tells at any time.
        use_tls = False
            Without effect, for the scheme of the URL decides; True is refused where that does not encrypt.
        tls_trust_certs_file_path = None
            A file of certificates (PEM) to trust, instead of the usual ones; the issuer of OAuth2 tokens is trusted by
            it too. This file and the two below are read anew when they have changed, by whatever connects after that.
        tls_allow_insecure_connection = False
            Accept any certificate. Anybody on the way can read along.
        tls_validate_hostname = True
            Demand that the certificate is the host's. On by default, other than in the official client.
        logger = None
            Where log lines go: a `logging.Logger`, a `ConsoleLogger` or a `FileLogger`. By default to the logger
            `pulsar_actors`, which is silent unless your program sets up logging.
        connection_timeout_ms = 10000
            How many milliseconds opening a connection may take, for each host.
        listener_name = None
            Which of the brokers' advertised listeners this client can reach.
        tls_private_key_file_path = None
        tls_certificate_file_path = None
            Files (PEM) with the certificate that the client shows, and its key, which is not encrypted; without a file
            of its own, the key is in the certificate's. Brokers that go by it for who the client is want an
            `AuthenticationTLS` instead.
        connections_per_broker = 1
            How many connections producers and consumers share to one broker.
        keep_alive_interval_seconds = 30
            Each connection is tried every so many seconds, and lost if it has not answered by the next time.
        connection_max_idle_seconds = 60
            For how many seconds a connection that nobody uses is kept; 0: for ever.
        tcp_no_delay = True
            Whether what is small leaves at once. Otherwise it may wait a little, to travel with what comes after it.
        initial_backoff_interval_ms = 100
        max_backoff_interval_ms = 60000
            The first and the longest pause before trying again, in milliseconds.
        memory_limit_bytes = 0
            How many bytes of messages all producers together may have pending; 0: any number. A message that comes when
            they have so many raises MemoryBufferIsFull, or waits, where its producer has `block_if_queue_full`. What
            consumers hold does not count: their queues have limits of their own.
        partitions_update_interval = 60
            Every so many seconds, producers, consumers and readers of partitioned topics look whether there are more
            partitions; 0: never.
        """
        options = ClientOptions(
            service_url=service_url,
            authentication=authentication,
            operation_timeout_seconds=operation_timeout_seconds,
            io_threads=io_threads,
            message_listener_threads=message_listener_threads,
            concurrent_lookup_requests=concurrent_lookup_requests,
            log_conf_file_path=log_conf_file_path,
            stats_interval_in_seconds=stats_interval_in_seconds,
            use_tls=use_tls,
            tls_trust_certs_file_path=tls_trust_certs_file_path,
            tls_allow_insecure_connection=tls_allow_insecure_connection,
            tls_validate_hostname=tls_validate_hostname,
            logger=logger,
            connection_timeout_ms=connection_timeout_ms,
            listener_name=listener_name,
            tls_private_key_file_path=tls_private_key_file_path,
            tls_certificate_file_path=tls_certificate_file_path,
            connections_per_broker=connections_per_broker,
            keep_alive_interval_seconds=keep_alive_interval_seconds,
            connection_max_idle_seconds=connection_max_idle_seconds,
            tcp_no_delay=tcp_no_delay,
            initial_backoff_interval_ms=initial_backoff_interval_ms,
            max_backoff_interval_ms=max_backoff_interval_ms,
            memory_limit_bytes=memory_limit_bytes,
            partitions_update_interval=partitions_update_interval,
        )
        engine = ThreadEngine(options.io_threads, options.message_listener_threads)
        try:
            self._begin(options, engine)
        except BaseException:
            engine.stop(JOIN)
            raise

    @classmethod
    def on(cls, engine: Engine, options: ClientOptions) -> "Client":
        """Make a client on an engine of one's own, such as a simulated one."""
        client = cls.__new__(cls)
        client._begin(options, engine)  # noqa: SLF001 - it is this class's own
        return client

    def _begin(self, options: ClientOptions, engine: Engine) -> None:
        self._options = options
        self._engine = engine
        with ExitStack() as undo:
            self._link = ServiceLink(options)
            undo.callback(self._link.close)
            log = log_outlet.attach(options.logger)
            undo.callback(log.detach)
            self._workshop = Workshop(engine, self._link.options, f"pulsar_actors-{__version__}")
            undo.pop_all()
        self._roll = Roll()
        self._closing = Closing(engine, self._workshop, self._roll, log, float(options.operation_timeout_seconds))
        self._finalizer = weakref.finalize(self, let_go, self._workshop.guardian, engine, log, self._link)
        self._finalizer.atexit = False
        watch(self)
        try:
            self._link.begin(self._workshop.guardian)
        except BaseException:
            self.shutdown()
            raise

    # What is made with it.

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
            What turns the content of messages into bytes.
        initial_sequence_id = None
            The sequence id that counts as used; the first message gets the next one.
        send_timeout_millis = 30000
            How many milliseconds a message may be pending before it fails, and all after it; 0: any number.
        compression_type = CompressionType.NONE
            LZ4, ZLib, ZSTD or SNAPPY.
        max_pending_messages = 1000
            How many messages may be pending; 0: any number. One more raises ProducerQueueIsFull, or waits for room:
            see `block_if_queue_full`.
        max_pending_messages_across_partitions = 50000
            Of a partitioned topic, so many may be pending on all partitions together; each gets its share of them, if
            that is less than `max_pending_messages`. 0: any number.
        block_if_queue_full = False
            Whether `send` and `send_async` wait for room instead of raising ProducerQueueIsFull, or MemoryBufferIsFull.
        batching_enabled = False
            Messages of `send_async` travel together, which is how many are sent in little time. A batch leaves with so
            many messages or bytes, or so many milliseconds after its first message, as the next three say.
        batching_max_messages = 1000
        batching_max_allowed_size_in_bytes = 131072
        batching_max_publish_delay_ms = 10
        chunking_enabled = False
            A message that is too large for the broker travels in several pieces. Not with batching.
        message_routing_mode = PartitionsRoutingMode.RoundRobinDistribution
            Which partition a message without a key goes to: one after the other, a batch at a time; or always the same
            one, with UseSinglePartition; or as `message_router` says, with CustomPartition. Messages of one key always
            go to one partition.
        lazy_start_partitioned_producers = False
            Begin with the producer of one partition; the others start with the first message for them. It counts with
            ProducerAccessMode.Shared only.
        properties = None
            What the broker tells others about the producer: a dict of str.
        batching_type = BatchingType.Default
            With KeyBased, the messages of a batch share their key, as KeyShared subscriptions need it.
        encryption_key = None
        crypto_key_reader = None
            Of end-to-end encryption, which this version does not have.
        access_mode = ProducerAccessMode.Shared
            Shared: others may publish to the topic as well. Exclusive: nobody else may, and if somebody does already,
            ProducerFenced is raised. WaitForExclusive: likewise, but `create_producer` waits until nobody does, for as
            long as it takes. ExclusiveWithFencing: likewise, but those who do are thrown out.
        message_router = None
            Called with each message, as a `Message`, and the number of partitions; gives the number of the partition,
            from 0 on, also for messages with a key. In the thread that sends.
        hashing_scheme = HashingScheme.BoostHash
            What turns a key into a partition. All producers of a topic have to choose alike: BoostHash is what official
            Python and C++ clients do by themselves, JavaStringHash what Java clients do.
        chunk_max_message_size = -1
            With chunking, how many bytes a piece holds at most; 0 or less: as many as the broker takes.
        interceptors = ()
            See `ProducerInterceptor`: what watches, or changes, the messages that are sent.
        """
        options = ProducerOptions(
            topic=topic,
            producer_name=producer_name,
            schema=schema,
            initial_sequence_id=initial_sequence_id,
            send_timeout_millis=send_timeout_millis,
            compression_type=compression_type,
            max_pending_messages=max_pending_messages,
            max_pending_messages_across_partitions=max_pending_messages_across_partitions,
            block_if_queue_full=block_if_queue_full,
            batching_enabled=batching_enabled,
            batching_max_messages=batching_max_messages,
            batching_max_allowed_size_in_bytes=batching_max_allowed_size_in_bytes,
            batching_max_publish_delay_ms=batching_max_publish_delay_ms,
            chunking_enabled=chunking_enabled,
            message_routing_mode=message_routing_mode,
            lazy_start_partitioned_producers=lazy_start_partitioned_producers,
            properties=properties,
            batching_type=batching_type,
            encryption_key=encryption_key,
            crypto_key_reader=crypto_key_reader,
            access_mode=access_mode,
            message_router=message_router,
            hashing_scheme=hashing_scheme,
            chunk_max_message_size=chunk_max_message_size,
            interceptors=interceptors,
        )
        self._closing.refuse("create_producer()")
        return make_producer(self._workshop, self._roll, options, self)

    def subscribe(
        self,
        topic: str | list[str] | re.Pattern[str],
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema = BYTES,
        message_listener: ListensTo | None = None,
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
            What the broker remembers under this name is what was acknowledged.
        consumer_type = ConsumerType.Exclusive
            Exclusive: one consumer. Failover: one at a time. Shared: messages are shared out among all. KeyShared: the
            messages of one key go to one consumer.
        schema = BytesSchema()
            What turns the bytes of messages into `Message.value()`.
        message_listener = None
            Called with the consumer and each message, on a listener thread; then there is nothing to `receive`.
        receiver_queue_size = 1000
            How many messages wait here for `receive`. 0: they are asked for one at a time; of a single topic only.
        max_total_receiver_queue_size_across_partitions = 50000
            Of several topics or partitions, so many wait here for all of them together; each has its share of them, if
            that is less than `receiver_queue_size`.
        consumer_name = None
            What the broker tells others.
        unacked_messages_timeout_ms = None
            A message that is not acknowledged for so many milliseconds is delivered again; None or 0: it is not, while
            the consumer is there.
        broker_consumer_stats_cache_time_ms = 30000
            For how many milliseconds `get_broker_consumer_stats()` gives what the broker said last.
        negative_ack_redelivery_delay_ms = 60000
            How many milliseconds a message rests that was negatively acknowledged.
        is_read_compacted = False
            Read the compacted version of the topic: the last message of each key.
        properties = None
            What the broker tells others about the consumer: a dict of str.
        pattern_auto_discovery_period = 60
            Every so many seconds, a consumer of a pattern looks which topics match.
        initial_position = InitialPosition.Latest
            Where a new subscription starts: Latest, or Earliest for all that the topic still has. It counts for topics
            of a pattern that come later, too: with Latest, what they got before they were noticed is passed over.
        crypto_key_reader = None
            Of end-to-end encryption, which this version does not have.
        replicate_subscription_state_enabled = False
            Have the brokers keep the subscription in step between clusters.
        max_pending_chunked_message = 10
            How many messages in pieces are put together at once; 0: any number.
        auto_ack_oldest_chunked_message_on_queue_full = False
            Of more than those, the oldest is acknowledged unread; otherwise the newest waits, and is delivered again.
        start_message_id_inclusive = False
            Whether a `seek` to a message leads to that one or to the one after it.
        batch_receive_policy = None
            When `batch_receive` returns; by default with 10 MiB, or what comes within 100 milliseconds.
        key_shared_policy = None
            How a KeyShared consumer gets its keys; by default the broker divides them.
        batch_index_ack_enabled = False
            Messages inside a batch are acknowledged one by one, if the broker does so too.
        regex_subscription_mode = RegexSubscriptionMode.PersistentOnly
            Whether a pattern means persistent topics, non-persistent ones, or all.
        dead_letter_policy = None
            Where messages go that have failed too often; of Shared and KeyShared subscriptions. And where those go that
            are put off, with `enable_retry`.
        crypto_failure_action = ConsumerCryptoFailureAction.FAIL
            Of end-to-end encryption, which this version does not have.
        ack_receipt_enabled = False
            Have the broker confirm each acknowledgement. `acknowledge` and `acknowledge_cumulative` then wait for that,
            and raise if it refuses; `acknowledge_async` and `acknowledge_cumulative_async` return futures of it.
        ack_grouping_time_ms = 100
            For how many milliseconds acknowledgements are held back, to leave together; 0: not at all.
        ack_grouping_max_size = 1000
            How many of them are held back at most.
        negative_ack_redelivery_backoff = None
            How long a message rests that was negatively acknowledged, by the number of times that it came; instead of
            `negative_ack_redelivery_delay_ms`.
        ack_timeout_redelivery_backoff = None
            How much longer than `unacked_messages_timeout_ms` a message may stay unacknowledged, likewise.
        expire_time_of_incomplete_chunked_message_ms = 60000
            After how many milliseconds the pieces of a message that is not whole yet are acknowledged unread; 0: never.
        priority_level = 0
            Consumers of the lowest level come first: in Shared they get messages while they take any, in Failover one
            of them is served.
        subscription_mode = SubscriptionMode.Durable
            NonDurable: the broker forgets the subscription with its last consumer. Without a subscription this one
            begins at `initial_position`, and after a lost connection behind what it has received.
        subscription_properties = None
            What the broker tells others about the subscription, if it is new: a dict of str.
        start_paused = False
            Do not call the listener before `resume_message_listener()`.
        consumer_event_listener = None
            Told whether this is the consumer of a Failover subscription that is served.
        interceptors = ()
            Objects that see, and may change, what passes between the consumer and its user.
        enable_retry = False
            Whether messages can be put off: see `Consumer.reconsume_later`. The consumer then has a retry topic beside
            its own, and gives up on a message as its `dead_letter_policy` says, or when it was put off 16 times. Of
            Shared and KeyShared subscriptions; with a pattern, the policy has to name both topics.
        """
        from pulsar_actors.client.consumer_maker import ConsumerMaker  # noqa: PLC0415 - see the top
        from pulsar_actors.client.consuming.consumer_options import ConsumerOptions  # noqa: PLC0415

        options = ConsumerOptions(
            topic=topic,
            subscription_name=subscription_name,
            consumer_type=consumer_type,
            schema=schema,
            message_listener=message_listener,
            receiver_queue_size=receiver_queue_size,
            max_total_receiver_queue_size_across_partitions=max_total_receiver_queue_size_across_partitions,
            consumer_name=consumer_name,
            unacked_messages_timeout_ms=unacked_messages_timeout_ms,
            broker_consumer_stats_cache_time_ms=broker_consumer_stats_cache_time_ms,
            negative_ack_redelivery_delay_ms=negative_ack_redelivery_delay_ms,
            is_read_compacted=is_read_compacted,
            properties=properties,
            pattern_auto_discovery_period=pattern_auto_discovery_period,
            initial_position=initial_position,
            crypto_key_reader=crypto_key_reader,
            replicate_subscription_state_enabled=replicate_subscription_state_enabled,
            max_pending_chunked_message=max_pending_chunked_message,
            auto_ack_oldest_chunked_message_on_queue_full=auto_ack_oldest_chunked_message_on_queue_full,
            start_message_id_inclusive=start_message_id_inclusive,
            batch_receive_policy=batch_receive_policy,
            key_shared_policy=key_shared_policy,
            batch_index_ack_enabled=batch_index_ack_enabled,
            regex_subscription_mode=regex_subscription_mode,
            dead_letter_policy=dead_letter_policy,
            crypto_failure_action=crypto_failure_action,
            ack_receipt_enabled=ack_receipt_enabled,
            ack_grouping_time_ms=ack_grouping_time_ms,
            ack_grouping_max_size=ack_grouping_max_size,
            negative_ack_redelivery_backoff=negative_ack_redelivery_backoff,
            ack_timeout_redelivery_backoff=ack_timeout_redelivery_backoff,
            expire_time_of_incomplete_chunked_message_ms=expire_time_of_incomplete_chunked_message_ms,
            priority_level=priority_level,
            subscription_mode=subscription_mode,
            subscription_properties=subscription_properties,
            start_paused=start_paused,
            consumer_event_listener=consumer_event_listener,
            interceptors=interceptors,
            enable_retry=enable_retry,
        )
        self._closing.refuse("subscribe()")
        return ConsumerMaker(self._workshop, self._roll).consumer(options, self)

    def create_reader(
        self,
        topic: str | list[str],
        start_message_id: MessageId,
        schema: Schema = BYTES,
        reader_listener: ListensTo | None = None,
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
            What turns the bytes of messages into `Message.value()`.
        reader_listener = None
            Called with the reader and each message, on a listener thread; then there is nothing to `read_next`.
        receiver_queue_size = 1000
            How many messages wait here for `read_next`. 0: they are asked for one at a time.
        reader_name = None
            What the broker tells others.
        subscription_role_prefix = None
            What the name begins with under which the broker lists the reader.
        is_read_compacted = False
            Read the compacted version of the topic: the last message of each key.
        crypto_key_reader = None
            Of end-to-end encryption, which this version does not have.
        start_message_id_inclusive = False
            Begin with the `start_message_id` itself, and a `seek` likewise.
        crypto_failure_action = ConsumerCryptoFailureAction.FAIL
            Of end-to-end encryption, which this version does not have.
        max_pending_chunked_message = 10
            How many messages in pieces are put together at once; 0: any number.
        auto_ack_oldest_chunked_message_on_queue_full = False
            Of more than those, the oldest is given up; otherwise the newest waits, and is delivered again.
        expire_time_of_incomplete_chunked_message_ms = 60000
            After how many milliseconds a message in pieces is given up whose rest does not come; 0: never.
        interceptors = ()
            Objects that see, and may change, what is read.
        """
        from pulsar_actors.client.consumer_maker import ConsumerMaker  # noqa: PLC0415 - see the top
        from pulsar_actors.client.consuming.reader_options import ReaderOptions  # noqa: PLC0415

        options = ReaderOptions(
            topic=topic,
            start_message_id=start_message_id,
            schema=schema,
            reader_listener=reader_listener,
            receiver_queue_size=receiver_queue_size,
            reader_name=reader_name,
            subscription_role_prefix=subscription_role_prefix,
            is_read_compacted=is_read_compacted,
            crypto_key_reader=crypto_key_reader,
            start_message_id_inclusive=start_message_id_inclusive,
            crypto_failure_action=crypto_failure_action,
            max_pending_chunked_message=max_pending_chunked_message,
            auto_ack_oldest_chunked_message_on_queue_full=auto_ack_oldest_chunked_message_on_queue_full,
            expire_time_of_incomplete_chunked_message_ms=expire_time_of_incomplete_chunked_message_ms,
            interceptors=interceptors,
        )
        self._closing.refuse("create_reader()")
        return ConsumerMaker(self._workshop, self._roll).reader(options, self)

    def get_topic_partitions(self, topic: str) -> list[str]:
        """Return the names of a topic's partitions; of a topic that has none, its own name."""
        check_topic("topic", topic)
        self._closing.refuse("get_topic_partitions()")
        return partition_names(self._workshop, topic)

    def get_service_info(self) -> ServiceInfo:
        """Return which cluster the client is with at the moment."""
        return self._link.info

    def stats(self) -> ClientStats:
        """Return how things stand: connections, lookups, and every producer, consumer and reader that is open."""
        self._closing.refuse_if_forked()
        return self._roll.stats(self._workshop.tally)

    # The end.

    def close(self) -> None:
        """Close all producers, consumers and readers in good order, then the connections. Doing it again does nothing.

        It takes no longer than the operation timeout, whatever brokers do. In a callback it begins, and does not wait.
        """
        try:
            self._link.close()
        finally:
            self._closing.close()
            self._finalizer.detach()

    def shutdown(self) -> None:
        """Close everything at once, without waiting for any broker; what is pending fails."""
        try:
            self._link.close()
        finally:
            self._closing.shut_down()
            self._finalizer.detach()

    def __repr__(self) -> str:
        return f"<Client of {self._link.info.service_url}>"

    def forget_everything(self) -> None:
        """Become useless, in a forked child."""
        self._finalizer.detach()
        self._link.forget_everything()
        self._closing.forget_everything()


def subscribe_to_existing(client: Client, options: "ConsumerOptions") -> "Consumer":
    """Subscribe to one partition, or a topic without, that no broker makes for that."""
    from pulsar_actors.client.consumer_maker import ConsumerMaker  # noqa: PLC0415 - see the top

    maker = ConsumerMaker(client._workshop, client._roll)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    return maker.consumer_of_existing(options, client)


def workshop_of(client: Client) -> Workshop:
    """Give what a client asks brokers with, for questions that users do not ask."""
    return client._workshop  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
