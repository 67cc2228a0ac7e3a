"""A consumer, as users hold it."""

from concurrent.futures import Future

from pulsar_actors.client.consumer_options import IN_ORDER
from pulsar_actors.client.consumer_parts import ConsumerParts
from pulsar_actors.client.listener import Pump
from pulsar_actors.client.message import Message, place_of
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.receiving import USUAL_POLICY
from pulsar_actors.client.receiving_handle import ReceivingHandle
from pulsar_actors.exceptions import (
    CumulativeAcknowledgementNotAllowedError,
    InvalidConfiguration,
)
from pulsar_actors.machines.consumer_events import Redeliver, Refuse, Unsubscribe
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.actor import tell
from pulsar_actors.wire.message_id import MessageId as WireMessageId


class Consumer(ReceivingHandle):
    """Receives the messages of one subscription. Made by `Client.subscribe`; any number of threads may use it.

    Each message is to be acknowledged, or it comes again: to another consumer of the subscription when this one closes,
    or when it is asked for. `for message in consumer:` receives until the consumer is closed or the topic is at its
    end; `with` closes the consumer at the end of its block.
    """

    def __init__(self, parts: ConsumerParts, client: object) -> None:
        options = parts.options
        super().__init__(parts, f"the consumer of {options.subscription_name!r} on {options.topics[0]}", client)
        self._acks = parts.acks

    def subscription_name(self) -> str:
        """Return the subscription's name."""
        return self._parts.options.subscription_name

    def consumer_name(self) -> str:
        """Return the name that was given, or an empty one."""
        return self._parts.options.consumer_name or ""

    def receive(self, timeout_millis: int | None = None) -> Message:
        """Receive a message. Waits for one as long as it takes, or so many milliseconds; then Timeout is raised."""
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

    def acknowledge(self, message: Message | MessageId) -> None:
        """Acknowledge a message: it is not delivered again. Acknowledgements leave together, a tenth of a second later.

        A message of a batch counts once all of the batch is acknowledged, unless `batch_index_ack_enabled` is on.
        """
        message_id, generation = self._place(message)
        self._acks.acknowledge(message_id, generation)

    def acknowledge_cumulative(self, message: Message | MessageId) -> None:
        """Acknowledge a message and all before it. Only Exclusive and Failover consumers can."""
        if self._parts.options.consumer_type not in IN_ORDER:
            raise CumulativeAcknowledgementNotAllowedError(
                f"{self._what} is {self._parts.options.consumer_type}: others have messages in between: use acknowledge"
            )
        message_id, generation = self._place(message)
        self._acks.acknowledge_up_to(message_id, generation)

    def negative_acknowledge(self, message: Message | MessageId) -> None:
        """Have a message delivered again after `negative_ack_redelivery_delay_ms`. This does not wait."""
        message_id, generation = self._place(message)
        count = message.redelivery_count() if isinstance(message, Message) else 0
        self._refused += 1
        tell(self._address, Refuse(generation, ((message_id, count),)))

    def redeliver_unacknowledged_messages(self) -> None:
        """Have everything delivered again that is not acknowledged. This does not wait."""
        self._refuse_if_closed()
        tell(self._address, Redeliver())

    def get_last_message_id(self) -> MessageId:
        """Return the id of the topic's last message; (-1, -1) where there is none."""
        return MessageId.wrap(self._ask_for_last().message_id, self._topic)

    def unsubscribe(self) -> None:
        """Delete the subscription, and end the consumer. It fails while others use the subscription.

        Without a connection to a broker it waits for one, for as long as `operation_timeout_seconds` allows; then
        ConnectError says that nothing was done.
        """
        self._parts.engine.refuse_inside("unsubscribe()", "another thread")
        self._refuse_if_closed()
        self._call(Unsubscribe, f"unsubscribe() of {self._what}")

    def pause_message_listener(self) -> None:
        """Call the listener no more, after the message in hand; up to `receiver_queue_size` messages wait here."""
        self._listener_pump().pause()

    def resume_message_listener(self) -> None:
        """Call the listener again."""
        self._listener_pump().resume()

    def _place(self, message: object) -> tuple[WireMessageId, Generation]:
        self._refuse_if_closed()
        if isinstance(message, Message):
            return place_of(message)
        if not isinstance(message, MessageId):
            raise TypeError(f"a Message or a MessageId is acknowledged, not {type(message).__name__}")
        return message.wire, self._hand_off.generation

    def _listener_pump(self) -> Pump:
        self._refuse_if_closed()
        if self._parts.pump is None:
            raise InvalidConfiguration(f"{self._what} has no message_listener to pause or resume")
        return self._parts.pump
