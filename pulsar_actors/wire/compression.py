"""The payload codecs of Pulsar: LZ4, ZLIB, ZSTD and SNAPPY.

The whole payload, a whole batch if messages are batched, is compressed at once; `MessageMetadata` has the codec and the
size before. LZ4 and SNAPPY are the bare block formats without a header, ZLIB and ZSTD are one complete stream or frame,
exactly as other clients write them.

Decompressing trusts no input. The declared size is checked against the limit before memory is allocated, the codec
gets a buffer of exactly the declared size, and the result must fill it. A ZSTD frame could still ask for a window of
its own, so its header and block sizes are read first; it must also be the only frame. Empty blocks are legal (RFC 8878,
3.1.1.2) and cost the decoder time, so their number is bounded.

| fault                                                            | error                        |
|------------------------------------------------------------------|------------------------------|
| declared over the limit                                          | `UncompressedSizeCorruption` |
| sound data of another size, if the codec can tell         | `UncompressedSizeCorruption` |
| unreadable, cut short, bytes after the end, an unknown codec     | `DecompressionFailed`        |

LZ4, and a ZSTD frame that does not state its own size, cannot tell data that is too long from data that is corrupt:
both are `DecompressionFailed` there.
"""

import struct
import zlib
from collections.abc import Callable
from typing import Any, Final, cast

from pulsar_actors.wire.errors import DecompressionFailed, EncodeError, UncompressedSizeCorruption
from pulsar_actors.wire.protobuf import BytesLike
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
"""Constants, because a look-up in the enumeration takes a microsecond, for each entry."""


def compress(codec: "CompressionType.ValueType", payload: BytesLike) -> BytesLike:
    """Compress a payload; with `NONE` it is returned as it is, not copied."""
    if codec == NONE:
        return payload
    compressor = _COMPRESSORS.get(codec)
    if compressor is None:
        raise EncodeError(f"no compression codec has the number {codec}", 0, len(payload))
    return compressor(payload)


def decompress(codec: "CompressionType.ValueType", payload: BytesLike, uncompressed_size: int, limit: int) -> BytesLike:
    """Decompress a payload, which must give exactly `uncompressed_size` bytes, and no more than `limit`.

    With `NONE` the payload is returned as it is; the declared size means nothing, as in every other client.
    """
    if codec == NONE:
        return payload
    decompressor = _DECOMPRESSORS.get(codec)
    if decompressor is None:
        raise DecompressionFailed(f"no compression codec has the number {codec}", 0, len(payload))
    if not 0 <= uncompressed_size <= limit:
        raise UncompressedSizeCorruption(
            f"the payload declares {uncompressed_size:,} bytes uncompressed, the limit is {limit:,}", 0, len(payload)
        )
    if not payload and not uncompressed_size:
        return b""  # some encoders, such as the Go client's ZSTD, compress an empty payload to no bytes
    inflated = decompressor(payload, uncompressed_size)
    _check_size(len(inflated), uncompressed_size, payload)
    return inflated


def _lz4() -> Any:  # noqa: ANN401 - neither library is typed well enough to be checked
    """Return the library; it is imported by the first payload that needs it."""
    import lz4.block  # noqa: PLC0415

    return lz4.block


def _cramjam() -> Any:  # noqa: ANN401
    import cramjam  # noqa: PLC0415

    return cramjam


def _check_size(actual: int, declared: int, payload: BytesLike) -> None:
    if actual != declared:
        raise UncompressedSizeCorruption(
            f"the payload declares {declared:,} bytes uncompressed, but holds {actual:,}", 0, len(payload)
        )


def _compress_lz4(payload: BytesLike) -> BytesLike:
    return cast("bytes", _lz4().compress(payload, store_size=False))


def _decompress_lz4(payload: BytesLike, size: int) -> BytesLike:
    library = _lz4()
    try:
        return cast("bytes", library.decompress(payload, uncompressed_size=size))
    except (library.LZ4BlockError, OverflowError) as error:  # the library cannot count past 2^31 - 1
        raise DecompressionFailed(f"LZ4 cannot read the payload as {size:,} bytes: {error}", 0, len(payload)) from error


def _decompress_zlib(payload: BytesLike, size: int) -> BytesLike:
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(payload, size + 1)  # one byte too many shows that there is more
    except zlib.error as error:
        raise DecompressionFailed(f"ZLIB cannot read the payload: {error}", 0, len(payload)) from error
    if len(inflated) > size:
        raise UncompressedSizeCorruption(
            f"the payload declares {size:,} bytes uncompressed, but holds more", 0, len(payload)
        )
    # The Java client flushes its streams but never ends them, so only missing bytes show that a stream is cut short.
    if not stream.eof and len(inflated) < size:
        raise DecompressionFailed("the ZLIB stream is cut short", len(payload), 0)
    if stream.unused_data:
        rest = len(stream.unused_data)
        raise DecompressionFailed("the ZLIB stream ends before the payload does", len(payload) - rest, rest)
    return inflated


def _compress_zstd(payload: BytesLike) -> BytesLike:
    return memoryview(_cramjam().zstd.compress(payload, level=_ZSTD_LEVEL))


def _decompress_zstd(payload: BytesLike, size: int) -> BytesLike:
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


def _check_zstd_frame(payload: BytesLike, size: int) -> None:
    """Refuse a frame that makes the decoder allocate memory of its own, and anything but a single frame."""
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
    at += (0, 1, 2, 4)[descriptor & 3]  # the id of a dictionary: the decoder has none and refuses it
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


def _zstd_end_of_blocks(payload: BytesLike, at: int) -> int:
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


def _little_endian(payload: BytesLike, at: int, width: int) -> int:
    return int.from_bytes(payload[at : at + width], "little")


def _compress_snappy(payload: BytesLike) -> BytesLike:
    return memoryview(_cramjam().snappy.compress_raw(payload))


def _decompress_snappy(payload: BytesLike, size: int) -> BytesLike:
    library = _cramjam()
    try:
        _check_size(library.snappy.decompress_raw_len(payload), size, payload)
        inflated = bytearray(size)
        library.snappy.decompress_raw_into(payload, inflated)
    except library.DecompressionError as error:
        raise DecompressionFailed(f"SNAPPY cannot read the payload: {error}", 0, len(payload)) from error
    return inflated


_COMPRESSORS: dict["CompressionType.ValueType", Callable[[BytesLike], BytesLike]] = {
    CompressionType.LZ4: _compress_lz4,
    CompressionType.ZLIB: zlib.compress,
    CompressionType.ZSTD: _compress_zstd,
    CompressionType.SNAPPY: _compress_snappy,
}
_DECOMPRESSORS: dict["CompressionType.ValueType", Callable[[BytesLike, int], BytesLike]] = {
    CompressionType.LZ4: _decompress_lz4,
    CompressionType.ZLIB: _decompress_zlib,
    CompressionType.ZSTD: _decompress_zstd,
    CompressionType.SNAPPY: _decompress_snappy,
}
