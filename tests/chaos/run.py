"""One run: a load starts, a fault comes and goes, the load goes on and ends, and its history is judged."""

import logging
import random
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from typing import Any, NamedTuple

import pulsar_actors as pulsar
from pulsar_actors.client.history import StateChange
from pulsar_actors.exceptions import Timeout
from tests.chaos.faults import Fault
from tests.chaos.load import CLIENT_OPTIONS, Load
from tests.chaos.target import Target
from tests.histories.history import History, Outcome, Sent
from tests.histories.promises import JUDGE, check, counts
from tests.histories.recording import Recorder

STARTING = 120.0
RECOVERY = 180.0
"""The longest wait for a worker to go on; a run in which one does not fails."""
ENDING = 120.0
CALM = 1.0
"""Seconds of work before a fault, and after it."""
LOOK_MS = 60_000
REST_MS = 5_000
"""A subscription from which nothing comes for so long is empty; on a busy machine, if nothing comes for `LOOK_MS`."""
PAUSING = ("producer", "consumer", "transaction_coordinator", "lookup")
"""The charts with a state in which the client lets time pass before it asks a broker again."""
SETTLING = 90.0
"""The longest wait for the broker to end transactions: killed, it goes on with them half a minute after its start."""


class Ran(NamedTuple):
    """What came of a run."""

    fault: str
    seed: int
    sent: int
    unknown: int
    """Messages whose outcome no caller was told."""
    received: int
    again: int
    """How often a message came that had come before."""
    recovery: dict[str, float]
    """By worker, the seconds from the end of the fault until work had succeeded that began after it."""
    broken: tuple[str, ...]
    noted: tuple[str, ...] = ()
    """What is no broken promise, and yet worth a look."""
    paused: float | None = None
    """The seconds of the recovery in which the client itself let time pass: the most of any producer, consumer,
    coordinator, or one of the last lookups. In the rest it waited for the broker. None in runs from before it was told.
    """


def longest_pause(changes: Iterable[StateChange], since: float, until: float) -> float:
    """Return how long the one that paused most was in WAITING in this time."""
    paused: defaultdict[str, float] = defaultdict(float)
    began: dict[str, float] = {}
    for change in changes:
        if change.chart in PAUSING:
            if change.source == "WAITING":
                paused[change.actor] += max(0.0, min(change.time, until) - max(began.get(change.actor, since), since))
            if change.dest == "WAITING":
                began[change.actor] = change.time
    return max(paused.values(), default=0.0)


