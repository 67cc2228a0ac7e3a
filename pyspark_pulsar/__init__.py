"""Registers `format("pulsar")`: Spark looks for `DefaultSource` in modules whose names begin with `pyspark_`."""

from pulsar_actors.spark.data_source import PulsarDataSource as DefaultSource

__all__ = ["DefaultSource"]
