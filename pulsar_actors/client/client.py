"""The client: what producers, consumers and readers are made with."""

import atexit
import re
import secrets
import threading
import warnings
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, TypeVar

from pulsar_actors.client import log_outlet
from pulsar_actors.client.arguments import topic as check_topic
from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.consumer import Consumer
from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming import Start
from pulsar_actors.client.dead_letter_sender import DeadLetterSender
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
from pulsar_actors.client.handle import ConsumerParts
from pulsar_actors.client.living import Living
from pulsar_actors.client.loggers import LoggerOption
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy, ConsumerDeadLetterPolicy, ConsumerKeySharedPolicy
from pulsar_actors.client.producer import Producer, ProducerParts
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.reader import Reader
from pulsar_actors.client.reader_options import ReaderOptions
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.client.stats import ClientStats
from pulsar_actors.client.workshop import Workshop
from pulsar_actors.exceptions import AlreadyClosed, Interrupted, OperationNotSupported, ProcessForked, Timeout
from pulsar_actors.machines.ledgers.retry_topic import dead_letter_topic
from pulsar_actors.runtime.actor import Address, forget_actors_on, tell
from pulsar_actors.runtime.binding_actor import CloseHandle
from pulsar_actors.runtime.client_actor import CloseAll, ShutDown
from pulsar_actors.runtime.consumer_actor import DeadLetterBox
from pulsar_actors.runtime.debts import anew, settle
from pulsar_actors.runtime.engine import Engine, ThreadEngine
from pulsar_actors.runtime.forks import watch
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.message_id import LATEST
from pulsar_actors.wire.PulsarApi_pb2 import CommandPartitionedTopicMetadata
from pulsar_actors.wire.topic_name import TopicName

VERSION = "pulsar_actors"
FLUSH = 2.0
"""Seconds beyond the operation timeout within which connections have been closed."""

JOIN = 1.0
"""Seconds to wait for threads that have nothing left to do."""

P = TypeVar("P", ProducerParts, ConsumerParts)
H = TypeVar("H", Consumer, Reader)

ListensTo = Callable[[Any, Message], object]


