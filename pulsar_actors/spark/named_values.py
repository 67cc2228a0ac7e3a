"""Texts into keyword arguments: what stands behind `pulsar.client.`, `pulsar.producer.` and `pulsar.reader.`.

Spark hands on the names of options in small letters, and all values as text. A name is either that of an argument of
this package (`operation_timeout_seconds`) or of the Java client, which the Scala connector takes
(`operationTimeoutMs`): both are found without a look at capitals and underscores. What a value is read as follows from
the argument's type; what it may be is checked where the argument is.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from enum import Enum
from typing import Any, Final, NamedTuple, TypeAlias

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.consuming.reader_options import ReaderOptions
from pulsar_actors.client.enums import PartitionsRoutingMode
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.exceptions import InvalidConfiguration

__all__ = ["CLIENT", "PRODUCER", "READER", "Family", "boolean", "whole_number"]

_DIGITS: Final = re.compile(r"[+-]?[0-9]{1,19}")

Read: TypeAlias = Callable[[str, str], Any]
"""Makes a value of an option's name and text."""


def boolean(name: str, text: str) -> bool:
    """Read true or false."""
    value = {"true": True, "false": False}.get(text.strip().lower())
    if value is None:
        raise InvalidConfiguration(f"{name} takes true or false, got {text!r}")
    return value


def whole_number(name: str, text: str) -> int:
    """Read an integer."""
    if not _DIGITS.fullmatch(text.strip()):
        raise InvalidConfiguration(f"{name} takes a whole number, got {text!r}")
    return int(text)


def number(name: str, text: str) -> float:
    """Read a number that may have a fraction."""
    try:
        return float(text)
    except ValueError:
        raise InvalidConfiguration(f"{name} takes a number, got {text!r}") from None


def plain(_: str, text: str) -> str:
    """Take the text itself."""
    return text


def member_of(kind: type[Enum], **others: Enum) -> Read:
    """Read the name of a member, or one that others call it by."""
    members = {**{one.name.lower(): one for one in kind}, **others}

    def read(name: str, text: str) -> Enum:
        member = members.get(text.strip().lower())
        if member is None:
            raise InvalidConfiguration(f"{name} takes one of {', '.join(one.name for one in kind)}, got {text!r}")
        return member

    return read


def divided(by: int) -> Read:
    """Read a number of a smaller unit."""
    return lambda name, text: whole_number(name, text) / by


