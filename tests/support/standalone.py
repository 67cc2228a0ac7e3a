"""A real Apache Pulsar in one Java process: broker, bookie and metadata store.

It listens on loopback only, on ports that were free a moment ago, and keeps its data in a folder of its own, from
which it can start again. It is always ended by SIGKILL, also when the process that started it ends in whatever way;
`durable` makes it write to disk what it has acknowledged, so that a kill is a true crash and not a loss of what only
memory had.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.admin import Admin
from tests.support.jars import jars, tool
from tests.support.ports import free_ports

START_SECONDS = 120.0
END_OF_LOG = 200_000  # bytes: half a minute of a busy broker, which is how long an answer is waited for
KEEPER = Path(__file__).with_name("keeper.py")

# Entries near 5 MiB, every full chunk, pass the bookie's limit only if it is raised by some bytes.
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
"""

SYSTEM_PROPERTIES = [
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dotel.sdk.disabled=true",
]
LIMITS = ["-Xms512m", "-Xmx1g", "-XX:MaxDirectMemorySize=2g"]
QUICK_START = ["-XX:TieredStopAtLevel=1"]  # compiles little and soon: a start costs 11 s of CPU time instead of 18

# What Pulsar's own scripts and configuration files say, where it matters for how fast a broker is.
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


class Standalone:
    """One broker, whose data is in `folder`. It starts soon; `as_shipped` it takes longer, and is faster then."""

    def __init__(self, folder: Path, *, durable: bool = False, as_shipped: bool = False) -> None:
        self._service, self._web, self._bookie = free_ports(3)
        self._folder = folder
        self._log = folder / "log"
        self._conf = folder / "broker.conf"
        self._conf.write_text(CONF.format(service=self._service, web=self._web, durable=str(durable).lower()))
        self._limits = LIMITS_AS_SHIPPED if as_shipped else [*LIMITS, *QUICK_START]
        if as_shipped:
            self.configure(CONF_AS_SHIPPED)
        self._keeper: subprocess.Popen[bytes] | None = None
        self.service_url = f"pulsar://127.0.0.1:{self._service}"
        self.web_url = f"http://127.0.0.1:{self._web}"
        self.admin = Admin(self.web_url)

    def configure(self, settings: str) -> None:
        """Add lines to the configuration, before the start; of two lines for one setting the later counts."""
        with self._conf.open("a") as conf:
            conf.write(settings)

    def start(self) -> None:
        """Start on the data of the last time, if there was one, and wait until clients can be served."""
        with self._log.open("ab") as log:
            self._keeper = subprocess.Popen(  # noqa: S603 -- our own words
                [sys.executable, str(KEEPER), *self._command()],
                cwd=self._folder,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,  # a Ctrl-C is for the tests, which end the broker when they are through with it
            )
        deadline = time.monotonic() + START_SECONDS
        while not self.admin.is_ready():
            if self._keeper.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the broker did not start:\n{self.said_since(0)}")
            time.sleep(0.2)

    @contextlib.contextmanager
    def stalled(self) -> Iterator[None]:
        """Have it read and say nothing, without closing a connection."""
        assert self._keeper is not None
        keeper = self._keeper.pid
        (broker,) = map(int, Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split())
        os.kill(broker, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(broker, signal.SIGCONT)

    def log_size(self) -> int:
        """Tell how much it has said so far, for `said_since`."""
        return self._log.stat().st_size if self._log.exists() else 0

    def said_since(self, log_size: int) -> str:
        """Give what it has said since then, for whoever wonders why a test failed; the end of it, if that is long."""
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

    def _command(self) -> list[str]:
        opens = [word for each in OPENED for word in ("--add-opens", f"{each}=ALL-UNNAMED")]
        java = [tool("java"), *self._limits, *SYSTEM_PROPERTIES, *opens, "-cp", f"{jars()}/*"]
        main = ["org.apache.pulsar.PulsarStandaloneStarter", "-c", str(self._conf), "-nss", "-nfw"]
        return [*java, *main, "--bookkeeper-port", str(self._bookie)]
