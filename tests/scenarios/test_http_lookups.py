"""Clients look up over HTTP, and the HTTP servers do all that such servers do.

What holds whatever they answer: no call hangs, and when they are well again, so is all the rest. What they answer may
not be true, so nothing is compared with what the broker has. Where they only fail, or answer late, or send clients to
where nobody serves the topic, what callers are told is true.
"""

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import pytest

from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.client.authentication import AuthenticationToken
from pulsar_actors.client.client import Client
from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo, ServiceInfoProvider
from pulsar_actors.machines import lookup
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.http_servers import HttpServers
from tests.scenarios.rare_events import HERE, NOWHERE, SECURE, RareEvents
from tests.scenarios.scene import CHANGEABLE, COORDINATOR, PARTS, PATIENCE, TOPIC, Scene, play
from tests.scenarios.test_everything import PARTITIONS_OF_PARTS, everything
from tests.scenarios.test_hostile import KEYS, TOKENS, Wallet, become_well, tokens_of, works
from tests.scenarios.troubles import Troubles
from tests.scenarios.users import SECOND, User
from tests.support.certificates import Authority

AWAY = "nowhere:1"


class Mover(ServiceInfoProvider):
    """Moves a client now and then from one service to another, until it is calm; then to the first one."""

    def __init__(self, scene: Scene, services: Sequence[ServiceInfo]) -> None:
        self._scene = scene
        self._services = services
        self._dice = Dice(scene.world.seed, "mover")
        self._move: Callable[[ServiceInfo], None] = lambda _: None

    def initial_service_info(self) -> ServiceInfo:
        return self._services[0]

    def initialize(self, on_service_info_update: Callable[[ServiceInfo], None]) -> None:
        self._move = on_service_info_update
        self._later()

    def _later(self) -> None:
        self._scene.world.after(10.0 ** (self._dice.chance() * 3 - 2), self._go_on)

    def _go_on(self) -> None:
        if self._scene.is_calm:
            self._move(self._services[0])
        else:
            self._move(self._services[self._dice.below(len(self._services))])
            self._later()


class Crowd(User):
    """Asks for several things at once."""

    def _run(self) -> None:
        while not self._scene.is_calm:
            self._beside(*[self._ask] * (2 + self._dice.below(5)))
            self._scene.sleep(10.0 ** (self._dice.chance() * 3 - 2))


class Ways:
    """The ways to the brokers: over HTTP and without, with TLS and without, by one host or several."""

    def __init__(self, scene: Scene, authority: str, authentication: AuthenticationToken | None) -> None:
        assert scene.broker is not None
        self._scene = scene
        self._authority = authority
        self._authentication = authentication
        plain = [node.web_url.removeprefix("http://") for node in scene.broker.nodes]
        encrypted = [node.web_url_tls.removeprefix("https://") for node in scene.broker.nodes]
        self._http = (plain[:1], plain, plain[::-1], [AWAY, *plain])
        self._https = (encrypted[:1], encrypted, encrypted[::-1], [AWAY, *encrypted])

    def client(self) -> Client:
        """Make a client of one of them, or of several."""
        makers = (self._one_service, self._failover, self._mover)
        options = makers[self._scene.dice.below(3)]()
        return self._scene.client(concurrent_lookup_requests=(1, 1, 2, 1000)[self._scene.dice.below(4)], **options)

    def _one_service(self) -> dict[str, Any]:
        return {
            "service_url": self._url(),
            "authentication": self._authentication,
            "tls_trust_certs_file_path": self._authority,
        }

    def _failover(self) -> dict[str, Any]:
        away = (f"http://{AWAY}",) if self._scene.dice.happens(0.3) else ()
        primary, *others = (self._service(url) for url in (*away, *self._urls()))
        return {"service_url": AutoClusterFailover(primary, others, check_interval_ms=300, switch_back_threshold=2)}

    def _mover(self) -> dict[str, Any]:
        urls = (*self._urls(), f"http://{AWAY}", NOWHERE)
        return {"service_url": Mover(self._scene, [self._service(url) for url in urls])}

    def _url(self) -> str:
        dice = self._scene.dice
        scheme, hosts = ("http", self._http) if dice.happens(0.6) else ("https", self._https)
        return f"{scheme}://{','.join(hosts[dice.below(len(hosts))])}"

    def _urls(self) -> list[str]:
        """Draw a way over HTTP, and after it others."""
        return [self._url(), (HERE, SECURE)[self._scene.dice.below(2)], self._url()]

    def _service(self, url: str) -> ServiceInfo:
        return ServiceInfo(url, self._authentication, self._authority)


