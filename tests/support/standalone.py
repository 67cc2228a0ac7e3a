"""A real Apache Pulsar in one Java process: broker, bookie and metadata store; and a Pulsar proxy in front of a broker.

For several brokers of one cluster see `tests.support.cluster`.

It listens on loopback only, on ports that were free a moment before, and keeps its data in a folder of its own, from
which it can start again. It always ends by SIGKILL, even if the process that started it crashes. With `durable` it
writes to disk what it acknowledges, so that data survives a kill as it survives a crash of a real broker.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.admin import Admin
from tests.support.jars import PROXY_CACHE, PROXY_POM, jars, tool
from tests.support.ports import free_ports

START_SECONDS = 120.0
END_OF_LOG = 200_000  # bytes: half a minute of a busy broker, the longest wait for an answer
KEEPER = Path(__file__).with_name("keeper.py")

# Entries near 5 MiB, every full chunk, pass the bookie's limit only if it is raised by some bytes. And a bookie refuses
# to write on a disk that is 95 % full, on which a developer's machine has enough room for tests. Every two minutes a
# broker deletes what no subscription wants from the ledgers of before its last start, and tests read it by readers.
CONF = """
clusterName=standalone
brokerServicePort={service}
webServicePort={web}
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
managedLedgerDefaultEnsembleSize=1
managedLedgerDefaultWriteQuorum=1
managedLedgerDefaultAckQuorum=1
loadBalancerEnabled=false
allowAutoTopicCreationType=non-partitioned
transactionCoordinatorEnabled=true
acknowledgmentAtBatchIndexLevelEnabled=true
topicLevelPoliciesEnabled=true
brokerDeleteInactiveTopicsEnabled=false
nettyMaxFrameSizeBytes=5253120
journalSyncData={durable}
diskUsageThreshold=0.99
diskUsageWarnThreshold=0.99
diskUsageLwmThreshold=0.99
retentionCheckIntervalInSeconds=86400
"""

SYSTEM_PROPERTIES = [
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dotel.sdk.disabled=true",
]
LIMITS = ["-Xms512m", "-Xmx1g", "-XX:MaxDirectMemorySize=2g"]
QUICK_START = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # a start takes 5 s of CPU time instead of 9

# Settings of Pulsar's own scripts and configuration files that affect the speed of a broker.
LIMITS_AS_SHIPPED = ["-Xms2g", "-Xmx2g", "-XX:MaxDirectMemorySize=4g"]
CONF_AS_SHIPPED = "ledgerStorageClass=org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage\n"
OPENED = [
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/sun.net",
    "java.base/java.lang",
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
]


CONF_OF_PROXY = """
brokerServiceURL={broker}
brokerWebServiceURL={broker_web}
servicePort={service}
webServicePort={web}
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
clusterName=standalone
brokerProxyAllowedTargetPorts=*
brokerProxyCheckTargetAddress=false
"""
LIMITS_OF_PROXY = ["-Xmx256m", "-XX:MaxDirectMemorySize=256m"]
PROPERTIES_OF_PROXY = ["-Dotel.sdk.disabled=true", "-Dio.netty.tryReflectionSetAccessible=true"]


def java_with_pulsar(limits: list[str]) -> list[str]:
    """Return the command that runs a class of Apache Pulsar, without the class."""
    opens = [word for each in OPENED for word in ("--add-opens", f"{each}=ALL-UNNAMED")]
    return [tool("java"), *limits, *SYSTEM_PROPERTIES, *opens, "-cp", f"{jars()}/*"]


def complaints(log: str) -> str:
    """Return the warnings and errors of a log of Java, with the traces below them, or all of it if there are none."""
    found, is_inside = [], False
    for line in log.splitlines():
        if level := re.match(r"\S+ - (\w+) ", line):
            is_inside = level[1] in {"WARN", "ERROR"}
        if is_inside:
            found.append(line)
    return "\n".join(found) or log


class JavaProcess:
    """A process that serves Pulsar's clients, not started yet."""

    def __init__(self, folder: Path, name: str) -> None:
        self._service, self._web = free_ports(2)
        self._folder = folder
        self._log = folder / "log"
        self._conf = folder / f"{name}.conf"
        self._keeper: subprocess.Popen[bytes] | None = None
        self.environment = dict(os.environ)
        self.service_url = f"pulsar://127.0.0.1:{self._service}"
        self.web_url = f"http://127.0.0.1:{self._web}"

    def configure(self, settings: str) -> None:
        """Add lines to the configuration, before the start. Of two lines for one setting the later counts."""
        with self._conf.open("a") as conf:
            conf.write(settings)

    def start(self) -> None:
        """Start on the data of the last run, if there was one, and wait until the process serves clients."""
        with self._log.open("ab") as log:
            self._keeper = subprocess.Popen(  # noqa: S603 -- our own words
                [sys.executable, str(KEEPER), *self._command()],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,  # Ctrl-C must reach the tests only, which then end the process
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._is_ready():
            if self._keeper.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"it did not start:\n{complaints(self.said_since(0))}")
            time.sleep(0.2)

    def log_size(self) -> int:
        """Return the size of the log so far, for `said_since`."""
        return self._log.stat().st_size if self._log.exists() else 0

    def said_since(self, log_size: int) -> str:
        """Return the log since then, or its end if it is long. It helps to find out why a test failed."""
        if not self._log.exists():
            return ""
        with self._log.open("rb") as log:
            log.seek(max(log_size, self.log_size() - END_OF_LOG))
            return log.read().decode(errors="replace")

    def kill(self) -> None:
        """End the process with SIGKILL, and wait until it is gone."""
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None

    @property
    def is_running(self) -> bool:
        """Whether it was started and not killed since."""
        return self._keeper is not None

    @property
    def pid(self) -> int:
        """The Java process."""
        assert self._keeper is not None
        keeper = self._keeper.pid
        (process,) = map(int, Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split())
        return process

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Stop the process for the block: it reads and writes nothing, and its connections stay open."""
        process = self.pid
        os.kill(process, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(process, signal.SIGCONT)

    def _is_ready(self) -> bool:
        """Return whether it listens on both ports."""
        try:
            for port in (self._service, self._web):
                socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            return False
        return True

    def _command(self) -> list[str]:
        raise NotImplementedError


class BrokerProcess(JavaProcess):
    """A process with a broker in it, for which `CONF` is written."""

    def __init__(self, folder: Path, *, durable: bool) -> None:
        super().__init__(folder, "broker")
        self.configure(CONF.format(service=self._service, web=self._web, durable=str(durable).lower()))
        self.admin = Admin(self.web_url)

    def _is_ready(self) -> bool:
        return self.admin.is_ready()


class Standalone(BrokerProcess):
    """A broker with its own bookie and metadata store, whose data is in `folder`.

    It starts fast; with `as_shipped` it starts slowly, and then runs faster.
    """

    def __init__(self, folder: Path, *, durable: bool = False, as_shipped: bool = False) -> None:
        super().__init__(folder, durable=durable)
        (self._bookie,) = free_ports(1)
        self._limits = LIMITS_AS_SHIPPED if as_shipped else [*LIMITS, *QUICK_START]
        if as_shipped:
            self.configure(CONF_AS_SHIPPED)

    def _command(self) -> list[str]:
        main = ["org.apache.pulsar.PulsarStandaloneStarter", "-c", str(self._conf), "-nss", "-nfw"]
        return [*java_with_pulsar(self._limits), *main, "--bookkeeper-port", str(self._bookie)]


class Proxy(JavaProcess):
    """One Pulsar proxy."""

    def __init__(self, folder: Path, broker: str, broker_web: str, settings: str = "") -> None:
        super().__init__(folder, "proxy")
        conf = CONF_OF_PROXY.format(broker=broker, broker_web=broker_web, service=self._service, web=self._web)
        self.configure(conf + settings)

    def _command(self) -> list[str]:
        java = [tool("java"), *LIMITS_OF_PROXY, *QUICK_START, *PROPERTIES_OF_PROXY]
        main = ["org.apache.pulsar.proxy.server.ProxyServiceStarter", "--config", str(self._conf)]
        return [*java, "-cp", f"{jars(PROXY_CACHE, PROXY_POM)}/*", *main]
