"""Ids between their signed values and the unsigned fields they travel in."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.wire.errors import EncodeError
from pulsar_actors.wire.ids import signed, unsigned


@pytest.mark.parametrize(
    ("value", "field"), [(-1, 2**64 - 1), (0, 0), (7, 7), (2**63 - 1, 2**63 - 1), (-(2**63), 2**63), (-2, 2**64 - 2)]
)
def test_a_field_stands_for_the_signed_number_of_the_same_64_bits(value: int, field: int) -> None:
    assert signed(field) == value
    assert unsigned(value) == field


@given(st.integers(0, 2**64 - 1))
def test_both_ways_lead_back(field: int) -> None:
    assert unsigned(signed(field)) == field


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_refused(value: int) -> None:
    with pytest.raises(EncodeError, match=f"not {value}"):
        unsigned(value)


@pytest.mark.parametrize("value", ["1", 1.5, None, b"1", 10**5000], ids=["text", "fraction", "none", "bytes", "huge"])
def test_what_is_no_such_number_is_refused_in_few_words(value: Any) -> None:
    with pytest.raises(EncodeError) as caught:
        unsigned(value)
    assert len(str(caught.value)) < 200