class Closer:
    """Closes a client amid what it does."""

    def __init__(self, scene: Scene, client: Client) -> None:
        at = 10.0 ** (scene.dice.chance() * 3 - 2)

        def run() -> None:
            scene.sleep(at)
            scene.close(client)

        self.callers = [scene.world.spawn(run, "closer")]


def looking_up(scene: Scene, authority: str, tokens: Tokens | None) -> None:
    world, dice = scene.world, scene.dice
    servers = HttpServers(scene, 8, lies=True)
    capacity = mock.patch.object(lookup, "MAX_LOOKUPS", (3, lookup.MAX_LOOKUPS)[dice.below(2)])
    with tokens_of(world), servers.replace_connections(), capacity:
        scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 2))
        scene.add_brokers(dice.below(3), [*PARTITIONS_OF_PARTS, TOPIC, SECOND, COORDINATOR])
        ways = Ways(scene, authority, None if tokens is None else AuthenticationToken(Wallet(scene)))
        clients = [ways.client() for _ in range(2)]
        users: list[User | Closer] = []
        for number in range(1 + dice.below(3)):
            kind = User if dice.happens(0.6) else Crowd
            users.append(kind(scene, clients[number % 2], number, KEYS))
        if dice.happens(0.4):
            users.append(Closer(scene, clients.pop()))
        rare = RareEvents(scene, Dice(world.seed, "rare events"))
        times = [10.0 ** (dice.chance() * 4 - 3) for _ in range(dice.below(3))]
        for at in times:
            world.after(at, rare.happen)
        troubles = Troubles(scene, 3, loses_receipts=True, refuses_for_good=True)
        more = 30.0 if dice.happens(0.3) else 5.0  # so that operations time out
        calm = max(servers.until, troubles.until, *times) + more
        world.after(calm, lambda: become_well(scene))
        world.run(
            until=lambda: scene.is_calm and all(caller.ended for user in users for caller in user.callers),
            limit=calm + 4 * PATIENCE,
        )
        for user in users:
            for caller in user.callers:
                caller.result()
        for client in clients:
            caller = world.spawn(lambda client=client: works(scene, client))  # type: ignore[misc]
            world.run(until=lambda caller=caller: caller.ended, limit=2 * PATIENCE)  # type: ignore[misc]
            caller.result()
        scene.end()


def everything_over_http(scene: Scene, authority: str) -> None:
    """Do what `test_everything.py` does, with clients that look up over HTTP."""
    servers = HttpServers(scene, 6)
    is_encrypted, has_two_hosts = scene.dice.happens(0.4), scene.dice.happens(0.4)
    hosts = (*((AWAY,) if has_two_hosts else ()), f"broker:{8443 if is_encrypted else 8080}")
    url = f"http{'s' * is_encrypted}://{','.join(hosts)}"
    scene.options = {"concurrent_lookup_requests": (1, 1000)[scene.dice.below(2)]}
    if scene.dice.happens(0.7):
        scene.options |= {"service_url": url, "tls_trust_certs_file_path": authority}
    else:
        primary, other = (ServiceInfo(each, None, authority) for each in (url, (HERE, SECURE)[scene.dice.below(2)]))
        scene.options |= {"service_url": AutoClusterFailover(primary, [other], check_interval_ms=300)}
    with servers.replace_connections():
        everything(scene)


@pytest.mark.parametrize("tokens", [None, TOKENS], ids=["anybody", "tokens"])
def test_whatever_http_servers_answer_no_call_hangs_and_all_is_well_again_when_they_are(
    authorities: list[Authority], tokens: Tokens | None
) -> None:
    trusted = authorities[0]
    files = trusted.certify(("broker",), signatures_of_one_size=True)
    play(15, lambda scene: looking_up(scene, trusted.file, tokens), CHANGEABLE, tokens=tokens, certificate=files)


def test_what_callers_are_told_is_true_when_brokers_are_found_over_http(authorities: list[Authority]) -> None:
    trusted = authorities[0]
    files = trusted.certify(("broker",), signatures_of_one_size=True)
    play(15, lambda scene: everything_over_http(scene, trusted.file), deduplication=True, certificate=files)
