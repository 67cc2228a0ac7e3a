"""A real Apache Pulsar broker in one Java process, for as long as a `with` block lasts.

Maven fetches the broker's jars once, into `~/.cache/pulsar_actors/<version>/lib`; the process keeps its data in a
scratch folder and listens on loopback only. It has two doors: its own clients (of system topics and transactions) use
one, and a client that comes in by the other is told by every lookup to come back to `tap`, the port where a recorder
stands.
"""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

VERSION = "4.2.4"
CACHE = Path.home() / ".cache" / "pulsar_actors" / VERSION
START_SECONDS = 120.0

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulsar.actors</groupId>
  <artifactId>broker-under-test</artifactId>
  <version>1</version>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar</artifactId><version>{version}</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar-broker</artifactId><version>{version}</version>
  </dependency></dependencies>
</project>
"""

CONF = """
clusterName=standalone
brokerServicePort={inner}
webServicePort={web}
bindAddress=127.0.0.1
advertisedAddress=127.0.0.1
bindAddresses=tap:pulsar://127.0.0.1:{outer}
advertisedListeners=inner:pulsar://127.0.0.1:{inner},tap:pulsar://127.0.0.1:{tap}
internalListenerName=inner
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
journalSyncData=false
"""

SYSTEM_PROPERTIES = [
    "-Dbookkeeper.metadata.bookie.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataBookieDriver",
    "-Dbookkeeper.metadata.client.drivers=org.apache.pulsar.metadata.bookkeeper.PulsarMetadataClientDriver",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dotel.sdk.disabled=true",
]
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


class Broker(NamedTuple):
    outer: int  # the port a recorder forwards to
    web: int

    def admin(self, method: str, path: str, body: object = None) -> bytes:
        """One call of the admin REST interface, such as `PUT persistent/public/default/t/unload`."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.web}/admin/v2/{path}",
            data,
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 -- as above
            return bytes(answer.read())


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        message = f"{name} is needed, and is not on PATH"
        raise FileNotFoundError(message)
    return found


def jars() -> Path:
    """The folder of the broker's jars, fetched when it is not there yet."""
    lib = CACHE / "lib"
    if not lib.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "pom.xml").write_text(POM.format(version=VERSION))
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory=partial"]
        subprocess.run([tool("mvn"), "-q", "-B", *goal], cwd=CACHE, check=True)  # noqa: S603 -- our own words
        (CACHE / "partial").rename(lib)
    return lib


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(each.getsockname()[1]) for each in held]
    for each in held:
        each.close()
    return ports


def ready(broker: Broker) -> bool:
    try:
        healthy = broker.admin("GET", "brokers/health") == b"ok"
        return healthy and "public/default" in json.loads(broker.admin("GET", "namespaces/public"))
    except OSError:
        return False


@contextmanager
def running_broker(tap: int, settings: str = "") -> Generator[Broker, None, None]:
    """Start a broker, with these lines added to its configuration, and stop it at the end."""
    inner, outer, web, bookie = free_ports(4)
    with tempfile.TemporaryDirectory() as scratch:
        conf = Path(scratch, "broker.conf")
        conf.write_text(CONF.format(inner=inner, outer=outer, web=web, tap=tap) + settings)
        opens = [word for each in OPENED for word in ("--add-opens", f"{each}=ALL-UNNAMED")]
        limits = ["-Xms512m", "-Xmx1g", "-XX:MaxDirectMemorySize=2g"]
        main = ["org.apache.pulsar.PulsarStandaloneStarter", "-c", str(conf), "-nss", "-nfw", "--wipe-data"]
        command = [tool("java"), *limits, *SYSTEM_PROPERTIES, *opens, "-cp", f"{jars()}/*", *main]
        with Path(scratch, "log").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603 -- our own words
                [*command, "--bookkeeper-port", str(bookie)], cwd=scratch, stdout=log, stderr=log, env={**os.environ}
            )
            try:
                broker = Broker(outer, web)
                deadline = time.monotonic() + START_SECONDS
                while not ready(broker):
                    if process.poll() is not None or time.monotonic() > deadline:
                        raise RuntimeError(Path(scratch, "log").read_text()[-4000:])
                    time.sleep(0.5)
                yield broker
            finally:
                process.kill()
                process.wait()
