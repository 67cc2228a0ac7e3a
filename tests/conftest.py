"""Settings that every test shares."""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# A deadline measures the machine and whatever else runs on it. A failing example prints what reproduces it.
settings.register_profile("shared", deadline=None, print_blob=True)
settings.load_profile("shared")

# What this run was given is not for those that some tests start.
os.environ.pop("PYTEST_ADDOPTS", None)

# A shell gives what it starts in the background no Ctrl-C. Some tests need it, in this process or in one they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SPARK = Path(__file__).parent / "spark"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave Spark's tests for the end: its session handles Ctrl-C in this process, and opens sockets as it likes."""
    items.sort(key=lambda item: SPARK in item.path.parents)


def pytest_collection_finish() -> None:
    """Keep ten thousand collected tests out of the garbage collector's way: many tests have it look for leftovers."""
    gc.collect()
    gc.freeze()
