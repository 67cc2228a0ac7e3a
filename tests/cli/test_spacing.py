from math import isclose

from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.cli.spacing import spread


def test_what_is_not_in_the_way_stands_where_it_wishes() -> None:
    assert spread([], [], []) == []
    assert spread([0, 10, 30], [1, 1, 1], [10, 10]) == [0, 10, 30]


def test_two_that_wish_for_one_place_give_way_by_their_weights() -> None:
    assert spread([0, 0], [1, 1], [10]) == [-5, 5]
    assert spread([0, 0], [3, 1], [8]) == [-2, 6]


@given(
    things=st.lists(
        st.tuples(st.integers(-100, 100), st.integers(1, 9), st.integers(0, 50)),
        min_size=1,
        max_size=8,
    ),
    nudges=st.lists(st.sampled_from([-1, 0, 1]), min_size=8, max_size=8),
)
def test_distances_are_kept_and_no_small_move_would_be_better(
    things: list[tuple[int, int, int]], nudges: list[int]
) -> None:
    wishes, weights, all_gaps = zip(*things, strict=True)
    gaps = all_gaps[1:]

    def keeps(places: list[float]) -> bool:
        return all(b - a >= gap - 1e-9 for a, b, gap in zip(places, places[1:], gaps, strict=False))

    def cost(places: list[float]) -> float:
        return sum(weight * (place - wish) ** 2 for place, wish, weight in zip(places, wishes, weights, strict=True))

    places = spread(wishes, weights, gaps)
    assert keeps(places)
    moved = [place + nudge / 64 for place, nudge in zip(places, nudges, strict=False)]
    assert not keeps(moved) or cost(moved) >= cost(places) or isclose(cost(moved), cost(places))
