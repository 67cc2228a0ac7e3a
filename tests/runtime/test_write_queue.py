from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.runtime.loop import MOST_BUFFERS, Buffer
from pulsar_actors.runtime.write_queue import ENOUGH_BYTES, Bytes, WriteQueue


class Late:
    """A parcel that remembers when it was asked."""

    def __init__(self, *buffers: Buffer) -> None:
        self.asked = 0
        self._buffers = buffers

    def buffers(self) -> Sequence[Buffer]:
        self.asked += 1
        return self._buffers


def queue(*parcels: Late | Bytes) -> WriteQueue:
    made = WriteQueue()
    made.add(parcels)
    return made


def drained(made: WriteQueue, step: int) -> bytes:
    """Write as a socket does that takes so many bytes at a time."""
    written = b""
    while made:
        data = b"".join(made.next_buffers())[:step]
        if not data:
            break
        written += data
        made.wrote(len(data))
    return written


@given(st.lists(st.lists(st.binary(max_size=40), max_size=4), max_size=6), st.integers(1, 100))
def test_everything_is_written_in_order_however_little_a_socket_takes(parcels: list[list[bytes]], step: int) -> None:
    made = queue(*(Late(*buffers) for buffers in parcels))
    assert drained(made, step) == b"".join(buffer for buffers in parcels for buffer in buffers)
    assert made.next_buffers() == []
    assert not made
    assert made.ready_bytes == 0


def test_a_parcel_makes_its_bytes_only_when_its_turn_has_come() -> None:
    first, second = Late(bytes(ENOUGH_BYTES)), Late(b"second")
    made = queue(first, second)
    assert made
    assert (first.asked, second.asked) == (0, 0)
    made.next_buffers()
    assert (first.asked, second.asked) == (1, 0)
    assert made.ready_bytes == ENOUGH_BYTES
    made.wrote(1)
    made.next_buffers()
    assert (first.asked, second.asked) == (1, 1)


def test_no_more_buffers_are_made_ready_than_one_write_takes() -> None:
    made = queue(*(Late(b"x") for _ in range(MOST_BUFFERS + 10)))
    assert len(made.next_buffers()) == MOST_BUFFERS
    assert drained(made, 100) == b"x" * (MOST_BUFFERS + 10)


def test_a_parcel_that_is_not_wanted_any_longer_costs_nothing() -> None:
    made = queue(Late(), Late(b""), Late(b"wanted"))
    assert b"".join(made.next_buffers()) == b"wanted"


def test_buffers_of_any_kind_are_cut_by_bytes() -> None:
    numbers = memoryview(b"abcdefgh").cast("Q")
    made = queue(Late(numbers, bytearray(b"ij")), Bytes(b"k"))
    assert made.next_buffers()
    assert made.ready_bytes == 11
    made.wrote(3)
    assert b"".join(made.next_buffers()) == b"defghijk"


def test_what_is_cleared_is_gone() -> None:
    made = queue(Bytes(b"ready"))
    made.next_buffers()
    made.add([Bytes(b"waiting")])
    made.clear()
    assert not made
    assert made.ready_bytes == 0
    assert made.next_buffers() == []
