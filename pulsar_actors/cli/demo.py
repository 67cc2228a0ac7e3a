"""`demo`: send and receive, cut the client's connections half-way, and see that nothing is lost; then, Spark.

The broker is the embedded one, in a process of its own, or one of the user's. Every figure that is printed was measured
in this run; what was not measured is not mentioned.
"""

import secrets
import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from pulsar_actors.cli.broker_process import BrokerProcess
from pulsar_actors.cli.command import Command
from pulsar_actors.cli.cuttable import CuttableEngine
from pulsar_actors.cli.pipeline import show_pipeline
from pulsar_actors.cli.progress import Progress
from pulsar_actors.cli.traffic import Traffic
from pulsar_actors.cli.verification import SMALLEST
from pulsar_actors.cli.whole_number import whole_number
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.exceptions import PulsarException, Timeout

MESSAGES: Final = 150_000
SIZE: Final = 100
INTERRUPTED: Final = 130
"""The status that a shell gives to a program which Ctrl-C has ended."""

_LARGEST = 1024 * 1024
_REDRAW = 0.1
_OPERATION = 10.0


def run(arguments: Namespace) -> int:
    """Show it, and give 0 if all went well, 1 if something was wrong."""
    try:
        if arguments.service_url:
            return _show_all(arguments, "your broker", arguments.service_url)
        with BrokerProcess() as broker:
            return _show_all(arguments, "a broker in memory, in a process of its own,", broker.service_url)
    except KeyboardInterrupt:
        print("stopped")
        return INTERRUPTED
    except (PulsarException, OSError) as fault:
        print(f"failed: {type(fault).__name__}: {fault}", file=sys.stderr)
        return 1


def _show_all(arguments: Namespace, whose: str, service_url: str) -> int:
    topic = f"demo-{secrets.token_hex(4)}"
    status = _show(arguments, whose, service_url, topic)
    return status if status or arguments.no_spark else show_pipeline(service_url, f"{topic}-rows")


def _show(arguments: Namespace, whose: str, service_url: str, topic: str) -> int:
    print(f"{arguments.messages:,} messages of {arguments.size:,} bytes through {whose} at {service_url}", flush=True)
    engine = CuttableEngine()
    with Client.on(engine, ClientOptions(service_url, operation_timeout_seconds=_OPERATION)) as client:
        traffic = Traffic(client, engine, topic, arguments.messages, arguments.size)
        try:
            _watch(traffic)
        finally:
            _leave(traffic)
    print("\n".join(summary(traffic)))
    if traffic.fault is not None:
        print(f"failed: {traffic.fault}", file=sys.stderr)
    return 0 if traffic.fault is None else 1


def _watch(traffic: Traffic) -> None:
    """Draw how it goes, until it is over."""
    progress = Progress(sys.stdout, traffic.count)
    is_over = is_cut = False
    traffic.start()
    try:
        while not is_over:
            is_over = traffic.finished.wait(_REDRAW)
            if traffic.connections_cut and not is_cut:
                is_cut = True
                progress.say(_the_cut(traffic))
            progress.show(traffic.verification.due, _live(traffic))
    finally:
        progress.end()


def _leave(traffic: Traffic) -> None:
    """Leave nothing behind on a broker that goes on."""
    try:
        if not traffic.stop(_OPERATION):
            raise Timeout("the broker does not answer")
        traffic.consumer.unsubscribe()
    except PulsarException as fault:
        print(f"the subscription to {traffic.consumer.topic()} could not be deleted: {fault}", file=sys.stderr)


def _live(traffic: Traffic) -> str:
    out, back = traffic.producer.stats().rates.messages, traffic.consumer.stats().rates.messages
    return f"sent {traffic.acknowledged:,} ({out:,.0f}/s)  received {traffic.verification.due:,} ({back:,.0f}/s)"


def _the_cut(traffic: Traffic) -> str:
    cut = traffic.connections_cut
    which = "connection to the broker" if cut == 1 else f"{cut} connections to its brokers"
    return f"cut the client's {which}: {_count(traffic.pending_at_cut, 'message')} sent, and not yet acknowledged"


def summary(traffic: Traffic) -> list[str]:
    """Say what was measured, in lines."""
    verification = traffic.verification
    lines = [
        _total("sent", traffic.acknowledged, traffic.seconds_sending),
        _total("received", verification.due, traffic.seconds_receiving),
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


def _total(what: str, messages: int, seconds: float) -> str:
    """Say how many, and how fast if it came to its end."""
    pace = f" in {seconds:.2f} s, {messages / seconds:,.0f}/s" if seconds else ""
    return f"{what:<12} {_count(messages, 'message')}{pace}"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--messages", type=whole_number(2, 10**9), default=MESSAGES, help="how many (default: %(default)s)"
    )
    parser.add_argument(
        "--size", type=whole_number(SMALLEST, _LARGEST), default=SIZE, help="bytes of each (default: %(default)s)"
    )
    parser.add_argument(
        "--service-url", help="a broker of yours, such as pulsar://localhost:6650 (default: one in memory)"
    )
    parser.add_argument("--no-spark", action="store_true", help="do without the pipeline on Spark, which takes longest")


DEMO: Final = Command(
    name="demo",
    summary="Send and receive, cut the client's connections half-way, verify that nothing is lost; then, use Spark.",
    configure=configure,
    run=run,
)
