"""Which requests a broker is too old for.

A broker says in CONNECTED which version of the protocol it speaks. What came later is not sent to it: it would end the
connection over a command that it cannot read, and take it from everybody who shares it.

Only what a user may miss is listed here. The commands that every client needs are older than any Apache Pulsar that was
released, and the watch of topics has a flag of its own.
"""

from collections.abc import Mapping
from types import MappingProxyType

from google.protobuf.message import Message

from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandConsumerStats,
    CommandGetLastMessageId,
    CommandGetTopicsOfNamespace,
)

SINCE: Mapping[type[Message], int] = MappingProxyType(
    {
        CommandConsumerStats: 8,
        CommandGetLastMessageId: 12,
        CommandGetTopicsOfNamespace: 12,
        CommandAck: 17,  # that is to be answered: others are no requests
    }
)
"""The version with which each came."""


def is_too_new(request: Message, spoken: int) -> bool:
    """Tell whether a broker that speaks this version does not know the request."""
    return SINCE.get(type(request), 0) > spoken
