"""The second part of `demo`: a pipeline on Spark, or a message that says why Spark is not available.

The pipeline runs in a separate process, because Spark logs a lot: its log is shown only if the pipeline fails.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from pulsar_actors.client.client import Client
from pulsar_actors.exceptions import ConsumerBusy

__all__ = ["show_pipeline"]


OLDEST_JAVA: Final = 17
"""The oldest version that Spark supports."""

SUBSCRIPTION: Final = "demo-pipeline"
_PATIENCE = 10.0
_LAST_LINES = 30


def show_pipeline(service_url: str, topic: str) -> int:
    """Run the pipeline. The exit status is 1 if the pipeline fails, and 0 if it succeeds or Spark is not available."""
    missing = _missing_for_spark()
    if missing is not None:
        print(f"Spark        is not shown: {missing}")
        return 0
    print("a pipeline on a Spark that is started for it", flush=True)
    try:
        return _run([sys.executable, "-m", "pulsar_actors.cli.spark_pipeline", service_url, topic, SUBSCRIPTION])
    finally:
        _delete_subscription(service_url, topic)


def _missing_for_spark() -> str | None:
    """Return the requirement of Spark that is missing; None if Spark is available."""
    command = [sys.executable, "-c", "import pulsar_actors.spark"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed command
    last = tried.stderr.strip().rpartition("\n")[2]
    if last.startswith("ImportError: "):
        return last.removeprefix("ImportError: ")
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    if shutil.which(java) is None:
        return f"Spark needs Java {OLDEST_JAVA} or later, and there is no {java}"
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr  # noqa: S603 - Java
    version = re.search(r'version "(?:1\.)?(\d+)', printed)
    if version is None or int(version[1]) < OLDEST_JAVA:
        return f"Spark needs Java {OLDEST_JAVA} or later, and {java} says that it is {printed.strip()}"
    return None


def _run(command: list[str]) -> int:
    with tempfile.TemporaryFile("w+") as log:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process:  # noqa: S603 - a fixed command
            try:
                assert process.stdout is not None  # noqa: S101 - it is a pipe
                for line in process.stdout:
                    print(line, end="", flush=True)
            except BaseException:  # such as Ctrl-C; Spark's Java ends with the process that started it
                process.kill()
                raise
        if process.returncode == 0:
            return 0
        log.seek(0)
        print("failed:", *log.read().splitlines()[-_LAST_LINES:], sep="\n", file=sys.stderr)
        return 1


def _delete_subscription(service_url: str, topic: str) -> None:
    """Delete the subscription. After an interrupted stream it may be in use for a moment."""
    until = time.monotonic() + _PATIENCE
    with Client(service_url) as client:
        while True:
            try:
                client.subscribe(topic, SUBSCRIPTION).unsubscribe()
            except ConsumerBusy:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.1)
            else:
                return
