"""The broker of the runs: an Apache Pulsar, or a process of the embedded broker, behind two gates."""

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pulsar_actors as pulsar
from tests.chaos.gate import Gate
from tests.support.admin import Admin
from tests.support.certificates import Authority
from tests.support.guards import ME, TOKENS, guard
from tests.support.ports import free_ports
from tests.support.standalone import Standalone

START_SECONDS = 120.0
TOKEN_SECONDS = 3

_SETTINGS = """
brokerDeduplicationEnabled=true
advertisedListeners=inside:pulsar://127.0.0.1:{inside},gate:pulsar://127.0.0.1:{gate},gate:pulsar+ssl://127.0.0.1:{tls}
internalListenerName=inside
tlsCertRefreshCheckDurationSec=1
defaultNumberOfNamespaceBundles=1
defaultRetentionTimeInMinutes=-1
defaultRetentionSizeInMB=-1
"""


class Target:
    """A broker that clients reach through gates: a plain one, and where `has_tls` another with TLS."""

    has_tls = False
    is_durable = False
    """Whether what was acknowledged is there after a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.admin: Admin
        self.gate = Gate()
        self.tls_gate = Gate()
        self.token_is_valid = True

    @property
    def gates(self) -> tuple[Gate, Gate]:
        return self.gate, self.tls_gate

    def client(self, *, tls: bool, **options: Any) -> pulsar.Client:
        """Make a client that comes through a gate."""
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def pid(self) -> int:
        raise NotImplementedError

    def freeze(self) -> None:
        """Stop the process: it neither reads nor writes."""
        os.kill(self.pid(), signal.SIGSTOP)

    def thaw(self) -> None:
        os.kill(self.pid(), signal.SIGCONT)

    def rotate_certificates(self) -> None:
        """Have another authority certify the broker, and clients trust that one."""
        raise NotImplementedError

    def prepare(self, namespace: str) -> None:
        """Make the namespace of a run."""
        self.admin.create_namespace(namespace)
        self.admin.create_partitioned(f"persistent://{namespace}/parts", 3)
        for name in ("plain", "results"):
            self.admin.create(f"persistent://{namespace}/{name}")

    def heal(self) -> None:
        """End what lasts."""
        self.token_is_valid = True
        for gate in self.gates:
            gate.heal()

    def close(self) -> None:
        with ExitStack() as closing:
            for gate in self.gates:
                closing.enter_context(gate)
            self.kill()


class ApachePulsar(Target):
    """One that wants credentials: a token, over TLS or not."""

    has_tls = is_durable = True

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._standalone = Standalone(folder, durable=True)
        self._authority = Authority(folder)
        self._authorities = 1
        tls_port = int(guard(self._standalone, self._authority).rpartition(":")[2])
        self.trusted = folder / "trusted.pem"
        shutil.copy(self._authority.file, self.trusted)
        inside = int(self._standalone.service_url.rpartition(":")[2])
        self._standalone.configure(_SETTINGS.format(inside=inside, gate=self.gate.port, tls=self.tls_gate.port))
        self.gate.lead_to(inside)
        self.tls_gate.lead_to(tls_port)
        self.admin = self._standalone.admin

    def client(self, *, tls: bool, **options: Any) -> pulsar.Client:
        scheme, port = ("pulsar+ssl", self.tls_gate.port) if tls else ("pulsar", self.gate.port)
        return pulsar.Client(
            f"{scheme}://127.0.0.1:{port}",
            authentication=pulsar.AuthenticationToken(self._token),
            tls_trust_certs_file_path=str(self.trusted),
            listener_name="gate",
            **options,
        )

    def start(self) -> None:
        self._standalone.start()
        deadline = time.monotonic() + START_SECONDS
        while not self.admin.has_coordinators():
            if time.monotonic() > deadline:
                raise TimeoutError("no transaction coordinator has come up")
            time.sleep(0.1)

    def kill(self) -> None:
        self._standalone.kill()

    def pid(self) -> int:
        return self._standalone.pid

    def rotate_certificates(self) -> None:
        self._authorities += 1
        self._authority = Authority(self.folder, f"authority {self._authorities}")
        shutil.copy(self._authority.file, self.trusted)
        self._authority.certify(file_name="broker")

    def _token(self) -> str:
        return TOKENS.issue(ME, lifetime_seconds=TOKEN_SECONDS if self.token_is_valid else -1)


class EmbeddedProcess(Target):
    """The embedded broker in a process of its own. What it stores ends with it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port, self._web = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self.gate.lead_to(self._port)
        self.service_url = f"pulsar://127.0.0.1:{self._port}"
        self.admin = Admin(f"http://127.0.0.1:{self._web}")

    def client(self, *, tls: bool, **options: Any) -> pulsar.Client:
        return pulsar.Client(f"pulsar://127.0.0.1:{self.gate.port}", listener_name="gate", **options)

    def start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            [
                sys.executable,
                str(Path(__file__).with_name("embedded.py")),
                *map(str, (self._port, self._web, self.gate.port)),
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
