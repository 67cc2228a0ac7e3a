import threading

from pulsar_actors.cli.perf.runner import WorkerThreads

SOON = 10.0


def test_a_run_is_done_when_all_threads_have_ended() -> None:
    done, go = threading.Event(), threading.Event()
    workers = WorkerThreads(done, [lambda: None, lambda: go.wait(SOON) and None])
    workers.start()
    assert not done.is_set()
    go.set()
    assert done.wait(SOON)
    assert workers.stop(SOON)
    assert workers.fault is None


def test_a_run_is_done_when_one_thread_has_failed_and_has_its_error() -> None:
    def fail() -> None:
        raise ValueError("this")

    done = threading.Event()
    workers = WorkerThreads(done, [fail, lambda: done.wait(SOON) and None])
    workers.start()
    assert done.wait(SOON)
    assert workers.stop(SOON)
    assert str(workers.fault) == "this"


def test_a_thread_that_does_not_stop_in_time_is_reported() -> None:
    go = threading.Event()
    workers = WorkerThreads(threading.Event(), [lambda: go.wait(SOON) and None])
    workers.start()
    assert not workers.stop(0.01)
    go.set()
    assert workers.stop(SOON)
