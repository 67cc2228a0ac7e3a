"""The consumer that users hold."""

from collections.abc import Sequence
from concurrent.futures import Future

from pulsar_actors.client.acknowledge import Acknowledger, ack_target_in, as_sequence
from pulsar_actors.client.consumer_options import IN_ORDER
from pulsar_actors.client.consumer_state import AnyReceivingState, ConsumerState
from pulsar_actors.client.listeners import ListenerRunner
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.receiving import DEFAULT_BATCH_RECEIVE_POLICY, ReceivingHandle
from pulsar_actors.client.retry_letters import RetryLetters
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
from pulsar_actors.runtime.opened_entry import OpenedEntry
from pulsar_actors.runtime.receiver_queue import ReceiverQueue
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.topic_name import TopicName

OneOrMore = Message | MessageId | Sequence[Message | MessageId]


class Consumer(ReceivingHandle):
    """Receives the messages of one subscription. Made by `Client.subscribe`; any number of threads may use it.

    Acknowledge each message. One that is not acknowledged is delivered again: to another consumer of the subscription
    when this one closes, or on request. `for message in consumer:` receives until the consumer is closed or the topic
    is at its end, which the broker reports once everything is acknowledged; `with` closes the consumer at the end.
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
        self._plain_queue: ReceiverQueue | None = None
        if isinstance(state, ConsumerState):
            self._acks = state.acks
            if state.listeners.interceptors is None and state.listeners.runner is None:
                self._plain_queue = state.receiver_queue
        self._acknowledger = Acknowledger(state.listeners.interceptors, receipts=options.ack_receipt_enabled)
        self._acks_are_plain = self._acknowledger.is_plain
        self._retry_letters = retry_letters
        if retry_letters is not None:
            state.link.ended.add_done_callback(lambda _: retry_letters.close_soon())
        self._cached_stats: tuple[float, BrokerConsumerStats] | None = None  # until when, and the statistics

    def subscription_name(self) -> str:
        """Return the subscription's name."""
        return self._state.options.subscription_name

    def consumer_name(self) -> str:
        """Return the name that was given, or an empty one."""
        return self._state.options.consumer_name or ""

    def receive(self, timeout_millis: int | None = None) -> Message:
        """Receive a message. Waits for one as long as it takes, or so many milliseconds; then Timeout is raised."""
        queue = self._plain_queue
        if (
            queue is not None
            and not self._receiver.interrupted_batch
            and (timeout_millis is None or type(timeout_millis) is int)
        ):
            try:
                message: Message = (
                    queue.next_messages.pop()
                )  # the way of most messages; `MessageReceiver` does the rest
            except IndexError:
                pass
            else:
                return message
        return self._receiver.receive(timeout_millis)

    def receive_async(self) -> "Future[Message]":
        """Return a `concurrent.futures.Future` of the next message.

        It can be cancelled, and then costs no message. `asyncio.wait_for` may give up at the very moment at which the
        message comes: keep the future, and if `cancelled()` says that it was not, its `result()` is the message.
        """
        return self._receiver.receive_async()

    def batch_receive(self) -> list[Message]:
        """Receive as many messages as the consumer's ConsumerBatchReceivePolicy says, or fewer when its time is up.

        Without a policy: up to 10 MiB, or what comes within 100 ms.
        """
        return self._receiver.receive_batch(self._state.options.batch_receive_policy or DEFAULT_BATCH_RECEIVE_POLICY)

    def batch_receive_async(self) -> "Future[list[Message]]":
        """Return a future of what `batch_receive` would return; it can be cancelled until it has its first message."""
        return self._receiver.receive_batch_async(
            self._state.options.batch_receive_policy or DEFAULT_BATCH_RECEIVE_POLICY
        )

    def acknowledge(self, message: OneOrMore) -> None:
        """Acknowledge a message, or each of a list: it is not delivered again.

        Acknowledgements leave together, a tenth of a second later, and this does not wait. With `ack_receipt_enabled`
        it does, until the broker has confirmed it, for as long as `operation_timeout_seconds` allow. A message of a
        batch counts once all of the batch is acknowledged, unless `batch_index_ack_enabled` is on.
        """
        if self._acks_are_plain and type(message) is Message and self._receiver_queue.closed is None:
            opened = message._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            if type(opened) is OpenedEntry and opened.topic == self._topic:
                self._acks.acknowledge_opened(opened, message._index)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                return
        self._wait(self._acknowledge(message, cumulative=False, waits=True))

    def acknowledge_async(self, message: OneOrMore) -> "Future[None]":
        """Acknowledge a message, or each of a list, and return a future.

        With `ack_receipt_enabled` it ends with the broker's answer; otherwise it is done.
        """
        return self._acknowledge(message, cumulative=False, waits=False)

    def acknowledge_cumulative(self, message: Message | MessageId) -> None:
        """Acknowledge a message and all before it. Only Exclusive and Failover consumers can.

        With `ack_receipt_enabled` this waits as `acknowledge` does.
        """
        self._wait(self._acknowledge(message, cumulative=True, waits=True))

    def acknowledge_cumulative_async(self, message: Message | MessageId) -> "Future[None]":
        """Acknowledge a message and all before it, and return a future, as `acknowledge_async` does."""
        return self._acknowledge(message, cumulative=True, waits=False)

    def negative_acknowledge(self, message: OneOrMore) -> None:
        """Have a message, or each of a list, delivered again after `negative_ack_redelivery_delay_ms`.

        Where there is a `negative_ack_redelivery_backoff`, after that. This does not wait.
        """
        messages = as_sequence(message)
        for target, one in zip([ack_target_in(self, one) for one in messages], messages, strict=True):
            count = one.redelivery_count() if isinstance(one, Message) else 0
            self._refused += 1
            if target is not None:
                tell(target.owner.address, NegativeAcknowledge(target.generation, ((target.message_id, count),)))

    def reconsume_later(
        self, message: Message | Sequence[Message], delay_ms: int, properties: dict[str, str] | None = None
    ) -> None:
        """Put a message, or each of a list, off: it comes again after so many milliseconds, from the retry topic.

        message
            What was received, from the retry topic perhaps. An id will not do, for the message is sent anew.
        delay_ms
            How many milliseconds it is to rest; 0: none.
        properties = None
            A dict of str that it gets in addition to its own, or in place of those of the same name.

        It keeps its content, keys and event time, and is marked with where it came from (`REAL_TOPIC`,
        `REAL_SUBSCRIPTION`, `ORIGIN_MESSAGE_ID`), how often it was put off (`RECONSUMETIMES`) and for how long
        (`DELAY_TIME`). If that was more than the `max_redeliver_count` of the `dead_letter_policy`, it goes to the dead
        letter topic instead. This waits until that topic has it; then the original is acknowledged. On an error it is
        not, and will come again, as any message that is not acknowledged. Only with `enable_retry`.
        """
        self._state.engine.refuse_inside("reconsume_later()", "reconsume_later_async()")
        done = self.reconsume_later_async(message, delay_ms, properties)
        self._state.engine.block(done, None, f"reconsume_later() to {self._what}")

    def reconsume_later_async(
        self, message: Message | Sequence[Message], delay_ms: int, properties: dict[str, str] | None = None
    ) -> "Future[None]":
        """Put a message, or each of a list, off, and return a future, which ends as `reconsume_later` does.

        A close of the consumer waits for those that are on their way, no longer than `operation_timeout_seconds`. Those
        that take longer may come twice, and so may those whose client is closed.
        """
        if self._retry_letters is None:
            raise InvalidConfiguration(f"{self._what} puts nothing off: subscribe with enable_retry=True")
        return self._retry_letters.reconsume_later(self, self._acknowledger, message, delay_ms, properties)

    def redeliver_unacknowledged_messages(self) -> None:
        """Have everything delivered again that is not acknowledged, of all topics. This does not wait."""
        self._refuse_if_closed()
        for member in self._members():
            tell(member.address, RedeliverUnacknowledged())

    def get_last_message_id(self) -> MessageId:
        """Return the id of the topic's last message; (-1, -1) where there is none."""
        return MessageId.wrap(self._get_last_message().message_id, self._topic)

    def get_broker_consumer_stats(self) -> BrokerConsumerStats:
        """Return what the broker counts of this consumer: what it may get, has not acknowledged, and the backlog.

        The broker is asked if what is known is older than `broker_consumer_stats_cache_time_ms`.
        """
        state = self._state
        state.engine.refuse_inside("asking for a consumer's statistics", "another thread")
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

        With `force` the broker disconnects those; they come back, and subscribe anew. Without a connection to a broker
        it waits for one, for as long as `operation_timeout_seconds` allows; then ConnectError says that nothing was
        done.
        """
        flag("force", force)
        self._state.engine.refuse_inside("unsubscribe()", "another thread")
        self._refuse_if_closed()
        self._call(lambda done: Unsubscribe(done, force), f"unsubscribe() of {self._what}")

    def pause_message_listener(self) -> None:
        """Call the listener no more, after the message in hand; up to `receiver_queue_size` messages wait here."""
        self._given_listener_runner().pause()

    def resume_message_listener(self) -> None:
        """Call the listener again."""
        self._given_listener_runner().resume()

    def close(self) -> None:
        """End it, once what is left here has been sent: acknowledgements, and messages that are being put off.

        Closing it again does nothing. In a callback this begins the close, and does not wait for its end, nor for
        messages that are being put off.
        """
        self._refuse_if_forked()
        if self._retry_letters is not None and not self._state.engine.is_inside():
            self._retry_letters.wait(self._state.operation_timeout)
        super().close()

    def owner_of(self, topic: str | None, message_id: WireMessageId) -> ConsumerState | None:
        """Give the state of the consumer of a message; raise InvalidArgument for one of another topic."""
        self._refuse_if_closed()
        if topic is not None and topic != self._topic and str(TopicName.parse(topic)) != self._topic:
            raise InvalidArgument(f"{message_id} is a message of {topic}, and not for {self._what} to acknowledge")
        return self._single_state

    def _ask_for_stats(self, deadline: float, what: str) -> BrokerConsumerStats:
        return BrokerConsumerStats.of(self._call(lambda done: GetConsumerStats(done, deadline), what))

    def _acknowledge(self, message: object, *, cumulative: bool, waits: bool) -> "Future[None]":
        options = self._state.options
        if cumulative and options.consumer_type not in IN_ORDER:
            raise CumulativeAcknowledgementNotAllowedError(
                f"{self._what} is {options.consumer_type}: others have messages in between: use acknowledge"
            )
        if waits and options.ack_receipt_enabled:
            self._state.engine.refuse_inside("acknowledging with ack_receipt_enabled", "acknowledge_async()")
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
