"""The checksum against the vectors of RFC 3720, appendix B.4."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.wire.checksum import checksum

ISCSI_READ = bytes.fromhex(
    "01c00000 00000000 00000000 00000000 14000000 00000400 00000014 00000018 28000000 00000000 02000000 00000000"
)


@pytest.mark.shows("Payload commands", "checksum")
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
        (ISCSI_READ, 0xD9963A56),
        (b"123456789", 0xE3069283),
        (b"", 0),
    ],
)
def test_it_is_the_castagnoli_sum(data: bytes, expected: int) -> None:
    assert checksum(data) == expected
    assert checksum(memoryview(data)) == expected


@given(st.lists(st.binary(max_size=50)))
def test_several_buffers_sum_as_if_they_were_one(buffers: list[bytes]) -> None:
    assert checksum(*buffers) == checksum(b"".join(buffers))
