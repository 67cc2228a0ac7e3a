"""Without the packages of an extra, the modules that need them say what to install."""

import subprocess
import sys

import pytest

NEEDED = {
    "pulsar_actors.otel": ("opentelemetry", "OpenTelemetry", "otel"),
    "pulsar_actors.prometheus": ("prometheus_client", "prometheus_client", "prometheus"),
    "pulsar_actors.spark": ("pyspark", "PySpark and PyArrow", "spark"),
}
"""By module: what is missing, its name in the error, and the extra."""


@pytest.mark.parametrize("module", NEEDED)
def test_the_error_says_what_to_install(module: str) -> None:
    package, name, extra = NEEDED[module]
    program = f"import sys; sys.modules[{package!r}] = None; import {module}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)  # noqa: S603 - a fixed command
    told = done.stderr.splitlines()[-1]
    assert told == f"ImportError: {module} needs {name}: pip install 'pulsar-actors[{extra}]'", done.stderr
