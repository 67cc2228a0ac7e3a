"""The client: what producers, consumers and readers are made with.

Most of it is the official client's arguments, each with what it is for. They become options, which check them; the
workshop makes something of them; the roll has what was made; and how a client ends is a file of its own.
"""

import re
import weakref
from collections.abc import Callable
from typing import Any

from pulsar_actors.client import log_outlet
from pulsar_actors.client.arguments import topic as check_topic
from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.closeable import Closeable
from pulsar_actors.client.closing import JOIN, Closing, let_go
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming import Start
from pulsar_actors.client.dead_letter_sender import dead_letter_sender
from pulsar_actors.client.enums import (
    BatchingType,
    CompressionType,
    ConsumerCryptoFailureAction,
    ConsumerType,
    InitialPosition,
    PartitionsRoutingMode,
    ProducerAccessMode,
    RegexSubscriptionMode,
)
from pulsar_actors.client.loggers import LoggerOption
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.partitions import partition_names, refuse_partitioned, refuse_several
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy, ConsumerDeadLetterPolicy, ConsumerKeySharedPolicy
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.reader import Reader
from pulsar_actors.client.reader_options import ReaderOptions
from pulsar_actors.client.reading import as_consumer, start_of
from pulsar_actors.client.roll import Roll
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.client.stats import ClientStats
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.forks import watch
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.version import __version__

ListensTo = Callable[[Any, Message], object]


