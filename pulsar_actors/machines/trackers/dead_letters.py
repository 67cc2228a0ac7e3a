"""The decision which messages become dead letters or retry letters, and what these contain.

A message that keeps failing would be redelivered for ever. A dead letter policy sets a limit. A message whose
redelivery count equals `max_redeliver_count` is delivered once more, and kept here meanwhile: its last try. If it is
negatively acknowledged again, it goes to the dead letter topic. A message with a higher count had its last try before a
reconnect, or at another consumer. It goes to the dead letter topic without being delivered, and its permits are
returned. The original is acknowledged only when the dead letter topic has stored the copy, so no failure in between
loses it. Messages on their last try are kept with their payloads, so they are forgotten when the broker redelivers them
anyway: after a reconnect, a seek, or a redelivery of everything. While a message is being sent, it is not delivered
again, except after a seek: the user has asked for it then, and the copy does not acknowledge it.

`reconsume_later` sends a message to a retry topic, with a count of retries in its properties and a time before which it
is not delivered. When that count is over its limit, the message goes to the dead letter topic at once. In both topics
the message keeps the properties that name its first origin. The names of topics and properties are the Java client's,
and other clients read the count: clients may share a retry topic.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Generic, TypeVar

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.entry_map import EntryKey, EntryMap
from pulsar_actors.named_tuple import NamedTuple

MessageT = TypeVar("MessageT")


class DeadLetterVerdict(Enum):
    """The verdict on an entry that has arrived."""

    DELIVER = "deliver it"
    LAST_TRY = "deliver it, and remember it"
    DEAD = "send it to the dead letter topic"
    SENDING = "drop it: it is on its way to the dead letter topic already"


class DeadLetters(Generic[MessageT]):
    """The entries of one consumer that are on their last try, or on their way to the dead letter topic."""

    __slots__ = ("_last_tries", "_sending", "max_redeliver_count")

    def __init__(self, max_redeliver_count: int) -> None:
        if max_redeliver_count < 1:
            raise InvalidArgument(f"max_redeliver_count must be greater than 0, not {max_redeliver_count}")
        self.max_redeliver_count = max_redeliver_count
        self._last_tries: EntryMap[tuple[MessageT, ...]] = EntryMap()
        self._sending: dict[EntryKey, tuple[MessageT, ...]] = {}

    def arrived(self, entry: EntryKey, redelivery_count: int, messages: tuple[MessageT, ...]) -> DeadLetterVerdict:
        """Decide by an entry's redelivery count if it is delivered."""
        if entry in self._sending:
            return DeadLetterVerdict.SENDING
        if redelivery_count < self.max_redeliver_count:
            return DeadLetterVerdict.DELIVER
        if redelivery_count == self.max_redeliver_count:
            self._last_tries.put(entry, messages)
            return DeadLetterVerdict.LAST_TRY
        self._last_tries.pop(entry)
        self._sending[entry] = messages
        return DeadLetterVerdict.DEAD

    def last_try_failed(self, entry: EntryKey) -> tuple[MessageT, ...]:
        """Return the messages to send to the dead letter topic, if an entry has failed its last try.

        If there are none, the broker redelivers the entry. If some messages of a batch are acknowledged, the caller
        sends the others.
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
        """Note that the dead letter topic has all messages of an entry. The caller acknowledges the entry."""
        self._sending.pop(entry, None)

    def failed(self, entry: EntryKey) -> tuple[MessageT, ...]:
        """Return the messages of an entry that the dead letter topic does not have.

        The broker has to redeliver the entry.
        """
        return self._sending.pop(entry, ())

    def clear(self) -> None:
        """Forget the messages on their last try, because they come again. Those that are being sent stay."""
        self._last_tries.clear()

    def void(self) -> None:
        """Forget everything, also the messages that are being sent: after a seek they are new ones."""
        self.clear()
        self._sending.clear()


DEFAULT_MAX_RETRIES = 16
"""The default limit of retries through the retry topic."""

MAX_DIGITS = 10
"""A longer count of retries was not written by a Pulsar client; it counts as none."""

REAL_TOPIC = "REAL_TOPIC"
REAL_SUBSCRIPTION = "REAL_SUBSCRIPTION"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
ORIGIN_MESSAGE_ID_FIRST_SPELLING = "ORIGIN_MESSAGE_IDY_TIME"
"""The first name of that property; like the Java client, this one writes both for older readers."""
RECONSUMETIMES = "RECONSUMETIMES"
DELAY_TIME = "DELAY_TIME"


class Origin(NamedTuple):
    """The origin of a message: where it was consumed."""

    topic: str
    subscription: str
    message_id: str


class RetryMessage(NamedTuple):
    """A message to send again: its properties, whether it is a dead letter, and its delivery time.

    The time is in milliseconds since 1970; None is at once.
    """

    properties: dict[str, str]
    is_dead: bool
    deliver_at_ms: int | None


def dead_letter_topic(topic: str, subscription: str) -> str:
    """Name the default dead letter topic; `topic` is the consumer's own, partition suffix included."""
    return f"{topic}-{subscription}-DLQ"


def retry_letter_topic(topic: str, subscription: str) -> str:
    """Name the default retry topic; `topic` is what was subscribed to, or the first by name of several."""
    return f"{topic}-{subscription}-RETRY"


def dead_letter_properties(properties: Mapping[str, str], origin: Origin) -> dict[str, str]:
    """Add the origin to the properties, unless they have one: the first origin is the real one."""
    marks = {
        REAL_TOPIC: origin.topic,
        REAL_SUBSCRIPTION: origin.subscription,
        ORIGIN_MESSAGE_ID: origin.message_id,
        ORIGIN_MESSAGE_ID_FIRST_SPELLING: origin.message_id,
    }
    return {**marks, **properties}


def retry_message(
    properties: Mapping[str, str], origin: Origin, delay_ms: int, now_ms: int, max_retries: int
) -> RetryMessage:
    """Return the retry message that comes again after a delay, with its count raised."""
    before = properties.get(RECONSUMETIMES, "0")
    is_number = before.isascii() and before.isdecimal() and len(before) < MAX_DIGITS
    times = (int(before) if is_number else 0) + 1
    marked = dead_letter_properties(properties, origin)
    marked[RECONSUMETIMES] = str(times)
    marked[DELAY_TIME] = str(delay_ms)
    is_dead = times > max_retries
    return RetryMessage(marked, is_dead, None if is_dead or not delay_ms else now_ms + delay_ms)
