"""Tables and streams of topics, whose results tests can read, and a column that slows a query down."""

import uuid
from typing import Any

from pulsar_actors.spark.pyspark_compat import HAS_ADMISSION_CONTROL
from tests.support.subjects import Broker


def reading(spark: Any, broker: Broker, **options: Any) -> Any:
    reader = spark.read.format("pulsar").option("service.url", broker.service_url)
    for name, value in options.items():
        reader = reader.option(name.replace("__", "."), str(value))
    return reader


def writing(frame: Any, broker: Broker, **options: Any) -> None:
    writer = frame.write.format("pulsar").mode("append").option("service.url", broker.service_url)
    for name, value in options.items():
        writer = writer.option(name.replace("__", "."), str(value))
    writer.save()


def slow(when: str, milliseconds: int = 10) -> str:
    """Return a column with the value of messages, slow for those whose number {n} meets the condition.

    Others do not sleep at all: on a busy machine, to sleep for 0 ms takes milliseconds.
    """
    condition = when.format(n="cast(cast(value as string) as int)")
    pause = f"substr(reflect('java.lang.Thread', 'sleep', {milliseconds}L), 1, 0)"
    return f"concat(cast(value as string), if({condition}, {pause}, '')) as value"


class Stream:
    """A query that reads a topic, and keeps the values of each batch."""

    def __init__(self, spark: Any, broker: Broker, checkpoint: str, **options: Any) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        named = {} if HAS_ADMISSION_CONTROL else {"subscriptionPrefix": f"spark-pulsar-{uuid.uuid4().hex[:8]}"}
        self._options = {"service.url": broker.service_url, "startingOffsets": "earliest", **named, **options}
        self.batches: list[list[str]] = []

    def frame(self) -> Any:
        reader = self._spark.readStream.format("pulsar")
        for name, value in self._options.items():
            reader = reader.option(name.replace("__", "."), str(value))
        return reader.schema("value string, __topic string").load()

    def start(self, **trigger: Any) -> Any:
        writer = self.frame().writeStream.foreachBatch(self._keep).option("checkpointLocation", self._checkpoint)
        return writer.trigger(**trigger).start() if trigger else writer.start()

    def run(self) -> Any:
        """Read the available messages, and end."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(120), "the query does not end"
        assert query.exception() is None
        return query

    def _keep(self, frame: Any, batch: int) -> None:
        self.batches.append([row["value"] for row in frame.collect()])

    @property
    def texts(self) -> list[str]:
        return sorted((text for batch in self.batches for text in batch), key=int)
