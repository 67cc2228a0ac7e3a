"""A reader, as users hold it."""

from concurrent.futures import Future
from typing import cast

from pulsar_actors.client.consuming.receiving_handle import ReceivingHandle
from pulsar_actors.client.consuming.receiving_parts import AnyReceivingParts
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.machines.left_out import LeftOut
from pulsar_actors.runtime.hand_off import HandOff
from pulsar_actors.runtime.opened import Contents
from pulsar_actors.runtime.progress import Progress


class Reader(ReceivingHandle):
    """Reads a topic from a message on, without leaving a subscription behind. Made by `Client.create_reader`.

    Nothing is to be acknowledged. `for message in reader:` reads until the reader is closed or the topic is at its
    end; `with` closes the reader at the end of its block.
    """

    def __init__(self, parts: AnyReceivingParts, client: object, topic: str | None = None) -> None:
        super().__init__(parts, f"the reader of {topic or parts.options.topics[0]}", client, topic)

    def read_next(self, timeout_millis: int | None = None) -> Message:
        """Read a message. Waits for one as long as it takes, or so many milliseconds; then Timeout is raised."""
        return self._receiving.receive(timeout_millis)

    def read_next_async(self) -> "Future[Message]":
        """Return a `concurrent.futures.Future` of the next message."""
        return self._receiving.receive_async()

    def has_message_available(self) -> bool:
        """Tell whether there is a message to read now, after what was read.

        Of a topic that is not stored, that is what has come here: a broker keeps nothing, and cannot be asked.
        """
        start = self._one.machine.deliveries.ledgers.start
        if self._hand_off.queued or not start.stored:
            return self._hand_off.queued > 0
        last = self._ask_for_last()
        return start.leaves(last.message_id, self._one.hand_off.progress.furthest, last.acknowledged)

    def go_to_last(self) -> None:
        """Go to the last message there is, so that it is read first."""
        last = self._ask_for_last().message_id
        if last.entry_id >= 0:
            self.seek(MessageId.wrap(last, self._topic))


def read_entry(reader: Reader, timeout_millis: int) -> Contents:
    """Read all messages of the next entry of one topic. No message is to be read by itself then."""
    take = _queue_of(reader).take_entry
    return take() or reader._receiving.wait_for(take, timeout_millis)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def left_out_by(reader: Reader) -> tuple[list[LeftOut], int]:
    """Give what the reader of one topic was not given since this was asked last, and how much more there was."""
    return _progress_of(reader).take_left_out()


def furthest_of(reader: Reader) -> EntryKey | None:
    """Give the last entry that the reader of one topic is through with, having waited for messages in vain."""
    return _progress_of(reader).furthest


def _progress_of(reader: Reader) -> Progress:
    return _queue_of(reader).progress


def _queue_of(reader: Reader) -> HandOff:
    return cast("HandOff", reader._hand_off)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
