"""The `Consumer` of the public API."""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pulsar_actors.client.acknowledge import Acknowledger, as_sequence, target_in
from pulsar_actors.client.consumer_options import IN_ORDER
from pulsar_actors.client.consumer_state import AnyReceivingState, ConsumerState
from pulsar_actors.client.dead_letters import RetryLetters
from pulsar_actors.client.listeners import ListenerRunner
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId, new_message_id
from pulsar_actors.client.policies import ConsumerBatchReceivePolicy
from pulsar_actors.client.receive_path import OneOrMore, ReceivePath
from pulsar_actors.client.receiving import DEFAULT_BATCH_RECEIVE_POLICY, ReceivingHandle
from pulsar_actors.client.stats import BrokerConsumerStats
from pulsar_actors.client.validation import flag
from pulsar_actors.exceptions import CumulativeAcknowledgementNotAllowedError, InvalidArgument, InvalidConfiguration
from pulsar_actors.machines.consumer_events import (
    GetConsumerStats,
    NegativeAcknowledge,
    RedeliverUnacknowledged,
    Unsubscribe,
)
from pulsar_actors.runtime.actor import tell
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.topic_name import TopicName

if TYPE_CHECKING:
    from pulsar_actors.client.transaction import Transaction


class Consumer(ReceivePath, ReceivingHandle):
    """Receives the messages of one subscription. Made by `Client.subscribe`; any number of threads may use it.

    Acknowledge each message. A message that is not acknowledged is delivered again: on request, or to another consumer
    of the subscription when this one closes. `for message in consumer:` receives until the consumer is closed, or until
    the topic is terminated and all its messages are acknowledged. `with` closes the consumer at the end of its block.
    """

    def __init__(
        self,
        state: AnyReceivingState,
        client: object,
        topic: str | None = None,
        retry_letters: RetryLetters | None = None,
    ) -> None:
        options = state.options
        what = f"the consumer of {options.subscription_name!r} on {topic or options.topics[0]}"
        super().__init__(state, what, client, topic)
        self._next_messages = []
        self._interrupted_batch = self._receiver.interrupted_batch  # always this list
        if isinstance(state, ConsumerState):
            self._ack_queue = state.ack_queue
            if state.listeners.interceptors is None and state.listeners.runner is None:
                self._next_messages = state.receiver_queue.next_messages  # always this list
        self._acknowledger = Acknowledger(state.listeners.interceptors, receipts=options.ack_receipt_enabled)
        self._acks_are_plain = self._acknowledger.is_plain
        self._retry_letters = retry_letters
        if retry_letters is not None:
            state.link.ended.add_done_callback(lambda _: retry_letters.close_soon())
        self._cached_stats: tuple[float, BrokerConsumerStats] | None = None  # valid until this time

    def subscription_name(self) -> str:
        """Return the subscription's name."""
        return self._state.options.subscription_name

    def consumer_name(self) -> str:
        """Return the name that was given; empty if none was given."""
        return self._state.options.consumer_name or ""

    @property
    def batch_receive_policy(self) -> ConsumerBatchReceivePolicy | None:
        """The policy that was given for `batch_receive`."""
        return self._state.options.batch_receive_policy

    @property
    def waits_for_ack_receipts(self) -> bool:
        """True if `acknowledge` waits for the broker."""
        return self._state.options.ack_receipt_enabled

    def receive_many(self, max_messages: int, timeout_millis: int | None = None) -> list[Message]:
        """Receive the messages that have arrived, `max_messages` at most, in a list, which is much faster for many.

        It waits for the first of them like `receive`, and raises Timeout if none comes: so the list is never empty. It
        does not wait for more. `acknowledge` takes the list. About 1,000 at a time is fastest: with more, Python's
        garbage collector goes through all of them again and again. If Ctrl-C ends the call, no message is lost: the
        next call receives it.
        """
        return self._receiver.receive_many(max_messages, timeout_millis)

    def receive_async(self) -> "Future[Message]":
        """Return a `concurrent.futures.Future` of the next message.

        The future can be cancelled, and then no message is lost. `asyncio.wait_for` may time out at the very moment
        when the message comes. So keep the future: if its `cancelled()` is False after the timeout, its `result()` is
        the message.
        """
        return self._receiver.receive_async()

    def batch_receive(self) -> list[Message]:
        """Receive as many messages as the consumer's ConsumerBatchReceivePolicy says, or fewer at its timeout.

        Without a policy: the messages that come within 100 ms, up to 10 MiB.
        """
        return self._receiver.receive_batch(self._state.options.batch_receive_policy or DEFAULT_BATCH_RECEIVE_POLICY)

    def batch_receive_async(self) -> "Future[list[Message]]":
        """Return a future of the list that `batch_receive` returns.

        It can be cancelled until it has its first message.
        """
        return self._receiver.receive_batch_async(
            self._state.options.batch_receive_policy or DEFAULT_BATCH_RECEIVE_POLICY
        )

    def acknowledge_async(self, message: OneOrMore, *, transaction: "Transaction | None" = None) -> "Future[None]":
        """Acknowledge a message, or each of a list, and return a future.

        With `ack_receipt_enabled`, and in a transaction, the future ends with the broker's answer; otherwise it is done
        already.
        """
        if transaction is not None:
            return self._acknowledge_in(transaction, message, cumulative=False)
        return self._acknowledge(message, cumulative=False, waits=False)

    def acknowledge_cumulative(self, message: Message | MessageId, *, transaction: "Transaction | None" = None) -> None:
        """Acknowledge a message and all before it. Only Exclusive and Failover consumers can.

        If a message in chunks begins before it and has not been received as a whole, what is behind its first chunk is
        acknowledged once that message is, or once it has expired.

        With `ack_receipt_enabled`, and in a transaction, this waits as `acknowledge` does: also for that message. In a
        transaction it fails with Timeout if that takes too long. If the transaction is aborted, all messages that are
        not acknowledged are delivered again.
        """
        if transaction is not None:
            self._wait_in(transaction, message, cumulative=True)
            return
        self._wait(self._acknowledge(message, cumulative=True, waits=True))

    def acknowledge_cumulative_async(
        self, message: Message | MessageId, *, transaction: "Transaction | None" = None
    ) -> "Future[None]":
        """Acknowledge a message and all before it, and return a future, as `acknowledge_async` does."""
        if transaction is not None:
            return self._acknowledge_in(transaction, message, cumulative=True)
        return self._acknowledge(message, cumulative=True, waits=False)

    def negative_acknowledge(self, message: OneOrMore) -> None:
        """Request that a message, or each of a list, is delivered again after `negative_ack_redelivery_delay_ms`.

        With a `negative_ack_redelivery_backoff`, that decides the delay instead. This does not wait. Non-persistent
        topics deliver nothing again.
        """
        messages = as_sequence(message)
        for target, one in zip([target_in(self, one) for one in messages], messages, strict=True):
            count = one.redelivery_count() if isinstance(one, Message) else 0
            if target is not None:
                target.owner.negatively_acknowledged += 1
                tell(target.owner.address, NegativeAcknowledge(target.generation, ((target.message_id, count),)))

    def reconsume_later(
        self, message: Message | Sequence[Message], delay_ms: int, properties: dict[str, str] | None = None
    ) -> None:
        """Put off a message, or each of a list: it is received again after a delay, from the retry topic.

        message
            A received message, also one from the retry topic. An id is not enough, because the message is sent again.
        delay_ms
            The delay in milliseconds; 0: none.
        properties = None
            A dict of str. These properties are added to the message's own, and replace those with the same name.

        The message keeps its content, keys and event time. It gets properties that name its origin (`REAL_TOPIC`,
        `REAL_SUBSCRIPTION`, `ORIGIN_MESSAGE_ID`), the number of times that it was put off (`RECONSUMETIMES`) and the
        delay (`DELAY_TIME`). If the number exceeds the `max_redeliver_count` of the `dead_letter_policy`, the message
        goes to the dead letter topic instead. This call waits until the topic has stored the message, and then
        acknowledges the original. On an error the original stays unacknowledged, and is delivered again. Only with
        `enable_retry`.
        """
        self._state.engine.refuse_on_io_thread("reconsume_later()", "reconsume_later_async()")
        done = self.reconsume_later_async(message, delay_ms, properties)
        self._state.engine.block(done, None, f"reconsume_later() to {self._what}")

    def reconsume_later_async(
        self, message: Message | Sequence[Message], delay_ms: int, properties: dict[str, str] | None = None
    ) -> "Future[None]":
        """Put off a message, or each of a list, and return a future, which ends as `reconsume_later` does.

        When the consumer is closed, it waits for messages that are still being sent, for `operation_timeout_seconds` at
        most. A message that takes longer may be received twice. The same is possible if the client is closed.
        """
        if self._retry_letters is None:
            raise InvalidConfiguration(f"{self._what} puts nothing off: subscribe with enable_retry=True")
        return self._retry_letters.reconsume_later(self, self._acknowledger, message, delay_ms, properties)

    def redeliver_unacknowledged_messages(self) -> None:
        """Request that all unacknowledged messages of all topics are delivered again. This does not wait.

        Non-persistent topics deliver nothing again.
        """
        self._refuse_if_closed()
        for member in self._members():
            tell(member.address, RedeliverUnacknowledged())

    def get_last_message_id(self) -> MessageId:
        """Return the id of the topic's last message; (-1, -1) if there is none."""
        return new_message_id(self._get_last_message().message_id, self._topic)

    def get_broker_consumer_stats(self) -> BrokerConsumerStats:
        """Return the broker's statistics of this consumer: its permits, unacknowledged messages and backlog.

        The broker is asked if its last answer is older than `broker_consumer_stats_cache_time_ms`.
        """
        state = self._state
        state.engine.refuse_on_io_thread("asking for a consumer's statistics", "another thread")
        self._refuse_if_closed()
        now, cached = state.engine.now(), self._cached_stats
        if cached is not None and now < cached[0]:
            return cached[1]
        what = f"asking what the broker counts of {self._what}"
        stats = self._ask_for_stats(now + state.operation_timeout, what)
        self._cached_stats = state.engine.now() + state.options.broker_consumer_stats_cache_time_ms / 1000, stats
        return stats

    def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription, and end the consumer. It fails while others use the subscription.

        With `force` the broker disconnects the others; they reconnect, and create the subscription again. Without a
        connection to a broker this waits for one, for `operation_timeout_seconds` at most. Then it raises ConnectError:
        nothing was done. A Timeout leaves it open, and the call can be repeated.
        """
        flag("force", force)
        self._state.engine.refuse_on_io_thread("unsubscribe()", "another thread")
        self._refuse_if_closed()
        self._call(lambda done: Unsubscribe(done, force), f"unsubscribe() of {self._what}")

    def pause_message_listener(self) -> None:
        """Stop calling the listener after its current message. Up to `receiver_queue_size` messages wait meanwhile."""
        self._given_listener_runner().pause()

    def resume_message_listener(self) -> None:
        """Call the listener again."""
        self._given_listener_runner().resume()

    def close(self) -> None:
        """Close the consumer, after its acknowledgements and messages of `reconsume_later` have been sent.

        A second call does nothing. In a callback this starts the close, and waits neither for its end nor for messages
        of `reconsume_later`.
        """
        self._refuse_if_forked()
        if self._retry_letters is not None and not self._state.engine.is_on_io_thread():
            self._retry_letters.wait(self._state.operation_timeout)
        super().close()

    def owner_of(self, topic: str | None, message_id: WireMessageId) -> ConsumerState | None:
        """Return the state of the consumer of a message; raise InvalidArgument for a message of another topic."""
        self._refuse_if_closed()
        if topic is not None and topic != self._topic and str(TopicName.parse(topic)) != self._topic:
            raise InvalidArgument(f"{message_id} is a message of {topic}, and not for {self._what} to acknowledge")
        return self._single_state

    def _ask_for_stats(self, deadline: float, what: str) -> BrokerConsumerStats:
        return BrokerConsumerStats.of(self._call(lambda done: GetConsumerStats(done, deadline), what))

    def _acknowledge_in(self, transaction: object, message: object, *, cumulative: bool) -> "Future[None]":
        from pulsar_actors.client.transaction import work_in  # noqa: PLC0415 - few programs have any
        from pulsar_actors.client.transactional_ack import acknowledge_in  # noqa: PLC0415 - the same

        if cumulative:
            self._refuse_cumulative()
        work, interceptors = work_in(transaction, self._client), self._state.listeners.interceptors
        return acknowledge_in(work, self, message, interceptors, cumulative=cumulative)

    def _wait_in(self, transaction: object, message: object, *, cumulative: bool) -> None:
        self._state.engine.refuse_on_io_thread("acknowledging in a transaction", "acknowledge_async()")
        done = self._acknowledge_in(transaction, message, cumulative=cumulative)
        self._state.engine.block(done, None, f"acknowledging to {self._what}")

    def _refuse_cumulative(self) -> None:
        options = self._state.options
        if options.consumer_type not in IN_ORDER:
            raise CumulativeAcknowledgementNotAllowedError(
                f"{self._what} is {options.consumer_type}: others have messages in between: use acknowledge"
            )

    def _acknowledge(self, message: object, *, cumulative: bool, waits: bool) -> "Future[None]":
        options = self._state.options
        if cumulative:
            self._refuse_cumulative()
        if waits and options.ack_receipt_enabled:
            self._state.engine.refuse_on_io_thread("acknowledging with ack_receipt_enabled", "acknowledge_async()")
        return self._acknowledger.acknowledge(self, message, cumulative=cumulative, waits=waits)

    def _wait(self, done: "Future[None]") -> None:
        if self._state.options.ack_receipt_enabled:
            self._state.engine.block(done, None, f"acknowledging to {self._what}")

    def _given_listener_runner(self) -> ListenerRunner:
        self._refuse_if_closed()
        runner = self._state.listeners.runner
        if runner is None:
            raise InvalidConfiguration(f"{self._what} has no message_listener to pause or resume")
        return runner
