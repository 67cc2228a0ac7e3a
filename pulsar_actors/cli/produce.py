"""`produce`: sends messages from the command line, from files, or from the lines of the standard input.

Messages are sent while the input is read, so it may be without an end. A line that cannot be sent ends the command;
what came before it is sent.
"""

import json
import sys
import threading
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from pulsar_actors.cli.arguments import (
    COMPRESSIONS,
    LOCAL,
    add_connection_arguments,
    client_of,
    named_value,
    non_negative_number,
    readable_file,
    timeout_seconds,
)
from pulsar_actors.cli.command import INTERRUPTED, Command, integer_argument, reason_of
from pulsar_actors.cli.message_counter import MessageCounter
from pulsar_actors.cli.message_lines import message_of
from pulsar_actors.client.enums import Result
from pulsar_actors.client.interceptors import MessageToSend
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.exceptions import InvalidMessage, PulsarException
from pulsar_actors.named_tuple import NamedTuple

_BETWEEN_LINES: Final = 5
"""Milliseconds that a line waits for others: somebody may be typing them."""


def _same(value: object) -> object:
    return value


class Encoding(NamedTuple):
    """A schema, and what makes a value for it: from the bytes of a line or a file, and from an object of JSON."""

    schema: Schema
    value_of: Callable[[bytes], object]
    value_of_json: Callable[[object], object] = _same


def schema_argument(text: str) -> Encoding:
    """Parse the name of a schema, or `avro:` or `json:` and a file with a definition."""
    from pulsar_actors.cli.json_values import JsonOfDefinition, ValuesOfTopic  # noqa: PLC0415 - most need none
    from pulsar_actors.schema import StringSchema  # noqa: PLC0415 - the same

    kind, _, file = text.partition(":")
    try:
        if kind == "avro" and file:
            return _avro(json.loads(Path(file).read_text()))
        if kind == "json" and file:
            return Encoding(JsonOfDefinition(json.loads(Path(file).read_text())), json.loads)
    except (OSError, ValueError, ImportError, RecursionError, PulsarException) as fault:
        raise ArgumentTypeError(f"{text}: {fault}") from None
    if text == "string":
        return Encoding(StringSchema(), bytes.decode)
    if text in {"bytes", "auto"}:
        return Encoding(BYTES if text == "bytes" else ValuesOfTopic(), bytes)
    raise ArgumentTypeError(f"takes bytes, string, auto, avro:FILE or json:FILE, got {text!r}")


def _avro(definition: Any) -> Encoding:  # noqa: ANN401 - JSON
    from pulsar_actors.cli.avro_values import AvroValues  # noqa: PLC0415 - it needs fastavro
    from pulsar_actors.schema import AvroSchema  # noqa: PLC0415 - most need none

    schema, values = AvroSchema(None, schema_definition=definition), AvroValues(definition)

    def value_of(content: bytes) -> object:
        return values.value_of(json.loads(content))

    return Encoding(schema, value_of, values.value_of)


class Sending:
    """Sends messages, and counts what became of them."""

    def __init__(self, producer: Producer, rate: float, counter: MessageCounter) -> None:
        self._producer = producer
        self._counter = counter
        self._interval = 1 / rate if rate else 0.0
        self._due = time.monotonic()
        self._lock = threading.Lock()
        self.failed = 0
        self.first_failure: Result | None = None

    def send(self, message: MessageToSend) -> None:
        """Send a message when it is due."""
        now = time.monotonic()
        if self._due > now:
            time.sleep(self._due - now)
        self._due = max(self._due, now) + self._interval
        self._producer.send_async(message.content, self._told, **_options(message))
        self._counter.add(1)

    def _told(self, result: Result, _: MessageId) -> None:
        if result is not Result.Ok:
            with self._lock:
                self.failed += 1
                self.first_failure = self.first_failure or result


def _options(message: MessageToSend) -> dict[str, Any]:
    fields: dict[str, Any] = message._asdict()
    del fields["content"]
    return fields


