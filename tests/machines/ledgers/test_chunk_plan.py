import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.chunk_plan import plan_chunks


def test_chunks_are_cut_as_the_official_client_cuts_them() -> None:
    # An 11 MiB message of the official client, as a listener received it: its uuid, and the sizes of its payloads.
    chunks = plan_chunks(11 * 1024 * 1024, 5_242_865, "p-0")
    assert [chunk.stop - chunk.start for chunk in chunks] == [5_242_865, 5_242_865, 1_048_606]
    assert [chunk[:4] for chunk in chunks] == [("p-0", number, 3, 11_534_336) for number in range(3)]


@given(st.integers(1, 50), st.integers(1, 500))
def test_chunks_cover_the_payload_without_gap_or_overlap(largest: int, more: int) -> None:
    payload = bytes(index % 251 for index in range(largest + more))
    chunks = plan_chunks(len(payload), largest, "u")
    assert b"".join(payload[chunk.start : chunk.stop] for chunk in chunks) == payload
    assert all(0 < chunk.stop - chunk.start <= largest for chunk in chunks)


@pytest.mark.parametrize(("size", "largest"), [(10, 10), (0, 1), (5, 0)])
def test_a_payload_that_needs_no_chunks_or_fits_in_none_is_refused(size: int, largest: int) -> None:
    with pytest.raises(InvalidArgument):
        plan_chunks(size, largest, "u")
