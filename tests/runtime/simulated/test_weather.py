import pytest

from pulsar_actors.runtime.simulated.weather import ROUGH, Fault, Weather


@pytest.mark.parametrize("name", ["fragments", "yields", *(fault.value for fault in Fault)])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_what_is_no_probability_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is a probability from 0 to 1, not {value}"):
        Weather(**{name: value})


@pytest.mark.parametrize("name", ["latency", "helper_latency", "outage"])
@pytest.mark.parametrize("value", [-1.0, float("inf"), float("nan")])
def test_what_is_no_time_is_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name} is a time in seconds, not {value}"):
        Weather(**{name: value})


@pytest.mark.parametrize(("smallest", "largest"), [(0, 1), (2, 1), (-1, -1)])
def test_a_window_that_could_hold_nothing_is_refused(smallest: int, largest: int) -> None:
    with pytest.raises(ValueError, match=f"in that order, not {smallest} and {largest}"):
        Weather(smallest_window=smallest, largest_window=largest)


def test_every_fault_has_a_probability_that_can_be_taken_away() -> None:
    assert all(getattr(ROUGH, fault.value) > 0.0 for fault in Fault)
    assert all(getattr(ROUGH.without_faults(), fault.value) == 0.0 for fault in Fault)
    assert ROUGH.without_faults().latency == ROUGH.latency