class Client:
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
        """Make a client; no connection is made before it is needed.

        service_url
            `pulsar://host:6650`, or `pulsar+ssl://host:6651` for an encrypted connection; several hosts are separated
            by commas and tried in turn.
        authentication
            Who the client is: `AuthenticationToken`, `AuthenticationTLS`, `AuthenticationBasic` or your own.
        operation_timeout_seconds
            How long creating, closing, seeking and the like may take, retries included.
        io_threads
            Threads that talk to brokers. One is enough for almost everything.
        message_listener_threads
            Threads that call message listeners; each consumer keeps to one.
        concurrent_lookup_requests
            How many lookups are on their way at once; the others wait.
        log_conf_file_path, use_tls
            Without effect, as in the official client.
        stats_interval_in_seconds
            Accepted; see `stats()`, which tells at any time.
        tls_trust_certs_file_path
            A file of certificates to trust, instead of the usual ones.
        tls_allow_insecure_connection
            Accept any certificate. Anybody on the way can read along.
        tls_validate_hostname
            Demand that the certificate is the host's. On by default, other than in the official client.
        logger
            Where log lines go: a `logging.Logger`, a `ConsoleLogger` or a `FileLogger`. By default to the logger
            `pulsar_actors`, which is silent unless your program sets up logging.
        connection_timeout_ms
            How long opening a connection may take, for each host.
        listener_name
            Which of the brokers' advertised listeners this client can reach.
        tls_private_key_file_path, tls_certificate_file_path
            The certificate that the client shows.
        connections_per_broker
            How many connections producers and consumers share to one broker.
        keep_alive_interval_seconds
            How often a silent connection is tried; after two intervals without an answer it counts as lost.
        connection_max_idle_seconds
            How long a connection that nobody uses is kept; 0: for ever.
        initial_backoff_interval_ms, max_backoff_interval_ms
            The first and the longest pause before trying again.
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
        self._log = log_outlet.attach(options.logger)
        self._workshop = Workshop(engine, options, VERSION)
        self._producers: Living[Producer] = Living()
        self._consumers: Living[Consumer | Reader] = Living()
        self._listening: dict[int, Consumer | Reader] = {}  # kept, though nobody else may hold them
        self._lock = threading.Lock()
        self._ended: SlimFuture[None] | None = None
        self._refusal: Exception | None = None
        self._finalizer = weakref.finalize(self, _let_go, self._workshop.guardian, engine, self._log)
        self._finalizer.atexit = False
        watch(self)
        _OPEN.add(self)

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
        producer_name
            A name that no other producer of the topic has; by default the broker chooses one.
        schema
            What turns the content of messages into bytes.
        initial_sequence_id
            The sequence id that counts as used; the first message gets the next one.
        send_timeout_millis
            How long a message may be pending before it fails, and all after it; 0: for ever.
        compression_type
            LZ4, ZLib, ZSTD or SNAPPY.
        max_pending_messages, max_pending_messages_across_partitions
            How many messages may be pending; 0: any number. More raise ProducerQueueIsFull, or wait for room with
        block_if_queue_full.
        batching_enabled
            Messages of `send_async` travel together: up to `batching_max_messages` or
            `batching_max_allowed_size_in_bytes`, or what comes within `batching_max_publish_delay_ms`. It is how many
            messages are sent in little time.
        batching_type
            With KeyBased, the messages of a batch share their key, as KeyShared subscriptions need it.
        chunking_enabled
            A message that is too large for the broker travels in several pieces.
        message_routing_mode, message_router, lazy_start_partitioned_producers
            Of partitioned topics.
        properties
            What the broker tells others about the producer.
        encryption_key, crypto_key_reader
            Of end-to-end encryption, which this version does not have.
        access_mode
            Whether others may publish to the topic as well.
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
        self._refuse("create_producer()")
        self._refuse_partitioned(topic)
        parts = self._await(self._workshop.producer(options), f"creating a producer on {topic}")
        return self._producer(parts, options)

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
            `orders`, `tenant/namespace/orders`, or the complete name.
        subscription_name
            What the broker remembers under this name is what was acknowledged.
        consumer_type
            Exclusive: one consumer. Failover: one at a time. Shared: messages are shared out among all. KeyShared: the
            messages of one key go to one consumer.
        schema
            What turns the bytes of messages into `Message.value()`.
        message_listener
            Called with the consumer and each message, on a listener thread; then there is nothing to `receive`.
        receiver_queue_size
            How many messages wait here for `receive`. 0: they are asked for one at a time.
        consumer_name
            What the broker tells others.
        unacked_messages_timeout_ms
            A message that is not acknowledged for so long is delivered again.
        negative_ack_redelivery_delay_ms
            How long a message rests that was negatively acknowledged.
        is_read_compacted
            Read the compacted version of the topic.
        initial_position
            Where a new subscription starts: Latest, or Earliest for all that the topic still has.
        start_message_id_inclusive
            Whether a `seek` to a message leads to that one or to the one after it.
        max_pending_chunked_message, auto_ack_oldest_chunked_message_on_queue_full
            How many messages in pieces are put together at once, and what becomes of the oldest when there are more.
        batch_receive_policy
            When `batch_receive` returns.
        key_shared_policy
            How a KeyShared consumer gets its keys.
        batch_index_ack_enabled
            Messages inside a batch are acknowledged one by one, if the broker does so too.
        dead_letter_policy
            Where messages go that have failed too often; of Shared and KeyShared subscriptions.
        max_total_receiver_queue_size_across_partitions, pattern_auto_discovery_period, regex_subscription_mode
            Of several topics.
        broker_consumer_stats_cache_time_ms, replicate_subscription_state_enabled, properties
            As in the official client.
        crypto_key_reader, crypto_failure_action
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
        self._refuse("subscribe()")
        self._refuse_several(options)
        made = self._consumer_parts(options, None, message_listener)
        consumer = self._consumer(made[0], Consumer)
        self._begin_listening(consumer, made[0], made[1])
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
        """Make a reader of a topic, from a message on: `MessageId.earliest`, `MessageId.latest`, or any other.

        It starts after that message, or at it with `start_message_id_inclusive`. With a `reader_listener`, that is
        called with the reader and each message, on a listener thread. All else is as in `subscribe`.
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
        self._refuse("create_reader()")
        self._refuse_partitioned(topic)
        prefix = f"{subscription_role_prefix}-" if subscription_role_prefix else ""
        consumer = ConsumerOptions(
            topic=topic,
            subscription_name=f"{prefix}reader-{secrets.token_hex(5)}",
            schema=schema,
            receiver_queue_size=receiver_queue_size,
            consumer_name=options.reader_name,
            is_read_compacted=is_read_compacted,
            start_message_id_inclusive=start_message_id_inclusive,
        )
        start = Start(options.start_message_id.wire, start_message_id_inclusive)
        made = self._consumer_parts(consumer, start, reader_listener)
        reader = self._consumer(made[0], Reader)
        if start.inclusive and start.message_id == LATEST:
            try:
                reader.go_to_last()
            except BaseException:
                tell(made[0].address, CloseHandle())
                raise
        self._begin_listening(reader, made[0], made[1])
        return reader

    def get_topic_partitions(self, topic: str) -> list[str]:
        """Return the names of a topic's partitions; of a topic that has none, its own name."""
        check_topic("topic", topic)
        self._refuse("get_topic_partitions()")
        name = TopicName.parse(topic)
        count = self._partitions(name)
        return [str(name.partition(index)) for index in range(count)] if count else [str(name)]

    def stats(self) -> ClientStats:
        """Return how things stand: connections, lookups, and every producer, consumer and reader."""
        if isinstance(self._refusal, ProcessForked):
            raise anew(self._refusal)
        producers = tuple(producer.stats() for producer in self._producers)
        consumers = tuple(consumer.stats() for consumer in self._consumers)
        tally = self._workshop.tally
        return ClientStats(
            connections=tally.connections,
            pending_lookups=tally.lookups,
            pending_bytes=sum(one.pending_bytes for one in producers),
            producers=producers,
            consumers=consumers,
        )

    # The end.

    def close(self) -> None:
        """Close all producers, consumers and readers in good order, then the connections. Doing it again does nothing.

        It takes no longer than the operation timeout, whatever brokers do. In a callback it begins, and does not wait.
        """
        self._end(CloseAll, float(self._options.operation_timeout_seconds) + FLUSH)

    def shutdown(self) -> None:
        """Close everything at once, without waiting for any broker; what is pending fails."""
        self._end(ShutDown, FLUSH)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._options.service_url}>"

    def __reduce__(self) -> Any:  # noqa: ANN401 - it never returns
        raise TypeError("a Client holds connections and cannot be pickled: make one where it is needed")

    def forget_everything(self) -> None:
        """Become useless, in a forked child, without a word to any broker."""
        self._lock = threading.Lock()
        self._finalizer.detach()
        self._refusal = ProcessForked("the process was forked after this was made: make a new Client in the child")
        for parts in self._workshop.open:
            parts.forget(self._refusal)
        self._engine.forget_everything()

    def _end(self, how: type[CloseAll] | type[ShutDown], timeout: float) -> None:
        if isinstance(self._refusal, ProcessForked):
            raise anew(self._refusal)
        with self._lock:
            first, ended = self._ended is None, self._ended or SlimFuture()
            self._ended = ended
            self._refusal = AlreadyClosed("the client is closed")
        if first:
            done: SlimFuture[None] = SlimFuture()
            tell(self._workshop.guardian, how(done))
            if self._engine.is_inside():
                done.add_done_callback(lambda _: self._finish(ended, 0.0))
                return
            try:
                self._engine.block(done, timeout, "closing the client")
            except Timeout:
                pass
            finally:
                self._finish(ended, JOIN)
            return
        if how is ShutDown:  # have a close that waits for brokers wait no longer
            tell(self._workshop.guardian, ShutDown(SlimFuture()))
        if not self._engine.is_inside():
            self._engine.block(ended, timeout + FLUSH, "closing the client, which another thread does")

    def _finish(self, ended: SlimFuture[None], join: float) -> None:
        self._finalizer.detach()
        self._engine.stop(join)
        forget_actors_on(self._engine.loops)
        closed = AlreadyClosed("the client is closed")
        self._workshop.debts.end(closed)
        for parts in self._workshop.open:
            parts.end(closed)
        self._listening.clear()
        self._log.detach()
        _OPEN.discard(self)
        settle(ended, None)

    # How things are made.

    def _refuse(self, what: str) -> None:
        if self._refusal is not None:
            raise anew(self._refusal)
        self._engine.refuse_inside(what, "another thread")

    def _refuse_several(self, options: ConsumerOptions) -> None:
        if len(options.topics) != 1:
            raise OperationNotSupported("several topics at once are not there yet: subscribe to each of them")
        self._refuse_partitioned(options.topics[0])

    def _refuse_partitioned(self, topic: str) -> None:
        name = TopicName.parse(topic)
        if name.partition_index < 0 and self._partitions(name):
            raise OperationNotSupported(
                f"{name} is partitioned, which is not there yet: use its partitions, see get_topic_partitions()"
            )

    def _partitions(self, name: TopicName) -> int:
        command = CommandPartitionedTopicMetadata(topic=str(name), request_id=0, metadata_auto_creation_enabled=True)
        answer = self._engine.block(self._workshop.ask(command), None, f"asking for the partitions of {name}")
        return int(answer.partitions)

    def _await(self, made: SlimFuture[P], what: str) -> P:
        """Wait until it is there; if nobody waits to the end, let it go as soon as it is."""
        try:
            return self._engine.block(made, None, what)
        except Interrupted:
            made.add_done_callback(_close_unwanted)
            raise

    def _producer(self, parts: ProducerParts, options: ProducerOptions) -> Producer:
        producer = Producer(parts, options, self)
        self._producers.add(producer)
        return producer

    def _consumer_parts(
        self, options: ConsumerOptions, start: Start | None, listener: ListensTo | None
    ) -> tuple[ConsumerParts, "list[Any]"]:
        """Make the parts, and a place for the handle with which a listener is called: the actor does not keep it."""
        holder: list[Any] = []

        def call(message: Any) -> object:  # noqa: ANN401 - a message
            return None if listener is None else listener(holder[0](), message)

        dead_letters = None if options.dead_letter_policy is None else self._dead_letters(options)
        made = self._workshop.consumer(options, start, None if listener is None else call, dead_letters)
        what = f"subscribing to {options.topics[0]}"
        return self._await(made, what), holder

    def _consumer(self, parts: ConsumerParts, kind: type[H]) -> H:
        handle = kind(parts, self)
        self._consumers.add(handle)
        return handle

    def _begin_listening(self, handle: Consumer | Reader, parts: ConsumerParts, holder: list[Any]) -> None:
        if parts.pump is not None:
            holder.append(weakref.ref(handle))
            self._listening[id(handle)] = handle
            parts.ties.ended.add_done_callback(_calling(weakref.WeakMethod(self._forget_listening), id(handle)))
            parts.pump.resume()

    def _forget_listening(self, number: int) -> None:
        self._listening.pop(number, None)

    def _dead_letters(self, options: ConsumerOptions) -> Callable[[ConsumerParts], DeadLetterBox]:
        policy = options.dead_letter_policy
        assert policy is not None  # noqa: S101 - the caller has looked
        topic = str(TopicName.parse(options.topics[0]))
        target = policy.dead_letter_topic or dead_letter_topic(topic, options.subscription_name)
        producer = ProducerOptions(topic=target, block_if_queue_full=False, max_pending_messages=0)

        workshop, producers = self._workshop, self._producers  # the actor, which keeps this, does not keep the client

        def make_producer() -> "Future[Producer]":
            made: SlimFuture[Producer] = SlimFuture()

            def done(parts: "Future[ProducerParts]") -> None:
                error = parts.exception()
                if isinstance(error, Exception):
                    settle(made, error)
                else:
                    settle(made, Producer(parts.result(), producer, None))
                    producers.add(made.result())

            workshop.producer(producer, policy.initial_subscription_name or "").add_done_callback(done)
            return made

        def make_box(_: ConsumerParts) -> DeadLetterBox:
            return DeadLetterSender(make_producer, topic, options.subscription_name, DEFAULT_MAX_MESSAGE_SIZE)

        return make_box


