"""Messages that have been tried often enough.

A message that keeps failing would come back for ever. With a limit, one that was redelivered `max_redeliver_count`
times is remembered while the user tries it once more; if it is refused again, it goes to a dead letter topic instead of
back to the broker. One that comes with a higher count, because nobody here remembered it, is not delivered at all: its
permits are returned and it goes the same way. Only when the dead letter topic has it is the original acknowledged, so
that no failure in between loses it.

Last tries are whole messages, so they are remembered no longer than the broker leaves them with this consumer.
"""

from enum import Enum
from typing import Generic, TypeVar

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.entry_key import EntryKey
from pulsar_actors.machines.ledgers.entry_map import EntryMap

Message = TypeVar("Message")


class Verdict(Enum):
    """What becomes of an entry that arrived."""

    DELIVER = "deliver it"
    LAST_TRY = "deliver it, and remember it"
    DEAD = "send it to the dead letter topic"
    SENDING = "drop it: it is on its way to the dead letter topic already"


class DeadLetters(Generic[Message]):
    """The entries of one consumer that are on their last try, or on their way to the dead letter topic."""

    __slots__ = ("_last_tries", "_sending", "max_redeliver_count")

    def __init__(self, max_redeliver_count: int) -> None:
        if max_redeliver_count < 1:
            raise InvalidArgument(f"max_redeliver_count must be greater than 0, not {max_redeliver_count}")
        self.max_redeliver_count = max_redeliver_count
        self._last_tries: EntryMap[tuple[Message, ...]] = EntryMap()
        self._sending: dict[EntryKey, tuple[Message, ...]] = {}

    def arrived(self, entry: EntryKey, redelivery_count: int, messages: tuple[Message, ...]) -> Verdict:
        """Judge an entry by the number of times that it was redelivered."""
        if entry in self._sending:
            return Verdict.SENDING
        if redelivery_count < self.max_redeliver_count:
            return Verdict.DELIVER
        if redelivery_count == self.max_redeliver_count:
            self._last_tries.put(entry, messages)
            return Verdict.LAST_TRY
        self._last_tries.pop(entry)
        self._sending[entry] = messages
        return Verdict.DEAD

    def refused(self, entry: EntryKey) -> tuple[Message, ...]:
        """Give the messages to send to the dead letter topic when an entry has failed its last try.

        Nothing means that the broker is to redeliver it. The entry may be a batch of which some are acknowledged:
        the caller sends the others.
        """
        messages = self._last_tries.pop(entry)
        if messages is None:
            return ()
        self._sending[entry] = messages
        return messages

    def acknowledged(self, entry: EntryKey) -> None:
        """Forget an entry that succeeded at last."""
        self._last_tries.pop(entry)

    def acknowledged_up_to(self, entry: EntryKey) -> None:
        """Forget an entry and all before it."""
        self._last_tries.pop_up_to(entry)

    def sent(self, entry: EntryKey) -> None:
        """Note that the dead letter topic has all messages of an entry: it is to be acknowledged now."""
        self._sending.pop(entry, None)

    def failed(self, entry: EntryKey) -> tuple[Message, ...]:
        """Give the messages of an entry that the dead letter topic does not have: the broker is to redeliver it."""
        return self._sending.pop(entry, ())

    def clear(self) -> None:
        """Forget what is on its last try, for it comes again; what is being sent stays on its way."""
        self._last_tries.clear()
