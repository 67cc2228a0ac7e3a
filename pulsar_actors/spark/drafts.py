"""Rows into messages that are ready to be left with a producer: payloads, and what is said of each.

What is said of a message is written here, once, as it will travel. A key is text, as with all clients, and so are bytes
that read as text; other bytes travel in base 64, as the Java client sends them.
"""

from base64 import b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple, cast

from pulsar_actors.client.arguments import optional, whole_number
from pulsar_actors.client.producing.sending import HIGHEST
from pulsar_actors.exceptions import InvalidMessage, WrongContent
from pulsar_actors.runtime.outgoing import Alone, Said, new_said
from pulsar_actors.wire.single_message import encode_single_message

__all__ = ["LATEST_MS", "NOTHING", "Traits", "payload_of", "said_of"]


class Traits(NamedTuple):
    """What a row says of its message, besides the content. Times are in milliseconds since 1970."""

    key: str | bytes | None = None
    properties: Mapping[str, str] | None = None
    ordering_key: str | bytes | None = None
    event_time: int | None = None
    deliver_at: int | None = None
    sequence_id: int | None = None


NOTHING = Traits()
LATEST_MS: Final = (2**63 - 1) // 1000
"""That a timestamp of Spark's can hold, in microseconds."""

_TIME: Final = optional(whole_number(0, LATEST_MS, "milliseconds since 1970"))
_WHOLE_NUMBERS: Final = (
    ("event_time", _TIME),
    ("deliver_at", _TIME),
    ("sequence_id", optional(whole_number(0, HIGHEST))),
)
_NUMBERS: Final = slice(-len(_WHOLE_NUMBERS), None)
_NO_NUMBERS: Final = NOTHING[_NUMBERS]


def payload_of(content: object) -> bytes:
    """Give the bytes of a message's content; those of None are none."""
    if type(content) is bytes:
        return content
    if content is None:
        return b""
    if isinstance(content, str):
        return _encoded("the value of a message", content)
    if isinstance(content, (bytearray, memoryview)):
        return bytes(cast("bytes", content))
    hint = "cast it, or write it as JSON: to_json() of a column, json.dumps() in a function"
    raise WrongContent(f"the value of a message is bytes or text, not {type(content).__name__}: {hint}")


def said_of(size: int, traits: Traits, *, is_null: bool = False) -> Said | None:
    """Write what is said of a message of so many bytes; None, if that is nothing."""
    if traits == NOTHING and not is_null:
        return None
    if traits[_NUMBERS] != _NO_NUMBERS:  # most rows have none
        for name, check in _WHOLE_NUMBERS:
            check(name, getattr(traits, name))
    key, is_base64 = _key(traits.key)
    ordering_key = None if traits.ordering_key is None else _bytes("an ordering key", traits.ordering_key)
    try:
        metadata = encode_single_message(
            size,
            _properties(traits.properties),
            key,
            ordering_key,
            traits.sequence_id,
            traits.event_time,
            null_value=is_null,
            key_is_base64=is_base64,
        )
    except UnicodeEncodeError as fault:
        raise InvalidMessage(f"a key or a property is no text that UTF-8 can write: {fault.reason}") from None
    alone = None if traits.deliver_at is None else Alone(traits.deliver_at)
    return new_said((metadata, key, ordering_key, traits.sequence_id, alone, None))


def _key(key: object) -> tuple[str | None, bool]:
    """Give a key as text, and whether that is base 64; an empty one is none, as in all clients."""
    if isinstance(key, str) or key is None:
        return key or None, False
    data = _bytes("a key", key)
    try:
        return data.decode() or None, False
    except UnicodeDecodeError:
        return b64encode(data).decode(), True


def _bytes(what: str, value: object) -> bytes:
    if isinstance(value, str):
        return _encoded(what, value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(cast("bytes", value))
    raise InvalidMessage(f"{what} is text or bytes, not {type(value).__name__}")


def _encoded(what: str, text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as fault:
        raise InvalidMessage(f"{what} is no text that UTF-8 can write: {fault.reason}") from None


def _properties(pairs: object) -> Mapping[str, str] | None:
    if pairs is None:
        return None
    if not isinstance(pairs, Mapping):
        raise InvalidMessage(f"properties are a map of text to text, not {type(pairs).__name__}")
    given = dict(cast("Mapping[object, object]", pairs))
    for name, text in given.items():
        if not isinstance(name, str) or not isinstance(text, str):
            raise InvalidMessage(f"properties are text by name, and {name!r} has {type(text).__name__}")
    return cast("dict[str, str]", given)
