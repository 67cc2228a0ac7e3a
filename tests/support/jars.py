"""The jars of Apache Pulsar, of its proxy and of Athenz, fetched once by Maven into `~/.cache/pulsar_actors/.../lib`.

They are outside the checkout: all checkouts and environments of a machine share them. The folder gets its name when it
is complete. Maven's own cache allows one writer only. So of two test runs that start without the folder, one fetches
the jars, and the other waits and then finds them.
"""

import shutil
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

VERSION = "4.2.4"
CACHE = Path.home() / ".cache" / "pulsar_actors" / VERSION
FETCH_SECONDS = 900.0

# The parent is imported for its versions: without it Maven mixes those of OpenTelemetry, and the broker dies at start.
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulsar.actors</groupId>
  <artifactId>broker-under-test</artifactId>
  <version>1</version>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar</artifactId><version>{VERSION}</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar-broker</artifactId><version>{VERSION}</version>
  </dependency></dependencies>
</project>
"""

PROXY_VERSION = "4.0.8"
PROXY_CACHE = Path.home() / ".cache" / "pulsar_actors" / f"proxy-{PROXY_VERSION}"

# Two dependencies were never published in this version: one is left out, the other is of the version before.
PROXY_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulsar.actors</groupId>
  <artifactId>proxy-under-test</artifactId>
  <version>1</version>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar</artifactId><version>{PROXY_VERSION}</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar-proxy</artifactId><version>{PROXY_VERSION}</version>
    <exclusions>
      <exclusion><groupId>org.apache.pulsar</groupId><artifactId>jetcd-core-shaded</artifactId></exclusion>
      <exclusion><groupId>org.apache.pulsar</groupId><artifactId>pulsar-opentelemetry</artifactId></exclusion>
    </exclusions>
  </dependency><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar-opentelemetry</artifactId><version>4.0.7</version>
  </dependency></dependencies>
</project>
"""

ATHENZ_CACHE = Path.home() / ".cache" / "pulsar_actors" / f"athenz-{PROXY_VERSION}"

# The plug-in was never published in the broker's version. It expects the client's jars, which are the broker's.
ATHENZ_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pulsar.actors</groupId>
  <artifactId>athenz-under-test</artifactId>
  <version>1</version>
  <dependencyManagement><dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar</artifactId><version>{PROXY_VERSION}</version>
    <type>pom</type><scope>import</scope>
  </dependency></dependencies></dependencyManagement>
  <dependencies><dependency>
    <groupId>org.apache.pulsar</groupId><artifactId>pulsar-client-auth-athenz</artifactId>
    <version>{PROXY_VERSION}</version>
  </dependency></dependencies>
</project>
"""


class Unavailable(Exception):
    """A real broker cannot run on this machine. The text says what is missing."""


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is not on PATH")
    return found


def jars(cache: Path = CACHE, pom: str = POM) -> Path:
    """Return the folder of the broker's jars, or of another pom's. Fetch them if the folder does not exist yet."""
    lib = cache / "lib"
    if not lib.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with alone(cache / "lock"):
            if not lib.exists():
                fetch(cache, pom).rename(lib)
    return lib


@contextmanager
def alone(lock: Path) -> Generator[None, None, None]:
    """Hold a lock between processes, which the system releases if the process dies."""
    with closing(sqlite3.connect(lock, timeout=FETCH_SECONDS, isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        yield


def fetch(cache: Path, pom: str) -> Path:
    """Copy the jars with Maven into a folder beside the final one."""
    partial = cache / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    (cache / "pom.xml").write_text(pom)
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
    command = [tool("mvn"), "-q", "-B", "-f", str(cache / "pom.xml"), *goal]
    done = subprocess.run(  # noqa: S603 -- our own words
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode:
        raise Unavailable(f"Maven could not fetch the broker:\n{done.stdout.decode(errors='replace')[-4000:]}")
    return partial
