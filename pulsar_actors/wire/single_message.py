"""What is said of one message of a batch, written by hand: protobuf takes four times as long to make the object.

There is one of these for each message with a key or properties. Fields stand in the order of their numbers, as protobuf
writes them, and a test holds the two against each other.
"""

from collections.abc import Mapping
from typing import Final

from pulsar_actors.wire.PulsarApi_pb2 import KeyValue, SingleMessageMetadata
from pulsar_actors.wire.varint import varint

__all__ = ["encode_single_message"]

_NUMBER, _BYTES = 0, 2  # protobuf's wire types


def _tag(number: int, wire_type: int) -> bytes:
    return varint(number << 3 | wire_type)


_PAIR: Final = _tag(SingleMessageMetadata.PROPERTIES_FIELD_NUMBER, _BYTES)
_PAIR_KEY: Final = _tag(KeyValue.KEY_FIELD_NUMBER, _BYTES)
_PAIR_VALUE: Final = _tag(KeyValue.VALUE_FIELD_NUMBER, _BYTES)
_PAIR_FRAMES: Final = len(_PAIR_KEY + _PAIR_VALUE) + 2
_PARTITION_KEY: Final = _tag(SingleMessageMetadata.PARTITION_KEY_FIELD_NUMBER, _BYTES)
_PAYLOAD_SIZE: Final = _tag(SingleMessageMetadata.PAYLOAD_SIZE_FIELD_NUMBER, _NUMBER)
_EVENT_TIME: Final = _tag(SingleMessageMetadata.EVENT_TIME_FIELD_NUMBER, _NUMBER)
_KEY_IS_BASE64: Final = _tag(SingleMessageMetadata.PARTITION_KEY_B64_ENCODED_FIELD_NUMBER, _NUMBER) + varint(1)
_ORDERING_KEY: Final = _tag(SingleMessageMetadata.ORDERING_KEY_FIELD_NUMBER, _BYTES)
_SEQUENCE_ID: Final = _tag(SingleMessageMetadata.SEQUENCE_ID_FIELD_NUMBER, _NUMBER)
_NULL_VALUE: Final = _tag(SingleMessageMetadata.NULL_VALUE_FIELD_NUMBER, _NUMBER) + varint(1)

# What stands between the texts of a pair, by a size that is one byte; if that of the pair is, those inside are.
_SHORT: Final = 127
_SIZES: Final = [varint(size) for size in range(_SHORT + 1)]
_SIZED_PAIRS: Final = [_PAIR + size + _PAIR_KEY for size in _SIZES]
_SIZED_VALUES: Final = [_PAIR_VALUE + size for size in _SIZES]


def encode_single_message(  # noqa: PLR0913 - the fields of a message
    payload_size: int,
    properties: Mapping[str, str] | None,
    partition_key: str | None = None,
    ordering_key: bytes | None = None,
    sequence_id: int | None = None,
    event_time: int | None = None,
    *,
    null_value: bool = False,
    key_is_base64: bool = False,
) -> bytes:
    """Write a SingleMessageMetadata. None says nothing; 0 and "" say something."""
    parts: list[bytes] = []
    if properties is not None:
        for name, text in properties.items():
            key, value = name.encode(), text.encode()
            size = len(key) + len(value) + _PAIR_FRAMES
            if size <= _SHORT:
                parts += (_SIZED_PAIRS[size], _SIZES[len(key)], key, _SIZED_VALUES[len(value)], value)
            else:
                pair = b"".join((*_sized(_PAIR_KEY, key), *_sized(_PAIR_VALUE, value)))
                parts += _sized(_PAIR, pair)
    if partition_key is not None:
        parts += _sized(_PARTITION_KEY, partition_key.encode())
    parts += (_PAYLOAD_SIZE, varint(payload_size))
    if event_time is not None:
        parts += (_EVENT_TIME, varint(event_time))
    if key_is_base64:
        parts.append(_KEY_IS_BASE64)
    if ordering_key is not None:
        parts += _sized(_ORDERING_KEY, ordering_key)
    if sequence_id is not None:
        parts += (_SEQUENCE_ID, varint(sequence_id))
    if null_value:
        parts.append(_NULL_VALUE)
    return b"".join(parts)


def _sized(tag: bytes, data: bytes) -> tuple[bytes, bytes, bytes]:
    return tag, varint(len(data)), data
