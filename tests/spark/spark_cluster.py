"""A Spark of a master and workers, each a process, with hosts of different names.

Spark tries a task a second time on another host only, so that one machine with one name never shows what that does.
"""

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyspark

from tests.spark.traffic import until

HOSTS = ("127.0.0.2", "127.0.0.3")


@contextlib.contextmanager
def spark_cluster(folder: Path, hosts: Sequence[str] = HOSTS) -> Iterator[str]:
    """Start it, with a worker of one processor for each host, and give the address of the master."""
    with contextlib.ExitStack() as running:
        (url,) = running.enter_context(
            _daemon(folder / "master", "master.Master", ["--host", "127.0.0.1", "--port", "0"], r"(spark://\S+)")
        )
        for host in hosts:
            arguments = ["--host", host, "--cores", "1", "--memory", "1g", "--work-dir", str(folder / host), url]
            running.enter_context(
                _daemon(folder / f"worker-{host}", "worker.Worker", arguments, r"Successfully registered with master()")
            )
        yield url


@contextlib.contextmanager
def _daemon(log: Path, name: str, arguments: list[str], told: str) -> Iterator[tuple[str, ...]]:
    """Start one of Spark's own programs, and wait until it says something, of which the group is given."""
    home = Path(pyspark.__file__).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--webui-port", "0", *arguments]
    java = f"-Dspark.master.rest.enabled=false {os.environ.get('SPARK_SUBMIT_OPTS', '')}"
    settings = {"SPARK_DAEMON_JAVA_OPTS": java, "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("wb") as said:
        process = subprocess.Popen(  # noqa: S603 - Spark's own program
            command, stdout=said, stderr=said, env={**os.environ, **settings}, start_new_session=True
        )
    try:
        found = until(lambda: re.search(told, log.read_text()))
        yield found.groups()
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
