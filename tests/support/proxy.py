"""A real Pulsar proxy in front of a broker.

It is ended like the broker, by SIGKILL, and starts again on the same ports.
"""

import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.support.jars import PROXY_CACHE, PROXY_POM, jars, tool
from tests.support.ports import free_ports
from tests.support.standalone import END_OF_LOG, KEEPER, QUICK_START, START_SECONDS

CONF = """
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
LIMITS = ["-Xmx256m", "-XX:MaxDirectMemorySize=256m"]
PROPERTIES = ["-Dotel.sdk.disabled=true", "-Dio.netty.tryReflectionSetAccessible=true"]


class Proxy:
    """One proxy, not started yet."""

    def __init__(self, folder: Path, broker: str, broker_web: str, settings: str = "") -> None:
        self._service, self._web = free_ports(2)
        self._log = folder / "log"
        self._conf = folder / "proxy.conf"
        conf = CONF.format(broker=broker, broker_web=broker_web, service=self._service, web=self._web)
        self._conf.write_text(conf + settings)
        self._keeper: subprocess.Popen[bytes] | None = None
        self.service_url = f"pulsar://127.0.0.1:{self._service}"
        self.web_url = f"http://127.0.0.1:{self._web}"

    def start(self) -> None:
        """Start, and wait until clients can be served."""
        lib = jars(PROXY_CACHE, PROXY_POM)
        java = [tool("java"), *LIMITS, *QUICK_START, *PROPERTIES, "-cp", f"{lib}/*"]
        main = ["org.apache.pulsar.proxy.server.ProxyServiceStarter", "--config", str(self._conf)]
        with self._log.open("ab") as log:
            self._keeper = subprocess.Popen(  # noqa: S603 -- our own words
                [sys.executable, str(KEEPER), *java, *main],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_SECONDS
        while not (listens(self._service) and listens(self._web)):
            if self._keeper.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the proxy did not start:\n{self._log.read_text(errors='replace')[-END_OF_LOG:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End the process with SIGKILL, and wait until it is gone."""
        if self._keeper is not None:
            self._keeper.communicate()
            self._keeper = None


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
    except OSError:
        return False
    return True