def run(arguments: Namespace) -> int:
    """Send all messages; the exit status is 0 if all of them are stored."""
    fault: Exception | None = None
    try:
        with client_of(
            arguments, arguments.service_url or LOCAL, operation_timeout_seconds=arguments.timeout
        ) as client:
            producer = client.create_producer(
                arguments.topic,
                schema=arguments.schema.schema,
                compression_type=COMPRESSIONS[arguments.compression],
                batching_enabled=not (arguments.no_batching or arguments.chunking),
                chunking_enabled=arguments.chunking,
                batching_max_publish_delay_ms=_BETWEEN_LINES,
                block_if_queue_full=True,
            )
            with MessageCounter() as counter:
                sending = Sending(producer, arguments.rate, counter)
                try:
                    for message in messages(arguments):
                        sending.send(message)
                except (PulsarException, ValueError, OSError, RecursionError) as error:
                    fault = error
                producer.flush()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return INTERRUPTED
    except (PulsarException, OSError, ValueError) as error:
        print(f"failed: {reason_of(error)}", file=sys.stderr)
        return 1
    print(f"messages stored on {arguments.topic}: {counter.count - sending.failed:,}", file=sys.stderr)
    if sending.first_failure is not None:
        print(f"failed: {sending.failed:,}, the first with {_failure(sending.first_failure)}", file=sys.stderr)
    if fault is not None:
        print(f"failed: {reason_of(fault)}", file=sys.stderr)
    return int(fault is not None or sending.failed > 0)


def _failure(result: Result) -> str:
    return f"{result.name}: --chunking sends it in pieces" if result is Result.MessageTooBig else result.name


def messages(arguments: Namespace) -> Iterator[MessageToSend]:
    """Return the messages that the arguments name; the lines of the standard input if they name none."""
    properties, encoding = dict(arguments.property), arguments.schema
    for _ in range(arguments.times):
        for number, content in enumerate(_contents(arguments), 1):
            if arguments.json and not content.strip():
                continue
            if arguments.json:
                message = _of_line(number, content, encoding)
            else:
                message = MessageToSend(encoding.value_of(content))
            key = message.partition_key if message.partition_key is not None else arguments.key
            given = {**properties, **(message.properties or {})} or None
            yield message._replace(partition_key=key, properties=given)


def _of_line(number: int, line: bytes, encoding: Encoding) -> MessageToSend:
    try:
        message = message_of(line.decode(), takes_values=encoding.schema is not BYTES)
        return message._replace(content=encoding.value_of_json(message.content))
    except (ValueError, RecursionError) as fault:
        raise InvalidMessage(f"line {number}: {fault}") from None


def _contents(arguments: Namespace) -> Iterable[bytes]:
    for text in arguments.message:
        yield text.encode()
    for file in arguments.file:
        yield from _lines(file.read_bytes().splitlines()) if arguments.json else [file.read_bytes()]
    if not arguments.message and not arguments.file:
        yield from _lines(sys.stdin.buffer)


def _lines(lines: Iterable[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic", help="where to send them")
    add_connection_arguments(parser, LOCAL).add_argument(
        "--timeout",
        type=timeout_seconds,
        default=10.0,
        help="seconds for a broker to answer (default: %(default)s)",
    )
    group = parser.add_argument_group("messages", "without -m and -f, each line of the standard input is one")
    group.add_argument("-m", "--message", action="append", default=[], help="a message; may be given several times")
    group.add_argument(
        "-f",
        "--file",
        action="append",
        default=[],
        type=readable_file,
        help="a file that is a message; with --json, of lines",
    )
    group.add_argument("--json", action="store_true", help="each line is an object of JSON, as `consume --json` writes")
    group.add_argument("-k", "--key", help="the key of messages without one")
    group.add_argument(
        "-p", "--property", type=named_value, action="append", default=[], metavar="NAME=VALUE", help="of each message"
    )
    group.add_argument(
        "--schema",
        type=schema_argument,
        default="bytes",
        help="bytes, string, avro:FILE or json:FILE with a definition, or auto: by the topic's schema, bytes, and "
        "values with --json (default: %(default)s)",
    )
    group.add_argument(
        "-n",
        "--times",
        type=integer_argument(1, 10**9),
        default=1,
        help="how often all of -m and -f are sent (default: %(default)s)",
    )
    group.add_argument(
        "-r", "--rate", type=non_negative_number, default=0.0, help="messages a second; 0: as fast as they go"
    )
    group.add_argument(
        "-z", "--compression", choices=COMPRESSIONS, default="NONE", help="of batches (default: %(default)s)"
    )
    group.add_argument(
        "-c",
        "--chunking",
        action="store_true",
        help="messages above the broker's limit travel in pieces, and none in batches",
    )
    group.add_argument("--no-batching", action="store_true", help="each message travels alone")


PRODUCE: Final = Command(
    name="produce",
    summary="Send messages from the command line, from files or from the standard input.",
    configure=configure,
    run=run,
)
