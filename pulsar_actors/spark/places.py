"""Where reading begins and ends, as users say it: for all topics, or for each.

What `startingOffsets` and its like take is a word, a time, or JSON by topic. A place is what was said; it becomes a
position once a broker has been asked where the end of a topic is, or what it had at a time. A partition that JSON says
nothing of begins, or ends, where it would without any.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeAlias, cast

from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration
from pulsar_actors.spark.position import EARLIEST, Position
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["AtTime", "Latest", "Place", "Places", "places"]

_TEXTS: Final = '"ledger:entry", "ledger:entry:partition:index"'
_MILLISECONDS: Final = re.compile(r"[0-9]{1,18}")
_KAFKAS: Final = {-2: "earliest", -1: "latest"}


class Latest(NamedTuple):
    """Behind the last message there is."""


class AtTime(NamedTuple):
    """The first message that was published at a time or later, in milliseconds since 1970."""

    ms: int


Place: TypeAlias = Position | AtTime | Latest


class Places(NamedTuple):
    """A place for each partition: by its name, by that of its topic, or else the `default`, whoever said that."""

    option: str
    default: Place
    by_topic: Mapping[TopicName, Place]
    default_is_said: bool = False

    def of(self, partition: TopicName) -> Place:
        """Give the place of one partition."""
        return self.by_topic.get(partition, self.by_topic.get(partition.base, self.default))

    def says_of(self, partition: TopicName) -> bool:
        """Tell whether a user said where this one begins or ends."""
        return self.default_is_said or partition in self.by_topic or partition.base in self.by_topic

    def check(self, partitions: Sequence[TopicName], awaited: Sequence[TopicName]) -> None:
        """Refuse what is said of others, and a message that could be in any of several partitions."""
        if len(partitions) > 1 and isinstance(self.default, Position) and self.default != EARLIEST:
            raise InvalidConfiguration(
                f"{self.option} names one message, and there are {len(partitions)} partitions: say by JSON which of "
                "them has it"
            )
        known = {*partitions, *(partition.base for partition in partitions), *awaited}
        for topic, place in self.by_topic.items():
            if topic not in known:
                raise InvalidConfiguration(f"{self.option} speaks of {topic}, which is not among the topics to read")
            if topic not in partitions and isinstance(place, Position) and place != EARLIEST:
                raise InvalidConfiguration(f"{self.option}: {topic} has partitions, name that which the message is in")


def places(texts: Mapping[str, str], side: str, default: Place) -> Places:
    """Read them off the options of one side: `starting` or `ending`."""
    by_offset, by_time = f"{side}Offsets", f"{side}Time"
    offsets, time = texts.get(by_offset.lower()), texts.get(by_time.lower())
    if offsets is not None and time is not None:
        raise InvalidConfiguration(f"{by_offset} and {by_time} say the same: give one of them")
    if offsets is not None:
        return _read(by_offset, offsets, default, _offset)
    if time is not None:
        return _read(by_time, time, default, _time)
    return Places(by_offset, default, {})


def _read(option: str, text: str, default: Place, read: Any) -> Places:  # noqa: ANN401 - one of the two below
    if not text.strip().startswith("{"):
        return Places(option, read(option, text.strip()), {}, default_is_said=True)
    try:
        said = json.loads(text, object_pairs_hook=_each_once)
    except ValueError as fault:
        raise InvalidConfiguration(f"{option} takes JSON that begins with a brace, and it is none: {fault}") from None
    positions = said.get("positions")  # of offsets as a query's progress shows them
    by_topic: dict[TopicName, Place] = {}
    for topic, value in cast("dict[str, object]", positions if isinstance(positions, dict) else said).items():
        name = TopicName.parse(topic)
        if name in by_topic:
            raise InvalidConfiguration(f"{option} speaks of {name} twice")
        by_topic[name] = read(f"{option} of {topic}", value)
    return Places(option, default, by_topic)


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name} stands in it twice")
    return dict(pairs)


def _offset(name: str, value: object) -> Place:
    """Take a word, a position as text, or the bytes of a message id as a list of numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = _KAFKAS.get(value, value)
    with suppress(InvalidArgument, TypeError, ValueError):
        if isinstance(value, str):
            return Latest() if value.lower() == "latest" else Position.parse(value)
        if isinstance(value, list):
            return Position.deserialize(bytes(byte & 0xFF for byte in cast("list[int]", value)))
    raise InvalidConfiguration(f'{name} takes "earliest", "latest", {_TEXTS} or a list of bytes, got {value!r}')


def _time(name: str, value: object) -> Place:
    text = str(value).strip()
    if not isinstance(value, (str, int)) or not _MILLISECONDS.fullmatch(text):
        raise InvalidConfiguration(f"{name} takes milliseconds since 1970, got {value!r}")
    return AtTime(int(text))
