"""The run of a measurement: its broker and client, its threads, and its report."""

import contextlib
import os
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Generator, Sequence
from enum import Enum
from pathlib import Path
from typing import Final

from pulsar_actors.cli.broker import BrokerProcess
from pulsar_actors.cli.command import INTERRUPTED, reason_of
from pulsar_actors.cli.perf.arguments import client_of, run_times_of
from pulsar_actors.cli.perf.plot import draw_plot
from pulsar_actors.cli.perf.stats import Counts, PerfReport, ReportLabels, RunMonitor, write_percentile_file
from pulsar_actors.client.client import Client
from pulsar_actors.exceptions import ConnectError, PulsarException, Timeout
from pulsar_actors.named_tuple import NamedTuple

_DRAIN_SECONDS: Final = 10.0
"""Seconds to wait at the end for pending messages."""

_REACH_SECONDS: Final = 3.0

_NOT_REPORTED: Final = {"auth_params", "json", "parser", "run"}


class Work(NamedTuple):
    """The work of a measurement: one function for each thread, their counts, and what to clean up at the end."""

    threads: Sequence[Callable[[], None]]
    counts: Sequence[Counts]
    clean_up: Callable[[], None] = lambda: None


SetUp = Callable[[Namespace, Client, threading.Event], Work]


def measure(arguments: Namespace, labels: ReportLabels, set_up: SetUp) -> int:
    """Measure; the exit status is 0 if nothing failed. Ctrl-C during the run is a regular end of it."""
    _check_files(arguments)
    try:
        with _broker(arguments.service_url) as service_url:
            _require_broker(arguments, service_url)
            with client_of(arguments, service_url) as client:
                return _measure(arguments, labels, client, set_up)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    except (PulsarException, OSError, ValueError) as fault:
        print(f"failed: {reason_of(fault)}", file=sys.stderr)
        return 1


def _check_files(arguments: Namespace) -> None:
    """Refuse what could not be written after the run."""
    refuse = arguments.parser.error
    if arguments.plot and not arguments.stats_interval_seconds:
        refuse("--plot draws a point for each interval: give -i more than 0 seconds")
    if arguments.plot and arguments.plot.suffix.lower() != ".svg":
        refuse(f"--plot writes SVG, so its file ends with .svg, not {arguments.plot.name!r}")
    for name, file in (("--plot", arguments.plot), ("--histogram-file", arguments.histogram_file)):
        if file and not _can_be_written(file):
            refuse(f"{name}: {str(file)!r} cannot be written")


def _can_be_written(file: Path) -> bool:
    place = file if file.exists() else file.parent
    return os.access(place, os.W_OK) and not file.is_dir() and file.parent.is_dir()


@contextlib.contextmanager
def _broker(service_url: str | None) -> Generator[str, None, None]:
    """Return the user's broker, or start one in memory, in a process of its own."""
    if service_url:
        yield service_url
    else:
        with BrokerProcess() as broker:
            yield broker.service_url


def _require_broker(arguments: Namespace, service_url: str) -> None:
    """Raise if no broker answers within seconds. The clients of a run wait for as long as those of programs."""
    with client_of(arguments, service_url, operation_timeout_seconds=_REACH_SECONDS) as client:
        try:
            client.get_topic_partitions(arguments.topic)
        except (ConnectError, Timeout) as error:
            raise ConnectError(
                f"no broker answers at {service_url}: start one, such as `python -m pulsar_actors broker`, "
                f"or name yours with -u ({error})"
            ) from None


def _measure(arguments: Namespace, labels: ReportLabels, client: Client, set_up: SetUp) -> int:
    done = threading.Event()
    work = set_up(arguments, client, done)
    workers = WorkerThreads(done, work.threads)
    report = PerfReport(sys.stdout, labels, _settings(arguments) if arguments.json else None)
    monitor = RunMonitor(work.counts, run_times_of(arguments), report)
    workers.start()
    with contextlib.suppress(KeyboardInterrupt):
        monitor.run_until(done)
    interval = monitor.interval()
    report.summary(monitor.warm_up(), interval)
    if arguments.histogram_file:
        write_percentile_file(arguments.histogram_file, interval.latencies)
    if arguments.plot:
        _, _, measurement = arguments.parser.prog.rpartition(" ")
        title = f"perf {measurement} {arguments.topic}"
        arguments.plot.write_text(draw_plot(title, report.points.all()), encoding="utf-8")
    if not workers.stop(_DRAIN_SECONDS):
        print(f"failed: what was on its way did not arrive within {_DRAIN_SECONDS:g} s", file=sys.stderr)
        return 1
    work.clean_up()
    if workers.fault is not None:
        print(f"failed: {reason_of(workers.fault)}", file=sys.stderr)
    return 1 if workers.fault is not None or interval.failed else 0


def _settings(arguments: Namespace) -> dict[str, object]:
    """Return the arguments as JSON values, without secrets."""
    return {name: _plain(value) for name, value in vars(arguments).items() if name not in _NOT_REPORTED}


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value


class WorkerThreads:
    """The threads of a run. `done` stops them, and is set when all have ended or one has failed, with `fault`."""

    def __init__(self, done: threading.Event, work: Sequence[Callable[[], None]]) -> None:
        self.done = done
        self.fault: Exception | None = None
        self._left = len(work)
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._do, args=(each,), name=f"perf-{number}", daemon=True)
            for number, each in enumerate(work, 1)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, seconds: float) -> bool:
        """Stop the threads, and return whether all have ended in time."""
        self.done.set()
        for thread in self._threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self._threads)

    def _do(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the main thread reports it, whatever it is
            self.fault = self.fault or error
            self.done.set()
        with self._lock:
            self._left -= 1
            if not self._left:
                self.done.set()