def rounded(by: int) -> Read:
    """Read a number of a smaller unit, where the larger one is counted in whole numbers: not less than what is said."""
    return lambda name, text: -(-whole_number(name, text) // by)


class Family(NamedTuple):
    """The options behind one prefix: the argument of each, and how its text is read.

    `elsewhere` says, of names that one may well try, where they belong.
    """

    prefix: str
    arguments: Mapping[str, tuple[str, Read]]
    spellings: tuple[str, ...]
    elsewhere: Mapping[str, str]

    def read(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Make keyword arguments of those options that are of this family."""
        found: dict[str, tuple[str, Any]] = {}
        for option, text in given.items():
            if not option.lower().startswith(self.prefix):
                continue
            argument, read = self._argument(option)
            if argument in found:
                raise InvalidConfiguration(f"{option} and {found[argument][0]} say the same: give one of them")
            found[argument] = (option, read(option, text))
        return {argument: value for argument, (_, value) in found.items()}

    def _argument(self, option: str) -> tuple[str, Read]:
        name = option[len(self.prefix) :]
        argument = self.arguments.get(_bare(name))
        if argument is not None:
            return argument
        if _bare(name) in self.elsewhere:
            raise InvalidConfiguration(f"{option}: {self.elsewhere[_bare(name)]}")
        close = get_close_matches(_bare(name), [_bare(one) for one in self.spellings], 1, 0)
        nearest = next(one for one in self.spellings if _bare(one) == close[0])
        raise InvalidConfiguration(f"there is no option {option}: the nearest is {self.prefix}{nearest}")


def _bare(name: str) -> str:
    return name.replace("_", "").lower()


def _reader_of(kind: Any) -> Read | None:  # noqa: ANN401 - a type, or a union of some
    """Tell how a value of this type is written as text; None where it has no text."""
    if isinstance(kind, type) and issubclass(kind, Enum):
        return member_of(kind)
    return _READ.get(kind)


_READ: Final[Mapping[Any, Read]] = {
    bool: boolean,
    int: whole_number,
    float: number,
    str: plain,
    int | None: whole_number,
    str | None: plain,
}


def _family(prefix: str, options: type, java: Mapping[str, tuple[str, Read]], elsewhere: Mapping[str, str]) -> Family:
    """Make one of the options whose values can be written as text, and of what the Java client calls them."""
    own = {field.name: (field.name, _reader_of(field.type)) for field in fields(options)}
    spelled = {name: (argument, read) for name, (argument, read) in own.items() if read is not None}
    spelled = {name: one for name, one in {**spelled, **java}.items() if _bare(name) not in map(_bare, elsewhere)}
    arguments = {_bare(name): argument for name, argument in spelled.items()}
    return Family(prefix, arguments, tuple(spelled), {_bare(name): text for name, text in elsewhere.items()})


_ROUTING: Final = member_of(
    PartitionsRoutingMode,
    roundrobinpartition=PartitionsRoutingMode.RoundRobinDistribution,
    singlepartition=PartitionsRoutingMode.UseSinglePartition,
)

_CHUNKS_STAY: Final = "a query keeps all chunks until their message is complete"

CLIENT: Final = _family(
    "pulsar.client.",
    ClientOptions,
    {
        "operationTimeoutMs": ("operation_timeout_seconds", divided(1000)),
        "numIoThreads": ("io_threads", whole_number),
        "numListenerThreads": ("message_listener_threads", whole_number),
        "concurrentLookupRequest": ("concurrent_lookup_requests", whole_number),
        "statsIntervalSeconds": ("stats_interval_in_seconds", whole_number),
        "tlsHostnameVerificationEnable": ("tls_validate_hostname", boolean),
        "tlsKeyFilePath": ("tls_private_key_file_path", plain),
        "useTcpNoDelay": ("tcp_no_delay", boolean),
        "initialBackoffIntervalNanos": ("initial_backoff_interval_ms", rounded(1_000_000)),
        "maxBackoffIntervalNanos": ("max_backoff_interval_ms", rounded(1_000_000)),
        "authPluginClassName": ("auth_plugin", plain),
        "authParams": ("auth_params", plain),
    },
    {
        "serviceUrl": "give it as service.url",
        "authentication": "give it as pulsar.client.authPluginClassName and pulsar.client.authParams",
    },
)

PRODUCER: Final = _family(
    "pulsar.producer.",
    ProducerOptions,
    {
        "sendTimeoutMs": ("send_timeout_millis", whole_number),
        "batchingMaxBytes": ("batching_max_allowed_size_in_bytes", whole_number),
        "batchingMaxPublishDelayMicros": ("batching_max_publish_delay_ms", rounded(1000)),
        "messageRoutingMode": ("message_routing_mode", _ROUTING),
        "message_routing_mode": ("message_routing_mode", _ROUTING),
    },
    {"topic": "give it as topic", "topicName": "give it as topic"},
)

READER: Final = _family(
    "pulsar.reader.",
    ReaderOptions,
    {"readCompacted": ("is_read_compacted", boolean)},
    {
        "topicName": "give it as topic, topics or topicsPattern",
        "startMessageId": "give it as startingOffsets",
        "subscriptionRolePrefix": "give it as subscriptionPrefix",
        "start_message_id_inclusive": "startingOffsets begins with the message that it names",
        "resetIncludeHead": "startingOffsets begins with the message that it names",
        "max_pending_chunked_message": _CHUNKS_STAY,
        "auto_ack_oldest_chunked_message_on_queue_full": _CHUNKS_STAY,
        "expire_time_of_incomplete_chunked_message_ms": _CHUNKS_STAY,
        "crypto_failure_action": "this version has no end-to-end encryption",
    },
)
