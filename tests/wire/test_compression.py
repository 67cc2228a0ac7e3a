import subprocess
import sys
import textwrap
import zlib

import cramjam
import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import WireError
from pulsar_actors.wire.compression import compress, decompress
from pulsar_actors.wire.errors import DecompressionFailed, EncodeError, UncompressedSizeCorruption
from pulsar_actors.wire.PulsarApi_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, CompressionType

LIMIT = 5 * 1024 * 1024
TEXT = b"to be, or not to be, " * 50
SQUEEZING = [LZ4, ZLIB, ZSTD, SNAPPY]
every_codec = pytest.mark.parametrize("codec", SQUEEZING, ids=CompressionType.Name)

ZSTD_MAGIC = bytes.fromhex("28b52ffd")
SKIPPABLE = bytes.fromhex("502a4d18 03000000") + b"abc"


def zstd_frame(header: str, *blocks: bytes, checksum: bytes = b"") -> bytes:
    return ZSTD_MAGIC + bytes.fromhex(header) + b"".join(blocks) + checksum


def zstd_block(data: bytes, *, last: bool = True) -> bytes:
    return (len(data) << 3 | last).to_bytes(3, "little") + data


def zstd_run(byte: bytes, times: int, *, last: bool = True) -> bytes:
    return (times << 3 | 2 | last).to_bytes(3, "little") + byte


@given(
    codec=st.sampled_from([NONE, *SQUEEZING]),
    payload=st.binary(max_size=3000) | st.binary(max_size=40).map(lambda b: b * 99),
)
def test_what_was_squeezed_comes_back(codec: "CompressionType.ValueType", payload: bytes) -> None:
    assert decompress(codec, compress(codec, payload), len(payload), LIMIT) == payload


@every_codec
def test_a_view_into_a_larger_frame_is_enough(codec: "CompressionType.ValueType") -> None:
    squeezed = bytes(compress(codec, memoryview(b"<<" + TEXT)[2:]))
    frame = memoryview(bytearray(b"head" + squeezed + b"tail"))
    assert decompress(codec, frame[4:-4], len(TEXT), LIMIT) == TEXT


def test_none_hands_the_very_payload_through_whatever_size_it_declares() -> None:
    payload = memoryview(TEXT)
    assert compress(NONE, payload) is payload
    assert decompress(NONE, payload, 3, 1) is payload


# Each payload is `hello hello hello hello` as the bare format's own specification writes it, made by hand.
VECTORS = {
    LZ4: bytes.fromhex("68") + b"hello " + bytes.fromhex("0600 50") + b"hello",
    ZLIB: bytes.fromhex("7801 011700e8ff")
    + b"hello " * 3
    + b"hello"
    + zlib.adler32(b"hello " * 3 + b"hello").to_bytes(4, "big"),
    ZSTD: zstd_frame("20 17", zstd_block(b"hello " * 3 + b"hello")),
    SNAPPY: bytes.fromhex("17 14") + b"hello " + bytes.fromhex("42 0600"),
}


@every_codec
def test_the_bare_format_of_each_codec_is_read(codec: "CompressionType.ValueType") -> None:
    assert decompress(codec, VECTORS[codec], 23, LIMIT) == b"hello hello hello hello"


def test_what_is_written_has_no_size_prefix_and_no_framing() -> None:
    assert lz4.block.decompress(compress(LZ4, TEXT), uncompressed_size=len(TEXT)) == TEXT
    assert zlib.decompress(compress(ZLIB, TEXT)) == TEXT
    assert bytes(cramjam.snappy.decompress_raw(compress(SNAPPY, TEXT))) == TEXT
    assert bytes(compress(ZSTD, TEXT))[:4] == ZSTD_MAGIC


@every_codec
def test_a_declared_size_over_the_limit_is_refused(codec: "CompressionType.ValueType") -> None:
    squeezed = compress(codec, TEXT)
    assert decompress(codec, squeezed, len(TEXT), len(TEXT)) == TEXT
    with pytest.raises(UncompressedSizeCorruption, match=r"1,050 bytes uncompressed, the limit is 1,049"):
        decompress(codec, squeezed, len(TEXT), len(TEXT) - 1)
    with pytest.raises(UncompressedSizeCorruption):
        decompress(codec, squeezed, -1, LIMIT)


@every_codec
@pytest.mark.parametrize("declared", [len(TEXT) + 1, LIMIT])
def test_data_shorter_than_declared_is_a_size_corruption(codec: "CompressionType.ValueType", declared: int) -> None:
    with pytest.raises(UncompressedSizeCorruption):
        decompress(codec, compress(codec, TEXT), declared, LIMIT)


