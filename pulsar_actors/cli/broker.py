"""`broker`: runs the embedded broker until Ctrl-C or SIGTERM, for development without a Pulsar installation.

`BrokerProcess` is an embedded broker in a child process, for the demo and for measurements: in one process, client and
broker would compete for the interpreter lock. The child prints its service URL and runs until its standard input ends,
which also happens when the parent is killed. It has its own process session, so that Ctrl-C reaches only the parent.
"""

import errno
import logging
import re
import secrets
import signal
import subprocess
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Final

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.options import OpenToOthersWarning
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.broker.web.calls import MAX_PARTITIONS
from pulsar_actors.cli.arguments import timeout_seconds
from pulsar_actors.cli.command import Command, integer_argument
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.topic_name import TopicName

PORT: Final = 6650
WEB_PORT: Final = 8080
TLS_PORT: Final = 6651
WEB_TLS_PORT: Final = 8443
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR")
_OPTIONS: Final = {
    "host": "--host",
    "certificate_file": "--certificate-file",
    "private_key_file": "--private-key-file",
    "trust_certs_file": "--trust-certs-file",
    "data_folder": "--data",
}
"""The options of the command, by the arguments of the class that they are for."""

_TYPES_OF_SETTINGS: Final[dict[str, type]] = {name: type(value) for name, value in asdict(Settings()).items()}
_VALUES: Final = {int: "a whole number", float: "a number", bool: "true or false", str: "a text"}
_BOOLEANS: Final = {"true": True, "false": False}

_LAST_PORT = 65_535
_SECRET_BYTES = 32


