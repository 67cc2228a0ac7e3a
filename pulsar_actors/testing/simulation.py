"""A simulation for the tests of a program: a broker and clients on virtual time.

The test, and the threads that it starts with `start`, call a client as ever. Whoever waits lets the others go on; when
nobody has anything to do, the clock jumps to the next timer. Only one of them runs at a time, and the seed decides
which. So nobody may wait for another by means of `threading`, which knows nothing of virtual time: `until` waits, and
so do the clients' futures.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import ExitStack, closing
from types import TracebackType
from typing import Any, TypeVar, cast

from pulsar_actors.asyncio.client import Client as AsyncioClient
from pulsar_actors.asyncio.client import client_on
from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.faults import Faults
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.options import BrokerOptions
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.exceptions import InvalidArgument, Timeout
from pulsar_actors.runtime.actor import forget_actors_on
from pulsar_actors.runtime.future import wait_by
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.connection import CALM, NetworkConditions
from pulsar_actors.simulation.engine import SimulatedEngine
from pulsar_actors.simulation.explore import explore as explore_worlds
from pulsar_actors.simulation.world import LONGEST, World
from pulsar_actors.testing.clock import virtual_clock
from pulsar_actors.testing.event_loop import SimulatedEventLoop
from pulsar_actors.testing.future_waits import VirtualWaits
from pulsar_actors.wire.errors import excerpt

__all__ = ["SimulatedBroker", "Simulation", "explore"]

T = TypeVar("T")

HOST = "broker"
PORT = 6650


class SimulatedBroker:
    """The broker of a simulation."""

    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._opened: list[Broker] = []
        self.loop = world.loop(HOST)
        options = BrokerOptions(host=HOST, port=PORT, web_port=8080, settings=settings)

        def open_(_: None) -> None:
            broker = Broker(self.loop, options)
            broker.listen()
            self._opened.append(broker)

        self.loop.post(open_, None)
        world.run(until=lambda: bool(self._opened))

    @property
    def service_url(self) -> str:
        """The URL for clients of the simulation."""
        return f"pulsar://{HOST}:{PORT}"

    @property
    def faults(self) -> Faults:
        """The scripted faults. To wait for one, use `Simulation.until`: `Fault.wait` would wait in real time."""
        return self._opened[0].faults

    def create_topic(self, topic: str, partitions: int = 0) -> None:
        """Create a topic, with so many partitions or with none; as `EmbeddedBroker.create_topic`."""
        self.call(lambda inside: inside.create_topic(topic, partitions))

    def cut_connections(self) -> None:
        """End every connection of a client, as a network failure does."""
        self.call(lambda inside: inside.cut_connections())

    def call(self, function: Callable[[Broker], T]) -> T:
        """Call a function with the broker on its loop, and return the result, or raise its error."""
        outcome: list[T | Exception] = []

        def run(_: None) -> None:
            try:
                outcome.append(function(self._opened[0]))
            except Exception as error:  # noqa: BLE001 - any error belongs to the caller
                outcome.append(error)

        self.loop.post(run, None)
        self._world.block(lambda: bool(outcome))
        (result,) = outcome
        if isinstance(result, Exception):
            raise result
        return result


class Simulation:
    """A broker, clients and threads on virtual time, for a `with` block. At its end the clients are closed.

    An error in a thread fails the block, unless its `result` was asked for. So does a call of the test itself that
    waits for more than a day: it will hardly ever end. In the block, `time.sleep`, `time.time` and `time.monotonic` are
    of virtual time for the test and its threads.
    """

    def __init__(self, seed: int = 0, *, network: NetworkConditions = CALM, settings: Settings | None = None) -> None:
        """Set it up.

        seed = 0
            Decides the order of what happens at the same time, and all chances.
        network = CALM
            How long bytes take, and what goes wrong with connections.
        settings = None
            Those of the broker.
        """
        self._begin(World(_seed(seed), network, LONGEST), settings)
        self._own_world = True

    @property
    def seed(self) -> int:
        """The seed, for chances of your own: `random.Random(simulation.seed)`."""
        return self._world.seed

    def _begin(self, world: World, settings: Settings | None) -> None:
        self._world = world
        self._own_world = False
        self._settings = settings or Settings()
        self._stack = ExitStack()
        self._clients: list[Client] = []
        self._loops: list[Loop] = []

    def __enter__(self) -> "Simulation":
        with ExitStack() as stack:
            if self._own_world:
                stack.enter_context(self._world)
            stack.callback(lambda: forget_actors_on(self._loops))
            stack.enter_context(virtual_clock(self._world))
            stack.enter_context(wait_by(lambda others: VirtualWaits(self._world, others)))
            self.broker = SimulatedBroker(self._world, self._settings)
            self._loops.append(self.broker.loop)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        if kind is None:
            self._stack.callback(self._close_clients)
        return self._stack.__exit__(kind, error, trace)

    @property
    def now(self) -> float:
        """The virtual time in seconds since the beginning."""
        return self._world.now

    def client(self, **options: Any) -> Client:  # noqa: ANN401 - those of the client
        """Make a client of the broker, with these options of `Client`. It is on a host of its own."""
        host = f"client{len(self._clients) + 1}"
        given: dict[str, Any] = {"service_url": self.broker.service_url, **options}
        checked = ClientOptions(**given)
        engine = SimulatedEngine(self._world, host, checked.io_threads, checked.message_listener_threads)
        client = Client.on(engine, checked)
        self._clients.append(client)
        self._loops += engine.loops
        return client

    def asyncio_client(self, **options: Any) -> AsyncioClient:  # noqa: ANN401 - those of the client
        """Make a client for `run_async`."""
        return client_on(self.client(**options), self._world.spawn)

    def start(self, function: Callable[..., Any], *arguments: Any, name: str | None = None) -> Caller:  # noqa: ANN401 - the function's
        """Start a thread with a function. `result()` of what is returned gives its result, once `ended` is true."""
        return self._world.spawn(lambda: function(*arguments), name)

    def run_async(self, coroutine: "Coroutine[Any, Any, T]") -> T:
        """Run a coroutine in an event loop on virtual time, and return its result: as `asyncio.run` does."""
        loop = SimulatedEventLoop(self._world)

        def run() -> T:
            with closing(loop):
                try:
                    return loop.run_until_complete(coroutine)
                finally:
                    loop.run_until_complete(_end_all_tasks())
                    loop.run_until_complete(loop.shutdown_asyncgens())

        caller = self.start(run, name="event loop")
        self._world.block(lambda: caller.ended)
        result: T = caller.result()
        return result

    def sleep(self, seconds: float) -> None:
        """Let so many seconds pass."""
        self._world.block(lambda: False, seconds)

    def until(self, condition: Callable[[], object], timeout: float = LONGEST) -> None:
        """Wait until a condition is true. Raise Timeout after so many virtual seconds."""
        if not self._world.block(lambda: bool(condition()), timeout):
            raise Timeout(f"{timeout:g} virtual seconds have passed, and the condition is not true")

    def _close_clients(self) -> None:
        for client in self._clients:
            client.close()


class _Explored(Simulation):
    """A simulation in a world of `explore`."""

    def __init__(self, world: World, settings: Settings | None) -> None:
        self._begin(world, settings)


def explore(
    seeds: int | Iterable[int],
    scenario: Callable[[Simulation], object],
    *,
    network: NetworkConditions = CALM,
    settings: Settings | None = None,
) -> None:
    """Play a scenario with each seed, in a new simulation. An int is the number of seeds.

    If one fails, the error names it and gives the command that plays it alone.
    """

    def play(world: World) -> None:
        with _Explored(world, settings) as simulation:
            scenario(simulation)

    explore_worlds(_seeds_of(seeds), play, network)


def _seed(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgument(f"a seed is a whole number, not {excerpt(value)}")
    return value


def _seeds_of(given: object) -> Sequence[int]:
    """Return the seeds. There is at least one: with none, nothing would be tested."""
    shown = excerpt(given)
    seeds: Sequence[int] = ()
    if isinstance(given, int) and not isinstance(given, bool):
        seeds = range(given)
    elif isinstance(given, Iterable) and not isinstance(given, str):
        seeds = [_seed(each) for each in cast("Iterable[object]", given)]
    if not seeds:
        raise InvalidArgument(f"explore takes the number of seeds, from 1 on, or the seeds themselves, not {shown}")
    return seeds


async def _end_all_tasks() -> None:
    """Cancel the tasks that are left, as `asyncio.run` does."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