class Client(Closeable):
    """A connection to a Pulsar cluster, for any number of producers, consumers and readers, and any number of threads.

    They share its connections and its threads. `with` closes the client, and all that was made with it, at the end of
    its block; the same is done by `close`. A client cannot be used in a process that was forked after it was made:
    make another there.
    """

    def __init__(
        self,
        service_url: str,
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
        initial_backoff_interval_ms: int = 100,
        max_backoff_interval_ms: int = 60000,
    ) -> None:
        """Make a client; no connection is made before it is needed. Seconds may have a fraction.

        service_url
            `pulsar://host:6650`, or `pulsar+ssl://host:6651` for an encrypted connection; several hosts are separated
            by commas and tried in turn.
        authentication = None
            Who the client is: `AuthenticationToken`, `AuthenticationTLS`, `AuthenticationBasic` or your own.
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
            A file of certificates (PEM) to trust, instead of the usual ones.
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
            Files (PEM) with the certificate that the client shows, and its key: both or neither.
        connections_per_broker = 1
            How many connections producers and consumers share to one broker.
        keep_alive_interval_seconds = 30
            Each connection is tried every so many seconds, and lost if it has not answered by the next time.
        connection_max_idle_seconds = 60
            For how many seconds a connection that nobody uses is kept; 0: for ever.
        initial_backoff_interval_ms = 100
        max_backoff_interval_ms = 60000
            The first and the longest pause before trying again, in milliseconds.
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
            initial_backoff_interval_ms=initial_backoff_interval_ms,
            max_backoff_interval_ms=max_backoff_interval_ms,
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
        log = log_outlet.attach(options.logger)
        self._workshop = Workshop(engine, options, f"pulsar_actors-{__version__}")
        self._roll = Roll()
        self._closing = Closing(engine, self._workshop, self._roll, log, float(options.operation_timeout_seconds))
        self._finalizer = weakref.finalize(self, let_go, self._workshop.guardian, engine, log)
        self._finalizer.atexit = False
        watch(self)

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
            Of partitioned topics, which this version does not have.
        block_if_queue_full = False
            Whether `send` and `send_async` wait for room in the queue instead of raising ProducerQueueIsFull.
        batching_enabled = False
            Messages of `send_async` travel together, which is how many are sent in little time. A batch leaves with so
            many messages or bytes, or so many milliseconds after its first message, as the next three say.
        batching_max_messages = 1000
        batching_max_allowed_size_in_bytes = 131072
        batching_max_publish_delay_ms = 10
        chunking_enabled = False
            A message that is too large for the broker travels in several pieces. Not with batching.
        message_routing_mode = PartitionsRoutingMode.RoundRobinDistribution
        lazy_start_partitioned_producers = False
            Of partitioned topics, which this version does not have.
        properties = None
            What the broker tells others about the producer: a dict of str.
        batching_type = BatchingType.Default
            With KeyBased, the messages of a batch share their key, as KeyShared subscriptions need it.
        encryption_key = None
        crypto_key_reader = None
            Of end-to-end encryption, which this version does not have.
        access_mode = ProducerAccessMode.Shared
            Whether others may publish to the topic as well.
        message_router = None
            Of partitioned topics, which this version does not have.
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
        )
        self._closing.refuse("create_producer()")
        what = f"creating a producer on {topic}"
        refuse_partitioned(self._workshop, topic, what)
        parts = self._workshop.wait(self._workshop.producer(options), what)
        producer = Producer(parts, options, self)
        self._roll.producers.add(producer)
        return producer

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
        batch_receive_policy: ConsumerBatchReceivePolicy | None = None,
        key_shared_policy: ConsumerKeySharedPolicy | None = None,
        batch_index_ack_enabled: bool = False,
        regex_subscription_mode: RegexSubscriptionMode = RegexSubscriptionMode.PersistentOnly,
        dead_letter_policy: ConsumerDeadLetterPolicy | None = None,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
    ) -> Consumer:
        """Subscribe to a topic; the subscription, and the topic if that is allowed, are created if need be.

        topic
            `orders`, `tenant/namespace/orders`, or the complete name. This version takes no list and no pattern.
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
            How many messages wait here for `receive`. 0: they are asked for one at a time.
        max_total_receiver_queue_size_across_partitions = 50000
            Of several topics, which this version does not have.
        consumer_name = None
            What the broker tells others.
        unacked_messages_timeout_ms = None
            A message that is not acknowledged for so many milliseconds is delivered again; None or 0: it is not, while
            the consumer is there.
        broker_consumer_stats_cache_time_ms = 30000
            Without effect in this version.
        negative_ack_redelivery_delay_ms = 60000
            How many milliseconds a message rests that was negatively acknowledged.
        is_read_compacted = False
            Read the compacted version of the topic: the last message of each key.
        properties = None
            What the broker tells others about the consumer: a dict of str.
        pattern_auto_discovery_period = 60
            Of patterns, which this version does not have.
        initial_position = InitialPosition.Latest
            Where a new subscription starts: Latest, or Earliest for all that the topic still has.
        crypto_key_reader = None
            Of end-to-end encryption, which this version does not have.
        replicate_subscription_state_enabled = False
            Have the brokers keep the subscription in step between clusters.
        max_pending_chunked_message = 10
            How many messages in pieces are put together at once; 0: any number.
        auto_ack_oldest_chunked_message_on_queue_full = False
            Of more than those, the oldest is acknowledged unread; otherwise it is delivered again, later.
        start_message_id_inclusive = False
            Whether a `seek` to a message leads to that one or to the one after it.
        batch_receive_policy = None
            When `batch_receive` returns; by default with 10 MiB, or what comes within 100 milliseconds.
        key_shared_policy = None
            How a KeyShared consumer gets its keys; by default the broker divides them.
        batch_index_ack_enabled = False
            Messages inside a batch are acknowledged one by one, if the broker does so too.
        regex_subscription_mode = RegexSubscriptionMode.PersistentOnly
            Of patterns, which this version does not have.
        dead_letter_policy = None
            Where messages go that have failed too often; of Shared and KeyShared subscriptions.
        crypto_failure_action = ConsumerCryptoFailureAction.FAIL
            Of end-to-end encryption, which this version does not have.
        """
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
        )
        self._closing.refuse("subscribe()")
        what = f"subscribing to {', '.join(options.topics)}"
        refuse_several(self._workshop, options, what)
        parts = self._consumer_parts(options, None, message_listener, what)
        consumer = self._roll.enter(Consumer(parts, self))
        self._begin_listening(consumer, parts)
        return consumer

    def create_reader(
        self,
        topic: str,
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
    ) -> Reader:
        """Make a reader of a topic, from a message on. It leaves no subscription behind.

        topic
            `orders`, `tenant/namespace/orders`, or the complete name.
        start_message_id
            `MessageId.earliest`, `MessageId.latest`, or any other: reading begins after it.
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
        """
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
        )
        self._closing.refuse("create_reader()")
        what = f"creating a reader on {topic}"
        refuse_partitioned(self._workshop, topic, what)
        start = start_of(options)
        parts = self._consumer_parts(as_consumer(options), start, reader_listener, what)
        reader = self._roll.enter(Reader(parts, self))
        if start.is_last:
            try:
                reader.go_to_last()
            except BaseException:
                reader.close_soon()
                raise
        self._begin_listening(reader, parts)
        return reader

    def get_topic_partitions(self, topic: str) -> list[str]:
        """Return the names of a topic's partitions; of a topic that has none, its own name."""
        check_topic("topic", topic)
        self._closing.refuse("get_topic_partitions()")
        return partition_names(self._workshop, topic)

    def stats(self) -> ClientStats:
        """Return how things stand: connections, lookups, and every producer, consumer and reader that is open."""
        self._closing.refuse_if_forked()
        return self._roll.stats(self._workshop.tally)

    # The end.

    def close(self) -> None:
        """Close all producers, consumers and readers in good order, then the connections. Doing it again does nothing.

        It takes no longer than the operation timeout, whatever brokers do. In a callback it begins, and does not wait.
        """
        self._closing.close()
        self._finalizer.detach()

    def shutdown(self) -> None:
        """Close everything at once, without waiting for any broker; what is pending fails."""
        self._closing.shut_down()
        self._finalizer.detach()

    def __repr__(self) -> str:
        return f"<Client of {self._options.service_url}>"

    def forget_everything(self) -> None:
        """Become useless, in a forked child."""
        self._finalizer.detach()
        self._closing.forget_everything()

    # How things are made.

    def _consumer_parts(
        self, options: ConsumerOptions, start: Start | None, listener: ListensTo | None, what: str
    ) -> ConsumerParts:
        policy = options.dead_letter_policy
        sender = None if policy is None else dead_letter_sender(policy, options, self._workshop, self._roll)
        made = self._workshop.consumer(options, start, listener, sender)
        return self._workshop.wait(made, what)

    def _begin_listening(self, handle: Consumer | Reader, parts: ConsumerParts) -> None:
        if parts.pump is not None:
            self._roll.keep(handle, parts.ties.ended)
            parts.pump.begin(handle)
