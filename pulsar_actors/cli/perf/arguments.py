"""The command-line arguments of a measurement, and the options made from them.

Arguments have the names of pulsar-perf. An argument that pulsar-perf lacks has only a long name. A few defaults differ
from pulsar-perf's, which do not fit programs that use this client; the help lists the defaults.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, Final

from pulsar_actors.cli import arguments as of_commands
from pulsar_actors.cli.arguments import COMPRESSIONS, add_connection_arguments, named_value, non_negative_number
from pulsar_actors.cli.command import integer_argument
from pulsar_actors.cli.perf.load import KeyMode
from pulsar_actors.cli.perf.stats import RunTimes
from pulsar_actors.client.client import Client

_MAX_BYTES: Final = 1 << 30
_MAX_COUNT: Final = 1_000_000

_count = integer_argument(1, _MAX_COUNT)
_any_count = integer_argument(0, 10**12)


def add_broker_arguments(parser: ArgumentParser, without_url: str) -> None:
    """Declare the arguments of the connection: the broker, authentication and TLS."""
    group = add_connection_arguments(parser, without_url)
    group.add_argument(
        "-c", "--max-connections", type=_count, default=1, help="connections to each broker (default: %(default)s)"
    )
    group.add_argument(
        "-ioThreads", "--num-io-threads", type=_count, default=1, help="threads for connections (default: %(default)s)"
    )


def add_topic_arguments(parser: ArgumentParser) -> None:
    """Declare the topics."""
    parser.add_argument("topic", help="of several, each has this name with -0, -1, ... after it")
    parser.add_argument("-t", "--num-topics", type=_count, default=1, help="how many topics (default: %(default)s)")


def add_run_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of the run: how long it takes, and what it reports."""
    group = parser.add_argument_group("run")
    group.add_argument(
        "-m", "--num-messages", type=_any_count, default=0, help="how many in all (default: %(default)s, without end)"
    )
    group.add_argument(
        "-time",
        "--test-duration",
        type=non_negative_number,
        default=0.0,
        help="seconds, the warm-up's included (default: %(default)s, until Ctrl-C)",
    )
    group.add_argument(
        "--warmup-time",
        type=non_negative_number,
        default=1.0,
        help="seconds at first that do not count (default: %(default)s)",
    )
    group.add_argument(
        "-i",
        "--stats-interval-seconds",
        type=non_negative_number,
        default=1.0,
        help="seconds from one line to the next; 0: no lines (default: %(default)s)",
    )
    group.add_argument("--histogram-file", type=Path, help="write the latencies to it, as HdrHistogram's plotters read")
    group.add_argument(
        "--plot", type=Path, metavar="FILE.svg", help="draw messages a second and latencies over time into it"
    )
    group.add_argument("--json", action="store_true", help="say everything in JSON, an object on each line")


def add_message_arguments(parser: ArgumentParser, rate: float) -> None:
    """Declare the arguments of messages."""
    group = parser.add_argument_group("messages")
    group.add_argument(
        "-r",
        "--rate",
        type=non_negative_number,
        default=rate,
        help="messages a second in all; 0: as fast as they go (default: %(default)s)",
    )
    group.add_argument(
        "-s", "--size", type=integer_argument(0, _MAX_BYTES), default=1024, help="bytes of each (default: %(default)s)"
    )
    group.add_argument(
        "-f", "--payload-file", type=Path, help="take payloads from a file, in turn, and not random letters"
    )
    group.add_argument("-e", "--payload-delimiter", default="\\n", help=r"what is between them there (default: \n)")
    group.add_argument(
        "-mk",
        "--message-key-generation-mode",
        type=KeyMode,
        choices=list(KeyMode),
        default=KeyMode.none,
        metavar="{none,random,autoIncrement}",
        help="the keys of messages (default: none)",
    )
    group.add_argument(
        "--property", type=named_value, action="append", default=[], metavar="NAME=VALUE", help="of each message"
    )
    group.add_argument(
        "-z", "--compression", choices=COMPRESSIONS, default="NONE", help="of batches (default: %(default)s)"
    )


def add_producer_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of producers."""
    group = parser.add_argument_group("producers")
    group.add_argument(
        "-o",
        "--max-outstanding",
        type=integer_argument(0, 10**9),
        default=10_000,
        help="messages of a producer that may be pending; 0: any number (default: %(default)s)",
    )
    group.add_argument("-db", "--disable-batching", action="store_true", help="each message travels alone")
    group.add_argument(
        "-b", "--batch-time-window", type=_count, default=1, help="milliseconds a batch may wait (default: %(default)s)"
    )
    group.add_argument(
        "-bm", "--batch-max-messages", type=_count, default=1000, help="in a batch (default: %(default)s)"
    )
    group.add_argument(
        "-bb",
        "--batch-max-bytes",
        type=integer_argument(1, _MAX_BYTES),
        default=128 * 1024,
        help="of a batch (default: %(default)s)",
    )
    group.add_argument("-ch", "--chunking", action="store_true", help="large messages travel in pieces; needs -db")
    group.add_argument(
        "-st",
        "--send-timeout",
        type=integer_argument(0, 2**31 - 1),
        default=0,
        help="milliseconds after which a message fails; 0: never (default: %(default)s)",
    )


def add_consumer_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of consumers."""
    group = parser.add_argument_group("consumers")
    group.add_argument(
        "-q",
        "--receiver-queue-size",
        type=_any_count,
        default=5000,
        help="messages that a consumer has in store (default: %(default)s)",
    )


def client_of(arguments: Namespace, service_url: str, operation_timeout_seconds: float = 30) -> Client:
    """Create a client."""
    return of_commands.client_of(
        arguments,
        service_url,
        operation_timeout_seconds=operation_timeout_seconds,
        connections_per_broker=arguments.max_connections,
        io_threads=arguments.num_io_threads,
    )


def producer_options_of(arguments: Namespace) -> dict[str, Any]:
    """Return the arguments of `create_producer`."""
    return {
        "block_if_queue_full": True,
        "max_pending_messages": arguments.max_outstanding,
        "max_pending_messages_across_partitions": 0,
        "compression_type": COMPRESSIONS[arguments.compression],
        "batching_enabled": not arguments.disable_batching,
        "batching_max_publish_delay_ms": arguments.batch_time_window,
        "batching_max_messages": arguments.batch_max_messages,
        "batching_max_allowed_size_in_bytes": arguments.batch_max_bytes,
        "chunking_enabled": arguments.chunking,
        "send_timeout_millis": arguments.send_timeout,
    }


def topic_names_of(arguments: Namespace) -> list[str]:
    """Return the names of the topics, as pulsar-perf makes them."""
    if arguments.num_topics == 1:
        return [arguments.topic]
    return [f"{arguments.topic}-{number}" for number in range(arguments.num_topics)]


def run_times_of(arguments: Namespace) -> RunTimes:
    """Return the durations of the run."""
    return RunTimes(arguments.warmup_time, arguments.test_duration, arguments.stats_interval_seconds)
