"""Compare typed columns of Spark with the bytes of the same topic.

    python tests/benchmarks/typed_columns.py [--messages 1000000] [--rounds 5]

It starts an Apache Pulsar and a Spark with two workers. A row has five fields: a number, a text, a price, a time and a
truth value. Records are written and read in Avro and in JSON, and their bytes without a schema. All take turns. It
prints medians with the least and the greatest value, and the ratios. It needs Java 17, Maven and PySpark.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.benchmarks.comparison import broker, machine, new_topic  # noqa: E402
from tests.benchmarks.pipeline import PARTITIONS, READING, SETTINGS, measure, session  # noqa: E402

FIELDS: Final = (
    "id",
    "concat('customer-', id % 1000) as customer",
    "id * 0.25D as price",
    "timestamp_millis(1600000000000 + id) as at",
    "id % 2 = 0 as paid",
)
FORMATS: Final = ("avro", "json")


class TypedTurns:
    """The turns of one format; each writes all messages, or reads all."""

    def __init__(self, standalone: Any, spark: Any, form: str, messages: int) -> None:
        self._standalone = standalone
        self._spark = spark
        self._form = form
        self._records = spark.range(0, messages, 1, PARTITIONS).selectExpr(*FIELDS).cache()
        self._records.count()
        self._full = self.write_records()
        payloads = self._reader().schema("value binary").option("valueAs", "bytes").load()
        self._payloads = payloads.cache()
        self._payloads.count()
        self._texts = self._records.selectExpr("to_json(struct(*)) as value")

    def write_records(self) -> str:
        return self._write(self._records, valueAs=self._form)

    def write_bytes(self) -> str:
        """Write the bytes of the same records; those of JSON are made by Spark."""
        return self._write(self._payloads if self._form == "avro" else self._texts)

    def read_fields(self) -> None:
        self._consume(self._reader().load().select(*self._records.columns))

    def read_payloads(self) -> None:
        self._consume(self._reader().schema("value binary").option("valueAs", "bytes").load())

    def read_all(self) -> None:
        self._consume(self._reader().load())

    def read_all_with_payloads(self) -> None:
        self._consume(self._reader().option("valueAs", "bytes").load())

    def _write(self, frame: Any, **options: str) -> str:
        topic = new_topic()
        self._standalone.admin.create_partitioned(topic, PARTITIONS)
        options = {"service.url": self._standalone.service_url, "topic": topic, **SETTINGS, **options}
        frame.write.format("pulsar").mode("append").options(**options).save()
        return topic

    def _reader(self) -> Any:
        options = {"service.url": self._standalone.service_url, "topic": self._full, **READING}
        return self._spark.read.format("pulsar").options(**options)

    @staticmethod
    def _consume(frame: Any) -> None:
        frame.write.format("noop").mode("overwrite").save()


TURNS: Final[Mapping[str, Callable[[TypedTurns], object]]] = {
    "writes bytes": TypedTurns.write_bytes,
    "writes records": TypedTurns.write_records,
    "reads the payload": TypedTurns.read_payloads,
    "reads the fields": TypedTurns.read_fields,
    "reads all columns, with the payload": TypedTurns.read_all_with_payloads,
    "reads all columns, with the fields": TypedTurns.read_all,
}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args(arguments)
    with broker() as standalone, session() as spark:
        print(f"{machine()}\n{given.messages:,} records; ratios are to each of those listed, in order\n")
        for form in FORMATS:
            print(form)
            measure(TypedTurns(standalone, spark, form, given.messages), TURNS, given.messages, given.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
