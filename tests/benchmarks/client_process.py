"""A client under measurement, in a process of its own, that runs one request after the other."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.support.jars import jars, tool

HERE: Final = Path(__file__).parent
CHECKOUT: Final = HERE.parents[1]
JAVA_VERSION: Final = "4.2.4"
JAVA_CACHE: Final = Path.home() / ".cache" / "pulsar_actors" / f"client-{JAVA_VERSION}"
JAVA_POM: Final = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulsar.actors</groupId>
  <artifactId>client-under-measurement</artifactId>
  <version>1</version>
  <dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar-client</artifactId><version>{JAVA_VERSION}</version>
  </dependency><dependency>
    <groupId>org.slf4j</groupId><artifactId>slf4j-nop</artifactId><version>2.0.17</version>
  </dependency></dependencies>
</project>
"""
MODULES: Final = {"ours": "pulsar_actors", "official": "pulsar"}

ANSWER_SECONDS: Final = 900.0
"""The longest wait for an answer. The slowest request creates 10,000 producers, which takes some minutes."""

END_SECONDS: Final = 10.0


class WorkerEnded(Exception):
    """The process of a client ended, or was ended, in the middle of a request."""


def command(client: str, python: str) -> list[str]:
    """Return the command line of a client; raise Unavailable with what is missing."""
    if client == "java":
        classes = f"{jars(JAVA_CACHE, JAVA_POM)}/*"
        return [tool("java"), "-Xms512m", "-Xmx2g", "-cp", classes, str(HERE / "workers" / "JavaWorker.java")]
    return [python, str(HERE / "workers" / "python_worker.py"), MODULES[client]]


def environment(*, installed: bool) -> dict[str, str]:
    """Return the environment of a Python client: it imports this checkout, or else what is installed.

    What users install is compiled to bytecode. So a client must not be compiled anew in each process.
    """
    left_out = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept if installed else {**kept, "PYTHONPATH": str(CHECKOUT)}


class Worker:
    """The process of one client, for the duration of a `with` block. It ends with its standard input, or is killed."""

    def __init__(
        self, client: str, python: str = sys.executable, *, installed: bool = False, quiet: bool = False
    ) -> None:
        self.client = client
        self._command = command(client, python)
        self._environment = environment(installed=installed)
        self._errors = subprocess.DEVNULL if quiet else None
        self._url = ""

    def __enter__(self) -> "Worker":
        self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._process.communicate(timeout=0 if kind else END_SECONDS)
        except subprocess.TimeoutExpired:
            self._kill()

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def has_ended(self) -> bool:
        """Has the process ended?"""
        return self._process.poll() is not None

    def connect(self, url: str) -> dict[str, Any]:
        """Connect the client; return its description: `{"python": "3.13.0", "compiled": False}`, nothing of Java's."""
        self._url = url
        return self.ask(do="connect", url=url)

    def restart(self) -> None:
        """Start and connect a new process after a request that failed."""
        self._kill()
        self._start()
        self.connect(self._url)

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        deadline = threading.Timer(ANSWER_SECONDS, self._process.kill)
        deadline.start()
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            deadline.cancel()
        if not line:
            self._kill()
            raise WorkerEnded(f"the {self.client} client ended in the middle of {request['do']}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
