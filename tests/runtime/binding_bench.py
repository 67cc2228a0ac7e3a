"""A producer's or consumer's actor with everybody around it played by a test."""

from typing import Any

from loop_in_hand import Confidants, LoopInHand, of_kind

from pulsar_actors.exceptions import ConnectionLost
from pulsar_actors.machines.connection_events import Ask
from pulsar_actors.machines.lookup_events import Target
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_messages import AttachMember, BrokerFound, FindBroker, Joining, Place
from pulsar_actors.runtime.members import Bound, Heard, Replied, Unbound
from pulsar_actors.runtime.ties import Ties

BROKER = Target("pulsar://b:6650", "pulsar://b:6650")
LOST = ConnectionLost("reset")
MAX_MESSAGE_SIZE = 10_000


class BindingBench:
    """The guardian, the lookup and the connection of one actor; `ids` are of the place it has."""

    kind = ""

    def __init__(self) -> None:
        self.loop = LoopInHand()
        self.confidants = Confidants(self.loop)
        self.guardian, self.connection = self.confidants.make(), self.confidants.make()
        self.place = Place(self.kind, 7, self.guardian, 1)
        self.ties = Ties()
        self.number = 0
        self.actor: Address

    def tell(self, *messages: object) -> None:
        for message in messages:
            tell(self.actor, message)
        self.loop.run()

    def to_guardian(self) -> list[Any]:
        return self.confidants.heard(self.guardian)

    def to_connection(self) -> list[Any]:
        return self.confidants.heard(self.connection)

    def find(self) -> None:
        """Answer the lookup that is on its way."""
        ((find),) = of_kind(FindBroker, self.to_guardian())
        self.tell(BrokerFound(find.asker.question, BROKER))

    def join(self) -> AttachMember:
        """Give it a connection; that it can be used is not said yet."""
        ((attach),) = of_kind(AttachMember, self.to_guardian())
        assert isinstance(attach, AttachMember)
        self.number = attach.member.number
        self.tell(Joining(self.number, self.connection))
        return attach

    def bind(self) -> None:
        self.tell(Bound(self.number, self.connection, MAX_MESSAGE_SIZE))

    def attach(self) -> Ask:
        """Take it to where it asks the broker for itself."""
        self.find()
        self.join()
        self.bind()
        return self.asked()

    def asked(self) -> Ask:
        ((ask),) = of_kind(Ask, self.to_connection())
        assert isinstance(ask, Ask)
        return ask

    def reply(self, ask: Ask, answer: Any) -> None:
        token: Any = ask.token
        self.tell(Replied(token.question, answer))

    def hears(self, *commands: Any, number: int | None = None) -> None:
        """Have the broker say these in one read."""
        spoken = tuple(command if isinstance(command, tuple) else (command, memoryview(b"")) for command in commands)
        self.tell(Heard(self.number if number is None else number, spoken))

    def lose(self) -> None:
        self.tell(Unbound(self.number, LOST))