def run(arguments: Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM; the exit status is 1 if that is not possible, or not any longer."""
    if arguments.log_level is not None:
        logging.basicConfig(level=arguments.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        tokens = _tokens(arguments)
        with _sigterm_as_ctrl_c(), _serving(_broker(arguments, tokens)) as broker:
            stored = broker.call(_stored)
            for topic, partitions in (*((each, 0) for each in arguments.topic), *arguments.partitioned_topic):
                if stored.get(str(TopicName.parse(topic)), -1) < partitions:
                    broker.create_topic(topic, partitions)
            for what, url in (
                ("service URL", broker.service_url),
                ("web URL", broker.web_url),
                ("service URL", broker.service_url_tls),
                ("web URL", broker.web_url_tls),
            ):
                if url:
                    print(f"{what:<12} {url}")
            for name in arguments.token_for:
                assert tokens is not None  # noqa: S101 - there are some if any are asked for
                print(f"token        {tokens.issue(name)}  for {name}")
            if arguments.watch:
                print(f"page         {broker.inspect().url}")
            kept = "in memory" if arguments.data is None else f"in {arguments.data}"
            print(f"ready; everything is kept {kept}, and Ctrl-C ends it", flush=True)
            broker.wait()
    except (OSError, InvalidArgument, UnicodeDecodeError) as fault:
        print(_reason(fault) + _hint(fault, arguments), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped")
    return 0


@contextmanager
def _sigterm_as_ctrl_c() -> Generator[None, None, None]:
    """End in good order when systemd or a container stops the process, too."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _broker(arguments: Namespace, tokens: Tokens | None) -> EmbeddedBroker:
    for option, port in (("--tls-port", arguments.tls_port), ("--web-tls-port", arguments.web_tls_port)):
        if port is not None and not (arguments.certificate_file or arguments.private_key_file):
            raise InvalidArgument(f"{option} is for TLS, which takes a --certificate-file, and there is none")
    passwords = None if arguments.password_file is None else _passwords(arguments.password_file)
    try:
        return EmbeddedBroker(
            arguments.host,
            arguments.port,
            arguments.web_port,
            certificate_file=arguments.certificate_file,
            private_key_file=arguments.private_key_file,
            tls_port=TLS_PORT if arguments.tls_port is None else arguments.tls_port,
            web_tls_port=WEB_TLS_PORT if arguments.web_tls_port is None else arguments.web_tls_port,
            trust_certs_file=arguments.trust_certs_file,
            tokens=tokens,
            passwords=passwords,
            settings=Settings(**{"deduplication": arguments.deduplication, **dict(arguments.setting)}),
            broker_entry_metadata=arguments.broker_entry_metadata,
            keepalive_seconds=arguments.keepalive,
            data_folder=arguments.data,
        )
    except InvalidArgument as wrong:
        raise InvalidArgument(_in_options(str(wrong))) from None


def _in_options(text: str) -> str:
    """Name the options of the command in place of the arguments of the class."""
    return re.sub("|".join(rf"\b{name}\b" for name in _OPTIONS), lambda found: _OPTIONS[found[0]], text)


@contextmanager
def _serving(broker: EmbeddedBroker) -> Generator[EmbeddedBroker, None, None]:
    """Run the broker; a warning of its start is a line, without the place in a program."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", OpenToOthersWarning)
        broker.start()
    try:
        for each in told:
            print(f"warning: {each.message}", file=sys.stderr)
        yield broker
    finally:
        broker.stop()


def _stored(inside: Broker) -> dict[str, int]:
    """Return the topics that were in the data folder, with their numbers of partitions; 0: none."""
    found: dict[str, int] = {}
    for namespace in inside.cluster.namespaces.values():
        found.update(dict.fromkeys(namespace.topics, 0))
        found.update(namespace.partitioned)
    return found


def _tokens(arguments: Namespace) -> Tokens | None:
    """Return the tokens of the secret in a file, or of a new one if only tokens are asked for."""
    if arguments.token_secret_file is not None:
        secret = Path(arguments.token_secret_file).read_bytes().strip()
        if not secret:
            raise InvalidArgument(f"{arguments.token_secret_file} has no secret in it")
        return Tokens(secret)
    return Tokens(secrets.token_bytes(_SECRET_BYTES)) if arguments.token_for else None


def _passwords(path: str) -> dict[str, str]:
    """Read lines of NAME:PASSWORD. No error has a line in it."""
    passwords: dict[str, str] = {}
    for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), 1):
        name, colon, password = line.partition(":")
        if line and not (name and colon and password):
            raise InvalidArgument(f"{path}: line {number} is not NAME:PASSWORD")
        if line:
            passwords[name] = password
    if not passwords:
        raise InvalidArgument(f"{path} has no line NAME:PASSWORD")
    return passwords


def _reason(fault: Exception) -> str:
    if isinstance(fault, OSError) and fault.strerror:
        return f"{fault.filename}: {fault.strerror}" if fault.filename else fault.strerror
    return str(fault)


def _hint(fault: Exception, arguments: Namespace) -> str:
    """Name the option that takes another port, if one is in use."""
    if not isinstance(fault, OSError) or fault.errno != errno.EADDRINUSE:
        return ""
    ports = {
        arguments.tls_port or TLS_PORT: "--tls-port",
        arguments.web_tls_port or WEB_TLS_PORT: "--web-tls-port",
        arguments.web_port: "--web-port",
        arguments.port: "--port",
    }
    taken = [option for port, option in ports.items() if f" port {port} of " in str(fault)]
    return f"; {taken[0]} 0 takes a free one" if taken else ""


def _partitioned(text: str) -> tuple[str, int]:
    """Parse TOPIC=PARTITIONS."""
    topic, _, partitions = text.partition("=")
    is_number = partitions.isascii() and partitions.isdecimal() and len(partitions) <= len(str(MAX_PARTITIONS))
    if not (topic and is_number and 1 <= int(partitions) <= MAX_PARTITIONS):
        raise ArgumentTypeError(f"takes TOPIC=PARTITIONS, from 1 to {MAX_PARTITIONS:,} of them, got {text!r}")
    return topic, int(partitions)


def _setting(text: str) -> tuple[str, object]:
    """Parse NAME=VALUE, for an argument of `Settings`."""
    name, _, value = text.partition("=")
    if name not in _TYPES_OF_SETTINGS:
        raise ArgumentTypeError(f"takes NAME=VALUE with a name of {', '.join(_TYPES_OF_SETTINGS)}, got {text!r}")
    kind = _TYPES_OF_SETTINGS[name]
    try:
        return name, _BOOLEANS[value] if kind is bool else kind(value)
    except (KeyError, ValueError):
        raise ArgumentTypeError(f"{name} takes {_VALUES[kind]}, got {value!r}") from None


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    port = integer_argument(0, _LAST_PORT)
    parser.add_argument(
        "--port", type=port, default=PORT, help="for clients (default: %(default)s; 0 takes a free one)"
    )
    parser.add_argument(
        "--web-port",
        type=port,
        default=WEB_PORT,
        help="for HTTP lookups and the admin calls (default: %(default)s; 0 takes a free one)",
    )
    parser.add_argument(
        "--deduplication",
        action="store_true",
        help="store only once what a producer sends twice (default: as set over HTTP, by namespace or topic)",
    )
    parser.add_argument(
        "--setting",
        type=_setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=f"a limit or default, such as max_message_size=1000000; one of {', '.join(_TYPES_OF_SETTINGS)}",
    )
    parser.add_argument(
        "--broker-entry-metadata",
        action="store_true",
        help="give clients that can read them the broker's own time and index with each entry",
    )
    parser.add_argument(
        "--keepalive",
        type=timeout_seconds,
        default=30.0,
        metavar="SECONDS",
        help="after how long a silent client gets a PING (default: %(default)s)",
    )
    parser.add_argument("--topic", action="append", default=[], help="create a topic; may be given several times")
    parser.add_argument(
        "--partitioned-topic",
        type=_partitioned,
        action="append",
        default=[],
        metavar="TOPIC=PARTITIONS",
        help="create a partitioned topic; may be given several times",
    )
    parser.add_argument(
        "--data",
        metavar="FOLDER",
        help="store topics with their messages, subscriptions, schemas and transactions in this folder, so that they "
        "survive a restart; for one machine, not for production (default: everything is kept in memory)",
    )
    parser.add_argument("--log-level", choices=LEVELS, help="write the log to the standard error (default: no log)")
    parser.add_argument(
        "--watch",
        action="store_true",
        help="serve a page for your browser that shows connections, topics and subscriptions, with faults to click",
    )
    access = parser.add_argument_group("who may connect (default: everybody; with several of these, one is enough)")
    access.add_argument("--token-secret-file", metavar="FILE", help="those with a token signed with the secret in it")
    access.add_argument(
        "--token-for",
        action="append",
        default=[],
        metavar="NAME",
        help="print a token for NAME, signed with that secret, or with a new one if there is none",
    )
    access.add_argument("--password-file", metavar="FILE", help="those with a password of its lines NAME:PASSWORD")
    access.add_argument("--trust-certs-file", metavar="FILE", help="those with a certificate signed by one of these")
    tls = parser.add_argument_group("TLS")
    tls.add_argument("--certificate-file", metavar="FILE", help="the broker's certificate, in PEM")
    tls.add_argument("--private-key-file", metavar="FILE", help="its key")
    tls.add_argument("--tls-port", type=port, help=f"for clients over TLS (default: {TLS_PORT})")
    tls.add_argument("--web-tls-port", type=port, help=f"for HTTPS (default: {WEB_TLS_PORT})")


BROKER: Final = Command(
    name="broker",
    summary="Run a small Pulsar broker, for development: any Pulsar client can talk to it.",
    configure=configure,
    run=run,
)


_CHILD_COMMAND: Final = (
    sys.executable,
    "-c",
    "from pulsar_actors.cli.broker import serve_until_stdin_ends; serve_until_stdin_ends()",
)
_STOP_SECONDS = 10.0


class BrokerProcess:
    """A broker in a child process, for the duration of a `with` block. Its topics have deduplication on."""

    def __init__(self) -> None:
        self.service_url = ""

    def __enter__(self) -> "BrokerProcess":
        self._process = subprocess.Popen(  # noqa: S603 - a fixed command
            _CHILD_COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self.service_url = self._process.stdout.readline().strip()
        if not self.service_url:
            self._end()
            raise OSError("the embedded broker did not start; what it said is above")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        try:
            self._process.communicate(timeout=_STOP_SECONDS)  # which closes the pipes
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()


def serve_until_stdin_ends() -> None:
    """Serve until the standard input ends: the main function of the child."""
    with EmbeddedBroker(settings=Settings(deduplication=True)) as broker:
        print(broker.service_url, flush=True)
        sys.stdin.read()
