"""Turns of all clients at a contest, on a real broker: an Apache Pulsar, and a process of each client.

Clients take turns, so that other load of the machine affects all of them. Each round begins with another client, so
that none always follows the same one.
"""

import contextlib
import os
import platform
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.benchmarks.client_process import JAVA_VERSION, Worker, WorkerEnded
from tests.benchmarks.contests import CONSUME, DEFAULTS, PRODUCE, Contest
from tests.benchmarks.interpreters import Build
from tests.benchmarks.measured import Line, has_settled, lines, rate
from tests.benchmarks.results import Warming
from tests.support.standalone import Standalone

WARM_UP: Final = 1
"""Turns of each client, at each contest, before those that count."""

FRESH_WARM_UP: Final = 3
"""Rounds on a broker that does not count, before those on fresh brokers, so that Java's code is compiled."""

MOST_WARMING_ROUNDS: Final = 40
"""Rounds after which a broker counts as warm, even if the official client's rates have not settled."""


class Participant(NamedTuple):
    """A client that takes turns: ours in one build, the official one under one Python, or Java's."""

    client: str
    build: str = ""

    def __str__(self) -> str:
        return f"{self.client} {self.build}".rstrip()


Answers = dict[Participant, list[dict[str, Any]]]
"""The answers of each participant, in the order of the rounds."""


@contextlib.contextmanager
def connected(running: Mapping[Participant, Worker], service_url: str) -> Iterator[None]:
    """Connect all clients to a broker, and close them before it ends."""
    for worker in running.values():
        worker.connect(service_url)
    yield
    for worker in running.values():
        worker.ask(do="disconnect")


@contextlib.contextmanager
def broker() -> Iterator[Standalone]:
    """Start an Apache Pulsar with its default configuration."""
    with tempfile.TemporaryDirectory() as folder:
        standalone = Standalone(Path(folder), as_shipped=True)
        try:
            standalone.start()
            yield standalone
        finally:
            standalone.kill()


@contextlib.contextmanager
def workers(builds: Sequence[Build]) -> Iterator[dict[Participant, Worker]]:
    """Start all clients: this one in its builds, the official one under the same Pythons, and Java's."""
    with contextlib.ExitStack() as stack:
        running: dict[Participant, Worker] = {}
        for build in builds:
            ours = Worker("ours", build.python, installed=build.compiled)
            running[Participant("ours", build.name)] = stack.enter_context(ours)
            official = Participant("official", build.version)
            if official not in running:
                running[official] = stack.enter_context(Worker("official", build.python))
        running[Participant("java")] = stack.enter_context(Worker("java"))
        yield running


