"""The `Consumer` of asyncio."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pulsar_actors.asyncio.handle import sync_transaction
from pulsar_actors.asyncio.listeners import MessageListener
from pulsar_actors.asyncio.receiving import ReceivingHandle
from pulsar_actors.client.consumer import Consumer as SyncConsumer
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.receive_path import OneOrMore
from pulsar_actors.client.receiving import DEFAULT_BATCH_RECEIVE_POLICY
from pulsar_actors.client.stats import BrokerConsumerStats
from pulsar_actors.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from pulsar_actors.asyncio.transaction import Transaction


class Consumer(ReceivingHandle[SyncConsumer]):
    """Receives the messages of a subscription. Made by `Client.subscribe`; any number of tasks of its loop may use it.

    `async for message in consumer:` receives until the consumer is closed, or until all messages of a terminated topic
    are received. It acknowledges nothing by itself.
    """

    def subscription_name(self) -> str:
        """Return the subscription's name."""
        return self._handle.subscription_name()

    def consumer_name(self) -> str:
        """Return the name that was given; empty if none was given."""
        return self._handle.consumer_name()

    async def receive(self, timeout_millis: int | None = None) -> Message:
        """Receive a message. Wait without a limit, or for so many milliseconds; then raise Timeout.

        If this is cancelled, as by `asyncio.wait_for`, no message is lost: the next call receives it.
        """
        return await self._receive(timeout_millis)

    async def receive_many(self, max_messages: int, timeout_millis: int | None = None) -> list[Message]:
        """Receive the messages that have arrived, `max_messages` at most, in a list, which is much faster for many.

        It waits for the first of them like `receive`, and raises Timeout if none comes: so the list is never empty. If
        this is cancelled, no message is lost.
        """
        return await self._receive_many(max_messages, timeout_millis)

    async def batch_receive(self) -> list[Message]:
        """Receive as many messages as the consumer's ConsumerBatchReceivePolicy says, or fewer at its timeout.

        If this is cancelled, the next call receives the messages that it had so far.
        """
        return await self._receive_batch(self._handle.batch_receive_policy or DEFAULT_BATCH_RECEIVE_POLICY)

    async def acknowledge(self, message: OneOrMore, *, transaction: "Transaction | None" = None) -> None:
        """Acknowledge a message, or each of a list: it is not delivered again.

        It waits for the broker's answer only with `ack_receipt_enabled`, and in a transaction. If it is cancelled then,
        the acknowledgement goes out all the same.
        """
        self._binding.completions()
        if transaction is not None:
            done = self._handle.acknowledge_async(message, transaction=sync_transaction(transaction))
            await self._binding.wait_for(done)
        elif self._handle.waits_for_ack_receipts:
            await self._binding.wait_for(self._handle.acknowledge_async(message))
        else:
            self._handle.acknowledge(message)

    async def acknowledge_cumulative(
        self, message: Message | MessageId, *, transaction: "Transaction | None" = None
    ) -> None:
        """Acknowledge a message and all before it. Only Exclusive and Failover consumers can."""
        self._binding.completions()
        if transaction is not None:
            done = self._handle.acknowledge_cumulative_async(message, transaction=sync_transaction(transaction))
            await self._binding.wait_for(done)
        elif self._handle.waits_for_ack_receipts:
            await self._binding.wait_for(self._handle.acknowledge_cumulative_async(message))
        else:
            self._handle.acknowledge_cumulative(message)

    async def negative_acknowledge(self, message: OneOrMore) -> None:
        """Request that a message, or each of a list, is delivered again later. This does not wait."""
        self._binding.completions()
        self._handle.negative_acknowledge(message)

    async def reconsume_later(
        self, message: Message | Sequence[Message], delay_ms: int, properties: dict[str, str] | None = None
    ) -> None:
        """Put off a message, or each of a list, through the retry topic. Only with `enable_retry`."""
        self._binding.completions()
        await self._binding.wait_for(self._handle.reconsume_later_async(message, delay_ms, properties))

    def pause_message_listener(self) -> None:
        """Stop calling the listener after its current message. Up to `receiver_queue_size` messages wait meanwhile."""
        self._given_listener().pause()

    def resume_message_listener(self) -> None:
        """Call the listener again."""
        self._given_listener().resume()

    def redeliver_unacknowledged_messages(self) -> None:
        """Request that all unacknowledged messages of all topics are delivered again. This does not wait."""
        self._handle.redeliver_unacknowledged_messages()

    async def get_last_message_id(self) -> MessageId:
        """Return the id of the topic's last message; (-1, -1) if there is none."""
        return await self._binding.in_thread(self._handle.get_last_message_id)

    async def get_broker_consumer_stats(self) -> BrokerConsumerStats:
        """Return the broker's statistics of this consumer: its permits, unacknowledged messages and backlog."""
        return await self._binding.in_thread(self._handle.get_broker_consumer_stats)

    async def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription, and end the consumer. With `force`, also if others use it."""
        await self._binding.in_thread(lambda: self._handle.unsubscribe(force=force))

    def _given_listener(self) -> MessageListener:
        if self._listener is None:
            raise InvalidConfiguration(f"{self._handle!r} has no message_listener to pause or resume")
        return self._listener
