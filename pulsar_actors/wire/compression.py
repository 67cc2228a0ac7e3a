"""What a payload looks like squeezed, in the five ways that Pulsar knows.

A whole payload, which is a whole batch where messages are batched, is compressed at once; `MessageMetadata` then says
with which codec, and how many bytes it was before. LZ4 and SNAPPY are the bare block formats with no header of their
own making, ZLIB and ZSTD are one complete stream or frame. Other clients write exactly these.

Inflating trusts nobody. The declared size is held against the limit before any memory is taken, the codec gets a
buffer of the declared size and not a byte more, and what comes out must be exactly that long. A ZSTD frame could still
ask for a window of its own, which is why its header and block sizes are read first; it must also be the only frame.
Blocks that hold nothing are legal (RFC 8878, 3.1.1.2) and take a decoder's time, so their number is bounded.

| what is wrong                                                    | error                       |
|------------------------------------------------------------------|-----------------------------|
| declared over the limit                                          | `UncompressedSizeCorruption` |
| sound data of another size, as far as the codec can tell         | `UncompressedSizeCorruption` |
| unreadable, cut short, something after the end, an unknown codec | `DecompressionFailed`       |

LZ4, and a ZSTD frame that does not state its own size, cannot tell data that is too long from data that is corrupt:
both are `DecompressionFailed` there.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, cast

from pulsar_actors.wire.errors import DecompressionFailed, EncodeError, UncompressedSizeCorruption
from pulsar_actors.wire.octets import Octets
from pulsar_actors.wire.PulsarApi_pb2 import CompressionType

_ZSTD_LEVEL = 3  # the default of zstd itself and of the other clients
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_LEAST_FRAME = 6  # magic, descriptor, and one byte of window or size
_ZSTD_SIZE_WIDTHS = ((0, 0), (2, 256), (4, 0), (8, 0))  # by the descriptor's top bits: bytes, and what to add
_ZSTD_BLOCK = struct.Struct("<HB")  # a header of 24 bits: whether it is the last, its type (two bits), its size
_ZSTD_RUN_LENGTH = 1 << 1  # the type of a block that stores one byte, whatever its size
_ZSTD_TYPE = 3 << 1
_ZSTD_MOST_EMPTY = 1_000
_ZSTD_MIN_WINDOW_LIMIT = 8 << 20  # what the format's specification asks every decoder to bear


NONE: Final = CompressionType.NONE
ZSTD: Final = CompressionType.ZSTD
"""By names of their own: to look one up in its enumeration takes a microsecond, and it is done for each entry."""


def compress(codec: "CompressionType.ValueType", payload: Octets) -> Octets:
    """Squeeze a payload; with `NONE` it comes back as it is, not copied."""
    if codec == NONE:
        return payload
    squeeze = _SQUEEZE.get(codec)
    if squeeze is None:
        raise EncodeError(f"no compression codec has the number {codec}", 0, len(payload))
    return squeeze(payload)


def decompress(codec: "CompressionType.ValueType", payload: Octets, uncompressed_size: int, limit: int) -> Octets:
    """Give back what was squeezed, which must be `uncompressed_size` bytes and no more than `limit`.

    With `NONE` the payload comes back as it is, and as in every other client the declared size means nothing.
    """
    if codec == NONE:
        return payload
    inflate = _INFLATE.get(codec)
    if inflate is None:
        raise DecompressionFailed(f"no compression codec has the number {codec}", 0, len(payload))
    if not 0 <= uncompressed_size <= limit:
        raise UncompressedSizeCorruption(
            f"the payload declares {uncompressed_size:,} bytes uncompressed, the limit is {limit:,}", 0, len(payload)
        )
    if not payload and not uncompressed_size:
        return b""  # some encoders, the Go client's ZSTD among them, turn nothing into nothing
    inflated = inflate(payload, uncompressed_size)
    _check_size(len(inflated), uncompressed_size, payload)
    return inflated


def _lz4() -> Any:  # noqa: ANN401 - neither library is typed well enough to be checked
    """Give the library; both are loaded by the first payload that needs them."""
    import lz4.block  # noqa: PLC0415

    return lz4.block


def _cramjam() -> Any:  # noqa: ANN401
    import cramjam  # noqa: PLC0415

    return cramjam


def _check_size(actual: int, declared: int, payload: Octets) -> None:
    if actual != declared:
        raise UncompressedSizeCorruption(
            f"the payload declares {declared:,} bytes uncompressed, but holds {actual:,}", 0, len(payload)
        )


def _squeeze_lz4(payload: Octets) -> Octets:
    return cast("bytes", _lz4().compress(payload, store_size=False))


def _inflate_lz4(payload: Octets, size: int) -> Octets:
    library = _lz4()
    try:
        return cast("bytes", library.decompress(payload, uncompressed_size=size))
    except (library.LZ4BlockError, OverflowError) as error:  # the library cannot count past 2^31 - 1
        raise DecompressionFailed(f"LZ4 cannot read the payload as {size:,} bytes: {error}", 0, len(payload)) from error


def _inflate_zlib(payload: Octets, size: int) -> Octets:
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(payload, size + 1)  # the byte too many shows that there is more
    except zlib.error as error:
        raise DecompressionFailed(f"ZLIB cannot read the payload: {error}", 0, len(payload)) from error
    if len(inflated) > size:
        raise UncompressedSizeCorruption(
            f"the payload declares {size:,} bytes uncompressed, but holds more", 0, len(payload)
        )
    # The Java client flushes its streams but never ends them, so all that shows a cut one is what does not come out.
    if not stream.eof and len(inflated) < size:
        raise DecompressionFailed("the ZLIB stream is cut short", len(payload), 0)
    if stream.unused_data:
        rest = len(stream.unused_data)
        raise DecompressionFailed("the ZLIB stream ends before the payload does", len(payload) - rest, rest)
    return inflated


def _squeeze_zstd(payload: Octets) -> Octets:
    return memoryview(_cramjam().zstd.compress(payload, level=_ZSTD_LEVEL))


def _inflate_zstd(payload: Octets, size: int) -> Octets:
    _check_zstd_frame(payload, size)
    inflated, library = bytearray(size), _cramjam()
    try:
        written = library.zstd.decompress_into(payload, inflated)
    except library.DecompressionError as error:
        raise DecompressionFailed(
            f"ZSTD cannot read the payload as {size:,} bytes: {error}", 0, len(payload)
        ) from error
    _check_size(written, size, payload)
    return inflated


def _check_zstd_frame(payload: Octets, size: int) -> None:
    """Refuse what would make the decoder take memory of its own, and anything but a single frame."""
    if len(payload) < _ZSTD_LEAST_FRAME or _little_endian(payload, 0, 4) != _ZSTD_MAGIC:
        raise DecompressionFailed(
            "the payload does not begin with a ZSTD frame", 0, min(len(payload), _ZSTD_LEAST_FRAME)
        )
    descriptor = payload[4]
    single_segment = bool(descriptor & 0x20)
    at = 5
    if not single_segment:
        window = _zstd_window(payload[at])
        if window > max(_ZSTD_MIN_WINDOW_LIMIT, 2 * size):
            raise DecompressionFailed(f"the ZSTD frame asks for a window of {window:,} bytes for {size:,}", at, 1)
        at += 1
    at += (0, 1, 2, 4)[descriptor & 3]  # the id of a dictionary: the decoder refuses it, since nobody gave it one
    width, addend = _ZSTD_SIZE_WIDTHS[descriptor >> 6]
    width = width or int(single_segment)
    if width:
        _check_size(_little_endian(payload, at, width) + addend, size, payload)
    end = _zstd_end_of_blocks(payload, at + width) + (4 if descriptor & 4 else 0)
    if end != len(payload):
        raise DecompressionFailed(f"the ZSTD frame is {end:,} bytes long, the payload is not", 0, len(payload))


def _zstd_window(descriptor: int) -> int:
    base = 1 << (10 + (descriptor >> 3))
    return base + base // 8 * (descriptor & 7)


def _zstd_end_of_blocks(payload: Octets, at: int) -> int:
    empty = 0
    while at <= len(payload) - _ZSTD_BLOCK.size:
        low, high = _ZSTD_BLOCK.unpack_from(payload, at)
        size = low >> 3 | high << 13
        at += _ZSTD_BLOCK.size + (1 if low & _ZSTD_TYPE == _ZSTD_RUN_LENGTH else size)
        if low & 1:
            break
        empty += not size
        if empty > _ZSTD_MOST_EMPTY:
            raise DecompressionFailed(f"the ZSTD frame has more than {_ZSTD_MOST_EMPTY:,} empty blocks", at, 0)
    return at


def _little_endian(payload: Octets, at: int, width: int) -> int:
    return int.from_bytes(payload[at : at + width], "little")


def _squeeze_snappy(payload: Octets) -> Octets:
    return memoryview(_cramjam().snappy.compress_raw(payload))


def _inflate_snappy(payload: Octets, size: int) -> Octets:
    library = _cramjam()
    try:
        _check_size(library.snappy.decompress_raw_len(payload), size, payload)
        inflated = bytearray(size)
        library.snappy.decompress_raw_into(payload, inflated)
    except library.DecompressionError as error:
        raise DecompressionFailed(f"SNAPPY cannot read the payload: {error}", 0, len(payload)) from error
    return inflated


_SQUEEZE: dict["CompressionType.ValueType", Callable[[Octets], Octets]] = {
    CompressionType.LZ4: _squeeze_lz4,
    CompressionType.ZLIB: zlib.compress,
    CompressionType.ZSTD: _squeeze_zstd,
    CompressionType.SNAPPY: _squeeze_snappy,
}
_INFLATE: dict["CompressionType.ValueType", Callable[[Octets, int], Octets]] = {
    CompressionType.LZ4: _inflate_lz4,
    CompressionType.ZLIB: _inflate_zlib,
    CompressionType.ZSTD: _inflate_zstd,
    CompressionType.SNAPPY: _inflate_snappy,
}
