"""Helpers for tests of starts, ends and failures: deadlines, leak checks, faulty brokers, and separate programs."""

import contextlib
import gc
import os
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pykka

import pulsar_actors as pulsar

SOON = 10.0
"""The deadline in seconds for what a test expects to happen."""
MILLISECONDS = int(1000 * SOON)

ROOT = Path(__file__).parents[2]
TLS_HELLO = 0x16


def until(true: Callable[[], Any], what: str = "it") -> Any:
    """Wait until the function returns something true, and return it."""
    deadline = time.monotonic() + SOON
    while not (found := true()):
        assert time.monotonic() < deadline, f"{what} did not happen in time"
        time.sleep(0.005)
    return found


@contextlib.contextmanager
def client_of(service_url: str, **options: Any) -> Iterator[pulsar.Client]:
    """Create a client, and close it at the end of the block."""
    with contextlib.closing(pulsar.Client(service_url, **options)) as client:
        yield client


def works(client: pulsar.Client, topic: str = "t") -> None:
    """Send a message and receive it."""
    with contextlib.closing(client.subscribe(topic, "s")) as consumer:
        with contextlib.closing(client.create_producer(topic)) as producer:
            producer.send(b"x")
        assert consumer.receive(MILLISECONDS).data() == b"x"


def waits_in_the_client(frame: FrameType | None) -> bool:
    """Tell whether this is a thread that sleeps in a call of the client's."""
    if frame is None or frame.f_code.co_name != "wait":
        return False
    while frame is not None and frame.f_code.co_name != "block":
        frame = frame.f_back
    return frame is not None


class InThread:
    """A call that may block, in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._given: Any = None
        self._raised: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="caller of a test", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._given = self._call()
        except BaseException as error:  # noqa: BLE001 - it is raised again where the test waits
            self._raised = error

    def waits(self) -> bool:
        """Return whether the call waits on a lock by now."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return frame is not None and frame.f_code.co_name in {"wait", "exception", "result"}

    def result(self, within: float = SOON) -> Any:
        """Wait for the end of the call, and return its result or raise its error."""
        self._thread.join(within)
        assert not self._thread.is_alive(), "it still blocks"
        if self._raised is not None:
            raise self._raised
        return self._given

    def error(self, within: float = SOON) -> BaseException | None:
        """Wait for the end of the call, and return its error."""
        try:
            self.result(within)
        except BaseException as error:  # noqa: BLE001 - whatever it is
            return error
        return None


class Alive(NamedTuple):
    """The resources of this process that a client could leave behind: threads, actors, descriptors."""

    threads: frozenset[str]
    actors: tuple[str, ...]
    files: int

    def beyond(self, before: "Alive") -> "Alive":
        """Return what is here now and was not there before. What has disappeared since then was about to end."""
        actors = Counter(self.actors) - Counter(before.actors)
        files = max(0, self.files - before.files)
        return Alive(self.threads - before.threads, tuple(actors.elements()), files)


NOTHING = Alive(frozenset(), (), 0)


def alive() -> Alive:
    """Return the resources that this process has now."""
    names = [thread.name for thread in threading.enumerate()]
    return Alive(
        frozenset(name for name in names if name.startswith("pulsar-")),
        tuple(sorted(reference.actor_class.__name__ for reference in pykka.ActorRegistry.get_all())),
        len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - a Path would cost a descriptor, too
    )


@contextlib.contextmanager
def nothing_left() -> Iterator[None]:
    """Check that no thread, actor or descriptor is left at the end of the block that was not there before."""
    gc.collect()
    before = alive()
    yield
    deadline = time.monotonic() + SOON
    while (left := alive().beyond(before)) != NOTHING:
        assert time.monotonic() < deadline, left
        gc.collect()
        time.sleep(0.01)


class FakeBroker:
    """A port whose connections are handled by a function, one after another, in a thread. It ends with the block."""

    def __init__(self, serve: Callable[[socket.socket], None] = lambda _: None) -> None:
        self._serve = serve
        self.accepted: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.service_url = f"pulsar://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def _accept(self) -> None:
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                return
            self.accepted.append(accepted)
            self._serve(accepted)

    def __enter__(self) -> "FakeBroker":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(SOON)
        for accepted in self.accepted:
            accepted.close()


@contextlib.contextmanager
def full_backlog() -> Iterator[str]:
    """Return the URL of a port that does not answer a SYN, because its backlog is full."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(3):
            caller = stack.enter_context(socket.socket())
            caller.settimeout(0.0)
            caller.connect_ex(listener.getsockname())
        yield f"pulsar://127.0.0.1:{listener.getsockname()[1]}"


@contextlib.contextmanager
def closed_port() -> Iterator[str]:
    """Return the URL of a port where no server listens, and no other process can."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"pulsar://127.0.0.1:{taken.getsockname()[1]}"


class Ran(NamedTuple):
    """The exit status of a program, its output, and its run time."""

    code: int
    out: str
    err: str
    seconds: float


def run_program(text: str, *arguments: str, options: tuple[str, ...] = (), within: float = 30.0) -> Ran:
    """Run a program in a Python process of its own."""
    began = time.monotonic()
    done = subprocess.run(  # noqa: S603 - our own text
        [sys.executable, *options, "-c", textwrap.dedent(text), *arguments],
        capture_output=True,
        text=True,
        timeout=within,
        cwd=ROOT,
        check=False,
    )
    return Ran(done.returncode, done.stdout, done.stderr, time.monotonic() - began)
