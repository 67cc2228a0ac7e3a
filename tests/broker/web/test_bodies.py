from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.broker.web.bodies import as_count, as_flag, as_number, as_object, as_strings
from pulsar_actors.broker.web.refusals import HttpRefusal


@pytest.mark.parametrize(
    ("take", "value", "taken"),
    [
        (as_object, {"a": 1}, {"a": 1}),
        (as_strings, {"a": "b"}, {"a": "b"}),
        (as_strings, None, {}),
        (as_flag, False, False),
        (as_number, -3, -3),
        (as_count, 0, 0),
    ],
)
def test_what_is_right_is_taken(take: Callable[[Any, str], Any], value: Any, taken: Any) -> None:
    assert take(value, "it") == taken


@pytest.mark.parametrize(
    ("take", "value", "status"),
    [
        *((as_object, value, 400) for value in (None, [], "a", 1)),
        *((as_strings, value, 400) for value in ([], {"a": 1}, {"a": None})),
        *((as_flag, value, 400) for value in (None, 0, "true")),
        *((as_number, value, 400) for value in (None, True, 1.5, "1", 2**63, -(2**63) - 1)),
        *((as_count, value, 400) for value in (None, True, 1.5)),
        (as_count, -1, 412),
    ],
)
def test_what_is_not_is_refused_by_its_name(take: Callable[[Any, str], Any], value: Any, status: int) -> None:
    with pytest.raises(HttpRefusal) as caught:
        take(value, "the thing")
    assert caught.value.status == status
    assert caught.value.reason.startswith("the thing is ")
