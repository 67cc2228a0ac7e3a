"""Several Apache Pulsar brokers on one store, which is a process with ZooKeeper and a bookie.

A broker may be killed or stopped while the others and the store go on. The topics of one that is lost move when its
session with ZooKeeper ends.
"""

import subprocess
from pathlib import Path

from tests.support.standalone import (
    CONF,
    LIMITS,
    QUICK_START,
    START_SECONDS,
    BrokerProcess,
    JavaProcess,
    java_with_pulsar,
)

SESSION_SECONDS = 6
"""How long a broker that says nothing keeps its topics: the least that a ZooKeeper with its defaults grants."""
COORDINATORS = 4
_BUNDLES = 4

_CONF_OF_A_BROKER = f"""
metadataStoreUrl=zk:127.0.0.1:{{zookeeper}}
configurationMetadataStoreUrl=zk:127.0.0.1:{{zookeeper}}
metadataStoreSessionTimeoutMillis={1000 * SESSION_SECONDS}
loadBalancerEnabled=true
loadBalancerSheddingEnabled=false
loadBalancerAutoBundleSplitEnabled=false
defaultNumberOfNamespaceBundles={_BUNDLES}
"""


class Store(JavaProcess):
    """ZooKeeper and one bookie, which write to disk what they acknowledge."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "store")
        self.zookeeper, self._bookie = self._service, self._web
        self.configure(CONF.format(service=0, web=0, durable="true"))
        self.environment["PULSAR_STANDALONE_USE_ZOOKEEPER"] = "1"

    def prepare(self, broker: BrokerProcess) -> None:
        """Write what brokers expect to find there, unless it is there already."""
        address = f"zk:127.0.0.1:{self.zookeeper}"
        words = {
            "--cluster": "standalone",
            "--metadata-store": address,
            "--configuration-metadata-store": address,
            "--web-service-url": broker.web_url,
            "--broker-service-url": broker.service_url,
            "--initial-num-transaction-coordinators": str(COORDINATORS),
        }
        with self._log.open("ab") as log:
            subprocess.run(  # noqa: S603 - our own words
                [
                    *java_with_pulsar([*LIMITS, *QUICK_START]),
                    "org.apache.pulsar.PulsarClusterMetadataSetup",
                    *(word for pair in words.items() for word in pair),
                ],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=START_SECONDS,
                check=True,
            )

    def _command(self) -> list[str]:
        return [
            *java_with_pulsar([*LIMITS, *QUICK_START]),
            "org.apache.pulsar.PulsarStandaloneStarter",
            *("-c", str(self._conf), "-nss", "-nfw", "--no-broker"),
            *("--zookeeper-port", str(self.zookeeper), "--bookkeeper-port", str(self._bookie)),
        ]


class BrokerOfCluster(BrokerProcess):
    """One of the brokers."""

    def __init__(self, folder: Path, store: Store) -> None:
        super().__init__(folder, durable=True)
        self.configure(_CONF_OF_A_BROKER.format(zookeeper=store.zookeeper))

    def _command(self) -> list[str]:
        return [
            *java_with_pulsar([*LIMITS, *QUICK_START]),
            "org.apache.pulsar.PulsarBrokerStarter",
            *("-c", str(self._conf)),
        ]


class Cluster:
    """A store and its brokers, not started yet. The brokers may still be configured."""

    def __init__(self, folder: Path, brokers: int) -> None:
        folders = [folder / name for name in ("store", *(f"broker-{number}" for number in range(brokers)))]
        for each in folders:
            each.mkdir()
        self.store = Store(folders[0])
        self.brokers = [BrokerOfCluster(each, self.store) for each in folders[1:]]

    def start_store(self) -> None:
        """Start the store if it does not run, and have it know the cluster."""
        if not self.store.is_running:
            self.store.start()
            self.store.prepare(self.brokers[0])
