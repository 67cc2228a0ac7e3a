"""A client under measurement, in a process of its own, that runs one request after the other."""

import json
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tests.support.jars import jars, tool

HERE: Final = Path(__file__).parent
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
CLIENTS: Final = (*MODULES, "java")


def command(client: str) -> list[str]:
    """Return the command line of a client; raise Unavailable with what is missing."""
    if client == "java":
        classes = f"{jars(JAVA_CACHE, JAVA_POM)}/*"
        return [tool("java"), "-Xms512m", "-Xmx2g", "-cp", classes, str(HERE / "workers" / "JavaWorker.java")]
    return [sys.executable, str(HERE / "workers" / "python_worker.py"), MODULES[client]]


class Worker:
    """The process of one client, for the duration of a `with` block; it ends with its standard input."""

    def __init__(self, client: str) -> None:
        self.client = client
        self._command = command(client)

    def __enter__(self) -> "Worker":
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own words
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Send a request, and return the answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"the {self.client} client ended in the middle of {request['do']}; what it said is above"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer
