import threading

from pulsar_actors.cli.perf.crew import Crew

SOON = 10.0


def test_it_is_over_when_all_have_done_their_work() -> None:
    over, go = threading.Event(), threading.Event()
    crew = Crew(over, [lambda: None, lambda: go.wait(SOON) and None])
    crew.start()
    assert not over.is_set()
    go.set()
    assert over.wait(SOON)
    assert crew.stop(SOON)
    assert crew.fault is None


def test_it_is_over_when_one_has_failed_and_says_with_what() -> None:
    def fail() -> None:
        raise ValueError("this")

    over = threading.Event()
    crew = Crew(over, [fail, lambda: over.wait(SOON) and None])
    crew.start()
    assert over.wait(SOON)
    assert crew.stop(SOON)
    assert str(crew.fault) == "this"


def test_who_does_not_stop_in_time_is_told_of() -> None:
    go = threading.Event()
    crew = Crew(threading.Event(), [lambda: go.wait(SOON) and None])
    crew.start()
    assert not crew.stop(0.01)
    go.set()
    assert crew.stop(SOON)
