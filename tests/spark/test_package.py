"""The package as Spark finds it, and as programs without Spark see it."""

import subprocess
import sys

import pyspark_pulsar
from pulsar_actors.spark import PulsarDataSource


def test_spark_finds_the_data_source_by_the_name_of_a_module() -> None:
    assert pyspark_pulsar.DefaultSource is PulsarDataSource
    assert PulsarDataSource.name() == "pulsar"


def test_without_pyspark_the_error_names_what_to_install() -> None:
    program = "import sys; sys.modules['pyspark'] = None; import pulsar_actors.spark"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - a fixed command
    assert "pulsar_actors.spark needs PySpark and PyArrow: pip install 'pulsar-actors[spark]'" in done.stderr


def test_a_program_without_spark_loads_none_of_it() -> None:
    program = "import sys, pulsar_actors; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - a fixed command
    assert not {"pyspark", "pyarrow", "pulsar_actors.spark"} & set(done.stdout.split())
