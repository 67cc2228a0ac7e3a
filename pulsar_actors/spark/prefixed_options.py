"""The options with the prefixes `pulsar.client.`, `pulsar.producer.` and `pulsar.reader.`, as keyword arguments.

Spark gives the names of options in lower case, and all values as text. A name is that of an argument of this package
(`operation_timeout_seconds`) or of the Java client (`operationTimeoutMs`), as in the Scala connector; capitals and
underscores do not matter. The type of the argument decides how the text is parsed, and the options class checks the
value.
"""

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, TypeAlias, get_args

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.consumer_options import ReaderOptions
from pulsar_actors.client.enums import PartitionsRoutingMode
from pulsar_actors.client.options import Options
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.exceptions import InvalidConfiguration
from pulsar_actors.named_tuple import NamedTuple

__all__ = [
    "CLIENT_OPTIONS",
    "PRODUCER_OPTIONS",
    "READER_OPTIONS",
    "OptionFamily",
    "parse_boolean",
    "parse_duration",
    "parse_integer",
]


_UNITS: Final = {"": 1e-3, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds in Spark's units of time."""
_DURATION: Final = re.compile(r"([0-9]{1,12})([a-z]*)")
_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,19}")

ValueParser: TypeAlias = Callable[[str, str], Any]
"""Parses the text of an option; the name is for the error."""


def parse_boolean(name: str, text: str) -> bool:
    """Parse true or false."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise InvalidConfiguration(f"{name} takes true or false, got {text!r}")
    return value


def parse_integer(name: str, text: str) -> int:
    """Parse an integer."""
    if not _DIGITS.fullmatch(text.strip()):
        raise InvalidConfiguration(f"{name} takes a whole number, got {text!r}")
    return int(text)


def parse_duration(name: str, text: str) -> float:
    """Parse a time such as Spark takes it, and return seconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None or match[2] not in _UNITS:
        raise InvalidConfiguration(f"{name} takes a time such as 15m, 30s or 500ms, got {text!r}")
    return int(match[1]) * _UNITS[match[2]]


def parse_float(name: str, text: str) -> float:
    """Parse a number that may have a fraction."""
    try:
        return float(text)
    except ValueError:
        raise InvalidConfiguration(f"{name} takes a number, got {text!r}") from None


def keep_text(_: str, text: str) -> str:
    """Return the text itself."""
    return text


def enum_parser(kind: type[Enum], **others: Enum) -> ValueParser:
    """Return a parser of the names of an enum's members, and of other names for them."""
    members = {**{one.name.lower(): one for one in kind}, **others}

    def parse(name: str, text: str) -> Enum:
        member = members.get(text.strip().lower())
        if member is None:
            raise InvalidConfiguration(f"{name} takes one of {', '.join(one.name for one in kind)}, got {text!r}")
        return member

    return parse


def divided_integer_parser(by: int) -> ValueParser:
    """Return a parser of numbers in a smaller unit."""
    return lambda name, text: parse_integer(name, text) / by


