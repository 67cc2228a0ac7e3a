"""A batch export: the messages of a topic between two times become Parquet files, with a folder for each country.

Both times are milliseconds since 1970, of the clock that stamps messages when they are published. The first is
included, and the second is not: so daily exports have every message once.
"""

import json
import time
from tempfile import TemporaryDirectory

from local_spark import local_spark
from pyspark.sql.functions import col, from_json
from where import fresh, service_url

import pulsar_actors as pulsar

ORDERS = [("pears", 3, "DE"), ("apples", 12, "FR"), ("plums", 40, "DE"), ("quinces", 1, "FR")]


def order(producer: pulsar.Producer, item: str, count: int, country: str) -> None:
    """Send one order."""
    producer.send(json.dumps({"item": item, "count": count}).encode(), properties={"country": country})


def now() -> int:
    """Return the time, after a short wait, so that it differs from that of earlier messages."""
    time.sleep(0.01)
    return int(time.time() * 1000)


def main() -> None:
    """Export the orders between two times, and print the content of the files."""
    with (
        service_url(__doc__) as url,
        pulsar.Client(url) as client,
        local_spark("export") as spark,
        TemporaryDirectory() as folder,
    ):
        topic = fresh("orders")
        producer = client.create_producer(topic)
        order(producer, "cherries", 99, "DE")  # yesterday, so to speak
        start = now()
        for each in ORDERS:
            order(producer, *each)
        end = now()
        order(producer, "cherries", 99, "FR")  # tomorrow

        orders = (
            spark.read.format("pulsar")
            .schema("value string, __messageProperties map<string,string>, __publishTime timestamp")
            .option("service.url", url)
            .option("topic", topic)
            .option("startingTime", str(start))
            .option("endingTime", str(end))
            .load()
        )
        content = from_json("value", "item string, count int")
        rows = orders.select(
            content.item.alias("item"),
            content["count"].alias("count"),
            col("__publishTime").alias("at"),
            col("__messageProperties")["country"].alias("country"),
        )
        rows.write.partitionBy("country").parquet(f"{folder}/orders")
        exported = spark.read.parquet(f"{folder}/orders")
        for row in exported.groupBy("country").sum("count").orderBy("country").collect():
            print(f"{row['country']}: {row['sum(count)']} pieces of fruit")


if __name__ == "__main__":
    main()
