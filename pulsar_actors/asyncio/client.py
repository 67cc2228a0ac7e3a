"""The `Client` of asyncio."""

import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pulsar_actors.asyncio.binding import LoopBinding, start_thread
from pulsar_actors.asyncio.consumer import Consumer
from pulsar_actors.asyncio.handle import ClosedAtEnd
from pulsar_actors.asyncio.listeners import LoopEventListener
from pulsar_actors.asyncio.producer import Producer
from pulsar_actors.asyncio.reader import Reader
from pulsar_actors.asyncio.table_view import TableView
from pulsar_actors.client.client import Client as SyncClient
from pulsar_actors.client.client import context_of
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
from pulsar_actors.client.history import History
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.policies import (
    ConsumerBatchReceivePolicy,
    ConsumerDeadLetterPolicy,
    ConsumerKeySharedPolicy,
)
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.client.service_info import ServiceInfo
from pulsar_actors.client.stats import ClientStats
from pulsar_actors.client.validation import callback as check_callback
from pulsar_actors.client.validation import flag, optional
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration

if TYPE_CHECKING:
    from pulsar_actors.asyncio.transaction import Transaction
    from pulsar_actors.client.inspection import FaultyBroker, Inspector

Listener = Callable[[Any, Message], object]
_listener = optional(check_callback("a Consumer or a Reader, and a Message"))


