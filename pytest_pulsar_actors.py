"""A plugin of pytest: brokers, clients and topics for tests of programs that use Pulsar, and a simulation.

    def test_an_order_is_stored(pulsar_client, pulsar_topic):
        pulsar_client.create_producer(pulsar_topic).send(b"3 apples")

The fixtures:

    pulsar_broker          an `EmbeddedBroker` on free ports, so tests run in parallel
    pulsar_client          a client of it
    pulsar_async_client    a client of `pulsar_actors.asyncio`, for a test that is a coroutine
    pulsar_topic           the name of a topic that no other test has
    pulsar_broker_options  the arguments of the broker: override it in a conftest.py to change them
    pulsar_simulation      a `Simulation` on virtual time (`pulsar_actors.testing`)

Each test has a broker and a client of its own, unless the ini option `pulsar_scope` says `class`, `module`, `package`
or `session`. `pytest.mark.pulsar_fault("send", "close_connection", nth=2)` sets a fault of the broker for one test,
which fails if the fault has not happened. `pytest.mark.pulsar_seeds(20)` plays a test of a simulation with 20 seeds.

pytest imports this module at every start, so it imports nothing of the package until a fixture is used.
"""

from collections.abc import Generator, Iterator
from inspect import signature
from itertools import count
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from pulsar_actors.asyncio import Client as AsyncioClient
    from pulsar_actors.broker import EmbeddedBroker
    from pulsar_actors.broker.fault_rules import Fault
    from pulsar_actors.client.client import Client
    from pulsar_actors.testing import Simulation

SCOPES = ("function", "class", "module", "package", "session")
ACTIONS = ("answer", "close_connection", "delay", "drop", "duplicate", "refuse", "reorder", "stall")
"""What a mark can do to commands: the methods of `faults.on(…)`."""

FAULTS = "pulsar_faults"
"""The fixture that sets the faults of a test's marks."""

PASSED = pytest.StashKey[bool]()
"""Whether a test has passed so far."""

BROKERS = pytest.StashKey["dict[EmbeddedBroker, set[Fault]]"]()
"""The brokers that run, and their faults that fixtures have set for several tests."""

