"""`demo`: send and receive, cut the client's connections half-way, and verify that nothing is lost; then use Spark.

The broker is the embedded one, in a separate process, or the user's. All printed figures are measured in this run.
"""

import secrets
import shutil
import sys
from argparse import ArgumentParser, Namespace
from typing import Final, TextIO

from pulsar_actors.cli.broker import BrokerProcess
from pulsar_actors.cli.command import INTERRUPTED, Command, integer_argument, reason_of
from pulsar_actors.cli.demo_traffic import MIN_SIZE, CuttableEngine, Traffic
from pulsar_actors.cli.demo_watch import watch
from pulsar_actors.cli.pipeline import show_pipeline
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.exceptions import PulsarException, Timeout

MESSAGES: Final = 150_000
SIZE: Final = 100

_MAX_SIZE = 1024 * 1024
_REDRAW = 0.1
_OPERATION_TIMEOUT = 10.0


def run(arguments: Namespace) -> int:
    """Run the demo. The exit status is 1 if a check has failed, otherwise 0."""
    try:
        if arguments.watch:
            return watch(arguments)
        if arguments.service_url:
            return _run_on(arguments, "your broker", arguments.service_url)
        with BrokerProcess() as broker:
            return _run_on(arguments, "a broker in memory, in a process of its own,", broker.service_url)
    except KeyboardInterrupt:
        print("stopped")
        return INTERRUPTED
    except (PulsarException, OSError) as fault:
        print(f"failed: {reason_of(fault)}", file=sys.stderr)
        return 1


def _run_on(arguments: Namespace, whose: str, service_url: str) -> int:
    topic = f"demo-{secrets.token_hex(4)}"
    status = _send_and_receive(arguments, whose, service_url, topic)
    return status if status or arguments.no_spark else show_pipeline(service_url, f"{topic}-rows")


def _send_and_receive(arguments: Namespace, whose: str, service_url: str, topic: str) -> int:
    print(f"{arguments.messages:,} messages of {arguments.size:,} bytes through {whose} at {service_url}", flush=True)
    engine = CuttableEngine()
    with Client.on(engine, ClientOptions(service_url, operation_timeout_seconds=_OPERATION_TIMEOUT)) as client:
        traffic = Traffic(client, engine, topic, arguments.messages, arguments.size)
        try:
            _watch(traffic)
        finally:
            _clean_up(traffic)
    print("\n".join(summary(traffic)))
    if traffic.fault is not None:
        print(f"failed: {traffic.fault}", file=sys.stderr)
    return 0 if traffic.fault is None else 1


def _watch(traffic: Traffic) -> None:
    """Show the progress until all messages are received, or a check fails."""
    progress = Progress(sys.stdout, traffic.count)
    is_finished = is_cut = False
    traffic.start()
    try:
        while not is_finished:
            is_finished = traffic.finished.wait(_REDRAW)
            if traffic.connections_cut and not is_cut:
                is_cut = True
                progress.print_line(_cut_line(traffic))
            progress.show(traffic.verification.due, _progress_text(traffic))
    finally:
        progress.end()


def _clean_up(traffic: Traffic) -> None:
    """Delete the subscription, because the broker may be the user's."""
    try:
        if not traffic.stop(_OPERATION_TIMEOUT):
            raise Timeout("the broker does not answer")
        traffic.consumer.unsubscribe()
    except PulsarException as fault:
        print(f"the subscription to {traffic.consumer.topic()} could not be deleted: {fault}", file=sys.stderr)


def _progress_text(traffic: Traffic) -> str:
    sending, receiving = traffic.producer.stats().rates.messages, traffic.consumer.stats().rates.messages
    return (
        f"sent {traffic.acknowledged:,} ({sending:,.0f}/s)  received {traffic.verification.due:,} ({receiving:,.0f}/s)"
    )


def _cut_line(traffic: Traffic) -> str:
    cut = traffic.connections_cut
    which = "connection to the broker" if cut == 1 else f"{cut} connections to its brokers"
    return f"cut the client's {which}: {_count(traffic.pending_at_cut, 'message')} sent, and not yet acknowledged"


