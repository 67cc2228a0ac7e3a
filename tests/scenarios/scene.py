"""The base of every scenario: a broker and clients in one world, and the checks that all of them pass.

A scenario spawns callers that do as their dice say, while the troubles (`troubles.py`) do as theirs. Then everything
calms down, the callers come to an end, and `end` closes the clients: in time, with nothing left of them.
"""

import os
import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

import pykka

from pulsar_actors import exceptions
from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.options import BrokerOptions
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.runtime.actor import forget_all_actors
from pulsar_actors.runtime.socket_actor import SocketActor
from pulsar_actors.runtime.tls import server_context
from pulsar_actors.simulation.connection import NetworkConditions
from pulsar_actors.simulation.engine import SimulatedEngine
from pulsar_actors.simulation.explore import explore
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import SimulatedLoop, World
from pulsar_actors.wire.batch import is_batch, split_batch
from pulsar_actors.wire.entries import decode_entry
from pulsar_actors.wire.topic_name import TopicName
from tests.histories.history import Place
from tests.scenarios.fired_rows import counted
from tests.support.certificates import Files

T = TypeVar("T")

OPERATION_TIMEOUT = 10.0
KEEPALIVE = 4.0
LONGEST_BACKOFF = 2.0
PATIENCE = 4 * (2 * KEEPALIVE + OPERATION_TIMEOUT + LONGEST_BACKOFF)
"""Virtual seconds within which all must be well again once nothing goes wrong any more: deaf connections are noticed
after two intervals, unanswered closes after the operation timeout, and some of it may have to happen in turn."""

CLOSING = OPERATION_TIMEOUT + 2.0
NAMESPACE = "public/default"
TOPIC = f"persistent://{NAMESPACE}/topic"
PARTS = TopicName.parse(f"persistent://{NAMESPACE}/parts")
SUBSCRIPTION = "subscription"
COORDINATOR = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
"""The topic whose broker has the transaction coordinator."""

TEMPORARY = (
    exceptions.ConnectError,
    exceptions.OutcomeUnknown,
    exceptions.LookupError,
    exceptions.TooManyLookupRequestException,
    exceptions.ProducerBusy,
    exceptions.ConsumerBusy,
    exceptions.ServiceUnitNotReady,
    exceptions.BrokerMetadataError,
    exceptions.BrokerPersistenceError,
    exceptions.UnknownError,
)
"""Errors of creating a producer or a consumer while there are faults; then it is tried again."""

CHANGEABLE = NetworkConditions(
    refuse=0.05, ignore=0.03, cut=0.02, stall=0.01, deafen=0.003, spike=0.02, partition=0.003
)


def set_clock(loops: Sequence[SimulatedLoop], error: float) -> None:
    """Let the wall clock of a host be wrong by so many seconds."""
    for loop in loops:
        loop.clock_error = error


class Stored(NamedTuple):
    """A message as the broker has it."""

    content: bytes
    place: Place
    published: int
    """When its entry was, in milliseconds."""


class Scene:
    """A broker on its loop, and clients."""

    def __init__(
        self,
        world: World,
        *,
        deduplication: bool = False,
        tokens: Tokens | None = None,
        certificate: Files | None = None,
    ) -> None:
        forget_all_actors()  # those of a seed that failed
        self.world = world
        self.dice = Dice(world.seed, "scene")
        self.clients: list[Client] = []
        self.options: dict[str, Any] = {}
        """Options of all clients."""
        self.loop = world.loop("broker")
        self.hosts = [[self.loop]]
        """The loops of each host: these have the same wall clock."""
        self.broker: Broker | None = None
        self.troubled: Counter[str] = Counter()
        self.topic_deduplicates = deduplication
        self.is_calm = self.is_over = False
        self.calm_since = 0.0
        self.probing = 0
        """How many clients fail over: each may have a connection by which it looks whether a cluster is there."""
        settings = Settings(deduplication=deduplication)
        self._tls: ssl.SSLContext | None = None
        if certificate is not None:
            self._tls = server_context(certificate.certificate, certificate.key)
            self._tls.num_tickets = 0  # their sizes differ
        self._options = BrokerOptions(
            host="broker", port=6650, web_port=8080, tls_port=6651, web_tls_port=8443, tokens=tokens, settings=settings
        )
        self.loop.post(self._open_broker, None)
        world.run(until=lambda: self.broker is not None)

    def _open_broker(self, _: None) -> None:
        broker = Broker(self.loop, self._options, self._tls)
        broker.listen()
        self.broker = broker

    def client(self, **options: Any) -> Client:
        """Make a client, on a host of its own."""
        dice, number = self.dice, len(self.clients) + 1
        engine = SimulatedEngine(self.world, f"client{number}", io_threads=1 + dice.below(3), listener_threads=2)
        chosen: dict[str, Any] = {
            "service_url": "pulsar://broker:6650",
            "operation_timeout_seconds": OPERATION_TIMEOUT,
            "connection_timeout_ms": 3000,
            "keep_alive_interval_seconds": KEEPALIVE,
            "max_backoff_interval_ms": int(LONGEST_BACKOFF * 1000),
            "connections_per_broker": 1 + dice.below(2),
            **self.options,
            **options,
        }
        self.probing += not isinstance(chosen["service_url"], str)
        self.hosts.append(engine.loops)
        client = Client.on(engine, ClientOptions(**chosen))
        self.clients.append(client)
        return client

    def add_brokers(self, number: int, topics: Sequence[str]) -> None:
        """Add brokers to the cluster, and give some of these topics to one or another."""
        for _ in range(number):
            self.have_broker(Broker.add_listener)
        if number:
            for topic in topics:
                if self.dice.happens(0.7):
                    self.have_broker(lambda broker, topic=topic: self.move(broker, topic))  # type: ignore[misc]

    def move(self, broker: Broker, topic: str) -> None:
        """Give a topic to one of the brokers. Called on the broker's loop."""
        broker.assign(topic, broker.nodes[self.dice.below(len(broker.nodes))])

    def insist(self, make: Callable[[], Any]) -> Any:
        """Try until it works, as a program does that starts while things go wrong."""
        while True:
            try:
                return make()
            except TEMPORARY:
                self.sleep(0.5)

    def perhaps_cut_soon(self) -> None:
        """Once in a while, cut connections when what is asked now is just being answered, or has not been heard yet."""
        if not self.is_calm and self.dice.happens(0.3):
            self.world.after(3 * self.dice.chance() * CHANGEABLE.latency, self.world.faults.cut)

    def sleep(self, seconds: float) -> None:
        """Let a caller rest."""
        self.world.block(lambda: False, seconds)

    def topic(self, name: str = TOPIC) -> Topic | None:
        """Look at a topic as the broker has it."""
        assert self.broker is not None
        return self.broker.cluster.find_topic(TopicName.parse(name))

    def stored(self, name: str = TOPIC) -> list[Stored]:
        """Read all messages that the broker has, in their order."""
        topic = self.topic(name)
        if topic is None:
            return []
        messages: list[Stored] = []
        for offset in range(topic.managed_ledger.base, topic.managed_ledger.end):
            held = topic.managed_ledger.entry(offset)
            entry = decode_entry(held.data)
            if is_batch(entry.metadata):
                singles = split_batch(entry.payload, entry.metadata.num_messages_in_batch)
                contents = [(bytes(single[1]), index) for index, single in enumerate(singles)]
            else:
                contents = [(bytes(entry.payload), -1)]
            published = entry.metadata.publish_time
            messages += [
                Stored(content, Place(held.ledger_id, held.entry_id, index), published) for content, index in contents
            ]
        return messages

    def on_broker(self, action: Callable[[Broker], object]) -> None:
        """Do something on the broker's loop, soon."""
        self.loop.post(action, self.broker)

    def have_broker(self, action: Callable[[Broker], object]) -> None:
        """Do something on the broker's loop, and wait until it is done. What it raises is raised here."""
        done: Future[object] = Future()

        def act(broker: Broker) -> None:
            try:
                done.set_result(action(broker))
            except Exception as error:  # noqa: BLE001 - it is passed on
                done.set_exception(error)

        self.on_broker(act)
        self.world.block(done.done)
        done.result(0)

    def topics(self) -> list[str]:
        """Name the topics that the broker has, partitions among them."""
        assert self.broker is not None
        return self.broker.cluster.topics_of(NAMESPACE)

    def calm(self) -> None:
        """Let nothing go wrong any more."""
        assert self.broker is not None
        self.world.note("it is calm now")
        self.is_calm, self.calm_since = True, self.world.now
        self.world.faults.calm()
        self.broker.faults.clear()
        for loops in self.hosts:
            set_clock(loops, 0.0)

    def end(self) -> None:
        """Close all clients, and see that it takes no longer than it may, and that nothing is left of them."""
        self.check_connections()
        for client in self.clients:
            self.close(client)
        self.check_nothing_is_left()

    def close(self, client: Client) -> None:
        """Close a client, and see that it takes no longer than it may."""
        began = self.world.now
        client.close()
        took = self.world.now - began
        assert took <= CLOSING + 1.0, f"close() took {took:.3f} s"

    def check_connections(self) -> None:
        """See that every connection of a client belongs to an actor that lives."""
        sockets = len(pykka.ActorRegistry.get_by_class(SocketActor))
        connected = [end.name for end in self.world.faults.connections if not end.closed]
        assert len(connected) <= sockets + self.probing, (
            f"{sockets} actors of sockets, and these connections: {connected}"
        )

    def check_nothing_is_left(self) -> None:
        """See that no actor and no connection of a client is left, a moment after the end."""
        self.sleep(0.1)
        alive = [type(ref.actor_inbox.actor).__name__ for ref in pykka.ActorRegistry.get_all()]
        assert not alive, f"actors that outlive their clients: {alive}"
        left = [end.name for end in self.world.faults.connections if not end.closed]
        assert not left, f"connections that outlive their clients: {left}"