_numbers = count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the ini option."""
    parser.addini("pulsar_scope", f"who shares a broker of pulsar_actors: {', '.join(SCOPES)}", default="function")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks, and check the option."""
    config.stash[BROKERS] = {}
    config.addinivalue_line(
        "markers",
        "pulsar_fault(command, action, *arguments, nth=1, times=1, when=None, sent_by=None): a fault of the broker, "
        'such as ("send", "close_connection") or ("receipt", "delay", 0.5); the test fails if it has not happened',
    )
    config.addinivalue_line("markers", "pulsar_seeds(seeds): play the test's simulation with each seed, or so many")
    scope = config.getini("pulsar_scope")
    if scope not in SCOPES:
        raise pytest.UsageError(f"pulsar_scope is one of {', '.join(SCOPES)}, not {scope!r}")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a simulation its seeds."""
    mark = metafunc.definition.get_closest_marker("pulsar_seeds")
    if mark is None:
        return
    if "pulsar_seed" in metafunc.fixturenames:
        metafunc.parametrize("pulsar_seed", _seeds(mark, metafunc.definition.nodeid), ids=lambda seed: f"seed {seed}")
    elif mark in metafunc.definition.own_markers:  # that of a class or a module is for those of its tests that have one
        raise pytest.UsageError(f"pulsar_seeds is for a test with pulsar_simulation: {metafunc.definition.nodeid}")


def _seeds(mark: pytest.Mark, test: str) -> list[int]:
    given: Any = mark.args[0] if len(mark.args) == 1 and not mark.kwargs else None
    try:
        seeds: list[Any] = list(range(given) if type(given) is int else given)
    except TypeError:
        seeds = []
    if not seeds or not all(isinstance(seed, int) for seed in seeds):
        needed = "pulsar_seeds takes a number of seeds, or a list of them, as in pulsar_seeds(20)"
        raise pytest.UsageError(f"{needed}: {test} has {mark.args or 'none'}")
    return seeds


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the faults of the marks be set."""
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("pulsar_fault") is not None:
            item.fixturenames.append(FAULTS)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> "Generator[None, Any, None]":
    """Note whether the test has passed: otherwise a fault that has not happened is no further failure."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if report.when == "call":
        item.stash[PASSED] = report.passed


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> "Generator[None, None, None]":  # noqa: ANN401 - its type is public only in newer releases
    """Keep the faults of a fixture for as long as the fixture is there."""
    yield
    if fixturedef.scope != "function":
        for broker, kept in request.config.stash[BROKERS].items():
            kept.update(broker.faults.present())


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> "Generator[None, None, None]":
    """Remove the faults that a test has left: others may have the same broker."""
    yield
    for broker, kept in item.config.stash[BROKERS].items():
        for fault in broker.faults.present():
            if fault not in kept:
                fault.release()


def _scope(fixture_name: str, config: pytest.Config) -> Any:  # noqa: ANN401 - a type of pytest's own
    del fixture_name
    return config.getini("pulsar_scope")


@pytest.fixture(scope=_scope)
def pulsar_broker_options() -> dict[str, Any]:
    """Return the arguments of the broker: none."""
    return {}


@pytest.fixture(scope=_scope)
def pulsar_broker(pulsar_broker_options: dict[str, Any], pytestconfig: pytest.Config) -> "Iterator[EmbeddedBroker]":
    """Run an embedded broker."""
    from pulsar_actors.broker import EmbeddedBroker  # noqa: PLC0415 - see the top

    with EmbeddedBroker(**pulsar_broker_options) as broker:
        pytestconfig.stash[BROKERS][broker] = set()
        yield broker
        del pytestconfig.stash[BROKERS][broker]


@pytest.fixture(scope=_scope)
def pulsar_client(pulsar_broker: "EmbeddedBroker") -> "Iterator[Client]":
    """Make a client of the broker."""
    from pulsar_actors import Client  # noqa: PLC0415 - see the top

    with Client(pulsar_broker.service_url) as client:
        yield client


@pytest.fixture
def pulsar_async_client(pulsar_broker: "EmbeddedBroker") -> "Iterator[AsyncioClient]":
    """Make a client for the event loop of the test, which may leave it open."""
    from pulsar_actors.asyncio import Client as AsyncioClient  # noqa: PLC0415 - see the top

    client = AsyncioClient(pulsar_broker.service_url)
    yield client
    client.shutdown()


@pytest.fixture
def pulsar_topic() -> str:
    """Name a topic that nobody has used, also if the broker is shared."""
    return f"persistent://public/default/test-{uuid4().hex[:8]}-{next(_numbers)}"


@pytest.fixture
def pulsar_faults(request: pytest.FixtureRequest) -> "Iterator[list[Fault]]":
    """Set the faults of the test's marks, in the order in which they stand from the top.

    They are faults of the simulation's broker if the test has a simulation.
    """
    simulated = "pulsar_simulation" in request.fixturenames
    broker: Any = (
        request.getfixturevalue("pulsar_simulation").broker if simulated else request.getfixturevalue("pulsar_broker")
    )
    faults: list[Fault] = []
    for mark in reversed(list(request.node.iter_markers("pulsar_fault"))):
        wrong = None
        try:
            faults.append(_fault(broker, *mark.args, **mark.kwargs))
        except (TypeError, ValueError) as mistake:
            wrong = f"pulsar_fault{mark.args}: {mistake}"
        if wrong is not None:
            pytest.fail(wrong, pytrace=False)
    yield faults
    for fault in faults:
        fault.release()
    idle = [fault for fault in faults if not fault.happened]
    if idle and request.node.stash.get(PASSED, False):
        pytest.fail(f"a fault of the test has not happened: {idle[0]!r}", pytrace=False)


def _fault(broker: Any, command: Any = "", action: str = "", *arguments: Any, **when: Any) -> "Fault":  # noqa: ANN401 - of a mark
    if action not in ACTIONS:
        raise ValueError(f"the action is one of {', '.join(ACTIONS)}, not {action!r}")
    act = getattr(broker.faults.on(command, **when), action)
    taken = signature(act)
    try:
        taken.bind(*arguments)
    except TypeError:
        raise TypeError(f"{action} takes {', '.join(taken.parameters) or 'nothing'}, not {arguments!r}") from None
    fault: Fault = act(*arguments)
    return fault


@pytest.fixture
def pulsar_seed() -> int:
    """Return the seed of the simulation, unless the test is marked with `pulsar_seeds`."""
    return 0


@pytest.fixture
def pulsar_simulation(pulsar_seed: int) -> "Iterator[Simulation]":
    """Simulate a broker, clients and threads on virtual time."""
    from pulsar_actors.testing import Simulation  # noqa: PLC0415 - see the top

    with Simulation(pulsar_seed) as simulation:
        yield simulation
