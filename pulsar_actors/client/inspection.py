"""The snapshot of a client for the page of `inspect()`: its actors, and the numbers of its producers and consumers.

The page keeps no client alive: it reads what the client's guardian knows, which is there after the client's end, too.
"""

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Protocol

from pulsar_actors import machines
from pulsar_actors.client.consumer_state import ConsumerState
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.producer_state import ProducerState
from pulsar_actors.client.totals import COUNTED, totals_of
from pulsar_actors.client.validation import refusal_of, whole_number
from pulsar_actors.inspector.server import Inspector
from pulsar_actors.inspector.site import Site
from pulsar_actors.inspector.snapshot import MOST_ACTORS, Shown, Snapshot, last_changes, machines_now
from pulsar_actors.runtime.actor import actor_of
from pulsar_actors.runtime.state_changes import read

__all__ = ["FaultyBroker", "Inspector", "inspect"]

port_number = whole_number(0, 65_535)


class FaultyBroker(Protocol):
    """An `EmbeddedBroker`, as far as the page needs it."""

    def offered_faults(self) -> Mapping[str, Callable[[], object]]:
        """Return the faults to click, by their labels."""
        ...


def inspect(context: ClientContext, service_url: str, broker: FaultyBroker | None, port: int) -> Inspector:
    """Serve the page of a client."""
    port_number("port", port)
    if broker is not None and not callable(getattr(broker, "offered_faults", None)):
        raise refusal_of("broker", broker, "an EmbeddedBroker, or None")
    faults: Mapping[str, Callable[[], object]] = {} if broker is None else broker.offered_faults()
    return Inspector(Site(lambda: snapshot(context, service_url), (machines,), faults), port)


def snapshot(context: ClientContext, service_url: str) -> Snapshot:
    """Return what is to be shown now."""
    guardian = actor_of(context.guardian)
    found = list(guardian.machines())
    counts = _counts(context)
    shown: list[Shown] = []
    for name, machine in islice(found, MOST_ACTORS):
        counters, gauges = counts.get(name, ({}, {}))
        shown.append(Shown(_short(name), machine.running.chart.name, machines_now(machine), counters, gauges))
    histories = [*islice(guardian.ended_histories(), MOST_ACTORS)]
    histories += [(name, machine.history) for name, machine in found[:MOST_ACTORS]]
    changes = last_changes(read(histories, guardian.loop))
    facts = {"service": service_url, "connections": str(context.counters.connections)}
    return Snapshot("A client of pulsar_actors", facts, shown, len(found) - len(shown), changes)


def _counts(context: ClientContext) -> dict[str, tuple[dict[str, int], dict[str, int]]]:
    """Return the counters and the gauges of producers and consumers, by the names of their actors."""
    counts: dict[str, tuple[dict[str, int], dict[str, int]]] = {}
    for state in context.open_states:
        if isinstance(state, (ProducerState, ConsumerState)):
            _, totals = totals_of(state)
            numbers = [(name.replace("_", " "), value) for name, value in totals._asdict().items()]
            counted = COUNTED[type(totals)]
            counters, gauges = dict(numbers[2:counted]), dict(numbers[counted + 1 :])  # without those of handles
            counts[str(actor_of(state.address))] = counters, gauges
    return counts


def _short(name: str) -> str:
    return name.removeprefix("the ")