class Client(ClosedAtEnd):
    """A connection to a Pulsar cluster, for the tasks of one event loop: the one that runs at its first call.

    `async with` closes it at the end of its block. A loop that ends, as that of `asyncio.run`, closes it, too.
    """

    def __init__(self, service_url: Any, **kwargs: Any) -> None:  # noqa: ANN401 - those of the synchronous client
        """Make a client. The arguments are those of the synchronous `Client`."""
        self._client = SyncClient(service_url, **kwargs)
        self._binding = LoopBinding(self._client, start_thread)

    async def create_producer(
        self,
        topic: str,
        producer_name: str | None = None,
        schema: Schema | None = None,
        initial_sequence_id: int | None = None,
        send_timeout_millis: int = 30000,
        compression_type: CompressionType = CompressionType.NONE,
        max_pending_messages: int = 1000,
        max_pending_messages_across_partitions: int = 50000,
        block_if_queue_full: bool = False,
        batching_enabled: bool = True,
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
        **options: Any,  # noqa: ANN401 - those that only the synchronous client explains
    ) -> Producer:
        """Make a producer of a topic. The arguments are those of the synchronous client, but batching is on.

        If this is cancelled, the producer is closed as soon as it was created.
        """
        arguments: dict[str, Any] = {
            **options, "topic": topic, "producer_name": producer_name, "schema": BYTES if schema is None else schema,
            "initial_sequence_id": initial_sequence_id, "send_timeout_millis": send_timeout_millis,
            "compression_type": compression_type, "max_pending_messages": max_pending_messages,
            "max_pending_messages_across_partitions": max_pending_messages_across_partitions,
            "block_if_queue_full": block_if_queue_full, "batching_enabled": batching_enabled,
            "batching_max_messages": batching_max_messages,
            "batching_max_allowed_size_in_bytes": batching_max_allowed_size_in_bytes,
            "batching_max_publish_delay_ms": batching_max_publish_delay_ms, "chunking_enabled": chunking_enabled,
            "message_routing_mode": message_routing_mode,
            "lazy_start_partitioned_producers": lazy_start_partitioned_producers, "properties": properties,
            "batching_type": batching_type, "encryption_key": encryption_key, "crypto_key_reader": crypto_key_reader,
            "access_mode": access_mode, "message_router": message_router,
        }  # fmt: skip
        client = self._client
        made = await self._binding.in_thread(lambda: client.create_producer(**arguments), lambda it: it.close_soon())
        return Producer(made, self._binding, waits=block_if_queue_full)

    async def subscribe(
        self,
        topic: str | list[str] | re.Pattern[str],
        subscription_name: str,
        consumer_type: ConsumerType = ConsumerType.Exclusive,
        schema: Schema | None = None,
        receiver_queue_size: int = 1000,
        max_total_receiver_queue_size_across_partitions: int = 50000,
        consumer_name: str | None = None,
        unacked_messages_timeout_ms: int | None = None,
        broker_consumer_stats_cache_time_ms: int = 30000,
        negative_ack_redelivery_delay_ms: int = 60000,
        is_read_compacted: bool = False,
        properties: dict[str, str] | None = None,
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
        is_pattern_topic: bool = False,
        *,
        message_listener: Listener | None = None,
        start_paused: bool = False,
        consumer_event_listener: Any = None,  # noqa: ANN401 - its methods may be coroutine functions
        **options: Any,  # noqa: ANN401 - those that only the synchronous client explains
    ) -> Consumer:
        """Subscribe to a topic, a list of topics, or all topics that match a pattern.

        The arguments are those of the synchronous client. With `is_pattern_topic`, the topic is a str with a pattern; a
        compiled pattern is taken as well. `message_listener` is called in a task of the loop, with one message after
        the other, and may be a coroutine function; so may the methods of `consumer_event_listener`. If this is
        cancelled, the consumer is closed as soon as it was created.
        """
        _listener("message_listener", message_listener)
        flag("start_paused", start_paused)
        if start_paused and message_listener is None:
            raise InvalidConfiguration("start_paused goes with a message_listener: nothing else can be paused")
        events = None
        if consumer_event_listener is not None:
            events = LoopEventListener(self._binding.completions(), consumer_event_listener)
        flag("is_pattern_topic", is_pattern_topic)
        if is_pattern_topic and not isinstance(topic, re.Pattern):
            topic = _pattern(topic)
        arguments: dict[str, Any] = {
            **options, "topic": topic, "subscription_name": subscription_name, "consumer_type": consumer_type,
            "schema": BYTES if schema is None else schema, "receiver_queue_size": receiver_queue_size,
            "max_total_receiver_queue_size_across_partitions": max_total_receiver_queue_size_across_partitions,
            "consumer_name": consumer_name, "unacked_messages_timeout_ms": unacked_messages_timeout_ms,
            "broker_consumer_stats_cache_time_ms": broker_consumer_stats_cache_time_ms,
            "negative_ack_redelivery_delay_ms": negative_ack_redelivery_delay_ms,
            "is_read_compacted": is_read_compacted, "properties": properties, "initial_position": initial_position,
            "crypto_key_reader": crypto_key_reader,
            "replicate_subscription_state_enabled": replicate_subscription_state_enabled,
            "max_pending_chunked_message": max_pending_chunked_message,
            "auto_ack_oldest_chunked_message_on_queue_full": auto_ack_oldest_chunked_message_on_queue_full,
            "start_message_id_inclusive": start_message_id_inclusive, "batch_receive_policy": batch_receive_policy,
            "key_shared_policy": key_shared_policy, "batch_index_ack_enabled": batch_index_ack_enabled,
            "regex_subscription_mode": regex_subscription_mode, "dead_letter_policy": dead_letter_policy,
            "crypto_failure_action": crypto_failure_action, "consumer_event_listener": events,
        }  # fmt: skip
        client = self._client
        made = await self._binding.in_thread(lambda: client.subscribe(**arguments), lambda it: it.close_soon())
        consumer = Consumer(made, self._binding, message_listener, is_paused=start_paused)
        if events is not None:
            events.start(consumer)
        return consumer

    async def create_reader(
        self,
        topic: str | list[str],
        start_message_id: MessageId,
        schema: Schema | None = None,
        receiver_queue_size: int = 1000,
        reader_name: str | None = None,
        subscription_role_prefix: str | None = None,
        is_read_compacted: bool = False,
        crypto_key_reader: object = None,
        start_message_id_inclusive: bool = False,
        crypto_failure_action: ConsumerCryptoFailureAction = ConsumerCryptoFailureAction.FAIL,
        *,
        reader_listener: Listener | None = None,
        **options: Any,  # noqa: ANN401 - those that only the synchronous client explains
    ) -> Reader:
        """Make a reader of a topic, starting at a message. The arguments are those of the synchronous client.

        `reader_listener` is called as `message_listener` of `subscribe` is. If this is cancelled, the reader is closed
        as soon as it was created.
        """
        _listener("reader_listener", reader_listener)
        arguments: dict[str, Any] = {
            **options, "topic": topic, "start_message_id": start_message_id,
            "schema": BYTES if schema is None else schema, "receiver_queue_size": receiver_queue_size,
            "reader_name": reader_name, "subscription_role_prefix": subscription_role_prefix,
            "is_read_compacted": is_read_compacted, "crypto_key_reader": crypto_key_reader,
            "start_message_id_inclusive": start_message_id_inclusive, "crypto_failure_action": crypto_failure_action,
        }  # fmt: skip
        client = self._client
        made = await self._binding.in_thread(lambda: client.create_reader(**arguments), lambda it: it.close_soon())
        return Reader(made, self._binding, reader_listener)

    async def create_table_view(
        self,
        topic: str,
        subscription_name: str | None = None,
        schema: Schema | None = None,
        **options: Any,  # noqa: ANN401 - those that only the synchronous client explains
    ) -> TableView:
        """Make a view of the latest value of each key of a topic. It has all values that the topic has now.

        The arguments are those of the synchronous client. If this is cancelled, the view is closed as soon as it was
        created.
        """
        client, known = self._client, BYTES if schema is None else schema
        made = await self._binding.in_thread(
            lambda: client.create_table_view(topic, subscription_name, known, **options), lambda it: it.close_soon()
        )
        return TableView(made, self._binding)

    async def new_transaction(self, timeout: timedelta = timedelta(minutes=1)) -> "Transaction":
        """Open a transaction, in which messages are sent and acknowledged. The argument is the synchronous one."""
        from pulsar_actors.asyncio.transaction import Transaction  # noqa: PLC0415 - few programs have any
        from pulsar_actors.client.new_transaction import open_transaction_soon  # noqa: PLC0415 - few programs have any

        opened = open_transaction_soon(context_of(self._client), timeout, self._client)
        return Transaction(await self._binding.wait_for(opened), self._binding)

    async def get_topic_partitions(self, topic: str) -> list[str]:
        """Return the names of a topic's partitions. For a topic that is not partitioned, return its own name."""
        client = self._client
        return await self._binding.in_thread(lambda: client.get_topic_partitions(topic))

    def get_service_info(self) -> ServiceInfo:
        """Return the service that the client uses at the moment."""
        return self._client.get_service_info()

    def stats(self) -> ClientStats:
        """Return statistics of the connections, the lookups, and all open producers, consumers and readers."""
        return self._client.stats()

    def history(self) -> History:
        """Return the last changes of state of all that the client has. See the synchronous client."""
        return self._client.history()

    def inspect(self, *, port: int = 0, broker: "FaultyBroker | None" = None) -> "Inspector":
        """Serve a page for your browser that shows the state machines at work. See the synchronous client."""
        return self._client.inspect(port=port, broker=broker)

    async def close(self) -> None:
        """Close all producers, consumers and readers, then the connections. A second call does nothing.

        Pending messages and acknowledgements are sent first. If this is cancelled, the close goes on to its end.
        """
        await self._binding.close()

    def shutdown(self) -> None:
        """Close everything at once, without waiting for any broker. Pending messages and calls fail.

        In a coroutine this does not wait for the end, either: the loop goes on.
        """
        self._binding.shut_down()

    def __repr__(self) -> str:
        return f"<asyncio {self._client!r}>"


def _pattern(topic: "str | Sequence[str]") -> "re.Pattern[str]":
    if not isinstance(topic, str):
        raise InvalidArgument(f"with is_pattern_topic, the topic is a str with a pattern, not {topic!r}")
    try:
        return re.compile(topic)
    except re.error as error:
        raise InvalidArgument(f"{topic!r} is no pattern: {error}") from None


def client_on(client: SyncClient, starting: Callable[[Callable[[], object]], object]) -> Client:
    """Make a client on a synchronous one, such as a simulated one. `starting` starts threads."""
    made = Client.__new__(Client)
    made._client, made._binding = client, LoopBinding(client, starting)  # noqa: SLF001 - of the class above  # pyright: ignore[reportPrivateUsage]
    return made
