import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.broker.web.chunked import MAX_BODY, ChunkedBody
from pulsar_actors.broker.web.refusals import HttpRefusal


def read(data: bytes, size: int) -> tuple[bytes, bytes]:
    """Feed it in pieces; gives the body, and what follows it."""
    chunks, buffer = ChunkedBody(), bytearray()
    for start in range(0, len(data), size):
        buffer += data[start : start + size]
        if chunks.take(buffer):
            return bytes(chunks.body), bytes(buffer) + data[start + size :]
    raise AssertionError(data)


def refused(data: bytes, size: int = 1) -> int:
    with pytest.raises(HttpRefusal) as caught:
        read(data, size)
    return caught.value.status


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_chunks_are_put_together_however_they_come(size: int) -> None:
    data = b"5\r\nhello\r\n1\r\n \r\nA;name=value\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\nNEXT"
    assert read(data, size) == (b"hello 0123456789", b"NEXT")


def test_an_empty_body_is_one_chunk_of_no_size() -> None:
    assert read(b"0\r\n\r\n", 1) == (b"", b"")


@given(st.lists(st.binary(min_size=1, max_size=40)), st.integers(1, 50))
def test_whatever_was_cut_into_chunks_comes_out_whole(parts: list[bytes], size: int) -> None:
    data = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\nrest"
    assert read(data, size) == (b"".join(parts), b"rest")


@pytest.mark.parametrize(
    "data",
    [
        b"\r\n",
        b"x\r\n",
        b"0x5\r\n",
        b"-1\r\n",
        b"+5\r\n",
        b" 5\r\n",
        b"5 5\r\n",
        b"5;\x00\r\n",
        b"5\nhello\r\n0\r\n\r\n",
        b"5\r\nhello!\r\n",
        b"5\r\nhello\n\n",
        b"5\r\nhell\r\n0\r\n\r\n",
        b"1" * 16 + b"\r\n",
        b"5;" + b"a" * 5000,
        b"0\r\nTrailer: x\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
        b"0\r\nGET / HTTP/1.1\r\n\r\n",
    ],
)
@pytest.mark.parametrize("size", [1, 10_000])
def test_what_is_no_chunk_is_refused(data: bytes, size: int) -> None:
    assert refused(data, size) == 400


def test_a_chunk_over_the_limit_is_refused_before_it_comes() -> None:
    assert refused(b"%x\r\n" % (MAX_BODY + 1)) == 413


def test_chunks_that_are_too_much_together_are_refused() -> None:
    assert refused(b"%x\r\n%s\r\n1\r\n" % (MAX_BODY, b"a" * MAX_BODY), 65536) == 413


def test_a_body_of_just_the_limit_is_taken() -> None:
    body, _ = read(b"%x\r\n%s\r\n0\r\n\r\n" % (MAX_BODY, b"a" * MAX_BODY), 65536)
    assert len(body) == MAX_BODY


def test_trailers_without_end_are_refused() -> None:
    assert refused(b"0\r\n" + b"A: b\r\n" * 65, 1000) == 431
