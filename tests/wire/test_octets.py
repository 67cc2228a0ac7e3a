"""What counts as bytes."""

import array
from typing import Any

import pytest

from pulsar_actors.wire.octets import octets


def test_bytes_are_taken_as_they_are() -> None:
    data = b"data"
    assert octets(data) is data


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (bytearray(b"data"), b"data"),
        (memoryview(b"data"), b"data"),
        (memoryview(b"d.a.t.a.")[::2], b"data"),
        (memoryview(b"datadata").cast("I"), b"datadata"),
        (array.array("H", [0x6464]), b"dd"),
    ],
)
def test_whatever_has_bytes_is_copied(data: Any, expected: bytes) -> None:
    copied = octets(data)
    assert type(copied) is bytes
    assert copied == expected


@pytest.mark.parametrize("data", ["text", 3, None, [1, 2], ()])
def test_what_has_no_bytes_is_refused(data: Any) -> None:
    with pytest.raises(TypeError, match=type(data).__name__):
        octets(data)
