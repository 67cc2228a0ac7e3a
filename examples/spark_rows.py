"""Rows of any shape: `foreachPartition` with a sink that maps columns to the fields of a message.

Workers keep their clients and producers for later tasks, so not every task has to connect. A sink is only
configuration: Spark sends it to the workers, with the functions that it was given. It takes RDDs as well.
"""

import json

from local_spark import local_spark
from pyspark.sql import Row
from where import fresh, service_url

import pulsar_actors as pulsar
from pulsar_actors.spark import sink


def as_json(row: Row) -> str:
    """Return all columns of a row as JSON."""
    return json.dumps(row.asDict())


def main() -> None:
    """Send the rows of a table, and the words of an RDD."""
    with service_url(__doc__) as url, pulsar.Client(url) as client, local_spark("rows") as spark:
        squares, words = fresh("squares"), fresh("words")
        table = spark.range(1000).selectExpr("cast(id as string) as id", "id * id as square")
        table.foreachPartition(
            sink(service_url=url, topic=squares, key="id", value=as_json, compression_type=pulsar.CompressionType.LZ4)
        )
        text = spark.sparkContext.parallelize(["a rose is a rose is a rose"]).flatMap(str.split)
        text.foreachPartition(sink(service_url=url, topic=words, value=lambda word: word.upper()))

        with client.create_reader(squares, pulsar.MessageId.earliest) as reader:
            stored = {}
            while reader.has_message_available():
                message = reader.read_next(30_000)
                stored[message.partition_key()] = json.loads(message.data())["square"]
        print(f"{len(stored)} squares; that of 31 is {stored['31']}")
        with client.create_reader(words, pulsar.MessageId.earliest) as reader:
            print(*(reader.read_next(30_000).data().decode() for _ in range(8)))


if __name__ == "__main__":
    main()