@every_codec
@pytest.mark.parametrize("declared", [0, 1, 22])
def test_data_longer_than_declared_is_refused(codec: "CompressionType.ValueType", declared: int) -> None:
    expected = DecompressionFailed if codec == LZ4 else UncompressedSizeCorruption
    with pytest.raises(expected):
        decompress(codec, VECTORS[codec], declared, LIMIT)


@pytest.mark.parametrize("codec", [LZ4, ZSTD, SNAPPY])
def test_every_truncation_is_refused(codec: "CompressionType.ValueType") -> None:
    squeezed = bytes(compress(codec, TEXT))
    for end in range(len(squeezed)):
        with pytest.raises((DecompressionFailed, UncompressedSizeCorruption)):
            decompress(codec, squeezed[:end], len(TEXT), LIMIT)


def test_a_zlib_stream_without_its_end_is_read_if_all_of_its_data_is_there_as_the_java_client_writes_them() -> None:
    deflater = zlib.compressobj()
    unended = deflater.compress(TEXT) + deflater.flush(zlib.Z_SYNC_FLUSH)
    assert decompress(ZLIB, unended, len(TEXT), LIMIT) == TEXT
    for end in range(len(unended) - 8):
        with pytest.raises(DecompressionFailed, match="cut short"):
            decompress(ZLIB, unended[:end], len(TEXT), LIMIT)


@every_codec
@pytest.mark.parametrize("garbage", [b"\0", b"x", b"garbage after the end"])
def test_bytes_after_the_end_are_refused(codec: "CompressionType.ValueType", garbage: bytes) -> None:
    with pytest.raises(DecompressionFailed):
        decompress(codec, bytes(compress(codec, TEXT)) + garbage, len(TEXT), LIMIT)


@every_codec
def test_what_no_codec_has_written_is_refused(codec: "CompressionType.ValueType") -> None:
    with pytest.raises((DecompressionFailed, UncompressedSizeCorruption)):
        decompress(codec, b"\xffnothing like it", 300, LIMIT)


@every_codec
def test_nothing_may_be_written_as_nothing(codec: "CompressionType.ValueType") -> None:
    assert decompress(codec, b"", 0, LIMIT) == b""
    with pytest.raises(WireError):
        decompress(codec, b"", 1, LIMIT)


def test_an_unknown_codec_is_refused_both_ways() -> None:
    with pytest.raises(DecompressionFailed, match="number 9"):
        decompress(9, TEXT, len(TEXT), LIMIT)
    with pytest.raises(EncodeError, match="number 9"):
        compress(9, TEXT)


def test_lz4_refuses_a_size_that_its_library_can_not_count() -> None:
    with pytest.raises(DecompressionFailed):
        decompress(LZ4, compress(LZ4, TEXT), 2**31, 2**32)


@pytest.mark.parametrize(
    ("frame", "size"),
    [
        (zstd_frame("00 00", zstd_block(b"abc")), 3),
        (zstd_frame("00 00", zstd_block(b"ab", last=False), zstd_block(b"c")), 3),
        (zstd_frame("00 00", zstd_run(b"a", 1000)), 1000),
        (zstd_frame("20 03", zstd_block(b"abc")), 3),
        (zstd_frame("60 2c00", zstd_run(b"a", 300)), 300),
        (zstd_frame("a0 03000000", zstd_block(b"abc")), 3),
        (zstd_frame("e0 0300000000000000", zstd_block(b"abc")), 3),
        (zstd_frame("04 00", zstd_block(b""), checksum=bytes.fromhex("99e9d851")), 0),
    ],
)
def test_every_form_of_a_zstd_header_is_understood(frame: bytes, size: int) -> None:
    assert len(decompress(ZSTD, frame, size, LIMIT)) == size


ONE_FRAME = zstd_frame("20 03", zstd_block(b"abc"))


