"""Messages as lines of JSON: what `consume --json` writes, `produce --json` reads.

    {"payload": "3 apples", "key": "shop 7", "properties": {"unit": "kg"}, "id": "(2,0,-1,-1)", "topic": "…"}

Bytes that are no text in UTF-8 are in base 64, with `_base64` after the name. With a schema, `value` is in place of the
payload. Of the names that `consume` writes, `produce` ignores those that a broker gives to a message.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Any, Final, cast

from pulsar_actors.client.interceptors import MessageToSend
from pulsar_actors.client.message import Message
from pulsar_actors.exceptions import InvalidMessage

_PLAIN: Final = {"properties": dict, "event_time": int, "sequence_id": int}
_TEXT: Final = ("key", "ordering_key")
_OF_BROKERS: Final = {"id", "topic", "publish_time", "producer", "redelivery_count"}
_ARGUMENTS: Final = {"key": "partition_key", "event_time": "event_timestamp"}


def line_of(message: Message, *, decoded: bool) -> str:
    """Return a message as a line. With `decoded`, its value by the schema; a value of bytes is the payload."""
    fields: dict[str, Any] = {}
    if message.has_null_value():
        fields["value"] = None
    elif decoded and not isinstance(value := plain_value(message), bytes):
        fields["value"] = value
    else:
        fields |= text_or_base64("payload", message.data())
    if message.partition_key():
        fields["key"] = message.partition_key()
    if message.ordering_key():
        fields["ordering_key"] = message.ordering_key()
    if message.properties():
        fields["properties"] = message.properties()
    if message.event_timestamp():
        fields["event_time"] = message.event_timestamp()
    fields |= {
        "id": str(message.message_id()),
        "topic": message.topic_name(),
        "publish_time": message.publish_timestamp(),
        "producer": message.producer_name(),
        "redelivery_count": message.redelivery_count(),
    }
    return json.dumps(fields, ensure_ascii=False, default=_in_json)


def _in_json(value: object) -> str:
    """Return what JSON has no type for as text; bytes as Avro's JSON has them, a character for each."""
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def plain_value(message: Message) -> Any:  # noqa: ANN401 - whatever the schema gives
    """Return the value of a message: that of a generic record is its native object."""
    value = message.value()
    native = getattr(value, "native_object", None)
    return value if native is None else native()


def message_of(line: str, *, takes_values: bool) -> MessageToSend:
    """Return the message of a line. Raise InvalidMessage, with what is wrong in it."""
    given = _object_in(line)
    arguments: dict[str, Any] = {}
    for name, kind in _PLAIN.items():
        if name in given:
            arguments[_ARGUMENTS.get(name, name)] = _checked(name, given.pop(name), kind)
    for name in _TEXT:
        text = _bytes_of(given, name)
        if text is not None:
            arguments[_ARGUMENTS.get(name, name)] = text.decode()
    content = _content_in(given, takes_values=takes_values)
    unknown = set(given) - _OF_BROKERS
    if unknown:
        raise InvalidMessage(f"a message has no {', '.join(sorted(unknown))}")
    return MessageToSend(content, **arguments)


def _object_in(line: str) -> dict[str, Any]:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError) as fault:
        raise InvalidMessage(f"a line is an object of JSON: {fault}") from None
    if not isinstance(given, dict):
        raise InvalidMessage(f"a line is an object of JSON, not {type(given).__name__}")
    return cast("dict[str, Any]", given)


def _content_in(given: dict[str, Any], *, takes_values: bool) -> object:
    payload = _bytes_of(given, "payload")
    if "value" not in given:
        if payload is None:
            raise InvalidMessage("a line has a payload, a payload_base64 or a value")
        return payload
    value = given.pop("value")
    if payload is not None or not (takes_values or value is None):
        raise InvalidMessage("value is for a producer with a schema, and in place of a payload")
    return value


def text_or_base64(name: str, content: bytes) -> dict[str, str]:
    """Return bytes as a field of JSON."""
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(content).decode()}


def _bytes_of(given: dict[str, Any], name: str) -> bytes | None:
    text, coded = given.pop(name, None), given.pop(f"{name}_base64", None)
    if text is not None and coded is not None:
        raise InvalidMessage(f"a line has {name} or {name}_base64, and not both")
    try:
        if coded is not None:
            return b64decode(_checked(f"{name}_base64", coded, str), validate=True)
        return None if text is None else str(_checked(name, text, str)).encode()
    except (Base64Error, UnicodeEncodeError) as fault:
        raise InvalidMessage(f"{name}: {fault}") from None


def _checked(name: str, value: object, kind: type) -> Any:  # noqa: ANN401 - of that kind
    if not isinstance(value, kind) or isinstance(value, bool):
        raise InvalidMessage(f"{name} is a {kind.__name__} here, not {type(value).__name__}")
    return value
