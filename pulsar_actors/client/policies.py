"""Policies of a consumer: dead letters, batch receive, key sharing, and redelivery backoff.

Each policy is an object that is checked when it is created. A policy that the official client has, too, has the same
arguments and properties.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

from pulsar_actors.client.enums import KeySharedMode
from pulsar_actors.client.validation import (
    LONGEST_MS,
    check_size,
    flag,
    instance_of,
    optional,
    refusal_of,
    text,
    topic,
    whole_number,
)
from pulsar_actors.exceptions import InvalidArgument

__all__ = [
    "ConsumerBatchReceivePolicy",
    "ConsumerDeadLetterPolicy",
    "ConsumerKeySharedPolicy",
    "MultiplierRedeliveryBackoff",
]


_LAST_HASH = 2**16 - 1
_TAKES = f"a list of pairs of hashes (first, last), from 0 to {_LAST_HASH:,}"
_MOST_BYTES = 10 * 1024 * 1024
_count = whole_number(1)
_topic = optional(topic)
_text = optional(text)
_any_number = whole_number(-(2**63), 2**63 - 1)
_ms = whole_number(0, LONGEST_MS)
_any_ms = whole_number(-LONGEST_MS, LONGEST_MS)
_mode = instance_of(KeySharedMode)
_hash = whole_number(0, _LAST_HASH)


@dataclass(frozen=True, slots=True)
class ConsumerDeadLetterPolicy:
    """The topics for messages that have failed too often, and for messages of `reconsume_later`.

    A message that was redelivered `max_redeliver_count` times and fails again goes to `dead_letter_topic`, by default
    `TOPIC-SUBSCRIPTION-DLQ`. With an `initial_subscription_name`, a subscription of that name is created on the dead
    letter topic, so that the broker keeps its messages.

    With `enable_retry`, `reconsume_later` sends a message to `retry_letter_topic`, by default
    `TOPIC-SUBSCRIPTION-RETRY`. A message that was put off `max_redeliver_count` times and is put off again goes to the
    dead letter topic instead. A consumer with `enable_retry` has one retry topic and one dead letter topic for all its
    topics and partitions. The default names are derived from the subscribed topic; from the alphabetically first, if
    there are several.
    """

    max_redeliver_count: int
    dead_letter_topic: str | None = None
    """Empty: the default."""
    initial_subscription_name: str | None = None
    """Empty: none."""
    retry_letter_topic: str | None = field(default=None, kw_only=True)
    """Empty: the default."""

    def __post_init__(self) -> None:
        _count("max_redeliver_count", self.max_redeliver_count)
        _topic("dead_letter_topic", self.dead_letter_topic)
        _topic("retry_letter_topic", self.retry_letter_topic)
        _text("initial_subscription_name", self.initial_subscription_name)
        object.__setattr__(self, "dead_letter_topic", self.dead_letter_topic or "")
        object.__setattr__(self, "initial_subscription_name", self.initial_subscription_name or "")
        object.__setattr__(self, "retry_letter_topic", self.retry_letter_topic or "")
        check_size(self, "dead_letter_topic", "initial_subscription_name")


@dataclass(frozen=True, slots=True)
class ConsumerBatchReceivePolicy:
    """The limits of `batch_receive`: so many messages or bytes, or so long, whichever comes first.

    The messages have no more than `max_num_bytes` together, except that there is always a first one.

    0 or less means no limit, but at least one of the three must be set: otherwise the call might never return. If only
    the time is limited, the size is limited to 10 MiB, too, because a long backlog would fill the memory.
    """

    max_num_message: int
    max_num_bytes: int
    timeout_ms: int

    def __post_init__(self) -> None:
        _any_number("max_num_message", self.max_num_message)
        _any_number("max_num_bytes", self.max_num_bytes)
        _any_ms("timeout_ms", self.timeout_ms)
        if max(self.max_num_message, self.max_num_bytes, self.timeout_ms) <= 0:
            raise InvalidArgument("one of max_num_message, max_num_bytes and timeout_ms has to be greater than 0")
        if max(self.max_num_message, self.max_num_bytes) <= 0:
            object.__setattr__(self, "max_num_message", -1)
            object.__setattr__(self, "max_num_bytes", _MOST_BYTES)

    def is_filled_by(self, messages: int, size: int) -> bool:
        """Return whether so many messages, with so many bytes in all, reach a limit."""
        return 0 < self.max_num_message <= messages or 0 < self.max_num_bytes <= size

    def is_exceeded_by(self, size: int) -> bool:
        """Return whether so many bytes are more than the limit."""
        return 0 < self.max_num_bytes < size


@dataclass(frozen=True, slots=True)
class MultiplierRedeliveryBackoff:
    """A redelivery delay that grows with each redelivery of a message, as in the Java client's class of that name.

    The first delay is `min_delay_ms`, and each later one is `multiplier` times longer, up to `max_delay_ms`. Brokers
    count redeliveries only for Shared and KeyShared subscriptions: in others the delay is always the first one.
    """

    min_delay_ms: int = 10_000
    max_delay_ms: int = 600_000
    multiplier: float = 2.0

    def __post_init__(self) -> None:
        _ms("min_delay_ms", self.min_delay_ms)
        _ms("max_delay_ms", self.max_delay_ms)
        factor = cast("object", self.multiplier)
        is_number = isinstance(factor, (int, float)) and not isinstance(factor, bool)
        if not is_number or not 1 < self.multiplier <= LONGEST_MS:
            raise refusal_of("multiplier", self.multiplier, f"a number greater than 1 and up to {LONGEST_MS:,}")
        if self.max_delay_ms < self.min_delay_ms:
            takes = f"at least min_delay_ms, which is {self.min_delay_ms:,}"
            raise refusal_of("max_delay_ms", self.max_delay_ms, takes)


@dataclass(frozen=True, slots=True)
class ConsumerKeySharedPolicy:
    """The division of keys among KeyShared consumers.

    With `AutoSplit` the broker divides the keys. With `Sticky` the consumer names the hashes that it wants, as
    inclusive ranges within 0 to 65,535. Messages whose hash no consumer wants are not delivered. When consumers come
    and go, a new consumer has to wait so that the messages of a key stay in order. With `allow_out_of_order_delivery`
    it does not wait, and the order may be lost.
    """

    key_shared_mode: KeySharedMode = KeySharedMode.AutoSplit
    allow_out_of_order_delivery: bool = False
    sticky_ranges: Sequence[tuple[int, int]] | None = None
    """A list; empty if no ranges were given."""

    def __post_init__(self) -> None:
        _mode("key_shared_mode", self.key_shared_mode)
        flag("allow_out_of_order_delivery", self.allow_out_of_order_delivery)
        ranges = _ranges(self.sticky_ranges)
        if not ranges and self.key_shared_mode is KeySharedMode.Sticky:
            raise refusal_of("sticky_ranges", self.sticky_ranges, "at least one range with KeySharedMode.Sticky")
        object.__setattr__(self, "sticky_ranges", ranges)


def _ranges(given: object) -> list[tuple[int, int]]:
    """Check ranges: they must be within the hashes, and must not overlap."""
    if given is None:
        return []
    if not isinstance(given, (list, tuple)):
        raise refusal_of("sticky_ranges", given, _TAKES)
    ranges = [_range(pair) for pair in cast("Sequence[object]", given)]
    for (_, last), (first, _) in pairwise(sorted(ranges)):
        if first <= last:
            raise refusal_of("sticky_ranges", f"{first} twice", "ranges without a hash in common")
    return ranges


def _range(given: object) -> tuple[int, int]:
    try:
        first, last = cast("tuple[int, int]", given)
    except (TypeError, ValueError):
        raise refusal_of("sticky_ranges", given, _TAKES) from None
    _hash("the first hash of a range", first)
    _hash("the last hash of a range", last)
    if first > last:
        raise refusal_of("sticky_ranges", f"{first} to {last}", _TAKES)
    return (first, last)