@pytest.mark.parametrize(
    ("frame", "size", "error"),
    [
        pytest.param(ONE_FRAME * 2, 3, DecompressionFailed, id="two frames"),
        pytest.param(ONE_FRAME * 2, 6, UncompressedSizeCorruption, id="two frames that add up"),
        pytest.param(zstd_frame("00 00", zstd_block(b"abc")) * 2, 6, DecompressionFailed, id="two that declare none"),
        pytest.param(SKIPPABLE + ONE_FRAME, 3, DecompressionFailed, id="a skippable frame before"),
        pytest.param(ONE_FRAME + SKIPPABLE, 3, DecompressionFailed, id="a skippable frame after"),
        pytest.param(SKIPPABLE, 0, DecompressionFailed, id="a skippable frame alone"),
        pytest.param(zstd_frame("20 04", zstd_block(b"abc")), 4, DecompressionFailed, id="a header that lies"),
        pytest.param(zstd_frame("00 00", zstd_block(b"abc")), 2, DecompressionFailed, id="more than declared"),
        pytest.param(zstd_frame("21 07 03", zstd_block(b"abc")), 3, DecompressionFailed, id="a dictionary"),
        pytest.param(zstd_frame("00 88", zstd_block(b"abc")), 3, DecompressionFailed, id="a window of 128 MiB"),
        pytest.param(zstd_frame("00 69", zstd_block(b"abc")), 3, DecompressionFailed, id="a window over 8 MiB"),
    ],
)
def test_a_zstd_payload_is_one_honest_frame(frame: bytes, size: int, error: type[WireError]) -> None:
    with pytest.raises(error):
        decompress(ZSTD, frame, size, LIMIT)


def test_a_zstd_frame_has_few_blocks_that_hold_nothing() -> None:
    empty = [zstd_block(b"", last=False), zstd_run(b"a", 0, last=False)] * 500
    assert decompress(ZSTD, zstd_frame("20 03", *empty, zstd_block(b"abc")), 3, LIMIT) == b"abc"
    with pytest.raises(DecompressionFailed, match="more than 1,000 empty blocks"):
        decompress(ZSTD, zstd_frame("20 03", *empty, zstd_block(b"", last=False), zstd_block(b"abc")), 3, LIMIT)


def test_a_zstd_frame_may_have_a_block_for_every_byte() -> None:
    blocks = [zstd_block(b"a", last=False), zstd_run(b"b", 1, last=False)] * 2_000
    assert decompress(ZSTD, zstd_frame("60 a00e", *blocks, zstd_block(b"")), 4_000, LIMIT) == b"ab" * 2_000


def test_a_zstd_window_of_8_mib_is_allowed_and_more_for_more_data() -> None:
    assert decompress(ZSTD, zstd_frame("00 68", zstd_block(b"abc")), 3, LIMIT) == b"abc"
    runs = [zstd_run(b"a", 1 << 17, last=False)] * 48
    assert len(decompress(ZSTD, zstd_frame("00 69", *runs, zstd_block(b"")), 48 << 17, 8 << 20)) == 48 << 17


LIARS = """
    import resource, zlib
    from pulsar_actors.exceptions import WireError
    from pulsar_actors.wire.compression import decompress
    from pulsar_actors.wire.PulsarApi_pb2 import LZ4, SNAPPY, ZLIB, ZSTD

    stream = zlib.compressobj()
    zlib_bomb = b"".join([*(stream.compress(bytes(1 << 20)) for _ in range(96)), stream.flush()])
    run = ((1 << 17) << 3 | 2).to_bytes(3, "little") + b"a"
    zstd_bomb = bytes.fromhex("28b52ffd 0060") + run * 768 + bytes.fromhex("010000")
    zstd_window = bytes.fromhex("28b52ffd 0088 190000") + b"abc"
    zstd_size = bytes.fromhex("28b52ffd e0 0000000001000000 190000") + b"abc"
    snappy_size = bytes.fromhex("ffffffff07") + b"abc"
    lz4_bomb = b"\\x1fa\\x01\\x00" + b"\\xff" * (1 << 20) + b"\\x00\\x00"

    limit = 5 << 20
    cases = [(codec, b"abcabc", size, limit) for codec in (LZ4, ZLIB, ZSTD, SNAPPY) for size in (1 << 30, 2**31 - 1)]
    cases += [(ZLIB, zlib_bomb, 100, limit), (ZSTD, zstd_bomb, 100, limit), (ZSTD, zstd_window, 3, limit)]
    cases += [(ZSTD, zstd_size, 3, limit), (SNAPPY, snappy_size, 3, limit), (LZ4, lz4_bomb, 100, limit)]

    with open("/proc/self/statm") as statm:
        taken = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + (48 << 20),) * 2)
    for codec, payload, size, limit in cases:
        try:
            decompress(codec, payload, size, limit)
        except WireError:
            print("refused", end=" ")
"""


def test_a_lie_about_the_size_takes_no_memory() -> None:
    # A process that may grow by 48 MiB only: whatever takes the memory first, and then looks, dies of MemoryError.
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(LIARS)], capture_output=True, text=True, check=False)  # noqa: S603 - our own text, run by our own interpreter
    assert run.stderr == ""
    assert run.stdout.split() == ["refused"] * 14
