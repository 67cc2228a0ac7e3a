from functools import partial

from pulsar_actors.runtime.simulated.history import History, label


def test_lines_have_the_time_the_place_and_what_happened() -> None:
    history = History()
    history.add(0.0, "client", "first")
    history.add(1.25, "broker", "second")
    assert [line.split() for line in history.lines()] == [
        ["0.000000", "client", "first"],
        ["1.250000", "broker", "second"],
    ]
    assert history.lines(1) == history.lines()[1:]
    assert len(history) == 2


def test_a_label_has_no_address_in_it() -> None:
    labels = [
        label(function)
        for function in (print, History().add, partial(print), test_lines_have_the_time_the_place_and_what_happened)
    ]
    assert labels == ["print", "History.add", "partial", "test_lines_have_the_time_the_place_and_what_happened"]
