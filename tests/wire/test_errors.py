from collections import UserString

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.message_id import MessageId

LONG = 250


@given(st.text(max_size=90) | st.binary(max_size=20) | st.integers(-(2**64), 2**64) | st.none() | st.booleans())
def test_a_short_value_is_shown_whole(value: object) -> None:
    if len(repr(value)) <= 100:
        assert excerpt(value) == repr(value)


def test_a_long_text_shows_both_its_ends() -> None:
    shown = excerpt("begin" + "x" * 1_000_000 + "end")
    assert shown.startswith("'begin")
    assert shown.endswith("end'")
    assert len(shown) < LONG


@given(
    st.recursive(
        st.text(max_size=1000) | st.binary(max_size=1000) | st.integers() | st.floats() | st.none(),
        lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.integers(), inner, max_size=20),
    ).map(repr)
)
def test_a_text_is_never_long(value: str) -> None:
    assert len(excerpt(value)) < LONG


@pytest.mark.parametrize(
    "value",
    [
        b"\xff" * 1_000_000,
        bytearray(1_000_000),
        10**5000,
        -(10**5000),
        UserString("x" * 1_000_000),
        MessageId(10**5000, 1),
        MessageId(1, 2, first_chunk=MessageId(3, 4, first_chunk=MessageId(5, 6))),
    ],
    ids=lambda value: type(value).__name__,
)
def test_no_value_of_any_type_makes_a_long_text(value: object) -> None:
    assert 0 < len(excerpt(value)) < LONG
