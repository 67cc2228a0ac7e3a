"""A streaming pipeline: it reads a topic of temperatures, and writes another of alarms, of rooms that are too hot.

A query goes on where it ended, for that is in its checkpoint: it is run twice here, and the second run has only what
came meanwhile. `trigger(availableNow=True)` ends a run when there is no more; without it, a query runs until it is
stopped. The subscription that keeps the query's place at the broker is deleted in the end, as it outlives the query.
"""

import time
from tempfile import TemporaryDirectory

from local_spark import local_spark
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import concat, from_json, lit
from where import fresh, service_url

import pulsar_actors as pulsar

LIMIT = 25.0


def alarms(spark: SparkSession, url: str, topic: str) -> DataFrame:
    """Read temperatures, and make alarms of them: the room is the key, as it was."""
    temperatures = (
        spark.readStream.format("pulsar")
        .schema("__key string, value string")
        .option("service.url", url)
        .option("topic", topic)
        .option("startingOffsets", "earliest")
        .option("subscriptionPrefix", "heat")
        .load()
    )
    degrees = from_json("value", "degrees double").degrees
    return temperatures.where(degrees > LIMIT).select("__key", concat("__key", lit(" is at "), degrees).alias("value"))


def run(frame: DataFrame, url: str, topic: str, checkpoint: str) -> None:
    """Write what there is."""
    query = (
        frame.writeStream.format("pulsar")
        .option("service.url", url)
        .option("topic", topic)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def forget(client: pulsar.Client, topic: str) -> None:
    """Delete the query's subscription. Spark leaves it a moment after the query has ended."""
    for _ in range(100):
        try:
            client.subscribe(topic, "heat").unsubscribe()
        except pulsar.ConsumerBusy:
            time.sleep(0.1)
        else:
            return
    raise TimeoutError(f"the query did not leave its subscription to {topic}")


def main() -> None:
    """Measure, run, measure again, and run again."""
    measured = [[("kitchen", 26.5), ("cellar", 12.0)], [("attic", 31.0), ("kitchen", 22.5)]]
    with (
        service_url(__doc__) as url,
        pulsar.Client(url) as client,
        local_spark("alarms") as spark,
        TemporaryDirectory() as checkpoint,
    ):
        temperatures, alarmed = fresh("temperatures"), fresh("alarms")
        frame = alarms(spark, url, temperatures)
        bell = client.subscribe(alarmed, "bell")
        sensors = client.create_producer(temperatures)
        for number, some in enumerate(measured, 1):
            for room, degrees in some:
                sensors.send(f'{{"degrees": {degrees}}}'.encode(), partition_key=room)
            run(frame, url, alarmed, checkpoint)
            alarm = bell.receive(30_000)
            bell.acknowledge(alarm)
            print(f"run {number}: {alarm.data().decode()}")
        forget(client, temperatures)


if __name__ == "__main__":
    main()
