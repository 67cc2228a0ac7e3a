"""Whatever befalls a broker, or the network before it, nothing is lost, and the work goes on."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from pulsar_actors.client.history import StateChange
from tests.chaos.faults import FAULTS, Fault, fault_of, is_possible
from tests.chaos.run import Run, longest_pause, losses_noted
from tests.chaos.target import ApacheCluster, ApachePulsar, EmbeddedProcess, Target
from tests.histories.history import History

SECONDS = 1.0
SEED = 0
OF_THE_EMBEDDED_BROKER = ("freeze", "unload", "reset", "garbage")
"""Those of the network are the same for any broker."""
OF_SEVERAL_BROKERS = ("lost broker", "kill -9", "freeze", "unload")
"""Those that move topics from one to the other."""


def running(kind: type[Target], factory: pytest.TempPathFactory) -> Iterator[Target]:
    target = kind(factory.mktemp("target"))
    target.start()
    yield target
    target.close()


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    yield from running(EmbeddedProcess, tmp_path_factory)


@pytest.fixture(scope="module")
def apache_pulsar(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    yield from running(ApachePulsar, tmp_path_factory)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    yield from running(ApacheCluster, tmp_path_factory)


@pytest.mark.parametrize("fault", [fault_of(name) for name in OF_THE_EMBEDDED_BROKER], ids=lambda fault: fault.name)
def test_with_the_embedded_broker(embedded: Target, fault: Fault) -> None:
    assert Run(embedded, fault, SEED, SECONDS).play().broken == ()


def test_a_connection_that_is_lost_without_the_fault_is_in_the_history(embedded: Target) -> None:
    history = History()
    with losses_noted(history), closing(embedded.client(tls=False)) as client:
        producer = client.create_producer("lost-without-the-fault")
        assert history.disturbed == []
        for relay in embedded.relays:
            relay.reset()
        producer.send(b"after the loss")
    assert [each.what for each in history.disturbed] == ["fault"]


def test_the_pauses_of_a_recovery_are_those_of_the_actor_that_paused_most() -> None:
    def change(time: float, actor: str, source: str, dest: str, chart: str = "producer") -> StateChange:
        return StateChange(time, actor, chart, "event", source, dest, None, None, None)

    changes = [
        change(8.0, "a", "READY", "WAITING"),
        change(9.0, "b", "READY", "WAITING"),
        change(9.5, "b", "WAITING", "LOOKING_UP"),  # before the end of the fault
        change(10.5, "a", "WAITING", "LOOKING_UP"),
        change(11.0, "requests", "OPEN", "WAITING", "connection_requests"),
        change(12.0, "a", "LOOKING_UP", "WAITING"),
        change(13.0, "b", "READY", "WAITING"),
        change(14.0, "b", "WAITING", "LOOKING_UP"),
        change(16.0, "a", "WAITING", "LOOKING_UP"),  # all have gone on before
        change(17.0, "requests", "WAITING", "OPEN", "connection_requests"),
    ]
    assert longest_pause(changes, since=10.0, until=15.0) == 0.5 + 3.0


@pytest.mark.real_broker
@pytest.mark.parametrize("fault", [each for each in FAULTS if each.needs != "several"], ids=lambda fault: fault.name)
def test_with_an_apache_pulsar(apache_pulsar: Target, fault: Fault) -> None:
    assert is_possible(fault, apache_pulsar)
    assert Run(apache_pulsar, fault, SEED, SECONDS).play().broken == ()


@pytest.mark.real_broker
@pytest.mark.parametrize("fault", [fault_of(name) for name in OF_SEVERAL_BROKERS], ids=lambda fault: fault.name)
def test_with_two_brokers(cluster: Target, fault: Fault) -> None:
    assert is_possible(fault, cluster)
    assert Run(cluster, fault, SEED, SECONDS).play().broken == ()
