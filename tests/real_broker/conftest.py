"""Brokers and clients for the tests of this folder, and the one line that says when a broker is missing."""

import itertools
import os
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from admin import Admin
from jars import Unavailable
from standalone import Standalone
from subjects import BROKERS, CLIENTS, USERS_ADMIN_URL, USERS_URL, Broker, client_module, opened_clients

from pulsar_actors.broker.embedded import EmbeddedBroker

MISSING = pytest.StashKey[str]()

_numbers = itertools.count()
_run = uuid.uuid4().hex[:8]  # a broker of the user's remembers earlier runs


@pytest.fixture(scope="session")
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Standalone]:
    """Make a broker process, not started yet; the arguments are those of `Standalone`."""

    def make(**options: Any) -> Standalone:
        return Standalone(tmp_path_factory.mktemp("standalone"), **options)

    return make


def start_or_skip(standalone: Standalone, request: pytest.FixtureRequest) -> None:
    """Without Java there is nothing to test, which must not go unseen, and must not happen in CI."""
    try:
        standalone.start()
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI is set, and there is no real broker: {error}", pytrace=False)
        request.config.stash[MISSING] = str(error)
        pytest.skip(f"no real broker: {error}")


@pytest.fixture(scope="session")
def real_broker(request: pytest.FixtureRequest, java: Callable[..., Standalone]) -> Iterator[Broker]:
    """One Apache Pulsar for the whole session: the user's, or one of our own."""
    if USERS_URL:
        yield Broker(USERS_URL, Admin(USERS_ADMIN_URL))
        return
    standalone = java()
    start_or_skip(standalone, request)
    yield Broker(standalone.service_url, standalone.admin)
    standalone.kill()


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[Broker]:
    with EmbeddedBroker() as broker:
        yield Broker(broker.service_url, Admin(broker.web_url))


@pytest.fixture(scope="session")
def crashing(request: pytest.FixtureRequest, java: Callable[..., Standalone]) -> Iterator[Standalone]:
    """A broker for tests that `kill` and `start` it; it is never the user's."""
    standalone = java(durable=True)
    start_or_skip(standalone, request)
    yield standalone
    standalone.kill()


@pytest.fixture(scope="session", params=BROKERS)
def broker(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(BROKERS[request.param])


@pytest.fixture
def admin(broker: Broker) -> Admin:
    return broker.admin


@pytest.fixture(scope="session", params=CLIENTS)
def pulsar(request: pytest.FixtureRequest) -> Any:
    """The client under test, as a module."""
    return client_module(request.param)


@pytest.fixture
def connect_to() -> Iterator[Callable[..., Any]]:
    """Make a client of a module; it is closed at the end of the test."""
    with opened_clients() as connect_to:
        yield connect_to


@pytest.fixture
def connect(connect_to: Callable[..., Any], broker: Broker) -> Callable[..., Any]:
    """Make a client that uses the broker under test."""

    def make(module: Any, **options: Any) -> Any:
        return connect_to(module, broker.service_url, **options)

    return make


@pytest.fixture
def client(pulsar: Any, connect: Callable[..., Any]) -> Any:
    return connect(pulsar)


@pytest.fixture
def new_topic() -> Callable[..., str]:
    """Name a topic that nobody has used."""

    def name(namespace: str = "public/default") -> str:
        return f"persistent://{namespace}/t-{_run}-{next(_numbers)}"

    return name


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic()


@pytest.fixture
def namespace(admin: Admin) -> str:
    """A namespace of the test's own, for policies that others must not feel."""
    name = f"public/n-{_run}-{next(_numbers)}"
    admin.create_namespace(name)
    return name


@pytest.fixture
def partitioned(topic: str, admin: Admin) -> str:
    """A topic of three partitions."""
    admin.create_partitioned(topic, 3)
    return topic


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    missing = terminalreporter.config.stash.get(MISSING, None)
    if missing:
        terminalreporter.write_line(f"!!! NO REAL BROKER, none of its tests ran: {missing}", red=True, bold=True)
