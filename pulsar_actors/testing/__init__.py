"""Tests of programs that use Pulsar, on virtual time: half an hour of waiting takes a millisecond.

    from pulsar_actors.testing import Simulation

    with Simulation(seed=1) as simulation:
        client = simulation.client()
        ...
        simulation.sleep(1800)

In a simulation there are a broker, clients and a network, all in memory and on one virtual clock. The seed decides what
happens first wherever two things may, so a test that fails does so again with the same seed. `explore` plays a test
with many seeds.

Fixtures for pytest, also of an embedded broker on real time, are in `pytest_pulsar_actors`, a plugin that pytest finds.
"""

from pulsar_actors.simulation.connection import CALM, NetworkConditions
from pulsar_actors.testing.simulation import SimulatedBroker, Simulation, explore

__all__ = ["CALM", "NetworkConditions", "SimulatedBroker", "Simulation", "explore"]