def rounded_integer_parser(by: int) -> ValueParser:
    """Return a parser of numbers in a smaller unit, rounded up to whole numbers of the larger one."""
    return lambda name, text: -(-parse_integer(name, text) // by)


class OptionFamily(NamedTuple):
    """The options with one prefix: the argument of each, and the parser of its text.

    `elsewhere` has hints for names that users may try, and for which there is another option.
    """

    prefix: str
    arguments: Mapping[str, tuple[str, ValueParser]]
    spellings: tuple[str, ...]
    elsewhere: Mapping[str, str]

    def parse(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Return the options of this family as keyword arguments."""
        found: dict[str, tuple[str, Any]] = {}
        for option, text in given.items():
            if not option.lower().startswith(self.prefix):
                continue
            argument, parse_value = self._argument(option)
            if not text.strip():
                raise InvalidConfiguration(f"{option} is empty: give it a value, or leave it out")
            if argument in found:
                raise InvalidConfiguration(f"{option} and {found[argument][0]} say the same: give one of them")
            found[argument] = (option, parse_value(option, text))
        return {argument: value for argument, (_, value) in found.items()}

    def _argument(self, option: str) -> tuple[str, ValueParser]:
        name = option[len(self.prefix) :]
        argument = self.arguments.get(_normalized(name))
        if argument is not None:
            return argument
        if _normalized(name) in self.elsewhere:
            raise InvalidConfiguration(f"{option}: {self.elsewhere[_normalized(name)]}")
        close = get_close_matches(_normalized(name), [_normalized(one) for one in self.spellings], 1, 0)
        nearest = next(one for one in self.spellings if _normalized(one) == close[0])
        raise InvalidConfiguration(f"there is no option {option}: the nearest is {self.prefix}{nearest}")


def _normalized(name: str) -> str:
    return name.replace("_", "").lower()


def _parser_of(kind: Any) -> ValueParser | None:  # noqa: ANN401 - a type, or a union of some
    """Return the parser of values of a type; None if they cannot be written as text."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return enum_parser(kind)
    return _PARSERS.get(kind)


_PARSERS: Final[Mapping[Any, ValueParser]] = {
    bool: parse_boolean,
    int: parse_integer,
    float: parse_float,
    str: keep_text,
    int | None: parse_integer,
    str | None: keep_text,
}


def _option_family(
    prefix: str, options: type[Options], java: dict[str, tuple[str, ValueParser]], elsewhere: Mapping[str, str]
) -> OptionFamily:
    """Make a family of an options class, and of the names that the Java client has for its options."""
    own = {name: (name, _parser_of(get_args(hint)[0])) for name, hint in options.__annotations__.items()}
    spelled = {name: (argument, parser) for name, (argument, parser) in own.items() if parser is not None} | java
    hints = {_normalized(name): text for name, text in elsewhere.items()}
    spelled = {name: argument for name, argument in spelled.items() if _normalized(name) not in hints}
    arguments = {_normalized(name): argument for name, argument in spelled.items()}
    return OptionFamily(prefix, arguments, tuple(spelled), hints)


_ROUTING: Final = enum_parser(
    PartitionsRoutingMode,
    roundrobinpartition=PartitionsRoutingMode.RoundRobinDistribution,
    singlepartition=PartitionsRoutingMode.UseSinglePartition,
)

_CHUNKS_STAY: Final = "a query keeps all chunks until their message is complete"
_NO_ENCRYPTION: Final = "Spark has no end-to-end encryption: an option is a text, and a key reader is none"
_ENCRYPTS_BY_SINK: Final = f"{_NO_ENCRYPTION}. A sink() for foreachPartition takes one"

CLIENT_OPTIONS: Final = _option_family(
    "pulsar.client.",
    ClientOptions,
    {
        "operationTimeoutMs": ("operation_timeout_seconds", divided_integer_parser(1000)),
        "numIoThreads": ("io_threads", parse_integer),
        "numListenerThreads": ("message_listener_threads", parse_integer),
        "concurrentLookupRequest": ("concurrent_lookup_requests", parse_integer),
        "statsIntervalSeconds": ("stats_interval_in_seconds", parse_integer),
        "tlsHostnameVerificationEnable": ("tls_validate_hostname", parse_boolean),
        "tlsKeyFilePath": ("tls_private_key_file_path", keep_text),
        "useTcpNoDelay": ("tcp_no_delay", parse_boolean),
        "initialBackoffIntervalNanos": ("initial_backoff_interval_ms", rounded_integer_parser(1_000_000)),
        "maxBackoffIntervalNanos": ("max_backoff_interval_ms", rounded_integer_parser(1_000_000)),
        "authPluginClassName": ("auth_plugin", keep_text),
        "authParams": ("auth_params", keep_text),
    },
    {
        "serviceUrl": "give it as service.url",
        "authentication": "give it as pulsar.client.authPluginClassName and pulsar.client.authParams",
    },
)

PRODUCER_OPTIONS: Final = _option_family(
    "pulsar.producer.",
    ProducerOptions,
    {
        "sendTimeoutMs": ("send_timeout_millis", parse_integer),
        "batchingMaxBytes": ("batching_max_allowed_size_in_bytes", parse_integer),
        "batchingMaxPublishDelayMicros": ("batching_max_publish_delay_ms", rounded_integer_parser(1000)),
        "messageRoutingMode": ("message_routing_mode", _ROUTING),
        "message_routing_mode": ("message_routing_mode", _ROUTING),
    },
    {
        "topic": "give it as topic",
        "topicName": "give it as topic",
        "encryption_key": _ENCRYPTS_BY_SINK,
        "encryption_keys": _ENCRYPTS_BY_SINK,
        "crypto_key_reader": _ENCRYPTS_BY_SINK,
        "crypto_failure_action": _ENCRYPTS_BY_SINK,
    },
)

READER_OPTIONS: Final = _option_family(
    "pulsar.reader.",
    ReaderOptions,
    {"readCompacted": ("is_read_compacted", parse_boolean)},
    {
        "topicName": "give it as topic, topics or topicsPattern",
        "startMessageId": "give it as startingOffsets",
        "subscriptionRolePrefix": "give it as subscriptionPrefix",
        "start_message_id_inclusive": "startingOffsets begins with the message that it names",
        "resetIncludeHead": "startingOffsets begins with the message that it names",
        "max_pending_chunked_message": _CHUNKS_STAY,
        "auto_ack_oldest_chunked_message_on_queue_full": _CHUNKS_STAY,
        "expire_time_of_incomplete_chunked_message_ms": _CHUNKS_STAY,
        "crypto_failure_action": _NO_ENCRYPTION,
        "crypto_key_reader": _NO_ENCRYPTION,
    },
)
