"""What a message carries that is sent on: to the retry topic, or at last to the dead letter topic.

A message that the user puts off goes to a retry topic, with a count of its own in its properties and a time before
which it is not delivered, and to the dead letter topic, at once, when that count is over its limit. Wherever it goes it
keeps the mark of where it was consumed first. The names of topics and properties are the Java client's, and what it
reads of them is the count: clients may share a retry topic.
"""

from collections.abc import Mapping
from typing import NamedTuple

DEFAULT_MAX_RETRIES = 16
"""How often a message is put off when retrying is on and nobody says otherwise."""

MAX_DIGITS = 10
"""A longer count of retries was not written by a Pulsar client; it counts as none."""

REAL_TOPIC = "REAL_TOPIC"
REAL_SUBSCRIPTION = "REAL_SUBSCRIPTION"
ORIGIN_MESSAGE_ID = "ORIGIN_MESSAGE_ID"
ORIGIN_MESSAGE_ID_ONCE = "ORIGIN_MESSAGE_IDY_TIME"
"""What the same was called first; the Java client writes both, for those that have not noticed."""
RECONSUMETIMES = "RECONSUMETIMES"
DELAY_TIME = "DELAY_TIME"


class Origin(NamedTuple):
    """Where a message was consumed."""

    topic: str
    subscription: str
    message_id: str


class PutOff(NamedTuple):
    """A message to send again: how it is marked, whether it has had its last chance, and when it is to be delivered.

    That is in milliseconds since 1970; None: at once.
    """

    properties: dict[str, str]
    is_dead: bool
    deliver_at_ms: int | None


def dead_letter_topic(topic: str, subscription: str) -> str:
    """Name the default dead letter topic; `topic` is the consumer's own, partition suffix included."""
    return f"{topic}-{subscription}-DLQ"


def retry_topic(topic: str, subscription: str) -> str:
    """Name the default retry topic; `topic` is what was subscribed to, or the first by name of several."""
    return f"{topic}-{subscription}-RETRY"


def dead_letter_properties(properties: Mapping[str, str], origin: Origin) -> dict[str, str]:
    """Mark a message with its origin, unless an earlier stop has: the first origin is the real one."""
    marks = {
        REAL_TOPIC: origin.topic,
        REAL_SUBSCRIPTION: origin.subscription,
        ORIGIN_MESSAGE_ID: origin.message_id,
        ORIGIN_MESSAGE_ID_ONCE: origin.message_id,
    }
    return {**marks, **properties}


def put_off(properties: Mapping[str, str], origin: Origin, delay_ms: int, now_ms: int, max_retries: int) -> PutOff:
    """Mark a message that is to come again after a delay, and count the times."""
    before = properties.get(RECONSUMETIMES, "0")
    is_number = before.isascii() and before.isdecimal() and len(before) < MAX_DIGITS
    times = (int(before) if is_number else 0) + 1
    marked = dead_letter_properties(properties, origin)
    marked[RECONSUMETIMES] = str(times)
    marked[DELAY_TIME] = str(delay_ms)
    is_dead = times > max_retries
    return PutOff(marked, is_dead, None if is_dead or not delay_ms else now_ms + delay_ms)