class Comparison:
    """All clients on one broker. What fails is noted in `failures`, and the others go on."""

    def __init__(
        self,
        builds: Sequence[Build],
        running: Mapping[Participant, Worker],
        broker: Standalone,
        failures: list[str],
    ) -> None:
        self.builds = builds
        self.broker = broker
        self.failures = failures
        self._running = running
        self._many: dict[int, list[str]] = {}  # topics, by how many there are

    def participants(self, contest: Contest, builds: Sequence[Build]) -> list[Participant]:
        """Return who takes part in a contest, with some of the builds."""
        names = {*(build.name for build in builds), *(build.version for build in builds), ""}
        return [one for one in self._running if one.client in contest.clients and one.build in names]

    def hold(
        self,
        contest: Contest,
        rounds: int,
        *,
        builds: Sequence[Build] | None = None,
        defaults: bool = False,
        warm_up: int = WARM_UP,
    ) -> list[Line]:
        """Let all clients take their turns; return the lines of the table."""
        builds = self.builds if builds is None else builds
        taking_part = self.participants(contest, builds)
        answers: Answers = {one: [] for one in taking_part}
        for number in range(-warm_up, rounds):
            for one, answer in self.round(contest, taking_part, number, defaults=defaults).items():
                if number >= 0:
                    answers[one].append(answer)
        return lines_of(contest, answers, builds)

    def round(
        self, contest: Contest, participants: list[Participant], number: int, *, defaults: bool = False
    ) -> dict[Participant, dict[str, Any]]:
        """Let each client take a turn. One that fails is noted, and removed from the participants."""
        first = number % max(1, len(participants))
        answers: dict[Participant, dict[str, Any]] = {}
        for one in participants[first:] + participants[:first]:
            try:
                answers[one] = self._turn(contest, one, defaults=defaults)
            except WorkerEnded as ended:
                self.failures.append(f"{one}, {contest.name}: {ended}")
                participants.remove(one)
                for worker in self._running.values():
                    if worker.has_ended:
                        worker.restart()
        return answers

    def _turn(self, contest: Contest, one: Participant, *, defaults: bool) -> dict[str, Any]:
        messages = int(contest.messages * (contest.slow if one.client == "official" else 1))
        ask = dict(contest.ask)
        worker = self._running[one]
        if defaults:
            ask["options"] = {} if ask["do"] in {"consume", "asyncio_consume"} else DEFAULTS
        if ask["do"] == "produce":
            topics = self._topics_of(contest)
            if contest.partitions:
                self.broker.admin.create_partitioned(topics[0], contest.partitions)
            return worker.ask(topics=topics, messages=messages, **ask)
        topic = new_topic()
        if contest.fill is not None:
            filler = self._running[Participant("ours", self.builds[0].name)]
            filler.ask(do="produce", topics=[topic], messages=messages, **contest.fill)
        return worker.ask(topic=topic, messages=messages, **ask)

    def _topics_of(self, contest: Contest) -> list[str]:
        """Return new topics for each turn; many topics are used again, as the broker keeps all in memory."""
        if contest.topics == 1:
            return [new_topic()]
        if contest.topics not in self._many:
            self._many[contest.topics] = [new_topic() for _ in range(contest.topics)]
        return self._many[contest.topics]


def lines_of(
    contest: Contest, answers: Mapping[Participant, list[dict[str, Any]]], builds: Sequence[Build]
) -> list[Line]:
    """Return the lines of a contest: those of each build, beside the official client of its Python, and Java's."""
    found: list[Line] = []
    for build in builds:
        beside = (Participant("ours", build.name), Participant("official", build.version), Participant("java"))
        given = {one.client: answers[one] for one in beside if answers.get(one)}
        if "ours" in given:
            found += lines(contest.name, contest.unit, given, build.name)
    return found


def warm(comparison: Comparison) -> Warming:
    """Warm up the broker and the Java client until the official client's rates settle, or have had time enough."""
    official = Participant("official", comparison.builds[0].version)
    contests = (PRODUCE, CONSUME)
    rates: dict[str, list[float]] = {contest.name: [] for contest in contests}
    for number in range(MOST_WARMING_ROUNDS):
        for contest in contests:
            taking_part = comparison.participants(contest, comparison.builds[:1])
            answers = comparison.round(contest, taking_part, number)
            if official in answers:
                rates[contest.name].append(rate(answers[official]))
        if all(has_settled(each) for each in rates.values()):
            return Warming(number + 1, settled=True, rates=rates)
    return Warming(MOST_WARMING_ROUNDS, settled=False, rates=rates)


def new_topic() -> str:
    return f"persistent://public/default/measured-{uuid.uuid4().hex[:12]}"


def machine() -> str:
    """Describe the machine, and what is the same for all Pythons."""
    processors = [
        line.partition(":")[2].strip() for line in _lines_of("/proc/cpuinfo") if line.startswith("model name")
    ]
    kind = processors[0] if processors else platform.machine()
    return (
        f"{os.cpu_count()} x {kind}; {platform.system()} {platform.release()}; "
        f"pulsar-client {version('pulsar-client')}; Java client and broker {JAVA_VERSION}"
    )


def described(build: Build) -> str:
    """Describe the interpreter of a build, which affects its speed."""
    return f"{build.name} (the system's own)" if build.system else build.name


def _lines_of(path: str) -> Sequence[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []
