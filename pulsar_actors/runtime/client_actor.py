"""The guardian: the actor that starts all others of one client, hears of their ends, and ends the client.

It owns the connections, by way of a pool, and knows every producer and consumer. An actor that dies of a bug has ended
what it owed by itself; here it is only taken off the list, and what others need is made anew: the next who asks for a
connection gets a new one, the next lookup a new actor.

Closing goes in three steps, each bounded in time by those who take it: producers and consumers say goodbye to their
brokers, connections write what is left, and then everybody has gone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pulsar_actors.exceptions import (
    AlreadyClosed,
    InternalError,
    PulsarException,
)
from pulsar_actors.machines.binding_events import EndAtOnce
from pulsar_actors.machines.connection_events import Join
from pulsar_actors.machines.lookup_events import Target
from pulsar_actors.runtime.actor import Address, Died, LoopActor, tell
from pulsar_actors.runtime.binding_messages import (
    AttachMember,
    BrokerFound,
    CloseHandle,
    FindBroker,
    Joining,
    Place,
    Retired,
)
from pulsar_actors.runtime.connection_actor import Buried, Entrance, Gone, Used
from pulsar_actors.runtime.connections import Connections, Manner
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.lookup_actor import (
    ChangeService,
    EndLookups,
    LookupActor,
    LookupSettings,
    Question,
    Reach,
    Reached,
)
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import Member, Unbound
from pulsar_actors.runtime.service import Service
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.wire.service_url import ServiceUrl

IDLE_CHECKS = 4
"""So many in the time after which a connection counts as idle."""


class ClientSettings(NamedTuple):
    """What a client is told when it is made."""

    service_url: ServiceUrl
    lookup: LookupSettings
    manner: Manner
    entrance: Entrance
    tally: Tally
    connections_per_broker: int = 1


class Admit(NamedTuple):
    """From a caller: make a producer or consumer. `make` gets a loop and a place; `refuse` is called instead."""

    kind: str
    make: Callable[[Loop, Place], Address]
    refuse: Callable[[PulsarException], None]


class UseService(NamedTuple):
    """Go to another cluster, or to the same one as somebody else: connections end, and all begins anew there."""

    url: ServiceUrl
    entrance: Entrance


class CloseAll(NamedTuple):
    """End the client in good order, and then the future."""

    done: SlimFuture[None]


class ShutDown(NamedTuple):
    """End the client without waiting for anybody's answer, and then the future."""

    done: SlimFuture[None]


