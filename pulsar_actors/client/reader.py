"""The `Reader` of the public API."""

import math
from concurrent.futures import Future

from pulsar_actors.client.consumer_state import AnyReceivingState, ConsumerState
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import new_message_id
from pulsar_actors.client.receiving import ReceivingHandle
from pulsar_actors.machines.consumer_events import LastMessage


class Reader(ReceivingHandle):
    """Reads a topic, starting at a message, and leaves no subscription behind. Made by `Client.create_reader`.

    Messages need no acknowledgement. `for message in reader:` reads until the reader is closed, or until all messages
    of a terminated topic are read. `with` closes the reader at the end of its block.

    If the topic goes to another cluster, the reader begins there again: at the first message, at the end or at the time
    that it was last asked for, and in place of a message id, which means nothing there, at the first message.
    """

    def __init__(self, state: AnyReceivingState, client: object, topic: str | None = None) -> None:
        super().__init__(state, f"the reader of {topic or state.options.topics[0]}", client, topic)

    def read_next(self, timeout_millis: int | None = None) -> Message:
        """Read a message. Wait without a limit, or for so many milliseconds; then raise Timeout."""
        return self._receiver.receive(timeout_millis)

    def read_many(self, max_messages: int, timeout_millis: int | None = None) -> list[Message]:
        """Read the messages that have arrived, `max_messages` at most, in a list, which is much faster for many.

        It waits for the first of them like `read_next`, and raises Timeout if none comes: so the list is never empty.
        """
        return self._receiver.receive_many(max_messages, timeout_millis)

    def read_next_async(self) -> "Future[Message]":
        """Return a `concurrent.futures.Future` of the next message."""
        return self._receiver.receive_async()

    def has_message_available(self) -> bool:
        """Return whether there is a message to read now.

        For a non-persistent topic, only messages that have arrived count, because brokers do not keep its messages.
        """
        if self._receiver.has_given_back:
            return True
        if self._receiver_queue.queued or not self._single_state.machine.messages.trackers.start.persistent:
            return self._receiver_queue.queued > 0
        return leaves_messages(self._single_state, self._get_last_message()) or self._receiver_queue.queued > 0

    def go_to_last(self) -> None:
        """Seek to the topic's last message, so that it is read first."""
        last = self._get_last_message().message_id
        if last.entry_id >= 0:
            self.seek(new_message_id(last, self._topic))

    def _get_last_messages(self, timeout: float = math.inf) -> dict[str, LastMessage]:
        """Get the last message of each persistent topic. Non-persistent topics have none at the broker."""
        if not self._single_state.machine.messages.trackers.start.persistent:
            return {}
        return {self._topic: self._get_last_message(timeout)}


def leaves_messages(state: ConsumerState, last: LastMessage) -> bool:
    """Return whether the broker has messages that have not come yet, if `last` is the topic's last one.

    What was passed over may be behind messages that are still queued: so look at the queue after this. And a message
    for whose chunks there was no room comes again. But nothing comes up to where a broker has moved the subscription,
    because messages have expired, or were skipped by an administrator. Java asks the reader's position only: there a
    reader waits for messages that have expired.
    """
    if last.message_id.position <= last.skipped_up_to:
        return False
    trackers = state.machine.messages.trackers
    furthest = state.receiver_queue.progress.furthest
    if trackers.start.leaves(last.message_id, furthest, last.acknowledged):
        return True
    return trackers.chunks.will_come_again(state.engine.now())
