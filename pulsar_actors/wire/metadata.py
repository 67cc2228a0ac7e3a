"""Reading the metadata of entries and messages: it must parse and be whole, its strings may be anything.

See `strings.py` for why: whoever reads a string of metadata that came from here passes it through `readable` first.
"""

from collections.abc import Callable
from typing import TypeVar

from google.protobuf.message import Message

from pulsar_actors.exceptions import WireError
from pulsar_actors.wire.fields import UNREADABLE, first_missing_field
from pulsar_actors.wire.strings import parse

__all__ = ["read_metadata"]

_M = TypeVar("_M", bound=Message)


def read_metadata(kind: type[_M], data: bytes, at: int, blame: Callable[[str, int, int], WireError]) -> _M:
    """Read metadata that lies at `at`, or raise the error that `blame` makes of a text, a position and a size."""
    try:
        message = parse(kind, data)
    except UNREADABLE as fault:
        raise blame(f"protobuf cannot read a {kind.__name__}: {fault}", at, len(data)) from fault
    if not message.IsInitialized():
        missing = first_missing_field(message)
        raise blame(f"{kind.__name__} without its required {missing}", at, len(data))
    return message
