"""PySpark's data source `format("pulsar")`, and a sink for `foreachPartition`.

The code runs in three kinds of processes: on the driver, which plans queries; in a process beside it, which keeps the
offsets of a stream; and in the workers, which read and write. Readers, writers and sinks are configuration and are
pickled from one to the other. Clients stay where they were created.
"""

from importlib.util import find_spec

if find_spec("pyspark") is None or find_spec("pyarrow") is None:
    raise ImportError("pulsar_actors.spark needs PySpark and PyArrow: pip install 'pulsar-actors[spark]'")

from pyspark import __version__

if tuple(map(int, __version__.split(".")[:2])) < (4, 1):
    raise ImportError(f"pulsar_actors.spark needs PySpark 4.1 or later, and this is {__version__}")

from pulsar_actors.spark.data_source import PulsarDataSource
from pulsar_actors.spark.sink import sink

__all__ = ["PulsarDataSource", "sink"]