@contextmanager
def losses_noted(history: History) -> Iterator[None]:
    """Note each connection that a client loses, at whatever time: what was not acknowledged comes again.

    A busy machine may let a broker be silent for longer than the clients here wait, without the fault of the run.
    """

    class Losses(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.module == "connection_actor" and record.levelno == logging.WARNING:
                history.disturb("fault")

    log, losses = logging.getLogger("pulsar_actors"), Losses()
    log.addHandler(losses)
    try:
        yield
    finally:
        log.removeHandler(losses)


class Run:
    """One of them."""

    def __init__(self, target: Target, fault: Fault, seed: int, seconds: float | None = None) -> None:
        self._target = target
        self._fault = fault
        self._seed = seed
        self._dice = random.Random(f"{fault.name} {seed}")  # noqa: S311 - no secret
        self._seconds = self._dice.uniform(*fault.seconds) if seconds is None else min(seconds, fault.seconds[1])
        self._recorder = Recorder()
        self._moves = fault.moves or (fault.is_overtaken and "several" in target.offers)
        self._namespace = f"public/{fault.name.replace(' ', '-')}-{seed}-{self._dice.randrange(10**9)}"
        self._broken: list[str] = []
        self._noted: list[str] = []

    def play(self) -> Ran:
        """Play it, and return what came of it."""
        target, history = self._target, self._recorder.history
        target.prepare(self._namespace)
        tls = "tls" in target.offers and (self._fault.needs == "tls" or self._dice.random() < 0.3)
        with (
            losses_noted(history),
            closing(target.client(tls=tls, **CLIENT_OPTIONS)) as client,
            Load(self._recorder, client, self._namespace, transactions=self._dice.random() < 0.5) as load,
        ):
            self._await(load, time.monotonic(), STARTING, "start")
            time.sleep(CALM * self._dice.random())
            history.disturb("fault")
            if self._fault.forgets:
                history.disturb("amnesia")
            if self._moves:
                history.disturb("move")
            end = self._fault.begin(target, self._namespace, self._dice)
            try:
                time.sleep(self._seconds)
            finally:
                end()
            over, over_at = time.monotonic(), time.time()
            if self._fault.forgets:
                history.disturb("amnesia")  # of what was confirmed while it lasted: a full disk ends with a restart
            recovery = self._await(load, over, RECOVERY, "go on after the fault")
            paused = longest_pause(client.history(), over_at, over_at + max(recovery.values()))
            if self._moves:
                history.disturb("moved")
            time.sleep(CALM)
            self._broken += [f"{name} does not end" for name in load.stop(ENDING)]
            self._broken += [f"a worker failed: {error!r}" for error in load.errors]
        with losses_noted(history), closing(target.client(tls=False, **CLIENT_OPTIONS)) as client:
            self._look(client, load)
        self._broken += check(history)
        return self._ran(recovery, paused)

    def _await(self, load: Load, since: float, within: float, what: str) -> dict[str, float]:
        """Wait until each worker has succeeded with something that began after this moment. Return how long it took."""
        took: dict[str, float] = {}
        for work in load.works:
            while (at := work.went_on_at(since)) is None and time.monotonic() < since + within:
                time.sleep(0.01)
            if at is None:
                self._broken.append(f"{work.name} did not {what} within {within:g} s")
            took[work.name] = within if at is None else at - since
        return took

    def _settle(self, client: pulsar.Client, load: Load) -> None:
        """Wait until no transaction hides what is behind it, or keeps messages from consumers.

        A broker that moves a topic may leave one open there that has timed out. It ends after its coordinator has been
        loaded again and another transaction has ended on that topic. If its coordinator told the broker that had the
        topic before, it stays open, and the judge is told of those whose end met the move.
        """
        if self._open_transactions(load, SETTLING):
            self._target.reload_coordinators()
            load.copy_one(client)
            if open_ones := self._open_transactions(load, SETTLING):
                told = self._noted if self._moves else self._broken
                told.append(f"transactions stay open: {open_ones}")

    def _open_transactions(self, load: Load, within: float) -> Any:
        """Return what is open still after so many seconds, and nothing as soon as nothing is."""
        deadline = time.monotonic() + within
        while True:
            sent = self._target.open_transactions(load.results)
            acknowledged = self._target.open_transactions(load.plain, "copy")
            if not (sent or acknowledged) or time.monotonic() > deadline:
                return sent or acknowledged
            time.sleep(0.1)

    def _look(self, client: pulsar.Client, load: Load) -> None:
        """Take what is left of the subscriptions, all at once, and read what is stored."""
        with ExitStack() as closed:
            readers = {
                topic: closed.enter_context(closing(client.create_reader(topic, pulsar.MessageId.earliest)))
                for topic in load.topics
            }  # the broker has loaded the topics then
            if load.has_transactions:
                self._settle(client, load)
            self._empty(client, load, REST_MS)
            for topic, reader in readers.items():
                while reader.has_message_available():
                    self._recorder.look(topic, reader.read_next(LOOK_MS))
            if check(self._recorder.history):
                self._noted.append("what was missing was waited for once more")
                self._empty(client, load, LOOK_MS)

    def _empty(self, client: pulsar.Client, load: Load, rest_ms: int) -> None:
        """Take what is left of all subscriptions at once."""

        def empty(subscription: str) -> None:
            topic, kind = load.subscriptions[subscription]
            judge = self._recorder.consumer(
                client, topic, subscription, kind, name=JUDGE, initial_position=pulsar.InitialPosition.Earliest
            )
            try:
                while True:
                    judge.receive(rest_ms)
            except Timeout:
                judge.close()

        with ThreadPoolExecutor(len(load.subscriptions)) as threads:
            list(threads.map(empty, load.subscriptions))

    def _ran(self, recovery: dict[str, float], paused: float) -> Ran:
        history = self._recorder.history
        sent = list(history.of(Sent))
        seats = [(each.subscription, each.topic, each.place) for each in history.received]
        return Ran(
            self._fault.name,
            self._seed,
            len(sent),
            sum(each.outcome is not Outcome.DONE for each in sent),
            counts(history)["received"],
            len(seats) - len(set(seats)),
            recovery,
            tuple(self._broken),
            tuple(self._noted),
            round(paused, 3),
        )


def as_json(ran: Ran) -> dict[str, Any]:
    """Return a run as JSON takes it."""
    return {**ran._asdict(), "recovery": {work: round(seconds, 3) for work, seconds in ran.recovery.items()}}


def from_json(run: dict[str, Any]) -> Ran:
    """Return the run that was written so."""
    return Ran(**{**run, "broken": tuple(run["broken"]), "noted": tuple(run["noted"])})
