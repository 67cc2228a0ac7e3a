"""What a client that is to watch over several clusters asks its guardian for; loaded only for such a client."""

from collections.abc import Callable

from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.failover import Failover, Terms
from pulsar_actors.runtime.actor import Address
from pulsar_actors.runtime.binding_messages import Place
from pulsar_actors.runtime.client_actor import Admit
from pulsar_actors.runtime.failover_actor import FAILOVER, FailoverActor, Watched
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.wire.service_url import ServiceUrl


def watch_over(given: AutoClusterFailover, timeout: float, go_to: Callable[[ServiceInfo], None]) -> Admit:
    """Ask for an actor that probes hosts, for no longer than the `timeout` in seconds, and has the client `go_to`."""
    clusters = given.clusters
    terms = Terms(len(clusters), given.check_interval_ms / 1000, given.failover_threshold, given.switch_back_threshold)
    urls = tuple(ServiceUrl.parse(each.service_url) for each in clusters)

    def use(cluster: int) -> None:
        go_to(clusters[cluster])

    watched = Watched(urls, timeout, use)

    def make(loop: Loop, place: Place) -> Address:
        return FailoverActor.start(loop, place, Failover(terms), watched)

    return Admit(FAILOVER, make, _never)


def _never(_: PulsarException) -> None:
    """Do nothing: a client that is closed already needs no failover."""
