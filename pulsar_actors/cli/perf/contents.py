"""What is sent: payloads, keys and properties, made before the run, so that making them is not measured."""

import itertools
import random
import string
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

_KEYS: Final = 10_000


class Keys(Enum):
    """How messages get their keys: by pulsar-perf's words."""

    none = "none"
    random = "random"
    increment = "autoIncrement"


Content = tuple[bytes, dict[str, Any]]  # a payload, and what else `send_async` is told


def letters(size: int) -> bytes:
    """Make a payload of random letters, which compress somewhat."""
    dice = random.Random(size)  # noqa: S311 - the same in each run
    return "".join(dice.choices(string.ascii_uppercase, k=size)).encode()


def from_file(path: Path, delimiter: str) -> list[bytes]:
    """Read payloads from a file, which has one between each two delimiters."""
    found = path.read_bytes().split(delimiter.encode().decode("unicode_escape").encode())
    payloads = [each for each in found if each]
    if not payloads:
        raise ValueError(f"{path} has no payload")
    return payloads


def contents(payloads: Sequence[bytes], keys: Keys, properties: dict[str, str]) -> Iterator[Content]:
    """Give what is sent, message after message, without end; payloads in turn."""
    always = {"properties": properties} if properties else {}
    each = itertools.cycle(payloads)
    if keys is Keys.none:
        return ((payload, always) for payload in each)
    numbers = itertools.count() if keys is Keys.increment else _at_random()
    return ((payload, {"partition_key": str(number), **always}) for payload, number in zip(each, numbers, strict=False))


def _at_random() -> Iterator[int]:
    dice = random.Random(_KEYS)  # noqa: S311 - the same in each run
    return (dice.randrange(_KEYS) for _ in itertools.count())
