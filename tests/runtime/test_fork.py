import concurrent.futures
import gc
import os
from typing import Any

import pykka
import pytest

from pulsar_actors.exceptions import ProcessForked
from pulsar_actors.runtime import fork
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interrupts import is_main_thread
from tests.support.manual_loop import ManualLoop, RecordingActors


class Client:
    """Notes that it was told."""

    def __init__(self) -> None:
        self.told = 0

    def forget_everything(self) -> None:
        self.told += 1


def is_refused(future: SlimFuture[int]) -> bool:
    try:
        future.result(0)
    except ProcessForked:
        return True
    return False


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fork, "_ALIVE", {})
    registry: Any = pykka.ActorRegistry
    monkeypatch.setattr(registry, "_actor_refs", [])
    monkeypatch.setattr(registry, "_actor_refs_lock", registry._actor_refs_lock)


def in_child(work: Any) -> int:
    """Fork, do something in the child, and give what it answers as its exit code."""
    child = os.fork()
    if not child:
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_in_a_forked_child_every_client_is_told_before_anything_else_and_in_the_parent_none() -> None:
    clients = [Client(), Client()]
    for client in clients:
        fork.forget_on_fork(client)
    assert in_child(lambda: clients[0].told * 10 + clients[1].told) == 11
    assert [client.told for client in clients] == [0, 0]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_child_of_the_child_does_not_tell_again_what_the_child_was_told() -> None:
    client = Client()
    fork.forget_on_fork(client)
    assert in_child(lambda: in_child(lambda: client.told)) == 1


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_in_a_child_only_futures_of_its_own_are_waited_for() -> None:
    pending: SlimFuture[int] = SlimFuture()
    done: SlimFuture[int] = SlimFuture()
    done.set_result(1)

    def work() -> int:
        own: SlimFuture[int] = SlimFuture()
        orphans = is_refused(pending) * 10 + in_child(lambda: is_refused(own))
        own.set_result(100)
        return own.result() + orphans + done.result()

    assert in_child(work) == 112
    with pytest.raises(concurrent.futures.TimeoutError):
        pending.result(0.001)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_the_main_thread_of_a_child_is_the_one_that_forked() -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        assert not pool.submit(is_main_thread).result()
        assert pool.submit(in_child, is_main_thread).result() == 1
    assert is_main_thread()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_the_child_has_no_actors_of_the_parents() -> None:
    RecordingActors(ManualLoop()).make()
    assert len(pykka.ActorRegistry.get_all()) == 1
    assert in_child(lambda: len(pykka.ActorRegistry.get_all())) == 0


def test_a_client_that_is_gone_is_not_kept_for_this() -> None:
    client = Client()
    fork.forget_on_fork(client)
    assert len(fork._ALIVE) == 1
    del client
    gc.collect()
    assert fork._ALIVE == {}


def test_a_client_that_is_just_going_is_passed_over() -> None:
    fork._ALIVE[1] = lambda: None  # type: ignore[assignment]
    fork._in_child()
    assert fork._ALIVE == {}
