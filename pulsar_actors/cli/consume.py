"""`consume`: writes the messages of topics to the standard output, one on a line.

Without a subscription it reads, and leaves nothing behind at the broker. With one, each message is acknowledged once it
is written. A broker without batch index acknowledgement keeps a batch until all of its messages are acknowledged: after
a part of it, it delivers the batch from its first message again. Ctrl-C is a regular end, and so are the end of a
terminated topic and a reader of the output that goes away.
"""

import re
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from pulsar_actors.cli.arguments import (
    LOCAL,
    POSITIONS,
    SUBSCRIPTION_TYPES,
    add_connection_arguments,
    client_of,
    non_negative_number,
    timeout_seconds,
)
from pulsar_actors.cli.command import Command, integer_argument, reason_of
from pulsar_actors.cli.message_counter import MessageCounter
from pulsar_actors.cli.message_lines import line_of, plain_value
from pulsar_actors.cli.terminal import dimmed, drop_output, shown
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import InitialPosition
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.schema import BYTES, Schema
from pulsar_actors.exceptions import PulsarException, Timeout, TopicTerminated

AT_ONCE: Final = 100
POLL_MS: Final = 500

Take = Callable[[int, int], Sequence[Message]]
Done = Callable[[Sequence[Message]], object]


def run(arguments: Namespace) -> int:
    """Write messages until there are enough, or none comes any more."""
    if arguments.regex:
        _check_pattern(arguments)
    try:
        with client_of(
            arguments, arguments.service_url or LOCAL, operation_timeout_seconds=arguments.timeout
        ) as client:
            _write_messages(arguments, client)
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        drop_output()
        return 0
    except (PulsarException, OSError, ValueError, RecursionError) as fault:
        print(f"failed: {reason_of(fault)}", file=sys.stderr)
        return 1
    return 0


def _write_messages(arguments: Namespace, client: Client) -> None:
    take, done = _source(arguments, client)
    try:
        with MessageCounter(is_shown=not sys.stdout.isatty()) as counter:
            _copy(arguments, take, done, counter)
    except TopicTerminated:
        print("end: the topic takes no more messages, and all that it has are received", file=sys.stderr)


def _copy(arguments: Namespace, take: Take, done: Done, counter: MessageCounter) -> None:
    most, last = arguments.num_messages or sys.maxsize, time.monotonic()
    while counter.count < most:
        try:
            messages = take(min(most - counter.count, AT_ONCE), POLL_MS)
        except Timeout:
            if arguments.wait is not None and time.monotonic() - last >= arguments.wait:
                return
            continue
        for message in messages:
            print(*_lines_of(message, arguments), sep="\n")
        sys.stdout.flush()
        done(messages)
        last = time.monotonic()
        counter.add(len(messages))


def _check_pattern(arguments: Namespace) -> None:
    if arguments.subscription_name is None:
        arguments.parser.error("--regex goes with a subscription: name one with -s")
    if len(arguments.topic) > 1:
        arguments.parser.error(f"--regex takes one pattern, such as {'|'.join(arguments.topic)!r}")
    try:
        re.compile(arguments.topic[0])
    except re.error as fault:
        arguments.parser.error(f"{arguments.topic[0]!r} is no pattern: {fault}")


def _source(arguments: Namespace, client: Client) -> tuple[Take, Done]:
    """Return what gives messages, and what is to be done with those that are written."""
    topics: Any = arguments.topic if len(arguments.topic) > 1 else arguments.topic[0]
    if arguments.regex:
        topics = re.compile(arguments.topic[0])
    position, schema = POSITIONS[arguments.subscription_position], _schema(arguments)
    if arguments.subscription_name is None:
        start = MessageId.earliest if position is InitialPosition.Earliest else MessageId.latest
        reader = client.create_reader(topics, start, schema=schema)
        return reader.read_many, lambda _: None
    consumer = client.subscribe(
        topics,
        arguments.subscription_name,
        consumer_type=SUBSCRIPTION_TYPES[arguments.subscription_type],
        initial_position=position,
        schema=schema,
        batch_index_ack_enabled=True,
    )
    return consumer.receive_many, lambda messages: consumer.acknowledge(list(messages))


def _schema(arguments: Namespace) -> Schema:
    if arguments.schema == "bytes":
        return BYTES
    from pulsar_actors.schema import AutoConsumeSchema, StringSchema  # noqa: PLC0415 - most need none

    return StringSchema() if arguments.schema == "string" else AutoConsumeSchema()


def _lines_of(message: Message, arguments: Namespace) -> Iterable[str]:
    decoded = arguments.schema != "bytes"
    if arguments.json:
        yield shown(line_of(message, decoded=decoded))
        return
    if arguments.verbose:
        key, properties = message.partition_key(), message.properties()
        words = [str(message.message_id()), message.topic_name(), *([f"key={key}"] if key else [])]
        yield dimmed(shown(" ".join([*words, *(f"{name}={value}" for name, value in properties.items())])))
    value = plain_value(message) if decoded else message.data()
    yield shown(value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value))


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("topic", nargs="+", help="one topic or several")
    parser.add_argument("--regex", action="store_true", help="the topic is a pattern")
    add_connection_arguments(parser, LOCAL).add_argument(
        "--timeout",
        type=timeout_seconds,
        default=10.0,
        help="seconds for a broker to answer (default: %(default)s)",
    )
    group = parser.add_argument_group("which messages")
    group.add_argument("-s", "--subscription-name", help="without one, nothing is acknowledged")
    group.add_argument(
        "-t",
        "--subscription-type",
        choices=SUBSCRIPTION_TYPES,
        default="Exclusive",
        help="of the subscription (default: %(default)s)",
    )
    group.add_argument(
        "-p",
        "--subscription-position",
        choices=POSITIONS,
        default="Latest",
        help="where a new subscription, or a reader, begins (default: %(default)s)",
    )
    group.add_argument(
        "-n", "--num-messages", type=integer_argument(0, 10**12), default=0, help="how many; 0: without end"
    )
    group.add_argument(
        "-w", "--wait", type=non_negative_number, help="end when so many seconds have brought none (default: never)"
    )
    written = parser.add_argument_group("how they are written")
    written.add_argument("--json", action="store_true", help="each as an object of JSON, with all that there is of it")
    written.add_argument("-v", "--verbose", action="store_true", help="its id, topic, key and properties before each")
    written.add_argument(
        "--schema",
        choices=("bytes", "string", "auto"),
        default="bytes",
        help="auto: values, by the schema of each message (default: %(default)s)",
    )


CONSUME: Final = Command(
    name="consume",
    summary="Write the messages of topics to the standard output.",
    configure=configure,
    run=run,
)
