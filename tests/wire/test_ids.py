"""Ids between their signed values and the unsigned fields they travel in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    with pytest.raises(ValueError, match=f"not {value}"):
        unsigned(value)