def summary(traffic: Traffic) -> list[str]:
    """Return the measured figures as lines of text."""
    verification = traffic.verification
    lines = [
        _total_line("sent", traffic.acknowledged, traffic.seconds_sending),
        _total_line("received", verification.due, traffic.seconds_receiving),
    ]
    if traffic.connections_cut:
        reconnects = (traffic.producer.stats().reconnects, traffic.consumer.stats().reconnects)
        lines.append(f"reconnects   of the producer {reconnects[0]}, of the consumer {reconnects[1]}")
    if traffic.outage is not None:
        lines.append(f"outage       {traffic.outage:.3f} s from the cut until the broker acknowledged a message again;")
        lines.append(f"             the longest wait for a message was {traffic.longest_wait:.3f} s")
    if verification.delivered_again:
        lines.append(f"came twice   {_count(verification.delivered_again, 'message')}, delivered again:")
        lines.append("             the acknowledgement had not reached the broker when the connection ended")
    if verification.due and not (verification.delivered_again or verification.stored_again):
        lines.append("came twice   none")
    if verification.stored_again:
        lines.append(f"came twice   {_count(verification.stored_again, 'message')}, stored again: the receipt had not")
        lines.append("             reached the producer, and the broker's deduplication is off")
    if traffic.fault is None:
        lines.append(f"verified     all {verification.due:,}: each is what was sent, in order, and none is missing")
    return lines


def _total_line(what: str, messages: int, seconds: float) -> str:
    """Return the number of messages, and the rate if all of them were sent or received."""
    pace = f" in {seconds:.2f} s, {messages / seconds:,.0f}/s" if seconds else ""
    return f"{what:<12} {_count(messages, 'message')}{pace}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--messages", type=integer_argument(2, 10**9), default=MESSAGES, help="how many (default: %(default)s)"
    )
    parser.add_argument(
        "--size", type=integer_argument(MIN_SIZE, _MAX_SIZE), default=SIZE, help="bytes of each (default: %(default)s)"
    )
    parser.add_argument(
        "--service-url", help="a broker of yours, such as pulsar://localhost:6650 (default: one in memory)"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="instead, send and receive steadily until Ctrl-C, and show the state machines at work in your browser",
    )
    parser.add_argument("--no-spark", action="store_true", help="do without the pipeline on Spark, which takes longest")


DEMO: Final = Command(
    name="demo",
    summary="Send and receive, cut the client's connections half-way, verify that nothing is lost; then, use Spark.",
    configure=configure,
    run=run,
)


BAR_COLUMNS: Final = 14
"""The width of the bar, which leaves room for the demo's text on a terminal of eighty columns."""

_TENTHS: Final = 10


class Progress:
    """The progress of a run, in ASCII: one line that changes, or a line for each tenth if there is no terminal."""

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream = stream
        self._total = total
        self._live = stream.isatty()
        self._width = 0
        self._tenths = 0

    def show(self, done: int, text: str) -> None:
        """Show the share that is done, and a text."""
        share = f"{100 * done // self._total:3d} %"
        if self._live:
            filled = BAR_COLUMNS * done // self._total
            line = f"[{'#' * filled}{'.' * (BAR_COLUMNS - filled)}] {share}  {text}"
            self._rewrite(line[: shutil.get_terminal_size().columns - 1])
        elif _TENTHS * done // self._total > self._tenths:
            self._tenths = _TENTHS * done // self._total
            self._stream.write(f"{share}  {text}\n")
        self._stream.flush()

    def print_line(self, line: str) -> None:
        """Write a line that stays, above the one that changes."""
        self.end()
        self._stream.write(f"{line}\n")
        self._stream.flush()

    def end(self) -> None:
        """Remove the line that changes."""
        if self._width:
            self._rewrite("")
            self._stream.write("\r")
            self._width = 0

    def _rewrite(self, line: str) -> None:
        self._stream.write(f"\r{line.ljust(self._width)}")
        self._width = len(line)
