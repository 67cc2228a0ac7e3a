"""The connection pool of a client: connections that handlers share, by broker.

A connection is found by its key: the broker, the address that is dialled, and a slot, because there may be several
connections to one broker. A connection that was not asked for within `idle_after` is taken out of the pool and asked to
close. If it still has users, it returns to the pool until the next check for idle connections. Until it has answered,
it is not asked again: so no connection that may be closing is given to a handler. If another connection was opened for
the key meanwhile, the old one stays out of the pool. It keeps its users, is not given to others, and is asked to close
again later.

With several hosts in the service URL, all lookups share one connection as long as its host serves them: a connection to
each host would give nothing more while all is well. A lookup that its host did not serve names the connection when it
asks for the next. The connection is then *left*: it keeps its users, and lookups go to the next host. Each host has one
connection: one that was left is used again when it is the turn of its host.

A client can move to another service: another cluster, or other credentials for the same one. Its connections then end
as if they had been lost, and pending work continues on connections to the new service. Services are numbered. A
lookup's answer from an earlier service is refused, and the lookup is made again. An address that is encrypted although
the service URL is not, or the other way round, is refused, too.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from pulsar_actors.exceptions import ConnectError, ConnectionLost, OperationNotSupported, PulsarException
from pulsar_actors.machines.connection_events import (
    AbortConnection,
    CloseGracefully,
    CloseIfUnused,
    ConnectionSettings,
    Dial,
)
from pulsar_actors.machines.lookup import SERVICE_URL
from pulsar_actors.machines.lookup_events import LookupTarget
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.connection_actor import ConnectionActor, ServiceAccess
from pulsar_actors.runtime.handle_link import ClientCounters
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.wire.service_url import BrokerRoute, ServiceUrl, route_to_broker


class Service(NamedTuple):
    """A cluster, with the access to it. Services of a client are numbered, and so are their clusters, as `home`."""

    url: ServiceUrl
    access: ServiceAccess
    number: int = 0
    home: int = 0


PoolKey = tuple[str, ...]
C = TypeVar("C")


class ConnectionIndex(Generic[C]):
    """The connections of a pool, by key, with the time when each was last asked for. Times are monotonic seconds."""

    __slots__ = ("_by_key", "_idle_after", "_known")

    def __init__(self, idle_after: float) -> None:
        self._idle_after = idle_after
        self._by_key: dict[PoolKey, C] = {}
        self._known: dict[C, tuple[PoolKey, float]] = {}  # and when it was last asked for

    def find(self, key: PoolKey, now: float) -> C | None:
        """Find the connection with this key, and note that it was asked for."""
        found = self._by_key.get(key)
        if found is not None:
            self._known[found] = (key, now)
        return found

    def add(self, key: PoolKey, connection: C, now: float) -> None:
        """Add a new connection, or one that was left, for its key."""
        self._by_key[key] = connection
        self._known[connection] = (key, now)

    def leave(self, connection: C) -> bool:
        """Let another connection take the place of this one. Return False if another has it already."""
        key, _ = self._known.get(connection, ((), 0.0))
        has_place = self._by_key.get(key) == connection
        if has_place:
            del self._by_key[key]
        return has_place

    def left(self, key: PoolKey) -> list[C]:
        """Return the connections with this key that were left, except those that are asked to close."""
        present = self._by_key.get(key)
        return [one for one, (its, used) in self._known.items() if its == key and one != present and used < math.inf]

    def remove(self, connection: C) -> None:
        """Remove a connection that has ended."""
        key, _ = self._known.pop(connection, ((), 0.0))
        if self._by_key.get(key) == connection:
            del self._by_key[key]

    def take_idle(self, now: float) -> list[C]:
        """Take out the connections that were not asked for within `idle_after`, each once until it is put back."""
        idle = [one for one, (_, used) in self._known.items() if used + self._idle_after <= now]
        for connection in idle:
            key, _ = self._known[connection]
            self._known[connection] = (key, math.inf)
            if self._by_key.get(key) == connection:
                del self._by_key[key]
        return idle

    def put_back(self, connection: C, now: float) -> None:
        """Put a connection back, unless another has its key by now."""
        if connection in self._known:
            key, _ = self._known[connection]
            self._known[connection] = (key, now)
            self._by_key.setdefault(key, connection)


class ServiceHost(NamedTuple):
    """The host of a connection to a service URL of several: until one has answered, the one that is dialled first."""

    url: ServiceUrl
    host: tuple[str, int]
    has_answered: bool = False


class ConnectionPoolSettings(NamedTuple):
    """The settings of connections. Times are in seconds."""

    client_version: str
    connection_timeout: float = 10.0
    keepalive_interval: float = 30.0
    idle_after: float = 60.0
    tcp_no_delay: bool = True
    service_can_change: bool = False


class ConnectionPool:
    """The connections of one client, used by the client's actor."""

    def __init__(
        self,
        guardian: ActorRef,
        loops: Sequence[Loop],
        pool_settings: ConnectionPoolSettings,
        service: Service,
        counters: ClientCounters,
    ) -> None:
        self._guardian = guardian
        self._loops = loops
        self._pool_settings = pool_settings
        self._counters = counters
        self._index: ConnectionIndex[ActorRef] = ConnectionIndex(pool_settings.idle_after)
        self._alive: dict[ActorRef, None] = {}  # until their sockets have ended
        self._opened = 0
        self._turns: dict[ServiceUrl, int] = {}
        self._service_hosts: dict[ActorRef, ServiceHost] = {}
        self._service_has_answered = False
        self.service = service

    def __len__(self) -> int:
        return len(self._alive)

    def __iter__(self) -> Iterator[ActorRef]:
        return iter(self._alive)

    def connect(self, target: LookupTarget, cluster_url: str | None, slot: int, now: float) -> ActorRef:
        """Find or open the connection to this broker, in this cluster if one is named.

        Raise if the address is refused.
        """
        self._check(target, cluster_url)
        service = self.service.url if cluster_url is None else ServiceUrl.parse(cluster_url)
        if service.is_http and target.physical is None:
            raise OperationNotSupported(f"{service} is for lookups over HTTP: no broker is connected to there")
        route = route_to_broker(target.logical, target.physical, service)
        key = (str(route.dial), route.proxied_broker or "", str(slot))
        found = self._index.find(key, now)
        if found is None:
            found = self._open(route, route.dial.hosts) if len(route.dial.hosts) == 1 else self._next(key, route)
            self._index.add(key, found, now)
        return found

    def leave(self, connection: ActorRef | None) -> None:
        """Go to the next host of the service URL, unless this connection was left already, or its URL has one host."""
        if connection is not None and connection in self._service_hosts and self._index.leave(connection):
            url, host, _ = self._service_hosts[connection]
            self._turns[url] = url.hosts.index(host)

    def connect_or_error(self, target: LookupTarget, cluster_url: str | None, now: float) -> ActorRef | PulsarException:
        """Find or open a connection, or return why there is none."""
        try:
            return self.connect(target, cluster_url, 0, now)
        except PulsarException as error:
            return error

    def move(self, url: ServiceUrl, access: ServiceAccess) -> Service:
        """Move to another cluster, or to other credentials for the same one."""
        self.service.access.http.close()
        former = self.service
        self.service = Service(url, access, former.number + 1, former.home + (url != former.url))
        LOG.info("the client goes to %s", url)
        for connection in self._alive:
            self._index.remove(connection)
            tell(connection, AbortConnection(ConnectionLost(f"the client has gone to {url}")))
        return self.service

    def note_answer(self, connection: ActorRef, host: tuple[str, int]) -> None:
        """Note that the service URL is right, and the host: if its hosts do not answer later, they may again."""
        self._service_has_answered = True
        if connection in self._service_hosts:
            self._service_hosts[connection] = ServiceHost(self._service_hosts[connection].url, host, has_answered=True)

    def put_back(self, connection: ActorRef, now: float) -> None:
        """Put back a connection that is in use."""
        self._index.put_back(connection, now)

    def remove(self, connection: ActorRef) -> None:
        """Take a connection out of the pool."""
        self._index.remove(connection)

    def forget(self, who: ActorRef) -> None:
        """Forget an actor that has ended, if it was a connection."""
        self._index.remove(who)
        self._service_hosts.pop(who, None)
        if who in self._alive:
            del self._alive[who]
            self._counters.connections -= 1

    def retire_idle(self, now: float) -> None:
        """Ask idle connections to close, unless they have users."""
        for connection in self._index.take_idle(now):
            tell(connection, CloseIfUnused())

    def close(self) -> None:
        """Let all connections write what is queued, and close."""
        self.service.access.http.close()
        for connection in self._alive:
            tell(connection, CloseGracefully())

    def _check(self, target: LookupTarget, cluster_url: str | None) -> None:
        tls = self.service.url.is_tls
        if target != SERVICE_URL and target.service != self.service.number:
            raise ConnectError("the client has gone to another cluster")
        for address in (target.physical, cluster_url):
            if address is not None and ServiceUrl.parse(address).is_tls != tls:
                raise ConnectError(f"{address} is {'not ' * tls}encrypted, unlike the service URL")

    def _next(self, key: PoolKey, route: BrokerRoute) -> ActorRef:
        """Return the connection to the next host, if it was left, or open one: to the first host that has none."""
        turn = self._turns[route.dial] = self._turns.get(route.dial, 0) + 1
        hosts = route.dial.starting_with(turn).hosts
        left = self._left(key)
        if hosts[0] in left:
            return left[hosts[0]]
        unconnected = tuple(host for host in hosts if host not in left)
        connection = self._open(route, unconnected, others_have_answered=bool(left))
        if route.proxied_broker is None:
            self._service_hosts[connection] = ServiceHost(route.dial, hosts[0])
        return connection

    def _left(self, key: PoolKey) -> dict[tuple[str, int], ActorRef]:
        """Return the connections with this key that were left, by host, as far as their hosts have answered."""
        known = [(one, self._service_hosts.get(one)) for one in self._index.left(key)]
        return {of.host: one for one, of in known if of is not None and of.has_answered}

    def _open(
        self, route: BrokerRoute, hosts: tuple[tuple[str, int], ...], *, others_have_answered: bool = False
    ) -> ActorRef:
        """Open a connection to the first of these hosts that can be reached."""
        pool_settings = self._pool_settings
        self._opened += 1
        settings = ConnectionSettings(
            hosts=hosts,
            client_version=pool_settings.client_version,
            tls=route.dial.is_tls,
            proxy_to_broker_url=route.proxied_broker,
            handshake_timeout=pool_settings.connection_timeout,
            keepalive_interval=pool_settings.keepalive_interval,
            tcp_no_delay=pool_settings.tcp_no_delay,
            others_have_answered=others_have_answered,
            silence_may_end=pool_settings.service_can_change or self._service_has_answered,
        )
        loop = self._loops[self._opened % len(self._loops)]
        connection = ConnectionActor.start(loop, self._guardian, settings, self.service.access, self._counters.observer)
        self._alive[connection] = None
        self._counters.connections += 1
        tell(connection, Dial())
        return connection
