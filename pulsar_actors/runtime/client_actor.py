"""The guardian: the actor that starts all others of one client, hears of their ends, and ends the client.

It owns the connections, by way of a pool, and knows every producer and consumer. An actor that dies of a bug has ended
what it owed by itself; here it is only taken off the list, and what others need is made anew: the next who asks for a
connection gets a new one, the next lookup a new actor.

Closing goes in three steps, each bounded in time by those who take it: producers and consumers say goodbye to their
brokers, connections write what is left, and then everybody has gone.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pulsar_actors.exceptions import AlreadyClosed, InternalError, PulsarException
from pulsar_actors.machines.binding_events import EndAtOnce
from pulsar_actors.machines.connection_events import Close, Dial, Join, Retire
from pulsar_actors.machines.connection_settings import ConnectionSettings
from pulsar_actors.machines.ledgers.broker_address import Way, way_to
from pulsar_actors.machines.ledgers.connection_pool import ConnectionPool
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
from pulsar_actors.runtime.connection_actor import Buried, ConnectionActor, Entrance, Gone, Used
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.lookup_actor import EndLookups, LookupActor, LookupSettings, Question, Reach, Reached
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import Member, Unbound
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.wire.service_url import ServiceUrl

IDLE_CHECKS = 4
"""So many in the time after which a connection counts as idle."""


class ClientSettings(NamedTuple):
    """What a client is told when it is made. Times are in seconds."""

    service_url: ServiceUrl
    client_version: str
    lookup: LookupSettings
    entrance: Entrance
    tally: Tally
    connection_timeout: float = 10.0
    keepalive_interval: float = 30.0
    connections_per_broker: int = 1
    idle_after: float = 60.0


class Admit(NamedTuple):
    """From a caller: make a producer or consumer. `make` gets a loop and a place; `refuse` is called instead."""

    kind: str
    make: Callable[[Loop, Place], Address]
    refuse: Callable[[PulsarException], None]


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
        self._pool: ConnectionPool[Address] = ConnectionPool(settings.idle_after)
        self._connections: dict[Address, None] = {}  # until they are buried
        self._lookup: Address | None = None
        self._handles: dict[Address, None] = {}
        self._closers: list[SlimFuture[None]] = []
        self._serial = 0
        self._turn = 0

    def on_start(self) -> None:
        """Begin to look for idle connections."""
        self._look_again()

    def receive(self, message: object) -> None:
        """Take what the others say."""
        match message:
            case AttachMember(broker, slot, member):
                self._attach(broker, slot, member)
            case Reach(target, cluster_url, asker):
                tell(asker.address, Reached(asker.question, self._reach(target, cluster_url)))
            case FindBroker() | Question():
                self._look_up(message)
            case Admit():
                self._admit(message)
            case Used(connection):
                self._pool.put_back(connection)
            case Gone(connection):
                self._pool.remove(connection)
            case Buried(who) | Died(who) | Retired(who):
                self._forget(who)
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
        for connection in self._connections:
            tell(connection, Close())
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

    def _attach(self, broker: Target | str, slot: int, member: Member) -> None:
        target = Target(broker, broker) if isinstance(broker, str) else broker
        try:
            connection = self._connection_to(target, None, slot)
        except PulsarException as error:
            tell(member.address, Unbound(member.number, error))
        else:
            tell(member.address, Joining(member.number, connection))
            tell(connection, Join(member))

    def _reach(self, target: Target, cluster_url: str | None) -> Address | PulsarException:
        try:
            return self._connection_to(target, cluster_url, 0)
        except PulsarException as error:
            return error

    def _connection_to(self, target: Target, cluster_url: str | None, slot: int) -> Address:
        service = self._settings.service_url if cluster_url is None else ServiceUrl.parse(cluster_url)
        way = way_to(target.logical, target.physical, service)
        key = (str(way.dial), way.behind or "", str(slot))
        found = self._pool.find(key, self.loop.now())
        if found is None:
            found = self._dial(way)
            self._pool.add(key, found, self.loop.now())
        return found

    def _dial(self, way: Way) -> Address:
        """Make a connection, which begins with another host each time."""
        settings, hosts = self._settings, way.dial.hosts
        self._turn += 1
        first = self._turn % len(hosts)
        connection = ConnectionSettings(
            hosts=hosts[first:] + hosts[:first],
            client_version=settings.client_version,
            tls=way.dial.is_tls,
            proxy_to_broker_url=way.behind,
            handshake_timeout=settings.connection_timeout,
            keepalive_interval=settings.keepalive_interval,
        )
        made = ConnectionActor.start(self._next_loop(), self.actor_ref, connection, settings.entrance)
        self._connections[made] = None
        settings.tally.connections += 1
        tell(made, Dial())
        return made

    def _next_loop(self) -> Loop:
        return self._loops[self._turn % len(self._loops)]

    def _look_for_idle(self, _: None) -> None:
        for connection in self._pool.take_idle(self.loop.now()):
            tell(connection, Retire())
        self._look_again()

    def _look_again(self) -> None:
        self.later(self._settings.idle_after / IDLE_CHECKS, self._look_for_idle, None)

    # Producers, consumers and lookups.

    def _look_up(self, question: FindBroker | Question) -> None:
        if self._closers:
            self.missed(question)
            return
        if self._lookup is None:
            settings = self._settings
            self._lookup = LookupActor.start(self.loop, self.actor_ref, settings.lookup, settings.tally)
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
        if who in self._connections:
            del self._connections[who]
            self._settings.tally.connections -= 1
        self._pool.remove(who)
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
        for connection in self._connections:
            tell(connection, Close())
        if not self._connections:
            self.finish()
            for done in self._closers:
                settle(done, None)
