"""A consumer, as users hold it."""

from collections.abc import Sequence
from concurrent.futures import Future

from pulsar_actors.client.arguments import flag
from pulsar_actors.client.consuming.acknowledgements import Acknowledgements, listed, place_in
from pulsar_actors.client.consuming.consumer_options import IN_ORDER
from pulsar_actors.client.consuming.consumer_parts import ConsumerParts
from pulsar_actors.client.consuming.listener import Pump
from pulsar_actors.client.consuming.receiving import USUAL_POLICY
from pulsar_actors.client.consuming.receiving_handle import ReceivingHandle
from pulsar_actors.client.consuming.receiving_parts import AnyReceivingParts
from pulsar_actors.client.consuming.retries import Retries
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.stats import BrokerConsumerStats
from pulsar_actors.exceptions import (
    CumulativeAcknowledgementNotAllowedError,
    InvalidArgument,
    InvalidConfiguration,
)
from pulsar_actors.machines.consumer_events import AskForStats, Redeliver, Refuse, Unsubscribe
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.hand_off import HandOff
from pulsar_actors.runtime.opened import Opened
from pulsar_actors.wire.message_id import MessageId as WireMessageId
from pulsar_actors.wire.topic_name import TopicName

OneOrMore = Message | MessageId | Sequence[Message | MessageId]


class Consumer(ReceivingHandle):
    """Receives the messages of one subscription. Made by `Client.subscribe`; any number of threads may use it.

    Each message is to be acknowledged, or it comes again: to another consumer of the subscription when this one closes,
    or when it is asked for. `for message in consumer:` receives until the consumer is closed or the topic is at its
    end, which takes that everything is acknowledged; `with` closes the consumer at the end of its block.
    """

    def __init__(
        self,
        parts: AnyReceivingParts,
        client: object,
        topic: str | None = None,
        retries: Retries | None = None,
    ) -> None:
        options = parts.options
        what = f"the consumer of {options.subscription_name!r} on {topic or options.topics[0]}"
        super().__init__(parts, what, client, topic)
        self._plain_queue: HandOff | None = None
        if isinstance(parts, ConsumerParts):
            self._acks = parts.acks
            if parts.interceptors is None and parts.pump is None:
                self._plain_queue = parts.hand_off
        self._acknowledging = Acknowledgements(parts.interceptors, receipts=options.ack_receipt_enabled)
        self._acks_are_plain = self._acknowledging.is_plain
        self._retries = retries
        if retries is not None:
            parts.ties.ended.add_done_callback(lambda _: retries.close_soon())
        self._counted: tuple[float, BrokerConsumerStats] | None = None  # until when, what

    def subscription_name(self) -> str:
        """Return the subscription's name."""
        return self._parts.options.subscription_name

    def consumer_name(self) -> str:
        """Return the name that was given, or an empty one."""
        return self._parts.options.consumer_name or ""

    def receive(self, timeout_millis: int | None = None) -> Message:
        """Receive a message. Waits for one as long as it takes, or so many milliseconds; then Timeout is raised."""
        queue = self._plain_queue
        if queue is not None and not self._receiving.kept and (timeout_millis is None or type(timeout_millis) is int):
            try:
                message: Message = queue.at_hand.pop()  # as most come; the rest, in a slower way, is below
            except IndexError:
                pass
            else:
                return message
        return self._receiving.receive(timeout_millis)

    def receive_async(self) -> "Future[Message]":
        """Return a `concurrent.futures.Future` of the next message.

        It can be cancelled, and then costs no message. `asyncio.wait_for` may give up at the very moment at which the
        message comes: keep the future, and if `cancelled()` says that it was not, its `result()` is the message.
        """
        return self._receiving.receive_async()

    def batch_receive(self) -> list[Message]:
        """Receive as many messages as the consumer's ConsumerBatchReceivePolicy says, or fewer when its time is up.

        Without a policy: up to 10 MiB, or what comes within 100 ms.
        """
        return self._receiving.receive_batch(self._parts.options.batch_receive_policy or USUAL_POLICY)

    def batch_receive_async(self) -> "Future[list[Message]]":
        """Return a future of what `batch_receive` would return; it can be cancelled until it has its first message."""
        return self._receiving.receive_batch_async(self._parts.options.batch_receive_policy or USUAL_POLICY)

    def acknowledge(self, message: OneOrMore) -> None:
        """Acknowledge a message, or each of a list: it is not delivered again.

        Acknowledgements leave together, a tenth of a second later, and this does not wait. With `ack_receipt_enabled`
        it does, until the broker has confirmed it, for as long as `operation_timeout_seconds` allow. A message of a
        batch counts once all of the batch is acknowledged, unless `batch_index_ack_enabled` is on.
        """
        if self._acks_are_plain and type(message) is Message and self._hand_off.closed is None:
            opened = message._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            if type(opened) is Opened and opened.topic == self._topic:
                self._acks.acknowledge_opened(opened, message._index)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                return
        self._wait(self._hand_in(message, cumulative=False, waits=True))

    def acknowledge_async(self, message: OneOrMore) -> "Future[None]":
        """Acknowledge a message, or each of a list, and return a future.

        With `ack_receipt_enabled` it ends with the broker's word; otherwise it is done.
        """
        return self._hand_in(message, cumulative=False, waits=False)

    def acknowledge_cumulative(self, message: Message | MessageId) -> None:
        """Acknowledge a message and all before it. Only Exclusive and Failover consumers can.

        With `ack_receipt_enabled` this waits as `acknowledge` does.
        """
        self._wait(self._hand_in(message, cumulative=True, waits=True))

    def acknowledge_cumulative_async(self, message: Message | MessageId) -> "Future[None]":
        """Acknowledge a message and all before it, and return a future, as `acknowledge_async` does."""
        return self._hand_in(message, cumulative=True, waits=False)

    def negative_acknowledge(self, message: OneOrMore) -> None:
        """Have a message, or each of a list, delivered again after `negative_ack_redelivery_delay_ms`.

        Where there is a `negative_ack_redelivery_backoff`, after that. This does not wait.
        """
        messages = listed(message)
        for place, one in zip([place_in(self, one) for one in messages], messages, strict=True):
            count = one.redelivery_count() if isinstance(one, Message) else 0
            self._refused += 1
            if place is not None:
                refused = Refuse(place.generation, ((place.message_id, count),))
                tell(place.owner.address, refused)

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
        self._parts.engine.refuse_inside("reconsume_later()", "reconsume_later_async()")
        done = self.reconsume_later_async(message, delay_ms, properties)
        self._parts.engine.block(done, None, f"reconsume_later() to {self._what}")

    def reconsume_later_async(
        self, message: Message | Sequence[Message], delay_ms: int, properties: dict[str, str] | None = None
    ) -> "Future[None]":
        """Put a message, or each of a list, off, and return a future, which ends as `reconsume_later` does.

        A close of the consumer waits for those that are on their way, no longer than `operation_timeout_seconds`. Those
        that take longer may come twice, and so may those whose client is closed.
        """
        if self._retries is None:
            raise InvalidConfiguration(f"{self._what} puts nothing off: subscribe with enable_retry=True")
        return self._retries.put_off(self, self._acknowledging, message, delay_ms, properties)

    def redeliver_unacknowledged_messages(self) -> None:
        """Have everything delivered again that is not acknowledged, of all topics. This does not wait."""
        self._refuse_if_closed()
        for member in self._members():
            tell(member.address, Redeliver())

    def get_last_message_id(self) -> MessageId:
        """Return the id of the topic's last message; (-1, -1) where there is none."""
        return MessageId.wrap(self._ask_for_last().message_id, self._topic)

    def get_broker_consumer_stats(self) -> BrokerConsumerStats:
        """Return what the broker counts of this consumer: what it may get, has not acknowledged, and the backlog.

        The broker is asked if what is known is older than `broker_consumer_stats_cache_time_ms`.
        """
        parts = self._parts
        parts.engine.refuse_inside("asking for a consumer's statistics", "another thread")
        self._refuse_if_closed()
        now, counted = parts.engine.now(), self._counted
        if counted is not None and now < counted[0]:
            return counted[1]
        what = f"asking what the broker counts of {self._what}"
        stats = self._ask_for_stats(now + parts.operation_timeout, what)
        self._counted = parts.engine.now() + parts.options.broker_consumer_stats_cache_time_ms / 1000, stats
        return stats

    def unsubscribe(self, *, force: bool = False) -> None:
        """Delete the subscription, and end the consumer. It fails while others use the subscription.

        With `force` the broker disconnects those; they come back, and subscribe anew. Without a connection to a broker
        it waits for one, for as long as `operation_timeout_seconds` allows; then ConnectError says that nothing was
        done.
        """
        flag("force", force)
        self._parts.engine.refuse_inside("unsubscribe()", "another thread")
        self._refuse_if_closed()
        self._call(lambda done: Unsubscribe(done, force), f"unsubscribe() of {self._what}")

    def pause_message_listener(self) -> None:
        """Call the listener no more, after the message in hand; up to `receiver_queue_size` messages wait here."""
        self._listener_pump().pause()

    def resume_message_listener(self) -> None:
        """Call the listener again."""
        self._listener_pump().resume()

    def close(self) -> None:
        """End it, once what is left here has been sent: acknowledgements, and messages that are being put off.

        Closing it again does nothing. In a callback this begins the close, and does not wait for its end, nor for
        messages that are being put off.
        """
        self._refuse_if_forked()
        if self._retries is not None and not self._parts.engine.is_inside():
            self._retries.wait(self._parts.operation_timeout)
        super().close()

    def owner_of(self, topic: str | None, message_id: WireMessageId) -> ConsumerParts | None:
        """Give what a message belongs to, for those who acknowledge it; refuse one of another topic."""
        self._refuse_if_closed()
        if topic is not None and topic != self._topic and str(TopicName.parse(topic)) != self._topic:
            raise InvalidArgument(f"{message_id} is a message of {topic}, and not for {self._what} to acknowledge")
        return self._one

    def _ask_for_stats(self, deadline: float, what: str) -> BrokerConsumerStats:
        return BrokerConsumerStats.of(self._call(lambda done: AskForStats(done, deadline), what))

    def _hand_in(self, message: object, *, cumulative: bool, waits: bool) -> "Future[None]":
        options = self._parts.options
        if cumulative and options.consumer_type not in IN_ORDER:
            raise CumulativeAcknowledgementNotAllowedError(
                f"{self._what} is {options.consumer_type}: others have messages in between: use acknowledge"
            )
        if waits and options.ack_receipt_enabled:
            self._parts.engine.refuse_inside("acknowledging with ack_receipt_enabled", "acknowledge_async()")
        return self._acknowledging.hand_in(self, message, cumulative=cumulative, waits=waits)

    def _wait(self, done: "Future[None]") -> None:
        if self._parts.options.ack_receipt_enabled:
            self._parts.engine.block(done, None, f"acknowledging to {self._what}")

    def _listener_pump(self) -> Pump:
        self._refuse_if_closed()
        if self._parts.pump is None:
            raise InvalidConfiguration(f"{self._what} has no message_listener to pause or resume")
        return self._parts.pump
