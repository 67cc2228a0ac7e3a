"""The bounds of a query: startingOffsets, startingTime, endingOffsets and endingTime, for all topics or for each.

Each option takes a word, a time, or JSON by topic. To convert a bound to a position, a broker is asked for the end of a
topic, or for its first message of a time. Partitions that are not in the JSON have the default bound.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias, cast

from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition

__all__ = ["AtTime", "Latest", "OffsetBound", "OffsetBounds", "parse_offset_bounds"]


_TEXTS: Final = '"ledger:entry", "ledger:entry:partition:index"'
_MILLISECONDS: Final = re.compile(r"[0-9]{1,18}")
_KAFKA_OFFSETS: Final = {-2: "earliest", -1: "latest"}


class Latest(NamedTuple):
    """The position after the last message of a topic."""


class AtTime(NamedTuple):
    """The first message published at a time or later, in milliseconds since 1970."""

    ms: int


OffsetBound: TypeAlias = TopicPosition | AtTime | Latest


class OffsetBounds(NamedTuple):
    """The bound of each partition: by its name, by that of its topic, or else the `default`."""

    option: str
    default: OffsetBound
    by_topic: Mapping[TopicName, OffsetBound]
    default_is_given: bool = False

    def of(self, partition: TopicName) -> OffsetBound:
        """Return the bound of one partition."""
        return self.by_topic.get(partition, self.by_topic.get(partition.base, self.default))

    def is_given_for(self, partition: TopicName) -> bool:
        """Return whether the user has given the bound of a partition."""
        return self.default_is_given or partition in self.by_topic or partition.base in self.by_topic

    def check(self, partitions: Sequence[TopicName], awaited: Sequence[TopicName]) -> None:
        """Refuse bounds of other topics, and a message id that could belong to any of several partitions."""
        if len(partitions) > 1 and isinstance(self.default, TopicPosition) and self.default != TOPIC_START:
            raise InvalidConfiguration(
                f"{self.option} names one message, and there are {len(partitions)} partitions: say by JSON which of "
                "them has it"
            )
        known = {*partitions, *(partition.base for partition in partitions), *awaited}
        for topic, bound in self.by_topic.items():
            if topic not in known:
                raise InvalidConfiguration(f"{self.option} speaks of {topic}, which is not among the topics to read")
            if topic not in partitions and isinstance(bound, TopicPosition) and bound != TOPIC_START:
                raise InvalidConfiguration(f"{self.option}: {topic} has partitions, name that which the message is in")


def parse_offset_bounds(texts: Mapping[str, str], side: str, default: OffsetBound) -> OffsetBounds:
    """Parse the options of one side: `starting` or `ending`."""
    by_offset, by_time = f"{side}Offsets", f"{side}Time"
    offsets, time = texts.get(by_offset.lower()), texts.get(by_time.lower())
    if offsets is not None and time is not None:
        raise InvalidConfiguration(f"{by_offset} and {by_time} say the same: give one of them")
    if offsets is not None:
        return _parse_bounds(by_offset, offsets, default, _parse_offset)
    if time is not None:
        return _parse_bounds(by_time, time, default, _parse_time)
    return OffsetBounds(by_offset, default, {})


def _parse_bounds(
    option: str, text: str, default: OffsetBound, parse: Callable[[str, object], OffsetBound]
) -> OffsetBounds:
    if not text.strip().startswith("{"):
        return OffsetBounds(option, parse(option, text.strip()), {}, default_is_given=True)
    try:
        value = json.loads(text, object_pairs_hook=_reject_duplicates)
    except ValueError as fault:
        raise InvalidConfiguration(f"{option} takes JSON that begins with a brace, and it is none: {fault}") from None
    positions = value.get("positions")  # the form of offsets in a query's progress
    by_topic: dict[TopicName, OffsetBound] = {}
    for topic, bound in cast("dict[str, object]", positions if isinstance(positions, dict) else value).items():
        name = TopicName.parse(topic)
        if name in by_topic:
            raise InvalidConfiguration(f"{option} speaks of {name} twice")
        by_topic[name] = parse(f"{option} of {topic}", bound)
    return OffsetBounds(option, default, by_topic)


def _reject_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} stands in it twice")
    return dict(pairs)


def _parse_offset(name: str, value: object) -> OffsetBound:
    """Parse a word, a position as text, or the bytes of a message id as a list of numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = _KAFKA_OFFSETS.get(value, value)
    with suppress(InvalidArgument, TypeError, ValueError):
        if isinstance(value, str):
            return Latest() if value.lower() == "latest" else TopicPosition.parse(value)
        if isinstance(value, list):
            return TopicPosition.deserialize(bytes(byte & 0xFF for byte in cast("list[int]", value)))
    raise InvalidConfiguration(f'{name} takes "earliest", "latest", {_TEXTS} or a list of bytes, got {value!r}')


def _parse_time(name: str, value: object) -> OffsetBound:
    text = str(value).strip()
    if not isinstance(value, (str, int)) or not _MILLISECONDS.fullmatch(text):
        raise InvalidConfiguration(f"{name} takes milliseconds since 1970, got {value!r}")
    return AtTime(int(text))
