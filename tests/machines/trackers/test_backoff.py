import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.backoff import Backoff


def test_waits_double_from_100_ms_to_a_minute_and_stay_there() -> None:
    backoff = Backoff(lambda: 0.0)
    waits = [backoff.next_delay() for _ in range(12)]
    assert waits == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 60, 60])


def test_a_success_starts_again_from_the_shortest_wait() -> None:
    backoff = Backoff(lambda: 0.0)
    for _ in range(5):
        backoff.next_delay()
    backoff.reset()
    assert backoff.next_delay() == 0.1


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20))
def test_jitter_takes_off_at_most_a_tenth_and_adds_nothing(numbers: list[float]) -> None:
    jittered = Backoff(iter(numbers).__next__)
    plain = Backoff(lambda: 0.0)
    for _ in numbers:
        full = plain.next_delay()
        assert 0.9 * full <= jittered.next_delay() <= full


@pytest.mark.parametrize(("initial", "maximum"), [(0, 1), (-1, 1), (2, 1)])
def test_waits_that_make_no_sense_are_refused(initial: float, maximum: float) -> None:
    with pytest.raises(InvalidArgument, match=str(initial)):
        Backoff(lambda: 0.0, initial, maximum)
