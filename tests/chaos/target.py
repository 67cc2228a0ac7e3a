"""The broker of the runs, or brokers, behind relays: an Apache Pulsar, two of one cluster, or the embedded broker."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pulsar_actors as pulsar
from tests.chaos.clock import Clock
from tests.support.admin import Admin, AdminError
from tests.support.certificates import Authority
from tests.support.cluster import SESSION_SECONDS, Cluster
from tests.support.guards import ME, TOKENS, guard
from tests.support.ports import free_ports
from tests.support.relay import Relay
from tests.support.standalone import BrokerProcess, Standalone

START_SECONDS = 120.0
TOKEN_SECONDS = 3

_SETTINGS = """
brokerDeduplicationEnabled=true
brokerClient_operationTimeoutMs=3000
advertisedListeners=inside:pulsar://127.0.0.1:{inside},relay:pulsar://127.0.0.1:{relay},relay:pulsar+ssl://127.0.0.1:{tls}
internalListenerName=inside
tlsCertRefreshCheckDurationSec=1
defaultRetentionTimeInMinutes=-1
defaultRetentionSizeInMB=-1
"""
"""A broker reads a topic of its own when it loads another. If its own moves, too, it may wait for it until that
timeout, by default for half a minute, and nobody gets messages of the other before."""


class Relays(NamedTuple):
    """Those before one broker."""

    plain: Relay
    tls: Relay


class Target:
    """Brokers, each behind a plain relay, and where there is TLS behind another with TLS."""

    offers: frozenset[str] = frozenset()
    """What faults may need: see `Fault.needs`."""

    def __init__(self, folder: Path, brokers: int = 1) -> None:
        self.folder = folder
        self.before = [Relays(Relay(), Relay()) for _ in range(brokers)]
        self.token_is_valid = True
        self._frozen = 0

    @property
    def admin(self) -> Admin:
        """The administration of a broker that runs."""
        raise NotImplementedError

    @property
    def relays(self) -> list[Relay]:
        return [relay for relays in self.before for relay in relays]

    def client(self, *, tls: bool, **options: Any) -> pulsar.Client:
        """Make a client that comes through a relay."""
        raise NotImplementedError

    def start(self) -> None:
        """Start what does not run."""
        raise NotImplementedError

    def kill(self) -> None:
        """Kill a broker."""
        raise NotImplementedError

    def end(self) -> None:
        """Kill all processes."""
        self.kill()

    def pid(self) -> int:
        """Return the process of a broker."""
        raise NotImplementedError

    def freeze(self) -> None:
        """Stop a broker: it neither reads nor writes."""
        self._frozen = self.pid()
        os.kill(self._frozen, signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self._frozen, signal.SIGCONT)

    def prepare(self, namespace: str) -> None:
        """Have everything run, and make the namespace of a run."""
        self.start()
        self.admin.create_namespace(namespace)
        self.admin.create_partitioned(f"persistent://{namespace}/parts", 3)
        for name in ("plain", "results", "large"):
            self.admin.create(f"persistent://{namespace}/{name}")

    def open_transactions(self, topic: str, subscription: str = "") -> Any:
        """Return what says that transactions are open on a topic or a subscription; nothing if none are."""

    def reload_coordinators(self) -> None:
        """Have the coordinators of transactions read again what they have stored."""

    def heal(self) -> None:
        """End what lasts."""
        self.token_is_valid = True
        for relay in self.relays:
            relay.heal()

    def close(self) -> None:
        with ExitStack() as closing:
            for relay in self.relays:
                closing.enter_context(relay)
            self.end()


class Apache(Target):
    """Brokers that want credentials: a token, over TLS or not."""

    def __init__(self, folder: Path, brokers: Sequence[BrokerProcess]) -> None:
        super().__init__(folder, len(brokers))
        self.clock = Clock(folder)
        self.trusted = folder / "trusted.pem"
        self._brokers = brokers
        self._turn = 0
        self._authority = Authority(folder)
        self._authorities = 1
        shutil.copy(self._authority.file, self.trusted)
        for broker, relays in zip(brokers, self.before, strict=True):
            tls_port = int(guard(broker, self._authority).rpartition(":")[2])
            inside = int(broker.service_url.rpartition(":")[2])
            broker.configure(_SETTINGS.format(inside=inside, relay=relays.plain.port, tls=relays.tls.port))
            broker.environment.update(self.clock.environment)
            relays.plain.lead_to(inside)
            relays.tls.lead_to(tls_port)

    @property
    def admin(self) -> Admin:
        return next(broker.admin for broker in self._brokers if broker.is_running)

    def client(self, *, tls: bool, **options: Any) -> pulsar.Client:
        ports = [relays.tls.port if tls else relays.plain.port for relays in self.before]
        return pulsar.Client(
            f"pulsar{'+ssl' * tls}://{','.join(f'127.0.0.1:{port}' for port in ports)}",
            authentication=pulsar.AuthenticationToken(self._token),
            tls_trust_certs_file_path=str(self.trusted),
            listener_name="relay",
            **options,
        )

    def start(self) -> None:
        for broker in self._brokers:
            if not broker.is_running:
                broker.start()
        deadline = time.monotonic() + START_SECONDS
        while not self.admin.coordinators():
            if time.monotonic() > deadline:
                raise TimeoutError("no transaction coordinator has come up")
            time.sleep(0.1)

    def open_transactions(self, topic: str, subscription: str = "") -> Any:
        try:
            return self.admin.open_transactions(topic, subscription)
        except AdminError as error:
            return str(error)  # such as that of a topic that is just being loaded

    def reload_coordinators(self) -> None:
        self.admin.reload_coordinators()

    def kill(self) -> None:
        self._next().kill()

    def end(self) -> None:
        for broker in self._brokers:
            broker.kill()

    def pid(self) -> int:
        return self._next().pid

    def rotate_certificates(self) -> None:
        """Have another authority certify the brokers, and clients trust that one."""
        self._authorities += 1
        self._authority = Authority(self.folder, f"authority {self._authorities}")
        shutil.copy(self._authority.file, self.trusted)
        self._authority.certify(file_name="broker")

    def _next(self) -> BrokerProcess:
        """Return the broker whose turn it is to have a fault."""
        self._turn += 1
        return self._brokers[self._turn % len(self._brokers)]

    def _token(self) -> str:
        return TOKENS.issue(ME, lifetime_seconds=TOKEN_SECONDS if self.token_is_valid else -1)


class ApachePulsar(Apache):
    """One broker, with its bookie in the same process."""

    offers = frozenset({"tls", "durable", "clock", "disk"})

    def __init__(self, folder: Path) -> None:
        standalone = Standalone(folder, durable=True)
        super().__init__(folder, [standalone])
        standalone.configure("defaultNumberOfNamespaceBundles=1\n")

    def fill_disk(self) -> None:
        """Let each write to a file fail. A limit on the size of files does it; what follows is that of a full disk."""
        resource.prlimit(self.pid(), resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def restart(self) -> None:
        """Start again, with room on the disk: a bookie that could not write has given up."""
        self.kill()
        self.start()


class ApacheCluster(Apache):
    """Two brokers, with ZooKeeper and the bookie in another process."""

    offers = frozenset({"tls", "durable", "clock", "several"})
    session_seconds = float(SESSION_SECONDS)

    def __init__(self, folder: Path) -> None:
        self._cluster = Cluster(folder, 2)
        super().__init__(folder, self._cluster.brokers)

    def start(self) -> None:
        self._cluster.start_store()
        super().start()

    def end(self) -> None:
        super().end()
        self._cluster.store.kill()


class EmbeddedProcess(Target):
    """The embedded broker in a process of its own. What it stores ends with it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port, self._web = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self.before[0].plain.lead_to(self._port)
        self.service_url = f"pulsar://127.0.0.1:{self._port}"
        self._admin = Admin(f"http://127.0.0.1:{self._web}")

    @property
    def admin(self) -> Admin:
        return self._admin

    def client(self, *, tls: bool, **options: Any) -> pulsar.Client:
        return pulsar.Client(f"pulsar://127.0.0.1:{self.before[0].plain.port}", listener_name="relay", **options)

    def start(self) -> None:
        if self._process is not None:
            return
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            [
                sys.executable,
                str(Path(__file__).with_name("embedded.py")),
                *map(str, (self._port, self._web, self.before[0].plain.port)),
            ],
            stdin=subprocess.PIPE,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self.admin.is_ready():
            if time.monotonic() > deadline:
                raise TimeoutError("the embedded broker has not started")
            time.sleep(0.05)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid
