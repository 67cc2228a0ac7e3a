"""What all measurements have in common: a broker and a client for them, their threads, and what is said at the end."""

import contextlib
import sys
import threading
from argparse import Namespace
from collections.abc import Callable, Generator, Sequence
from enum import Enum
from pathlib import Path
from typing import Final, NamedTuple

from pulsar_actors.cli.broker_process import BrokerProcess
from pulsar_actors.cli.perf import percentile_file
from pulsar_actors.cli.perf.arguments import made_client, times
from pulsar_actors.cli.perf.crew import Crew
from pulsar_actors.cli.perf.report import Report, Words
from pulsar_actors.cli.perf.tally import Tally
from pulsar_actors.cli.perf.watch import Watch
from pulsar_actors.client.client import Client
from pulsar_actors.exceptions import PulsarException

INTERRUPTED: Final = 130
"""The status that a shell gives to a program which Ctrl-C has ended before it measured anything."""

_LEAVE: Final = 10.0
"""Seconds for what is on its way at the end."""

_NOT_SAID: Final = {"auth_params", "json", "parser", "run"}


class Work(NamedTuple):
    """What is to be done, each on a thread of its own, what it counts in, and what is done about it at the end."""

    todo: Sequence[Callable[[], None]]
    tallies: Sequence[Tally]
    tidy: Callable[[], None] = lambda: None


SetUp = Callable[[Namespace, Client, threading.Event], Work]


def measure(arguments: Namespace, words: Words, set_up: SetUp) -> int:
    """Measure, and give 0 if nothing failed. Ctrl-C ends a measurement as any other end does."""
    try:
        with _broker(arguments.service_url) as service_url, made_client(arguments, service_url) as client:
            return _measure(arguments, words, client, set_up)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    except (PulsarException, OSError, ValueError) as fault:
        print(f"failed: {type(fault).__name__}: {fault}", file=sys.stderr)
        return 1


@contextlib.contextmanager
def _broker(service_url: str | None) -> Generator[str, None, None]:
    """Give the user's, or one in memory, in a process of its own."""
    if service_url:
        yield service_url
    else:
        with BrokerProcess() as broker:
            yield broker.service_url


def _measure(arguments: Namespace, words: Words, client: Client, set_up: SetUp) -> int:
    over = threading.Event()
    work = set_up(arguments, client, over)
    crew = Crew(over, work.todo)
    report = Report(sys.stdout, words, _settings(arguments) if arguments.json else None)
    watch = Watch(work.tallies, times(arguments), report)
    crew.start()
    with contextlib.suppress(KeyboardInterrupt):
        watch.until(over)
    interval = watch.interval()
    report.summary(watch.warm_up(), interval)
    if arguments.histogram_file:
        percentile_file.write(arguments.histogram_file, interval.times)
    if not crew.stop(_LEAVE):
        print(f"failed: what was on its way did not arrive within {_LEAVE:g} s", file=sys.stderr)
        return 1
    work.tidy()
    if crew.fault is not None:
        print(f"failed: {type(crew.fault).__name__}: {crew.fault}", file=sys.stderr)
    return 1 if crew.fault is not None or interval.failed else 0


def _settings(arguments: Namespace) -> dict[str, object]:
    """Give the arguments as they go into JSON, without secrets."""
    return {name: _plain(value) for name, value in vars(arguments).items() if name not in _NOT_SAID}


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return str(value) if isinstance(value, Path) else value
