"""A broker of years ago, and either client at it: what it does not know is not said to it.

The official client is the witness where it says so too.
"""

import contextlib
import importlib
import logging
import re
import socket
from collections.abc import Callable
from typing import Any

import pytest
from google.protobuf.message import Message

from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandConnect,
    CommandConnected,
    CommandConsumerStats,
    CommandGetLastMessageId,
    CommandGetTopicsOfNamespace,
    CommandSubscribe,
    CommandSuccess,
)
from tests.support.life import FakeBroker
from tests.support.pretender import Broker

SILENT = logging.getLogger("silent-client")
SILENT.setLevel(logging.CRITICAL + 1)
VERSION = 7


class OldBroker(Broker):
    """Speaks an old version of the protocol, and keeps what it hears."""

    def __init__(self) -> None:
        super().__init__()
        self.heard: list[Any] = []

    def _right_answer(self, client: socket.socket, command: Any) -> Message | None:
        self.heard.append(command)
        if isinstance(command, CommandConnect):
            return CommandConnected(server_version="old", protocol_version=VERSION)
        if isinstance(command, CommandSubscribe):  # the official client counts its requests from 0
            return CommandSuccess(request_id=command.request_id)
        return super()._right_answer(client, command)

    def was_asked(self, kind: type[Message]) -> bool:
        return any(isinstance(each, kind) for each in self.heard)


def acknowledge_and_wait(pulsar: Any, client: Any) -> None:
    consumer = client.subscribe("t", "s", ack_receipt_enabled=True)
    consumer.acknowledge(pulsar.MessageId(-1, 1, 1, -1))


CALLS: dict[str, tuple[type[Message], Callable[[Any, Any], Any]]] = {
    "the last message": (CommandGetLastMessageId, lambda _, client: client.subscribe("t", "s").get_last_message_id()),
    "what it counts": (
        CommandConsumerStats,
        lambda _, client: client.subscribe("t", "s").get_broker_consumer_stats(),
    ),
    "a receipt": (CommandAck, acknowledge_and_wait),
}


@pytest.mark.shows("Connection establishment", "newer commands are not sent")
@pytest.mark.parametrize(
    ("module", "call"),
    [("pulsar", "the last message"), *(("pulsar_actors", call) for call in CALLS)],
)
def test_what_came_later_than_the_brokers_version_is_not_sent_and_the_call_says_so(module: str, call: str) -> None:
    pulsar, broker = importlib.import_module(module), OldBroker()
    kind, ask = CALLS[call]
    with FakeBroker(broker.serve) as fake, contextlib.closing(pulsar.Client(fake.service_url, logger=SILENT)) as client:
        with pytest.raises(pulsar.UnsupportedVersionError):
            ask(pulsar, client)
        assert client.create_producer("t").send(b"it goes on") is not None
    assert broker.was_asked(CommandSubscribe)
    assert not broker.was_asked(kind)


def test_a_pattern_at_a_broker_that_cannot_list_topics_says_why_when_its_time_is_up() -> None:
    pulsar, broker = importlib.import_module("pulsar_actors"), OldBroker()
    with (
        FakeBroker(broker.serve) as fake,
        contextlib.closing(pulsar.Client(fake.service_url, operation_timeout_seconds=1)) as client,
        pytest.raises(pulsar.PulsarException, match="CommandGetTopicsOfNamespace came with version 12"),
    ):
        client.subscribe(re.compile("persistent://public/default/.*"), "s")
    assert not broker.was_asked(CommandGetTopicsOfNamespace)
