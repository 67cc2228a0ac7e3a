"""A connection on the bench: made for one host or two, led to where a test begins."""

from typing import Any, NamedTuple

from pulsar_actors.machines.connection import ConnectionMachine, State
from pulsar_actors.machines.connection_events import (
    Connected,
    ConnectionSettings,
    CredentialsFetched,
    Dial,
    SendRequest,
    TcpOpened,
    WriteCommand,
)
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConnected,
    CommandLookupTopic,
)
from tests.machines.driven import Driven

ONE_HOST = ConnectionSettings(hosts=(("a", 6650),), client_version="test")
TWO_HOSTS = ONE_HOST._replace(hosts=(("a", 6650), ("b", 6651)))
CREDENTIALS = CredentialsFetched("token", b"secret")
WELCOME = Connected(CommandConnected(server_version="broker", protocol_version=21, max_message_size=1000))
LOOKUP = CommandLookupTopic(topic="t", request_id=0)


class Member(NamedTuple):
    """A producer or consumer that uses the connection for the nth time."""

    kind: str
    id: int
    number: int = 1


MEMBER = Member("consumer", 1)


def made(settings: ConnectionSettings = ONE_HOST, *events: Any) -> Driven:
    return Driven(ConnectionMachine(settings), *events)


OPENING = (Dial(), TcpOpened())
READY = (*OPENING, CREDENTIALS, WELCOME)


def ready(settings: ConnectionSettings = ONE_HOST) -> Driven:
    driven = made(settings, *READY)
    assert driven.machine.state is State.READY
    return driven


def asked(driven: Driven, token: object = "token", timeout: float = 30.0, command: Any = LOOKUP) -> int:
    (write,) = [e for e in driven.tell(SendRequest(command, token, timeout)) if isinstance(e, WriteCommand)]
    return int(write.command.request_id)
