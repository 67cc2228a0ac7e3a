"""The connections of one client: found where there are any, made where there are none, and known until they are buried.

Which cluster they lead to can change. Those that there are then end as if they had been lost: what is pending on them
goes on elsewhere, as after any loss. What was found out about the earlier cluster is refused, and has to be looked up
again; so is an address that is encrypted where the service URL is not, or the other way round.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pulsar_actors.exceptions import ConnectError, ConnectionLost, OperationNotSupported, PulsarException
from pulsar_actors.machines.connection_events import Close, Dial, Drop, Retire
from pulsar_actors.machines.connection_settings import ConnectionSettings
from pulsar_actors.machines.ledgers.broker_address import Way, way_to
from pulsar_actors.machines.ledgers.connection_pool import ConnectionPool
from pulsar_actors.machines.lookup import SERVICE_URL
from pulsar_actors.machines.lookup_events import Target
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.connection_actor import ConnectionActor, Entrance
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.service import Service
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.wire.service_url import ServiceUrl


class Manner(NamedTuple):
    """How they are made. Times are in seconds."""

    client_version: str
    connection_timeout: float = 10.0
    keepalive_interval: float = 30.0
    idle_after: float = 60.0
    tcp_no_delay: bool = True


class Connections:
    """Those of one client, for its guardian, on whose loop they are found."""

    def __init__(
        self, guardian: Address, loops: Sequence[Loop], manner: Manner, service: Service, tally: Tally
    ) -> None:
        self._guardian = guardian
        self._loops = loops
        self._manner = manner
        self._tally = tally
        self._pool: ConnectionPool[Address] = ConnectionPool(manner.idle_after)
        self._alive: dict[Address, None] = {}  # until they are buried
        self._turn = 0
        self.service = service

    def __len__(self) -> int:
        return len(self._alive)

    def __iter__(self) -> Iterator[Address]:
        return iter(self._alive)

    def to(self, target: Target, cluster_url: str | None, slot: int, now: float) -> Address:
        """Find or make the one to this broker, in this cluster if one is named; what makes no sense is raised."""
        self._check(target)
        service = self.service.url if cluster_url is None else ServiceUrl.parse(cluster_url)
        if service.is_http and target.physical is None:
            raise OperationNotSupported(f"{service} is for lookups over HTTP: no broker is connected to there")
        way = way_to(target.logical, target.physical, service)
        key = (str(way.dial), way.behind or "", str(slot))
        found = self._pool.find(key, now)
        if found is None:
            found = self._dial(way)
            self._pool.add(key, found, now)
        return found

    def to_or_why_not(self, target: Target, cluster_url: str | None, now: float) -> Address | PulsarException:
        """Find or make it, or say why there is none."""
        try:
            return self.to(target, cluster_url, 0, now)
        except PulsarException as error:
            return error

    def move(self, url: ServiceUrl, entrance: Entrance) -> Service:
        """Lead to another cluster, or to the same one as somebody else."""
        self.service.entrance.http.close()
        self.service = Service(url, entrance, self.service.number + 1)
        LOG.info("the client goes to %s", url)
        for connection in self._alive:
            self._pool.remove(connection)
            tell(connection, Drop(ConnectionLost(f"the client has gone to {url}")))
        return self.service

    def put_back(self, connection: Address) -> None:
        """Have one found again that is in use, against expectation."""
        self._pool.put_back(connection)

    def remove(self, connection: Address) -> None:
        """Have one found no longer."""
        self._pool.remove(connection)

    def bury(self, who: Address) -> None:
        """Forget one, if it is one; nothing is left of it."""
        self._pool.remove(who)
        if who in self._alive:
            del self._alive[who]
            self._tally.connections -= 1

    def retire_idle(self, now: float) -> None:
        """Have those end that nobody has asked for in a while, unless somebody uses them."""
        for connection in self._pool.take_idle(now):
            tell(connection, Retire())

    def close(self) -> None:
        """Have all of them write what is left, and end."""
        self.service.entrance.http.close()
        for connection in self._alive:
            tell(connection, Close())

    def _check(self, target: Target) -> None:
        address, tls = target.physical, self.service.url.is_tls
        if target != SERVICE_URL and target.service != self.service.number:
            raise ConnectError("the client has gone to another cluster")
        if address is not None and ServiceUrl.parse(address).is_tls != tls:
            raise ConnectError(f"{address} is {'not ' * tls}encrypted, unlike the service URL")

    def _dial(self, way: Way) -> Address:
        """Make a connection, which begins with another host each time."""
        manner, hosts = self._manner, way.dial.hosts
        self._turn += 1
        first = self._turn % len(hosts)
        settings = ConnectionSettings(
            hosts=hosts[first:] + hosts[:first],
            client_version=manner.client_version,
            tls=way.dial.is_tls,
            proxy_to_broker_url=way.behind,
            handshake_timeout=manner.connection_timeout,
            keepalive_interval=manner.keepalive_interval,
            tcp_no_delay=manner.tcp_no_delay,
        )
        loop = self._loops[self._turn % len(self._loops)]
        made = ConnectionActor.start(loop, self._guardian, settings, self.service.entrance)
        self._alive[made] = None
        self._tally.connections += 1
        tell(made, Dial())
        return made
