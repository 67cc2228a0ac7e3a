"""Messages that have been tried often enough.

A message that keeps failing would come back for ever. With a policy, one that was redelivered `max_redeliver_count`
times is remembered while the user tries it once more; if it is refused again, it goes to a dead letter topic instead of
back to the broker. One that comes with a higher count, because nobody here remembered it, is not delivered at all: its
permits are returned and it goes the same way. Only when the dead letter topic has it is the original acknowledged, so
that no failure in between loses it.

A message that the user puts off is likewise sent to a retry topic, with a count of its own in its properties, and ends
in the dead letter topic when that count is over its limit.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.entry_key import EntryKey

Message = TypeVar("Message")

DEFAULT_MAX_RETRIES = 16
"""How often a message is put off when retrying is on and no policy says otherwise."""

MAX_DIGITS = 10
"""A longer count of retries was not written by a Pulsar client; it counts as none."""

REAL_TOPIC = "REAL_TOPIC"
REAL_SUBSCRIPTION = "REAL_SUBSCRIPTION"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
RECONSUMETIMES = "RECONSUMETIMES"
DELAY_TIME = "DELAY_TIME"


class Verdict(Enum):
    """What becomes of an entry that arrived."""

    DELIVER = "deliver it"
    LAST_TRY = "deliver it, and remember it"
    DEAD = "send it to the dead letter topic"
    SENDING = "drop it: it is on its way to the dead letter topic already"


class DeadLetterPolicy(NamedTuple):
    """When a message is given up, and where it goes; names that are not given follow from topic and subscription."""

    max_redeliver_count: int
    dead_letter_topic: str | None = None
    retry_topic: str | None = None
    initial_subscription_name: str | None = None


class Origin(NamedTuple):
    """Where a message was consumed."""

    topic: str
    subscription: str
    message_id: str


class PutOff(NamedTuple):
    """A message to send again: how it is marked, and whether it has had its last chance."""

    properties: dict[str, str]
    is_dead: bool


def dead_letter_topic(topic: str, subscription: str) -> str:
    """Name the default dead letter topic; `topic` is the consumer's own, partition suffix included."""
    return f"{topic}-{subscription}-DLQ"


def retry_topic(topic: str, subscription: str) -> str:
    """Name the default retry topic."""
    return f"{topic}-{subscription}-RETRY"


def dead_letter_properties(properties: Mapping[str, str], origin: Origin) -> dict[str, str]:
    """Mark a message with its origin, unless an earlier stop has: the first origin is the real one."""
    marks = {
        REAL_TOPIC: origin.topic,
        REAL_SUBSCRIPTION: origin.subscription,
        ORIGIN_MESSAGE_ID: origin.message_id,
    }
    return {**marks, **properties}


def put_off(properties: Mapping[str, str], origin: Origin, delay_ms: int, max_retries: int) -> PutOff:
    """Mark a message that is to come again after a delay, and count the times."""
    before = properties.get(RECONSUMETIMES, "0")
    is_number = before.isascii() and before.isdecimal() and len(before) < MAX_DIGITS
    times = (int(before) if is_number else 0) + 1
    marked = dead_letter_properties(properties, origin)
    marked[RECONSUMETIMES] = str(times)
    marked[DELAY_TIME] = str(max(0, delay_ms))
    return PutOff(marked, times > max_retries)


class DeadLetters(Generic[Message]):
    """The entries of one consumer that are on their last try, or on their way to the dead letter topic."""

    __slots__ = ("_last_tries", "_sending", "max_redeliver_count")

    def __init__(self, max_redeliver_count: int) -> None:
        if max_redeliver_count < 1:
            raise InvalidArgument(f"max_redeliver_count must be greater than 0, not {max_redeliver_count}")
        self.max_redeliver_count = max_redeliver_count
        self._last_tries: dict[EntryKey, tuple[Message, ...]] = {}
        self._sending: dict[EntryKey, tuple[Message, ...]] = {}

    def arrived(self, entry: EntryKey, redelivery_count: int, messages: tuple[Message, ...]) -> Verdict:
        """Judge an entry by the number of times that it was redelivered."""
        if entry in self._sending:
            return Verdict.SENDING
        if redelivery_count < self.max_redeliver_count:
            return Verdict.DELIVER
        if redelivery_count == self.max_redeliver_count:
            self._last_tries[entry] = messages
            return Verdict.LAST_TRY
        self._last_tries.pop(entry, None)
        self._sending[entry] = messages
        return Verdict.DEAD

    def refused(self, entry: EntryKey) -> tuple[Message, ...]:
        """Give the messages to send to the dead letter topic when an entry has failed its last try.

        Nothing means that the broker is to redeliver it. The entry may be a batch of which some are acknowledged:
        the caller sends the others.
        """
        messages = self._last_tries.pop(entry, ())
        if messages:
            self._sending[entry] = messages
        return messages

    def acknowledged(self, entry: EntryKey) -> None:
        """Forget an entry that succeeded at last."""
        self._last_tries.pop(entry, None)

    def sent(self, entry: EntryKey) -> None:
        """Note that the dead letter topic has all messages of an entry: it is to be acknowledged now."""
        self._sending.pop(entry, None)

    def failed(self, entry: EntryKey) -> None:
        """Note that the dead letter topic does not have an entry: the broker is to redeliver it."""
        self._sending.pop(entry, None)

    def clear(self) -> None:
        """Forget what is on its last try, for a seek brings it again; what is being sent stays on its way."""
        self._last_tries.clear()