_OPEN: Living[Client] = Living()


def _let_go(guardian: Address, engine: Engine, log: log_outlet.Attachment) -> None:
    """End what a client has left that nobody holds any longer. The garbage collector calls this, in any thread."""
    done: SlimFuture[None] = SlimFuture()
    tell(guardian, ShutDown(done))

    def gone(_: "Future[None]") -> None:
        log.detach()
        engine.stop(0.0)

    done.add_done_callback(gone)


def _calling(method: "weakref.WeakMethod[Callable[[int], None]]", number: int) -> "Callable[[Future[None]], None]":
    """Make a future's callback of a method, without keeping alive whose it is."""

    def call(_: "Future[None]") -> None:
        alive = method()
        if alive is not None:
            alive(number)

    return call


def _close_unwanted(made: "Future[P]") -> None:
    """Close what came into being after its caller was interrupted."""
    if made.exception() is None:
        tell(made.result().address, CloseHandle())


@atexit.register
def _warn_of_open_producers() -> None:
    """Say once, at the end of the interpreter, whose messages may have been lost: nothing is flushed any longer."""
    producers = [producer for client in _OPEN for producer in client._producers]  # noqa: SLF001  # pyright: ignore[reportPrivateUsage] # its own
    names = [producer.topic() for producer in producers if producer.is_open]
    if names:
        some = ", ".join(sorted(set(names))[:5])
        warnings.warn(f"producers were left open, and may have lost messages: {some}", ResourceWarning, stacklevel=1)
