import os
import platform
import signal
import time
from pathlib import Path

import pytest

from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.version import compiled
from tests.benchmarks.client_process import Worker, WorkerEnded


@pytest.fixture(params=["ours", "official"])
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_client_says_on_connect_which_python_runs_it_and_whether_it_is_compiled(client: str) -> None:
    with EmbeddedBroker() as broker, Worker(client) as worker:
        told = worker.connect(broker.service_url)
        assert (told["python"], told["compiled"]) == (platform.python_version(), client == "ours" and compiled)
        worker.ask(do="disconnect")


def test_a_client_that_ends_is_noticed_and_works_again_after_a_restart(client: str) -> None:
    with EmbeddedBroker() as broker, Worker(client, quiet=True) as worker:
        worker.connect(broker.service_url)
        with pytest.raises(WorkerEnded, match=f"the {client} client ended in the middle of what is not there"):
            worker.ask(do="what is not there")
        assert worker.has_ended
        worker.restart()
        answer = worker.ask(do="produce", topics=["topic"], messages=10, payload="x", options={})
        assert answer["messages"] == 10


def test_no_process_is_left_when_a_block_is_left_by_an_error() -> None:
    worker = Worker("ours")

    def interrupted() -> None:
        with worker:
            worker.ask(do="describe")
            os.kill(worker.pid, signal.SIGSTOP)  # it does not read its input, as in a request that hangs
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert not Path(f"/proc/{worker.pid}").exists()


def test_a_request_without_an_answer_ends_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benchmarks.client_process.ANSWER_SECONDS", 0.2)
    with Worker("ours") as worker:
        os.kill(worker.pid, signal.SIGSTOP)
        began = time.monotonic()
        with pytest.raises(WorkerEnded):
            worker.ask(do="describe")
        assert time.monotonic() - began < 60
