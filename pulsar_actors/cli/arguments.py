"""Arguments that several commands have: the connection to a broker, and words for what clients have enums for."""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from pathlib import Path
from typing import Any, Final

from pulsar_actors.client.authentication import Authentication
from pulsar_actors.client.authentication_methods import METHODS, is_method
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import SHORTEST_TIMEOUT
from pulsar_actors.client.enums import CompressionType, ConsumerType, InitialPosition
from pulsar_actors.client.validation import LONGEST_SECONDS

LOCAL: Final = "pulsar://localhost:6650"

COMPRESSIONS: Final = {
    "NONE": CompressionType.NONE,
    "LZ4": CompressionType.LZ4,
    "ZLIB": CompressionType.ZLib,
    "ZSTD": CompressionType.ZSTD,
    "SNAPPY": CompressionType.SNAPPY,
}
SUBSCRIPTION_TYPES: Final = {
    "Exclusive": ConsumerType.Exclusive,
    "Shared": ConsumerType.Shared,
    "Failover": ConsumerType.Failover,
    "Key_Shared": ConsumerType.KeyShared,
}
POSITIONS: Final = {"Latest": InitialPosition.Latest, "Earliest": InitialPosition.Earliest}

_MAX_NUMBER: Final = 1e9


def non_negative_number(text: str) -> float:
    """Parse a number that is 0 or more."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= _MAX_NUMBER:
        raise ArgumentTypeError(f"takes a number from 0 to {_MAX_NUMBER:,.0f}, got {text!r}")
    return number


def timeout_seconds(text: str) -> float:
    """Parse seconds to wait for an answer."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not SHORTEST_TIMEOUT <= number <= LONGEST_SECONDS:
        raise ArgumentTypeError(f"takes seconds, from {SHORTEST_TIMEOUT} to {LONGEST_SECONDS:,}, got {text!r}")
    return number


def authentication_method(text: str) -> str:
    """Parse the name of a method of authentication, which is not repeated: it may be the secret."""
    if text and not is_method(text):
        raise ArgumentTypeError(f"takes one of {', '.join(METHODS)}, or the Java class of one")
    return text


def named_value(text: str) -> tuple[str, str]:
    """Parse NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ArgumentTypeError(f"takes NAME=VALUE, got {text!r}")
    return name, value


def readable_file(text: str) -> Path:
    """Parse the path of a file that can be read. It is not opened: what a pipe has can be read once."""
    path = Path(text)
    if path.is_dir():
        raise ArgumentTypeError(f"{text!r} is a folder")
    if not path.exists():
        raise ArgumentTypeError(f"there is no file {text!r}")
    if not os.access(path, os.R_OK):
        raise ArgumentTypeError(f"{text!r} cannot be read")
    return path


def add_connection_arguments(parser: ArgumentParser, without_url: str) -> Any:  # noqa: ANN401 - of a class private to argparse
    """Declare the broker, authentication and TLS, with the names of pulsar-perf. Return the group of arguments."""
    group = parser.add_argument_group("broker")
    group.add_argument("-u", "--service-url", help=f"such as {LOCAL} (default: {without_url})")
    add_access_arguments(group)
    return group


def add_access_arguments(group: Any) -> None:  # noqa: ANN401 - of a class private to argparse
    """Declare authentication and TLS."""
    group.add_argument(
        "--auth-plugin",
        type=authentication_method,
        default="",
        help="a method of authentication: its name, or its Java class",
    )
    group.add_argument("--auth-params", default="", help="what that method takes")
    group.add_argument("--trust-cert-file", type=readable_file, help="certificates to trust in place of the usual ones")
    group.add_argument("--tls-allow-insecure", action="store_true", help="take any certificate")


def client_of(arguments: Namespace, service_url: str, **options: Any) -> Client:  # noqa: ANN401 - those of the client
    """Create a client."""
    return Client(service_url, **access_in(arguments), **options)


def access_in(arguments: Namespace) -> dict[str, Any]:
    """Return authentication and TLS, as options of a client."""
    plugin = arguments.auth_plugin
    return {
        "authentication": Authentication(plugin, arguments.auth_params) if plugin else None,
        "tls_trust_certs_file_path": arguments.trust_cert_file and str(arguments.trust_cert_file),
        "tls_allow_insecure_connection": arguments.tls_allow_insecure,
    }
