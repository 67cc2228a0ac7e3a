"""A producer's or consumer's actor with everybody around it played by a test."""

from typing import Any

from pulsar_actors.exceptions import ConnectionLost
from pulsar_actors.machines.connection_events import SendRequest
from pulsar_actors.machines.lookup_events import LookupTarget
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.messages import (
    ActorStarted,
    AttachHandler,
    BrokerFound,
    CommandsReceived,
    ConnectionAssigned,
    ConnectionReady,
    ConnectionUnavailable,
    FindBroker,
    Registration,
    RequestAnswered,
)
from pulsar_actors.runtime.pending_calls import HandleLink
from tests.support.manual_loop import ManualLoop, RecordingActors, of_kind

BROKER = LookupTarget("pulsar://b:6650", "pulsar://b:6650")
LOST = ConnectionLost("reset")
MAX_MESSAGE_SIZE = 10_000


class BindingBench:
    """The guardian, the lookup and the connection of one actor; `registration` is what it is made with."""

    kind = ""

    def __init__(self) -> None:
        self.loop = ManualLoop()
        self.actors = RecordingActors(self.loop)
        self.guardian, self.connection = self.actors.make(), self.actors.make()
        self.registration = Registration(self.kind, 7, self.guardian, 1, self.loop)
        self.link = HandleLink()
        self.number = 0
        self.actor: ActorRef

    def tell(self, *messages: object) -> None:
        for message in messages:
            tell(self.actor, message)
        self.loop.run()

    def to_guardian(self) -> list[Any]:
        """Give what the guardian has heard, but for the start of the actor."""
        return [heard for heard in self.actors.heard(self.guardian) if not isinstance(heard, ActorStarted)]

    def to_connection(self) -> list[Any]:
        return self.actors.heard(self.connection)

    def find(self) -> None:
        """Answer the lookup that is on its way."""
        ((find),) = of_kind(FindBroker, self.to_guardian())
        self.tell(BrokerFound(find.reply_to.request, BROKER))

    def join(self) -> AttachHandler:
        """Give it a connection; that it can be used is not said yet."""
        ((attach),) = of_kind(AttachHandler, self.to_guardian())
        assert isinstance(attach, AttachHandler)
        self.number = attach.handler.number
        self.tell(ConnectionAssigned(self.number, self.connection))
        return attach

    def bind(self) -> None:
        self.tell(ConnectionReady(self.number, self.connection, MAX_MESSAGE_SIZE))

    def attach(self) -> SendRequest:
        """Take it to where it asks the broker for itself."""
        self.find()
        self.join()
        self.bind()
        return self.asked()

    def asked(self) -> SendRequest:
        ((ask),) = of_kind(SendRequest, self.to_connection())
        assert isinstance(ask, SendRequest)
        return ask

    def reply(self, ask: SendRequest, answer: Any) -> None:
        token: Any = ask.token
        self.tell(RequestAnswered(token.request, answer))

    def hears(self, *commands: Any, number: int | None = None) -> None:
        """Have the broker say these in one read."""
        spoken = tuple(command if isinstance(command, tuple) else (command, memoryview(b"")) for command in commands)
        self.tell(CommandsReceived(self.number if number is None else number, spoken))

    def lose(self) -> None:
        self.tell(ConnectionUnavailable(self.number, LOST))
