"""Profile the hot paths: sending in batches, receiving and acknowledging, and sends that wait; and the charts on them.

    python tests/benchmarks/hot_paths.py [--service-url pulsar://...] [--messages 500000]

A program sends, and then receives, with the given broker or an Apache Pulsar that is started for it. A function that is
called once for many messages has a stopwatch for the CPU time of its thread, which costs almost nothing there. What is
called for each message has none, and is the rest of its thread's time: the calls themselves, the program's loop, and
the interpreter. A compiled client is refused: its functions call each other without a look at a stopwatch. Times
are per message, and the time of a step excludes the steps inside it.

Of `send()`, which handles one message after the other, the Python calls are counted instead, by module and in all
threads. The last lines say how many rows of charts a message takes on each path, how long a row takes, and how long it
would take with the classes of the library `transitions` as they are; and how many of the rows are recorded in a
history, and how long that takes.
"""

import argparse
import contextlib
import functools
import statistics
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from types import FrameType
from typing import Any, NamedTuple

from transitions import Machine

import pulsar_actors as pulsar
from pulsar_actors.client import build_consumer
from pulsar_actors.client.handle import state_of
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.machines.chart import INTERNAL, Chart, Row
from pulsar_actors.machines.chart import Step as ChartStep
from pulsar_actors.machines.machine_history import MachineHistory
from pulsar_actors.machines.running_chart import RunningChart
from pulsar_actors.runtime import opened_entry
from pulsar_actors.runtime.ack_queue import AckQueue
from pulsar_actors.runtime.batch_builder import BatchBuilder
from pulsar_actors.runtime.connection_actor import ConnectionActor
from pulsar_actors.runtime.consumer_actor import ConsumerActor
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.producer_actor import ProducerActor
from pulsar_actors.runtime.receiver_queue import ReceiverQueue
from pulsar_actors.runtime.send_queue import SendQueue
from pulsar_actors.runtime.socket_actor import SocketActor
from pulsar_actors.runtime.transport import BufferedTransport
from pulsar_actors.version import compiled
from tests.benchmarks.comparison import broker

PATIENCE_MS = 60_000
SENDS = 300
COUNTED = 50


class Step(NamedTuple):
    """A function that is called once for many messages, with its class or module."""

    what: str
    owner: Any
    name: str


PRODUCING = (
    Step("take messages out of the send_queue", SendQueue, "begin_take"),
    Step("plan batches and pack them", BatchBuilder, "pack"),
    Step("chart, trackers and effects of a publication", ProducerActor, "_publish"),
    Step("write to the socket", BufferedTransport, "write"),
    Step("read from the socket and cut frames", SocketActor, "received"),
    Step("decode commands and find whose they are", ConnectionActor, "receive"),
    Step("chart and trackers of receipts", ProducerActor, "handle_commands"),
    Step("make ids and call callbacks, the program's included", SendCallbacks, "__call__"),
)
CONSUMING = (
    Step("read from the socket and cut frames", SocketActor, "received"),
    Step("decode commands and find whose they are", ConnectionActor, "receive"),
    Step("chart and trackers of entries", ConsumerActor, "handle_commands"),
    Step("hand entries over", ReceiverQueue, "add"),
    Step("verify and inflate", opened_entry, "_uncompressed_payload"),
    Step("split batches", opened_entry, "split_columns"),
    Step("make messages", build_consumer, "new_messages"),
    Step("set up what callers take", ReceiverQueue, "_refill"),
    Step("gather acknowledgements", AckQueue, "drain"),
    Step("chart and trackers of acknowledgements", ConsumerActor, "_drain_acks"),
    Step("write to the socket", BufferedTransport, "write"),
)


