"""The snapshot of an embedded broker for the page of `inspect()`, and the faults that can be clicked there.

The page shows the connections of clients, each with its chart, and the topics and subscriptions with their numbers.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.inspector.snapshot import MOST_ACTORS, Shown, Snapshot, last_changes, machines_now
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.state_changes import read

SLOW_SECONDS: Final = 2.0


def _unload(broker: Broker) -> None:
    for topic in list(_topics(broker)):
        broker.cluster.unload(topic.name)


OFFERED: Final[Mapping[str, Callable[[Broker], object]]] = {
    "cut all connections": lambda broker: broker.cut_connections(),
    "hang up on the next connection": lambda broker: broker.faults.on_accept().hang_up(),
    "refuse the next lookup": lambda broker: broker.faults.on("lookup").refuse("ServiceNotReady", "a fault"),
    "lose the next message, with its connection": lambda broker: broker.faults.on("send").close_connection(),
    "lose the next receipt, with its connection": lambda broker: broker.faults.on("receipt").close_connection(),
    f"delay the next receipt by {SLOW_SECONDS:g} s": lambda broker: broker.faults.on("receipt").delay(SLOW_SECONDS),
    "deliver the next message twice": lambda broker: broker.faults.on("message").duplicate(),
    "answer no ping from now on": lambda broker: broker.faults.on("ping", times=None).drop(),
    "unload all topics": _unload,
    "no faults any longer": lambda broker: broker.faults.clear(),
}
"""The faults, by what is written on their buttons. None of them makes a client lose a message."""


def snapshot(broker: Broker, loop: Loop) -> Snapshot:
    """Return what is to be shown now. Called on the broker's loop."""
    shown = list(islice(_shown(broker), MOST_ACTORS + 1))
    sessions = [(str(session), session.lifecycle.history) for session in islice(broker.sessions, MOST_ACTORS)]
    topics = [1 + len(topic.subscriptions) for topic in _topics(broker)]
    facts = {
        "service": broker.nodes[0].service_url,
        "connections": str(len(broker.connections)),
        "topics": str(len(topics)),
        "faults set": "yes" if broker.faults.active else "none",
    }
    left_out = max(0, len(broker.connections) + sum(topics) - MOST_ACTORS)
    changes = last_changes(read(sessions, loop))
    return Snapshot("An embedded broker of pulsar_actors", facts, shown[:MOST_ACTORS], left_out, changes)


def _shown(broker: Broker) -> Iterator[Shown]:
    for session in broker.sessions:
        handles = {"producers": len(session.producers), "consumers": len(session.consumers)}
        yield Shown(str(session), "broker_session", machines_now(session.lifecycle), {}, handles)
    for topic in _topics(broker):
        counters = {"messages in": topic.counters.messages_in, "bytes in": topic.counters.bytes_in}
        yield Shown(str(topic.name), "topic", [], counters, {"producers": len(topic.producers)})
        for name, subscription in topic.subscriptions.items():
            yield _of_subscription(f"{topic.name}, subscription {name}", subscription)


def _of_subscription(name: str, subscription: Subscription) -> Shown:
    consumers = subscription.consumers
    sent = subscription.counters.messages_out + sum(one.counters.messages_out for one in consumers)
    gauges = {"in the backlog": subscription.backlog(), "consumers": len(consumers)}
    return Shown(name, "subscription", [], {"messages out": sent}, gauges)


def _topics(broker: Broker) -> Iterator[Topic]:
    for namespace in broker.cluster.namespaces.values():
        yield from namespace.topics.values()
