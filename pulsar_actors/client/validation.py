"""Checks of arguments: a wrong one is refused at once, with an error that has the value and says what is valid.

A check is a function of an argument's name and value. It returns the value to store, or raises InvalidArgument. The
stored value may differ from the given one: a copy of a dict, because the caller may change the dict later, or None for
an empty text, which counts as not given, as in the official client.

Options are annotated with their types and checks (`options.py`). Options objects are always valid, and no other code
checks them again.

`True` is not accepted as 1, nor a member of an enum as its number: both are probably mistakes. Numbers of seconds may
have a fraction.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias, cast

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.frames import DEFAULT_MAX_MESSAGE_SIZE
from pulsar_actors.wire.topic_name import TopicName

__all__ = [
    "LARGEST_COUNT",
    "LARGEST_TEXTS",
    "LONGEST_MS",
    "LONGEST_SECONDS",
    "Check",
    "arguments_of",
    "callback",
    "check_fields",
    "check_size",
    "flag",
    "instance_of",
    "is_text",
    "optional",
    "path",
    "properties",
    "refusal_of",
    "seconds",
    "several_of",
    "text",
    "topic",
    "whole_number",
]


Check: TypeAlias = Callable[[str, object], object]

LARGEST_COUNT = 2**31 - 1
"""The largest number in the official client, whose numbers have 32 bits."""
LONGEST_SECONDS = 10**9
"""Some thirty years, the longest time that the timers of this package can wait."""
LONGEST_MS = LONGEST_SECONDS * 1000

LARGEST_TEXTS = DEFAULT_MAX_MESSAGE_SIZE
"""The most bytes of all texts of one command: by default, brokers take 5 MiB and a little more."""
_PAIR = 16
"""The most bytes that a property takes besides its two texts."""

_SHOWN = (bool, int, float, str, bytes, Enum, type(None))


def refusal_of(name: str, got: object, takes: str) -> InvalidArgument:
    """Make the error for a wrong argument. Its text shows plain values, and the types of all others."""
    return InvalidArgument(f"{name} takes {takes}, got {_shown(got)}")


def arguments_of(local_names: Mapping[str, object]) -> Mapping[str, Any]:
    """Return the arguments of a method, from its `locals()` before it has set other names."""
    return {name: value for name, value in local_names.items() if name != "self"}


def check_fields(options: object, checks: Mapping[str, Check]) -> None:
    """Apply a check to each field that the table names, and store the value that the check returns."""
    for name, check in checks.items():
        given = getattr(options, name)
        kept = check(name, given)
        if kept is not given:
            object.__setattr__(options, name, kept)  # a frozen object is changed only here, while it is made


def check_size(options: object, *names: str) -> None:
    """Refuse texts that are too large together: they are sent in one command, which must fit into a frame.

    Each of several topics has a separate command. A broker with a lower limit than usual refuses the command.
    """
    sizes = {name: _size(getattr(options, name)) for name in names}
    together = sum(sizes.values())
    if together > LARGEST_TEXTS:
        largest = max(sizes, key=lambda name: sizes[name])
        others = f", {together:,} together with the others" if together != sizes[largest] else ""
        raise InvalidArgument(
            f"{largest} takes no more than {LARGEST_TEXTS:,} bytes as UTF-8, got {sizes[largest]:,}{others}"
        )


def is_text(value: object) -> bool:
    """Return whether the value is a str that can be encoded as UTF-8: one with half a surrogate pair cannot."""
    if not isinstance(value, str):
        return False
    if value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def text(name: str, value: object) -> object:
    """Take a str that is not empty."""
    if not is_text(value) or not value:
        raise refusal_of(name, value, "a str of Unicode text that is not empty")
    return value


def path(name: str, value: object) -> object:
    """Take the path of a file, which need not exist yet.

    A NUL character is refused here, because Python raises later.
    """
    if not is_text(value) or not value or "\0" in cast("str", value):
        raise refusal_of(name, value, "the path of a file, a str without NUL characters")
    return value


def topic(name: str, value: object) -> object:
    """Take the name of a topic, in any of its forms."""
    if not isinstance(value, str):
        raise refusal_of(name, value, "a topic's name, a str")
    TopicName.parse(value)
    return value


def topics(name: str, value: object, takes: str = "a topic's name, or a list of at least one") -> object:
    """Take the name of a topic, or a list of names, in which duplicates are dropped."""
    if isinstance(value, str):
        return topic(name, value)
    listed = _listed(value)
    if not listed:
        raise refusal_of(name, value, takes)
    names = [cast("str", topic(f"{name}[{at}]", one)) for at, one in enumerate(listed)]
    return tuple({TopicName.parse(one): one for one in reversed(names)}.values())[::-1]


def flag(name: str, value: object) -> object:
    """Take True or False."""
    if not isinstance(value, bool):
        raise refusal_of(name, value, "True or False")
    return value


def whole_number(least: int, most: int = LARGEST_COUNT, of: str = "") -> Check:
    """Take an int from `least` to `most`. `of` is its unit, for the text of the error."""
    takes = f"a whole number {of and f'of {of}, '}from {least:,} to {most:,}"

    def check(name: str, value: object) -> object:
        if not isinstance(value, int) or isinstance(value, (bool, Enum)) or not least <= value <= most:
            raise refusal_of(name, value, takes)
        return value

    return check


def seconds(least: float) -> Check:
    """Take a number of seconds, with or without a fraction, not below `least`."""

    def check(name: str, value: object) -> object:
        is_number = isinstance(value, (int, float)) and not isinstance(value, (bool, Enum))
        if not is_number or not least <= cast("float", value) <= LONGEST_SECONDS:
            raise refusal_of(name, value, f"seconds, from {least:,} to {LONGEST_SECONDS:,}")
        return value

    return check


def instance_of(kind: type) -> Check:
    """Take an instance of a class, or a member of an enum."""
    members = f", one of {', '.join(one.name for one in kind)}" if issubclass(kind, Enum) else ""

    def check(name: str, value: object) -> object:
        if not isinstance(value, kind):
            raise refusal_of(name, value, f"{_article(kind.__name__)} {kind.__name__}{members}")
        return value

    return check


def several_of(kind: type) -> Check:
    """Take a list or a tuple of objects of a class, and store a tuple."""
    takes = f"a list of objects, each {_article(kind.__name__)} {kind.__name__}"

    def check(name: str, value: object) -> object:
        if not isinstance(value, (list, tuple)):
            raise refusal_of(name, value, takes)
        for at, one in enumerate(cast("Sequence[object]", value)):
            if not isinstance(one, kind):
                raise refusal_of(f"{name}[{at}]", one, f"{_article(kind.__name__)} {kind.__name__}")
        return tuple(cast("Sequence[object]", value))

    return check


def callback(arguments: str) -> Check:
    """Take a callable."""

    def check(name: str, value: object) -> object:
        if not callable(value):
            raise refusal_of(name, value, f"a callable that is given {arguments}")
        return value

    return check


def optional(check: Check) -> Check:
    """Also take None; and an empty text as None, if the check is for texts."""
    is_of_text = check in (text, path, topic)

    def check_if_given(name: str, value: object) -> object:
        is_left_out = value is None or (is_of_text and not _given(value))
        return None if is_left_out else check(name, value)

    return check_if_given


def properties(name: str, value: object) -> object:
    """Take a dict of str to str, and store a copy; None is stored as an empty dict."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refusal_of(name, value, "a dict of str to str")
    given = cast("dict[object, object]", value)
    for key, item in given.items():
        if not is_text(key):
            raise refusal_of(f"a key of {name}", key, "Unicode text")
        if not is_text(item):
            raise refusal_of(f"{name}[{excerpt(key)}]", item, "Unicode text")
    return dict(given)


def _shown(got: object) -> str:
    if isinstance(got, _SHOWN):
        return excerpt(got)
    return f"the class {got.__name__}" if isinstance(got, type) else f"an object of type {type(got).__name__}"


def _size(value: object) -> int:
    match value:
        case str():
            return len(value.encode())
        case tuple():
            return max((_size(one) for one in cast("tuple[object, ...]", value)), default=0)
        case dict():
            pairs = cast("dict[str, str]", value).items()
            return sum(len(key.encode()) + len(item.encode()) + _PAIR for key, item in pairs)
        case _:
            return 0


def _listed(value: object) -> Sequence[object]:
    return cast("Sequence[object]", value) if isinstance(value, (list, tuple)) else ()


def _given(value: object) -> bool:
    return value is not None and not (isinstance(value, str) and not value)


def _article(noun: str) -> str:
    return "an" if noun[0] in "AEIOU" else "a"
