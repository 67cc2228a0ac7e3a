"""A streaming pipeline: it reads temperatures from a topic, and writes alarms for hot rooms to another topic.

A query continues where it ended, because its position is in its checkpoint. It runs twice here, and the second run has
only the messages since the first. `trigger(availableNow=True)` ends a run when it has read all messages; without it, a
query runs until it is stopped. The query's subscription outlives the query, so it is deleted at the end.
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
    """Turn temperatures into alarms. The key is still the room."""
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
    """Write the alarms for all messages that are there."""
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
    """Delete the query's subscription. Spark closes its consumer a moment after the query has ended."""
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
