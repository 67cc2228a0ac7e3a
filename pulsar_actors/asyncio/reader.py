"""The `Reader` of asyncio."""

from pulsar_actors.asyncio.receiving import ReceivingHandle
from pulsar_actors.client.message import Message
from pulsar_actors.client.reader import Reader as SyncReader


class Reader(ReceivingHandle[SyncReader]):
    """Reads a topic, starting at a message, and leaves no subscription behind. Made by `Client.create_reader`.

    `async for message in reader:` reads until the reader is closed, or until all messages of a terminated topic are
    read.
    """

    async def read_next(self, timeout_millis: int | None = None) -> Message:
        """Read a message. Wait without a limit, or for so many milliseconds; then raise Timeout.

        If this is cancelled, no message is lost: the next call reads it.
        """
        return await self._receive(timeout_millis)

    async def read_many(self, max_messages: int, timeout_millis: int | None = None) -> list[Message]:
        """Read the messages that have arrived, `max_messages` at most, in a list, which is much faster for many.

        It waits for the first of them like `read_next`, and raises Timeout if none comes: so the list is never empty.
        If this is cancelled, no message is lost.
        """
        return await self._receive_many(max_messages, timeout_millis)

    async def has_message_available(self) -> bool:
        """Return whether there is a message to read now."""
        self._binding.completions()
        if self._receiver_queue.queued or self._receiver.has_given_back:
            return True
        return await self._binding.in_thread(self._handle.has_message_available)
