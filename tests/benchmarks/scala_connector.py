"""Compare `format("pulsar")` with the Scala connector, which needs a Spark 3 of its own.

    python tests/benchmarks/scala_connector.py --spark-3 PYTHON --jar JAR [--messages 1000000] [--rounds 5]

PYTHON is an interpreter with PySpark 3.4, and JAR is Maven's `io.streamnative.connectors:pulsar-spark-connector_2.12`.
Each connector has a Spark with two workers in a process of its own. They take turns with one Apache Pulsar, on topics
of two partitions. It prints medians with the least and the greatest value, and the ratio of the medians.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

PARTITIONS: Final = 2
WARM_UP: Final = 1
PAYLOAD: Final = "x" * 100


def serve(jar: str | None) -> None:
    """Start a Spark, and do what each line of the standard input asks for."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - of either version

    builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "2g")
    if jar is not None:
        builder = builder.config("spark.jars", jar)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        ask: dict[str, Any] = json.loads(line)
        options = {"service.url": ask["url"], "admin.url": ask["web"], "topic": ask["topic"]}
        began = time.perf_counter()
        if ask["do"] == "write":
            rows = spark.range(0, ask["messages"], 1, PARTITIONS).selectExpr(f"cast('{PAYLOAD}' as binary) as value")
            options["pulsar.producer.blockIfQueueFull"] = "true"
            if jar is not None:  # its option for the topic to write to fails with every Spark 3.1 and later
                rows = rows.selectExpr("*", f"'{options.pop('topic')}' as __topic")
            rows.write.format("pulsar").mode("append").options(**options).save()
        else:
            frame = spark.read.format("pulsar").options(**options).load()
            columns = frame if ask["do"] == "read all" else frame.select("value")
            columns.write.format("noop").mode("overwrite").save()
        print(f"took {time.perf_counter() - began}", flush=True)


class Connector:
    """One of the two, in its process."""

    def __init__(self, python: str, jar: str | None) -> None:
        self._command = [python, __file__, "--serve", *([jar] if jar else [])]
        self._environment = {**os.environ, "PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": "127.0.0.1"}
        self._environment["PYTHONPATH"] = "" if jar else str(ROOT)

    @contextlib.contextmanager
    def running(self) -> Iterator["Connector"]:
        """Run it for a block."""
        with subprocess.Popen(  # noqa: S603 - our own words
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self._environment, text=True
        ) as self._process:
            yield self
            self._process.communicate()

    def ask(self, **ask: object) -> float:
        """Return the seconds that something took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(ask) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("took "):
                return float(line.split()[1])
        raise RuntimeError(f"{self._command} ended")


def compare(connectors: dict[str, Connector], messages: int, rounds: int) -> None:
    """Let both take turns, and print a table."""
    from tests.benchmarks.comparison import broker, machine, new_topic  # noqa: PLC0415 - not in a Spark's process

    rates: dict[tuple[str, str], list[float]] = {}
    with broker() as standalone:
        where = {"url": standalone.service_url, "web": standalone.web_url}
        full = new_topic()
        standalone.admin.create_partitioned(full, PARTITIONS)
        connectors["ours"].ask(do="write", topic=full, messages=messages, **where)
        for turn in range(WARM_UP + rounds):
            for name, connector in connectors.items():
                for what in ("write", "read value", "read all"):
                    topic = full
                    if what == "write":
                        topic = new_topic()
                        standalone.admin.create_partitioned(topic, PARTITIONS)
                    took = connector.ask(do=what, topic=topic, messages=messages, **where)
                    if turn >= WARM_UP:
                        rates.setdefault((what, name), []).append(messages / took)
    print(f"{machine()}\n{messages:,} messages of 100 bytes\n")
    for (what, name), each in rates.items():
        ratio = statistics.median(each) / statistics.median(rates[what, "Scala"])
        middle, spread = f"{statistics.median(each):>10,.0f}/s", f"{min(each):>9,.0f} to {max(each):>9,.0f}"
        print(f"{what:12}{name:8}{middle}  {spread}  {ratio:.2f}")


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--serve"]:
        serve(arguments[1] if arguments[1:] else None)
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spark-3", required=True)
    parser.add_argument("--jar", required=True)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    ours, scala = Connector(sys.executable, None), Connector(given.spark_3, given.jar)
    with ours.running(), scala.running():
        compare({"Scala": scala, "ours": ours}, given.messages, given.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
