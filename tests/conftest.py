"""Settings that every test shares."""

import gc
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# A deadline measures the machine and whatever else runs on it. A failing example prints what reproduces it.
settings.register_profile("shared", deadline=None, print_blob=True)
settings.load_profile("shared")

# A shell gives what it starts in the background no Ctrl-C. Some tests need it, in this process or in one they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


SPARK = Path(__file__).parent / "spark"

PARTS = {
    "real-broker": "that use an Apache Pulsar, which they start; they need Java and Maven",
    "spark": "of Spark; they need Java and the extra `spark`",
    "browser": "in a browser; they need Chromium with its driver, and the extra `browser`",
    "long": "that take long, and most seeds of the simulations",
}
"""The tests that are left out, unless the option of this name is given."""

FIXTURES = {"java": "real-broker", "proxy": "real-broker", "apache": "real-broker"}
"""Fixtures whose tests need no mark."""

WORKERS_PER_CORE = 2

LEFT_OUT = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("what is left out by default")
    for part, what in PARTS.items():
        group.addoption(f"--{part}", action="store_true", help=f"run the tests {what}, too")
    group.addoption("--nothing-else", action="store_true", help="run only the tests that the options above add")


def pytest_configure(config: pytest.Config) -> None:
    """Keep what this run was given from those that some tests start; the processes that run its tests need it."""
    if hasattr(config, "workerinput") or not getattr(config.option, "tx", None):
        os.environ.pop("PYTEST_ADDOPTS", None)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without `--spark`, do not even import the tests of Spark: PySpark need not be installed then."""
    return True if collection_path == SPARK and not config.getoption("spark") else None


def parts_of(item: pytest.Item) -> set[str]:
    """Return the parts that a test belongs to, by its folder, marks, fixtures and parameters."""
    parts = {mark.name.replace("_", "-") for mark in item.iter_markers()} & PARTS.keys()
    parts |= {FIXTURES[name] for name in getattr(item, "fixturenames", ()) if name in FIXTURES}
    if SPARK in item.path.parents:
        parts.add("spark")
    values = item.callspec.params.values() if hasattr(item, "callspec") else ()
    if any(isinstance(value, str) and value == "apache" for value in values):
        parts.add("real-broker")
    return parts


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what was not asked for, and put the tests of Spark last.

    Its session handles Ctrl-C in this process, and opens sockets.
    """
    missing = {part for part in PARTS if not config.getoption(part.replace("-", "_"))}
    parts = {item: parts_of(item) for item in items}
    left_out = [item for item in items if parts[item] & missing]
    config.stash[LEFT_OUT] = dict(Counter(part for item in left_out for part in parts[item] & missing))
    if config.getoption("nothing_else"):
        left_out += [item for item in items if not parts[item]]
    config.hook.pytest_deselected(items=left_out)
    kept = set(items) - set(left_out)
    items[:] = sorted((item for item in items if item in kept), key=lambda item: SPARK in item.path.parents)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Have one of several processes tell the one that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, {})


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear it; all of them collect the same."""
    if hasattr(node, "workeroutput"):
        node.config.stash[LEFT_OUT] = node.workeroutput["left_out"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for part, times in sorted(config.stash.get(LEFT_OUT, {}).items()):
        if part != "spark":
            terminalreporter.write_line(f"left out: {times:,} tests {PARTS[part]} (--{part} runs them)")
    if not config.getoption("spark"):  # they are not even counted
        terminalreporter.write_line(f"left out: the tests {PARTS['spark']} (--spark runs them)")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """Use more processes than there are cores, for tests wait more than they compute.

    But one where a Spark or a real broker is started, which serves all tests of a process: several take longer.
    """
    if config.getoption("spark") or config.getoption("real_broker"):
        return 0
    return None if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else WORKERS_PER_CORE * (os.cpu_count() or 1)


def pytest_collection_finish() -> None:
    """Keep ten thousand collected tests out of the garbage collector's way: many tests have it look for leftovers."""
    gc.collect()
    gc.freeze()
