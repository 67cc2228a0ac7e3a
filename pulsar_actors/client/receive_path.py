"""The part of a consumer that every message passes: `receive` and `acknowledge`.

It is apart from `Consumer`, because mypyc compiles it: a class with weak references and finalizers cannot be compiled.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING

from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.receiving import MessageReceiver
from pulsar_actors.compiling import Given, mypyc_attr
from pulsar_actors.runtime.ack_queue import AckQueue
from pulsar_actors.runtime.opened_entry import OpenedEntry
from pulsar_actors.runtime.receiver_queue_base import ReceiverQueueBase

if TYPE_CHECKING:
    from pulsar_actors.client.transaction import Transaction

OneOrMore = Message | MessageId | Sequence[Message | MessageId]


@mypyc_attr(allow_interpreted_subclasses=True)
class ReceivePath:
    """The base of Consumer that takes a message, and acknowledges it."""

    _ack_queue: AckQueue
    _acks_are_plain: bool
    _interrupted_batch: list[Message]
    _next_messages: list[Message]
    _receiver: MessageReceiver
    _receiver_queue: ReceiverQueueBase
    _topic: str

    def receive(self, timeout_millis: Given[int | None] = None) -> Message:
        """Receive a message. Wait without a limit, or for so many milliseconds; then raise Timeout."""
        if not self._interrupted_batch and (timeout_millis is None or type(timeout_millis) is int):
            try:
                return self._next_messages.pop()  # most messages; `MessageReceiver` takes the others
            except IndexError:
                pass
        return self._receiver.receive(timeout_millis)

    def acknowledge(self, message: Given[OneOrMore], *, transaction: "Given[Transaction | None]" = None) -> None:
        """Acknowledge a message, or each of a list: it is not delivered again.

        Acknowledgements are sent together, a tenth of a second later, and this call does not wait. With
        `ack_receipt_enabled` it waits until the broker has confirmed, for `operation_timeout_seconds` at most. A
        message of a batch is acknowledged at the broker only when the whole batch is, unless `batch_index_ack_enabled`
        is on. In a `transaction` it counts with the commit; the call waits for the broker to note it, so a list takes
        less time than its messages one by one. After an abort the message is delivered again.
        """
        if transaction is not None:
            self._wait_in(transaction, message, cumulative=False)
            return
        if self._acks_are_plain and type(message) is Message and self._receiver_queue.closed is None:
            opened = message._opened  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
            if type(opened) is OpenedEntry and opened.topic == self._topic:
                # `AckQueue.acknowledge_opened`, without its call
                opened.acknowledged.append(message._index)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
                if not opened.is_queued:
                    self._ack_queue.enqueue_entry(opened)
                return
        self._wait(self._acknowledge(message, cumulative=False, waits=True))

    def _acknowledge(self, message: object, *, cumulative: bool, waits: bool) -> "Future[None]":
        raise NotImplementedError

    def _wait_in(self, transaction: object, message: object, *, cumulative: bool) -> None:
        raise NotImplementedError

    def _wait(self, done: "Future[None]") -> None:
        raise NotImplementedError
