"""Whether everything that was sent came, as it was sent, in its order: judged by the receiver, message by message.

A message carries its number and a filling that only its number decides, so that one which is damaged, lost, repeated or
out of its turn is known as such when it comes, with nothing kept but the number that is due.

What comes twice is no fault: Pulsar delivers at least once. There are two reasons, told apart by the message's id. One
that is known was *delivered again*: it had come, but its acknowledgement had not reached the broker. One that is new
was *stored again*: the broker had it, but its receipt had not reached the producer, which sent it once more. A broker
with deduplication on stores it once.
"""

from pulsar_actors.client.message_id import MessageId

SMALLEST = 8
"""Bytes: those of the number."""

_SHIFTS = 251
_BYTES = bytes(range(256))


class Contents:
    """What the messages of one size contain."""

    def __init__(self, size: int) -> None:
        self._fill = size - SMALLEST
        self._source = _BYTES * (self._fill // len(_BYTES) + 2)

    def of(self, number: int) -> bytes:
        """Give the content of a message."""
        shift = number % _SHIFTS
        return number.to_bytes(SMALLEST, "big") + self._source[shift : shift + self._fill]


class Verification:
    """The verdict on what has come so far: `fault` is the first thing wrong, or None."""

    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._last = MessageId.earliest
        self.due = 0
        """The number of the next message; as many have come, each counted once."""
        self.delivered_again = 0
        self.stored_again = 0
        self.fault: str | None = None

    def take(self, content: bytes, message_id: MessageId) -> None:
        """Judge a message that has come."""
        number = int.from_bytes(content[:SMALLEST], "big")
        if content != self._contents.of(number):
            self._blame(
                f"message {message_id} is not what was sent: {len(content):,} bytes that begin {content[:16]!r}"
            )
        elif number == self.due:
            self.due += 1
            self._last = message_id
        elif number > self.due:
            self._blame(f"message {number:,} came when {self.due:,} was due: those between are lost or late")
        elif message_id > self._last:
            self.stored_again += 1
            self._last = message_id
        else:
            self.delivered_again += 1

    def _blame(self, fault: str) -> None:
        if self.fault is None:
            self.fault = fault
