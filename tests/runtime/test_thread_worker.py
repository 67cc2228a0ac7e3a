import threading
import weakref

from pulsar_actors.runtime.thread_worker import ThreadWorker

PATIENCE = 20.0


def test_a_worker_does_tasks_in_their_order_on_one_thread_which_begins_with_the_first() -> None:
    worker = ThreadWorker("worker")
    assert "worker" not in {thread.name for thread in threading.enumerate()}
    threads: list[tuple[int, threading.Thread]] = []
    for number in range(50):
        worker.submit(lambda number=number: threads.append((number, threading.current_thread())))
    worker.stop(PATIENCE)
    assert [number for number, _ in threads] == list(range(50))
    assert {thread.name for _, thread in threads} == {"worker"}
    assert not threads[0][1].is_alive()
    assert threads[0][1].daemon


def test_after_its_end_a_worker_does_nothing_even_if_it_never_began() -> None:
    for began in (True, False):
        worker = ThreadWorker("worker")
        seen: list[str] = []
        if began:
            worker.submit(lambda: None)
        worker.stop(PATIENCE)
        worker.submit(lambda seen=seen: seen.append("late"))
        worker.stop(PATIENCE)
        assert seen == []


def test_a_worker_that_is_stopped_by_its_own_task_does_not_wait_for_itself() -> None:
    worker = ThreadWorker("worker")
    stopped = threading.Event()
    worker.submit(lambda: (worker.stop(PATIENCE), stopped.set()))
    assert stopped.wait(PATIENCE / 2)


def test_a_worker_at_rest_keeps_nothing_alive() -> None:
    class Task:
        def __call__(self) -> None:
            """Nothing to do."""

    worker = ThreadWorker("worker")
    task = Task()
    gone = weakref.ref(task)
    ended = threading.Event()
    weakref.finalize(task, ended.set)
    worker.submit(task)
    del task
    assert ended.wait(PATIENCE)
    assert gone() is None
    worker.stop(PATIENCE)