class ClientActor(LoopActor):
    """The guardian of one client. `loops` are all it has; it lives on the first."""

    def __init__(self, loops: Sequence[Loop], settings: ClientSettings) -> None:
        super().__init__(loops[0], None)
        self._loops = loops
        self._settings = settings
        service = Service(settings.service_url, settings.entrance)
        self._connections = Connections(self.actor_ref, loops, settings.manner, service, settings.tally)
        self._lookup: Address | None = None
        self._handles: dict[Address, None] = {}
        self._closers: list[SlimFuture[None]] = []
        self._serial = 0

    def on_start(self) -> None:
        """Begin to look for idle connections."""
        self._look_again()

    def receive(self, message: object) -> None:  # noqa: C901 - one line for each message
        """Take what the others say."""
        match message:
            case AttachMember(broker, slot, member):
                self._attach(broker, slot, member)
            case Reach(target, cluster_url, asker):
                found = self._connections.to_or_why_not(target, cluster_url, self.loop.now())
                tell(asker.address, Reached(asker.question, found))
            case FindBroker() | Question():
                self._look_up(message)
            case Admit():
                self._admit(message)
            case Used(connection):
                self._connections.put_back(connection)
            case Gone(connection):
                self._connections.remove(connection)
            case Buried(who) | Died(who) | Retired(who):
                self._forget(who)
            case UseService(url, entrance):
                self._use(url, entrance)
            case CloseAll(done):
                self._close(done)
            case ShutDown(done):
                self._abandon_all(AlreadyClosed("the client is shut down"))
                self._close(done)
            case _:
                raise InternalError(f"the guardian does not take {message!r}")

    def abandon(self, bug: InternalError) -> None:
        """End everything: without its guardian a client can do nothing."""
        if self._lookup is not None:
            tell(self._lookup, EndLookups())
        self._abandon_all(bug)
        self._connections.close()
        for done in self._closers:
            settle(done, bug)

    def missed(self, message: object) -> None:
        """Refuse what comes after the end."""
        closed = self.bug or AlreadyClosed("the client is closed")
        match message:
            case AttachMember(_, _, member):
                tell(member.address, Unbound(member.number, closed))
            case Reach(_, _, asker):
                tell(asker.address, Reached(asker.question, closed))
            case FindBroker(_, _, asker):
                tell(asker.address, BrokerFound(asker.question, closed))
            case Question(_, answered):
                answered(closed)
            case Admit():
                message.refuse(closed)
            case CloseAll(done) | ShutDown(done):
                settle(done, None)
            case _:
                pass

    # Connections.

    def _use(self, url: ServiceUrl, entrance: Entrance) -> None:
        service = self._connections.move(url, entrance)
        if self._lookup is not None:
            tell(self._lookup, ChangeService(service))

    def _attach(self, broker: Target | str, slot: int, member: Member) -> None:
        number = self._connections.service.number
        target = Target(broker, broker, number) if isinstance(broker, str) else broker
        try:
            connection = self._connections.to(target, target.cluster, slot, self.loop.now())
        except PulsarException as error:
            tell(member.address, Unbound(member.number, error))
        else:
            tell(member.address, Joining(member.number, connection))
            tell(connection, Join(member))

    def _look_for_idle(self, _: None) -> None:
        self._connections.retire_idle(self.loop.now())
        self._look_again()

    def _look_again(self) -> None:
        self.later(self._settings.manner.idle_after / IDLE_CHECKS, self._look_for_idle, None)

    # Producers, consumers and lookups.

    def _look_up(self, question: FindBroker | Question) -> None:
        if self._closers:
            self.missed(question)
            return
        if self._lookup is None:
            settings = self._settings
            self._lookup = LookupActor.start(
                self.loop, self.actor_ref, settings.lookup, self._connections.service, settings.tally
            )
        tell(self._lookup, question)

    def _admit(self, candidate: Admit) -> None:
        if self._closers:
            candidate.refuse(AlreadyClosed("the client is closed"))
            return
        self._serial += 1
        loop = self._loops[self._serial % len(self._loops)]
        slot = self._serial % self._settings.connections_per_broker
        place = Place(candidate.kind, self._serial, self.actor_ref, slot)
        try:
            made = candidate.make(loop, place)
        except Exception as bug:  # noqa: BLE001 - it is the candidate's, and must not end the guardian
            candidate.refuse(InternalError(f"a bug in the making of a {candidate.kind}, please report it: {bug!r}"))
        else:
            self._handles[made] = None

    def _forget(self, who: Address) -> None:
        self._handles.pop(who, None)
        self._connections.bury(who)
        if who is self._lookup:
            self._lookup = None
        if self._closers:
            self._close_on()

    # The end.

    def _close(self, done: SlimFuture[None]) -> None:
        first = not self._closers
        self._closers.append(done)
        if first:
            if self._lookup is not None:
                tell(self._lookup, EndLookups())
            for handle in self._handles:
                tell(handle, CloseHandle())
            self._close_on()

    def _abandon_all(self, error: PulsarException) -> None:
        for handle in self._handles:
            tell(handle, EndAtOnce(error))

    def _close_on(self) -> None:
        """Take the next step when everybody has taken the last."""
        if self._handles:
            return
        self._connections.close()
        if not self._connections:
            self.finish()
            for done in self._closers:
                settle(done, None)
