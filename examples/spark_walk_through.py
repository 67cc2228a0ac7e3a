"""A walk-through in notebook cells, each beginning with `# %%`. All cells together are a program.

It writes a table to a topic, reads it back, deletes a key, and runs a stream that counts.
"""

# %% A Spark, and a broker in memory. With one of yours, `url` is its address.
import json
import os
import sys
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from pulsar_actors.broker import EmbeddedBroker

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
broker = EmbeddedBroker()
broker.start()
url = broker.service_url
small = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2)
spark = small.config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

# %% A table. The names of its columns are those of the fields of a message.
fruit = spark.createDataFrame([("pear", "3"), ("apple", "12"), ("plum", "40")], "__key string, value string")
fruit.write.format("pulsar").mode("append").option("service.url", url).option("topic", "fruit").save()

# %% The topic as a table. Each field of a message is a column.
stored = spark.read.format("pulsar").option("service.url", url).option("topic", "fruit").load()
stored.printSchema()

# %% With your own schema, only its columns are read, and values are text.
reader = spark.read.format("pulsar").schema("__key string, value string").option("service.url", url)
reader.option("topic", "fruit").load().orderBy("__key").show()

# %% A null value is a tombstone: it deletes its key when the topic is compacted. Until then it is a row like others.
gone = spark.createDataFrame([("plum", None)], "__key string, value string")
gone.write.format("pulsar").mode("append").option("service.url", url).option("topic", "fruit").save()
print("tombstones:", reader.option("topic", "fruit").load().where("value is null").count())

# %% A stream that counts each fruit. Here it ends when it has read all messages, and then shows the counts.
folder = TemporaryDirectory()
counts = (
    spark.readStream.format("pulsar")
    .schema("__key string, value string")
    .option("service.url", url)
    .option("topic", "fruit")
    .option("startingOffsets", "earliest")
    .option("subscriptionPrefix", "counting")
    .load()
    .groupBy("__key")
    .agg({"value": "sum"})
    .writeStream.format("memory")
    .queryName("counts")
    .outputMode("complete")
    .option("checkpointLocation", folder.name)
    .trigger(availableNow=True)
    .start()
)
counts.awaitTermination()
spark.table("counts").orderBy("__key").show()

# %% The position that the stream has reached. Another query can start there: `startingOffsets` takes it.
progress = counts.lastProgress
assert progress is not None
(source,) = json.loads(progress.json)["sources"]
offsets = json.dumps(source["endOffset"])
print("read:", source["numInputRows"])
print("next:", offsets)
more = spark.createDataFrame([("quince", "1")], "__key string, value string")
more.write.format("pulsar").mode("append").option("service.url", url).option("topic", "fruit").save()
reader.option("topic", "fruit").option("startingOffsets", offsets).load().show()

# %% The end.
spark.stop()
broker.stop()
folder.cleanup()
