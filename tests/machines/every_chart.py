"""Every chart of the package, found rather than listed, so that a new one cannot escape the tests."""

import importlib
import pkgutil

from pulsar_actors import machines
from pulsar_actors.machines.chart import Chart


def every_chart() -> list[Chart]:
    """Import every module of the floor and collect the charts that they declare."""
    modules = (
        importlib.import_module(f"{machines.__name__}.{info.name}") for info in pkgutil.iter_modules(machines.__path__)
    )
    return [module.CHART for module in modules if isinstance(getattr(module, "CHART", None), Chart)]