class Stopwatches:
    """The CPU time of each step, by thread and without the steps inside it."""

    def __init__(self) -> None:
        self.times: dict[tuple[str, str], float] = {}
        self._local = threading.local()

    @contextlib.contextmanager
    def on(self, steps: Sequence[Step]) -> Iterator[None]:
        """Time each step, for the duration of a block."""
        with contextlib.ExitStack() as stack:
            for what, owner, name in steps:
                plain = getattr(owner, name)
                setattr(owner, name, self._timed(what, plain))
                stack.callback(setattr, owner, name, plain)
            yield

    def _timed(self, what: str, plain: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(plain)
        def call(*arguments: Any, **named: Any) -> Any:
            inside = self._local.__dict__.setdefault("inside", [0.0])
            inside.append(0.0)
            began = time.thread_time()
            try:
                return plain(*arguments, **named)
            finally:
                took = time.thread_time() - began
                place = (_kind(threading.current_thread()), what)
                self.times[place] = self.times.get(place, 0.0) + took - inside.pop()
                inside[-1] += took

        return call


def _kind(thread: threading.Thread) -> str:
    return "the program's thread" if thread is threading.main_thread() else "the I/O thread"


class Account:
    """The times of one run: of each thread, of the steps in it, and of the wall clock."""

    def __init__(self) -> None:
        self.watches = Stopwatches()
        (loop,) = [thread for thread in threading.enumerate() if thread.name == "pulsar-io-0"]
        self._clocks = {
            _kind(thread): time.pthread_getcpuclockid(thread.ident or 0) for thread in (threading.main_thread(), loop)
        }

    @contextlib.contextmanager
    def of(self, steps: Sequence[Step]) -> Iterator[None]:
        """Measure a block."""
        with self.watches.on(steps):
            wall, before = time.perf_counter(), self._read()
            yield
            self.wall = time.perf_counter() - wall
            self.threads = {kind: now - before[kind] for kind, now in self._read().items()}

    def _read(self) -> dict[str, float]:
        return {kind: time.clock_gettime(clock) for kind, clock in self._clocks.items()}

    def table(self, title: str, messages: int) -> str:
        """Return the profile as text, in nanoseconds per message."""
        each = 1e9 / messages
        lines = [f"{title}: {messages / self.wall:,.0f} messages a second, {self.wall * each:,.0f} ns for one", ""]
        for kind, whole in self.threads.items():
            steps = {what: spent for (where, what), spent in self.watches.times.items() if where == kind}
            rest = whole - sum(steps.values())
            lines.append(f"  {whole * each:7,.0f} ns  {kind}, of which")
            lines += [f"  {spent * each:11,.0f}  {what}" for what, spent in sorted(steps.items(), key=lambda i: -i[1])]
            lines += [
                f"  {rest * each:11,.0f}  all that is called for every message, and what is between the steps",
                "",
            ]
        waited = self.wall - sum(self.threads.values())
        lines.append(f"  {waited * each:7,.0f} ns  neither thread at work")
        return "\n".join(lines)


def produce(client: Any, topic: str, messages: int) -> str:
    """Send messages, and return the profile."""
    producer = client.create_producer(
        topic,
        batching_enabled=True,
        batching_max_publish_delay_ms=1,
        batching_max_messages=1000,
        max_pending_messages=10_000,
        block_if_queue_full=True,
    )
    payload, account = b"x" * 100, Account()
    with account.of(PRODUCING):
        for _ in range(messages):
            producer.send_async(payload, _ignore)
        producer.flush()
    producer.close()
    return account.table("send_async with a callback, 100 B in batches of 1,000", messages)


def consume(client: Any, topic: str, messages: int) -> str:
    """Receive and acknowledge messages, and return the profile."""
    account = Account()
    with account.of(CONSUMING):  # and the subscribing with it, for messages come from then on
        consumer = client.subscribe(
            topic, "hot-paths", initial_position=pulsar.InitialPosition.Earliest, receiver_queue_size=10_000
        )
        for _ in range(messages):
            message = consumer.receive(PATIENCE_MS)
            message.data()
            consumer.acknowledge(message)
        consumer.close()  # which sends what is left of the acknowledgements
    return account.table("receive, data and acknowledge", messages)


def send(client: Any, topic: str) -> str:
    """Send messages one by one, and return the latency, the CPU time and the Python calls of one."""
    producer, payload, times = client.create_producer(topic), b"x" * 100, []
    for _ in range(SENDS):
        producer.send(payload)
    cpu = time.process_time()
    for _ in range(SENDS):
        began = time.perf_counter()
        producer.send(payload)
        times.append(time.perf_counter() - began)
    cpu = time.process_time() - cpu
    calls: Counter[str] = Counter()
    with counting(calls, state_of(producer).engine.loops[0]):
        for _ in range(COUNTED):
            producer.send(payload)
    producer.close()
    p50, p99 = statistics.median(times), sorted(times)[int(len(times) * 0.99)]
    latency = f"p50 {p50 * 1e6:,.0f} us, p99 {p99 * 1e6:,.0f} us"
    cost = f"{cpu / SENDS * 1e6:,.0f} us of CPU time, {calls.total() / COUNTED:.0f} Python calls"
    lines = [
        f"send, one after the other, not batched: {latency}; {cost}, of which",
        "",
        *(f"  {count / COUNTED:5.1f}  {module}" for module, count in calls.most_common(20)),
        f"  {calls['transitions.core'] / COUNTED:5.1f}  transitions",
    ]
    return "\n".join(lines)


@contextlib.contextmanager
def counting(calls: Counter[str], loop: Loop) -> Iterator[None]:
    """Count the Python calls in this thread and in that of the loop, by module."""

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            calls[frame.f_globals.get("__name__", "")] += 1

    for profile in (count, None):
        done = threading.Event()
        loop.post(lambda _, profile=profile, done=done: (sys.setprofile(profile), done.set()), None)  # type: ignore[misc]
        done.wait()
        sys.setprofile(profile)
        if profile is not None:
            yield
    del calls[__name__]


class Push(NamedTuple):
    """An event."""


class Turnstile:
    """A machine whose row has a guard and an action."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def may(self, event: Push, now: float) -> bool:
        return True

    def turn(self, event: Push, now: float) -> list[object]:
        return []


class Fired(NamedTuple):
    """The rows of charts that a path has fired for each message, and how many of them were recorded."""

    rows: float
    recorded: float


def charts(paths: dict[str, Fired]) -> str:
    """Return the time of a row, and the rows and the time of each of these paths."""
    states = Enum("State", ["OPEN"])  # type: ignore[misc]
    (open_,) = states
    row, last = Row(Push, open_, INTERNAL, "may", "turn"), Row(Push, open_, INTERNAL)
    chart = Chart("turnstile", states=states, initial=open_, final=[open_], ours=[Push], rows=[row, last])
    running, model, event = RunningChart(chart, Turnstile), Turnstile(open_), Push()
    plain = Machine(None, states=list(states), initial=open_, auto_transitions=False, send_event=True)
    plain.add_transition(
        "push", open_, None, conditions=lambda data: model.may(*data.args), before=lambda data: model.turn(*data.args)
    )
    plain.add_model(model, initial=open_)
    called = time_of(lambda: model.may(event, 0.0) and model.turn(event, 0.0))
    ours = time_of(lambda: running.fire(model, event, 0.0)) - called
    library = time_of(lambda: plain.events["push"].trigger(model, event, 0.0)) - called
    recording = recording_time()
    lines = [
        f"charts: {ours:,.0f} ns for a row besides its guard and action; {library:,.0f} as the library has it",
        f"a row that changes the state takes {recording:,.0f} ns more for the history",
        "",
        *(
            f"  {fired.rows:8.4f} rows, {fired.rows * ours:8,.1f} ns, {fired.recorded:.4f} of them recorded, for {what}"
            for what, fired in paths.items()
        ),
    ]
    return "\n".join(lines)


def recording_time() -> float:
    """Return the time to record a change of state in the history of a machine, in nanoseconds."""
    history, event = MachineHistory(), Push()
    states = Enum("State", ["OPEN"])  # type: ignore[misc]
    (open_,) = states
    step = ChartStep("turnstile", open_, Row(Push, open_, open_))
    return time_of(lambda: history.record(0.0, step, event))


def time_of(function: Callable[[], object], times: int = 20_000) -> float:
    """Return the CPU time of a call in nanoseconds, the least of several runs."""
    runs = []
    for _ in range(7):
        began = time.thread_time_ns()
        for _ in range(times):
            function()
        runs.append((time.thread_time_ns() - began) / times)
    return min(runs)


@contextlib.contextmanager
def rows(paths: dict[str, Fired], what: str, messages: int) -> Iterator[None]:
    """Count the rows that a block fires, and those that are recorded."""
    fired, plain = [0], RunningChart.fire
    recorded, plain_record = [0], MachineHistory.record

    def fire(self: RunningChart, model: Any, event: Any, now: float) -> Any:
        fired[0] += 1
        return plain(self, model, event, now)

    def record(self: MachineHistory, now: float, step: ChartStep, event: Any) -> None:
        recorded[0] += 1
        plain_record(self, now, step, event)

    RunningChart.fire = fire  # type: ignore[method-assign]
    MachineHistory.record = record  # type: ignore[method-assign]
    yield
    RunningChart.fire = plain  # type: ignore[method-assign]
    MachineHistory.record = plain_record  # type: ignore[method-assign]
    paths[what] = Fired(fired[0] / messages, recorded[0] / messages)


def _ignore(_: object, __: object) -> None:
    """Do nothing, as only the client is measured."""


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--service-url")
    parser.add_argument("--messages", type=int, default=500_000)
    given = parser.parse_args(arguments)
    if compiled:
        parser.error("the client is compiled: use a checkout, or a pure wheel")
    with contextlib.ExitStack() as stack:
        service_url = given.service_url or stack.enter_context(broker()).service_url
        client = stack.enter_context(contextlib.closing(pulsar.Client(service_url)))
        topic = f"persistent://public/default/hot-paths-{uuid.uuid4().hex[:12]}"
        produce(client, topic, given.messages // 10)  # what is slow the first time
        paths: dict[str, Fired] = {}
        for path, what in ((produce, "a message sent in a batch"), (consume, "a message received and acknowledged")):
            with rows(paths, what, given.messages):
                print(path(client, topic, given.messages), end="\n\n")
        with rows(paths, "a send()", 2 * SENDS + COUNTED):
            print(send(client, f"{topic}-one-by-one"), end="\n\n")
        print(charts(paths))


if __name__ == "__main__":
    main(sys.argv[1:])
