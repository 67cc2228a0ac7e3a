"""The actor of a client, the guardian of its other actors: it is told when they start and end, and closes the client.

It owns the connections, in a pool, and knows every producer and consumer. An actor that dies of a bug fails its own
pending calls. The guardian only removes it, and starts another when one is needed: the next lookup starts a lookup
actor, the next request for a connection opens one. `machines/client_close.py` decides the steps of closing a client.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, ClassVar, Final

from pulsar_actors.exceptions import AlreadyClosed, InternalError, PulsarException
from pulsar_actors.machines.client_close import (
    ClientClose,
    CloseClient,
    CloseConnections,
    CloseHandles,
    CloseLateHandle,
    ConnectionRequested,
    EndHandle,
    EndHandles,
    HandleStarted,
    LookupRequested,
    QueryRequested,
    RefuseRequest,
    Remaining,
    ReportClosed,
    ServeRequest,
    ShutDownClient,
    StopLookups,
    StopQueries,
)
from pulsar_actors.machines.connection_commands import CONSUMER, COORDINATOR, PRODUCER
from pulsar_actors.machines.connection_events import RegisterHandler
from pulsar_actors.machines.connection_handler_events import EndAtOnce
from pulsar_actors.machines.lookup_events import AssignedBroker, LookupTarget
from pulsar_actors.machines.machine_history import MOST_ENDED, MachineHistory
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorDied, ActorRef, LoopActor, MachineActor, actor_of, tell
from pulsar_actors.runtime.connection_actor import (
    ConnectionEnded,
    ConnectionInUse,
    ConnectionUnusable,
    ServiceAccess,
    ServiceAnswered,
)
from pulsar_actors.runtime.connection_pool import ConnectionPool, ConnectionPoolSettings, Service
from pulsar_actors.runtime.future import settle
from pulsar_actors.runtime.handle_link import ClientCounters
from pulsar_actors.runtime.lookup_actor import (
    BrokerQuery,
    ChangeService,
    ConnectionFound,
    EndLookups,
    EndQueries,
    LookupActor,
    LookupSettings,
    RequestConnection,
)
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.messages import (
    ActorEnded,
    ActorStarted,
    AttachHandler,
    BrokerFound,
    CloseHandle,
    ClusterChanged,
    ConnectionAssigned,
    ConnectionUnavailable,
    FindBroker,
    HandlerRef,
    Registration,
)
from pulsar_actors.wire.service_url import ServiceUrl

IDLE_CHECKS = 4
"""The number of checks within `idle_after`, the time after which a connection counts as idle."""


class ClientSettings(NamedTuple):
    """The settings of a client."""

    service_url: ServiceUrl
    lookup: LookupSettings
    pool_settings: ConnectionPoolSettings
    access: ServiceAccess
    counters: ClientCounters


IN_TURN: Final = frozenset({PRODUCER, CONSUMER, COORDINATOR})
"""The kinds of actors that use connections for more than a few commands."""


class Registrations:
    """Assigns each new handle's actor a number, and in turn a loop and a connection slot. Any thread may use it.

    Those that use connections take turns together. Each other kind has turns of its own: otherwise topic sets of one
    partition each, which have no connection, would take every second turn, and all the partitions one loop of two.

    The guardian does not take part, so the calling thread can build an actor completely. The actor tells the guardian
    when it starts; the guardian ends it if the client is closing.
    """

    __slots__ = ("_connections_per_broker", "_guardian", "_loops", "_serial", "_turns", "_turns_of_others")

    def __init__(self, guardian: ActorRef, loops: Sequence[Loop], connections_per_broker: int) -> None:
        self._guardian = guardian
        self._loops = loops
        self._connections_per_broker = connections_per_broker
        self._serial = count(1)
        self._turns = count(1)
        self._turns_of_others: dict[str, count[int]] = {}

    def new(self, kind: str) -> Registration:
        """Make the registration of a producer, a consumer or another handle."""
        turn = next(self._turns if kind in IN_TURN else self._turns_of_others.setdefault(kind, count(1)))
        slot, loop = turn % self._connections_per_broker, self._loops[turn % len(self._loops)]
        return Registration(kind, next(self._serial), self._guardian, slot, loop)


class UseService(NamedTuple):
    """Move to another cluster, or to other credentials: connections end, and handlers connect again there."""

    url: ServiceUrl
    access: ServiceAccess


class ClientActor(MachineActor[ClientClose]):
    """The guardian of one client. `loops` are all that the client has; the guardian runs on the first."""

    def __init__(self, loops: Sequence[Loop], settings: ClientSettings) -> None:
        super().__init__(loops[0], None)
        self.machine = ClientClose()
        self._settings = settings
        service = Service(settings.service_url, settings.access)
        self._connections = ConnectionPool(self.actor_ref, loops, settings.pool_settings, service, settings.counters)
        self._lookup: ActorRef | None = None
        self._handles: dict[ActorRef, bool] = {}  # and whether it belongs to the cluster
        self._ended: deque[tuple[str, MachineHistory]] = deque(maxlen=MOST_ENDED)

    def __str__(self) -> str:
        return "the client"

    def machines(self) -> Iterator[tuple[str, StateMachine]]:
        """Iterate over the machines of all actors of the client."""
        yield from super().machines()
        for actor in self._actors():
            yield from actor.machines()

    def ended_histories(self) -> Iterator[tuple[str, MachineHistory]]:
        """Iterate over the histories of the actors that ended last, and of what ended last in the present ones."""
        yield from tuple(self._ended)
        for actor in self._actors():
            yield from actor.ended_histories()

    def _actors(self) -> Iterator[LoopActor]:
        """Iterate over the present actors of the client. Each copy is made in one step: other threads ask."""
        lookup = () if self._lookup is None else (self._lookup,)
        for address in (*lookup, *self._connections, *tuple(self._handles)):
            yield actor_of(address)

    def on_start(self) -> None:
        """Start the checks for idle connections."""
        self._check_idle_later()

    def receive(self, message: object) -> None:  # noqa: C901 - one line for each message
        """Take requests of callers and of other actors, and reports of actors that have ended."""
        match message:
            case AttachHandler() | RequestConnection():
                self.feed(ConnectionRequested(message))
            case FindBroker():
                self.feed(LookupRequested(message))
            case BrokerQuery():
                self.feed(QueryRequested(message))
            case ActorStarted(who, belongs_to_cluster, has_messages):
                self._handles[who] = belongs_to_cluster
                self.feed(HandleStarted(who, has_messages))
            case ServiceAnswered(connection, host):
                self._connections.note_answer(connection, host)
            case ConnectionInUse(connection):
                self._connections.put_back(connection, self.loop.now())
            case ConnectionUnusable(connection):
                self._connections.remove(connection)
            case ConnectionEnded(who) | ActorDied(who) | ActorEnded(who):
                self._forget(who)
            case UseService(url, access):
                self._use(url, access)
            case CloseClient() | ShutDownClient():
                self.feed(message)
                self._report_remaining()
            case _:
                raise InternalError(f"the guardian does not take {message!r}")

    def abandon(self, bug: InternalError) -> None:
        """End all actors: without its own actor a client can do nothing."""
        self._stop_lookups(StopLookups())
        self._tell_handles(EndAtOnce(bug))
        self._connections.close()
        self._settle(self.machine.tokens, bug)

    def missed(self, message: object) -> None:
        """Refuse requests that come after the end."""
        closed = self.bug or AlreadyClosed("the client is closed")
        match message:
            case AttachHandler(handler=member):
                tell(member.address, ConnectionUnavailable(member.number, closed))
            case RequestConnection(reply_to=reply_to):
                tell(reply_to.address, ConnectionFound(reply_to.request, closed))
            case FindBroker(_, _, reply_to):
                tell(reply_to.address, BrokerFound(reply_to.request, closed))
            case BrokerQuery(_, answered):
                answered(closed)
            case ActorStarted(who):
                tell(who, EndAtOnce(closed))
            case CloseClient(done) | ShutDownClient(done):
                self._settle((done,), None)
            case _:
                pass

    # Connections.

    def _use(self, url: ServiceUrl, access: ServiceAccess) -> None:
        if url != self._connections.service.url:
            for handle, belongs_to_cluster in self._handles.items():
                if belongs_to_cluster:
                    tell(handle, ClusterChanged())  # first: nothing of it may go to a connection there
        service = self._connections.move(url, access)
        if self._lookup is not None:
            tell(self._lookup, ChangeService(service))

    def _attach(self, broker: LookupTarget | AssignedBroker, slot: int, member: HandlerRef) -> None:
        number = self._connections.service.number
        target = broker.target(number) if isinstance(broker, AssignedBroker) else broker
        try:
            connection = self._connections.connect(target, target.cluster, slot, self.loop.now())
        except PulsarException as error:
            tell(member.address, ConnectionUnavailable(member.number, error))
        else:
            tell(member.address, ConnectionAssigned(member.number, connection))
            tell(connection, RegisterHandler(member))

    def _close_idle(self, _: None) -> None:
        self._connections.retire_idle(self.loop.now())
        self._check_idle_later()

    def _check_idle_later(self) -> None:
        self.later(self._settings.pool_settings.idle_after / IDLE_CHECKS, self._close_idle, None)

    # Producers, consumers and lookups.

    def _look_up(self, request: FindBroker | BrokerQuery) -> None:
        if self._lookup is None:
            settings = self._settings
            self._lookup = LookupActor.start(
                self.loop, self.actor_ref, settings.lookup, self._connections.service, settings.counters
            )
        tell(self._lookup, request)

    def _forget(self, who: ActorRef) -> None:
        self._ended.extend(actor_of(who).histories())
        self._handles.pop(who, None)
        self._connections.forget(who)
        if who is self._lookup:
            self._lookup = None
        self._report_remaining()

    # How the client closes: one method for each effect.

    def _report_remaining(self) -> None:
        self.feed(Remaining(len(self._handles), len(self._connections)))

    def _serve(self, effect: ServeRequest) -> None:
        match effect.request:
            case AttachHandler(broker, slot, handler, instead_of):
                self._connections.leave(instead_of)
                self._attach(broker, slot, handler)
            case RequestConnection(target, cluster_url, reply_to, instead_of):
                self._connections.leave(instead_of)
                found = self._connections.connect_or_error(target, cluster_url, self.loop.now())
                tell(reply_to.address, ConnectionFound(reply_to.request, found))
            case FindBroker() | BrokerQuery() as request:
                self._look_up(request)
            case request:
                raise InternalError(f"the guardian does not serve {request!r}")

    def _refuse(self, effect: RefuseRequest) -> None:
        self.missed(effect.request)

    def _stop_lookups(self, effect: StopLookups) -> None:
        if self._lookup is not None:
            tell(self._lookup, EndLookups())

    def _stop_queries(self, effect: StopQueries) -> None:
        if self._lookup is not None:
            tell(self._lookup, EndQueries())

    def _close_handles(self, effect: CloseHandles) -> None:
        self._tell_handles(CloseHandle())

    def _end_handles(self, effect: EndHandles) -> None:
        self._tell_handles(EndAtOnce(effect.error))

    def _close_late_handle(self, effect: CloseLateHandle) -> None:
        handle: Any = effect.handle
        tell(handle, CloseHandle())

    def _end_handle(self, effect: EndHandle) -> None:
        handle: Any = effect.handle
        tell(handle, EndAtOnce(effect.error))

    def _tell_handles(self, message: object) -> None:
        for handle in self._handles:
            tell(handle, message)

    def _close_connections(self, effect: CloseConnections) -> None:
        self._connections.close()

    def _report_closed(self, effect: ReportClosed) -> None:
        self.finish()
        self._settle(effect.tokens, None)

    def _settle(self, tokens: tuple[object, ...], outcome: InternalError | None) -> None:
        for token in tokens:
            done: Any = token  # the future of a caller who closes
            settle(done, outcome)

    PERFORMS: ClassVar = {
        ServeRequest: _serve,
        RefuseRequest: _refuse,
        StopQueries: _stop_queries,
        StopLookups: _stop_lookups,
        CloseHandles: _close_handles,
        EndHandles: _end_handles,
        CloseLateHandle: _close_late_handle,
        EndHandle: _end_handle,
        CloseConnections: _close_connections,
        ReportClosed: _report_closed,
    }