def focused(dice: Dice, on: Sequence[T]) -> Sequence[T]:
    """Return all of them, or only a few, so that a seed has the same things happen often, and together."""
    return on if dice.happens(0.5) else [on[dice.below(len(on))] for _ in range(1 + dice.below(4))]


class Played(NamedTuple):
    """The totals of one scenario."""

    test: str
    seeds: int
    seconds: float
    steps: int
    virtual_seconds: float
    faults: Counter[str]


PLAYED: list[Played] = []
FACTOR = "PULSAR_SIMULATION_FACTOR"
"""How many times as many seeds are to be played, instead of those that belong to the run."""
PART = [1.0]
"""The part of the seeds that belongs to this run."""
FIRST = "PULSAR_SIMULATION_FIRST"
"""The first of them."""


def play(
    seeds: int,
    scenario: Callable[[Scene], object],
    conditions: NetworkConditions = CHANGEABLE,
    *,
    once_failed: tuple[int, ...] = (),
    **settings: Any,
) -> None:
    """Play a scenario under so many seeds, or as many times more as the environment says.

    Seeds that have failed once come first, whatever the environment says.
    """
    troubled: Counter[str] = Counter()

    def one(world: World) -> None:
        with counted((scenario, world.seed)):
            scene = Scene(world, **settings)
            scenario(scene)
        troubled.update(scene.troubled)

    began = time.monotonic()
    first = int(os.environ.get(FIRST, "0"))
    count = max(1, int(seeds * float(os.environ.get(FACTOR, PART[0]))))
    explored = explore([*once_failed, *range(first, first + count)], one, conditions)
    for fault, times in explored.faults.items():
        troubled[fault.value] += times
    test = os.environ.get("PYTEST_CURRENT_TEST", scenario.__name__).rpartition("::")[2].partition(" ")[0]
    seconds = time.monotonic() - began
    PLAYED.append(Played(test, explored.seeds, seconds, explored.steps, explored.virtual_seconds, troubled))
    check_that_it_repeats(first, one, conditions)


def check_that_it_repeats(seed: int, one: Callable[[World], object], conditions: NetworkConditions) -> None:
    """See that the same seed gives the same steps: or else one that fails would be worth nothing."""
    histories: list[list[str]] = []
    for _ in range(2):
        with World(seed, conditions) as world:
            one(world)
        histories.append(world.history.lines())
    different = next((pair for pair in zip(*histories, strict=False) if pair[0] != pair[1]), None)
    assert histories[0] == histories[1], f"seed {seed} differs when it is played again: {different}"
