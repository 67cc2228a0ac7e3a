"""Brokers and clients for the tests of this folder."""

import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.real_broker.exchange import Side
from tests.real_broker.wiretap import Wiretap
from tests.support.admin import Admin, AdminError
from tests.support.certificates import Authority
from tests.support.guards import Guarded, GuardedProxy, admin_of, embedded_guard, guard, guard_of_proxy
from tests.support.jars import Unavailable
from tests.support.standalone import JavaProcess, Proxy, Standalone
from tests.support.subjects import (
    BROKERS,
    CLIENTS,
    GUARDED,
    USERS_ADMIN_URL,
    USERS_URL,
    Broker,
    client_module,
    opened_clients,
    what_our_clients_know,
)

BROKERS_STARTED = pytest.StashKey[list[Standalone]]()
LOG_SIZES = pytest.StashKey[dict[Standalone, int]]()
BOTH_WAYS = [("official", "ours"), ("ours", "official")]

EXPOSING = """
keepAliveIntervalSeconds=1
exposingBrokerEntryMetadataToClientEnabled=true
brokerEntryMetadataInterceptors=\
org.apache.pulsar.common.intercept.AppendIndexMetadataInterceptor,\
org.apache.pulsar.common.intercept.AppendBrokerTimestampMetadataInterceptor
"""

_numbers = itertools.count()
_run = uuid.uuid4().hex[:8]  # a broker of the user's remembers earlier runs


class Exposing(NamedTuple):
    """Where to reach a broker that is set up to say more than others do."""

    service_url: str
    web_url: str


LISTENERS = """
advertisedListeners=inside:pulsar://127.0.0.1:{port},outside:pulsar://localhost:{port}
internalListenerName=inside
"""


@pytest.fixture(scope="session")
def java(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Standalone]:
    """Make a broker process, not started yet; the arguments are those of `Standalone`."""

    def make(**options: Any) -> Standalone:
        standalone = Standalone(tmp_path_factory.mktemp("standalone"), **options)
        request.config.stash.setdefault(BROKERS_STARTED, []).append(standalone)
        return standalone

    return make


def start(process: JavaProcess) -> None:
    """Start it, or say in a line why that cannot be."""
    try:
        process.start()
    except Unavailable as error:
        pytest.fail(f"no real broker: {error}", pytrace=False)


@pytest.fixture(scope="session")
def real_broker(java: Callable[..., Standalone]) -> Iterator[Broker]:
    """One Apache Pulsar for the whole session: the user's, or one of our own."""
    if USERS_URL:
        yield Broker(USERS_URL, Admin(USERS_ADMIN_URL))
        return
    standalone = java()
    start(standalone)
    yield Broker(standalone.service_url, standalone.admin)
    standalone.kill()


@pytest.fixture(scope="session")
def proxy(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A Pulsar proxy in front of a broker; tests may stop it and start it again."""
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), broker.service_url, broker.admin.web_url)
    start(proxy)
    yield proxy
    proxy.kill()


@pytest.fixture(scope="session")
def embedded_broker() -> Iterator[Broker]:
    with EmbeddedBroker() as broker:
        yield Broker(broker.service_url, Admin(broker.web_url))


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom brokers and clients trust."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def guarded_apache(java: Callable[..., Standalone], authority: Authority) -> Iterator[Guarded]:
    """One that wants credentials, for all tests of these; it is never the user's."""
    standalone = java()
    service_url_tls = guard(standalone, authority)
    start(standalone)
    yield Guarded(standalone.service_url, service_url_tls, standalone.admin, authority)
    standalone.kill()


@pytest.fixture(scope="session")
def guarded_proxy(guarded_apache: Guarded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedProxy]:
    """A proxy in front of that one, to which clients say who they are, and it to the broker."""
    settings, service_url_tls = guard_of_proxy(guarded_apache.authority)
    web = guarded_apache.admin.web_url
    proxy = Proxy(tmp_path_factory.mktemp("proxy"), guarded_apache.service_url, web, settings)
    start(proxy)
    yield GuardedProxy(proxy.service_url, service_url_tls, proxy.web_url)
    proxy.kill()


@pytest.fixture(scope="session")
def guarded_embedded(authority: Authority) -> Iterator[Guarded]:
    with embedded_guard(authority) as broker:
        yield Guarded(broker.service_url, broker.service_url_tls, admin_of(broker.web_url), authority)


@pytest.fixture(scope="session", params=GUARDED)
def guarded(request: pytest.FixtureRequest) -> Any:
    """A broker that wants credentials."""
    return request.getfixturevalue(GUARDED[request.param])


@pytest.fixture(scope="session")
def crashing(java: Callable[..., Standalone]) -> Iterator[Standalone]:
    """A broker for tests that `kill` and `start` it; it is never the user's."""
    standalone = java(durable=True)
    standalone.configure(EXPOSING + LISTENERS.format(port=standalone.service_url.rpartition(":")[2]))
    start(standalone)
    yield standalone
    standalone.kill()


@pytest.fixture(scope="session")
def exposing_embedded_broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(broker_entry_metadata=True, keepalive_seconds=1) as broker:
        broker.advertise("outside", broker.service_url.replace("127.0.0.1", "localhost"))
        yield broker


@pytest.fixture(params=BROKERS)
def exposing(request: pytest.FixtureRequest) -> Exposing:
    """A broker that tells what it knows of entries, pings, and advertises an `outside` listener."""
    broker = request.getfixturevalue("crashing" if request.param == "apache" else "exposing_embedded_broker")
    return Exposing(broker.service_url, broker.web_url)


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


@pytest.fixture(params=CLIENTS)
def sender(request: pytest.FixtureRequest) -> Any:
    """The module whose client sends."""
    return client_module(request.param)


@pytest.fixture(params=BOTH_WAYS, ids="-to-".join)
def from_to(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The names of the client that has something, and of the one that is given it."""
    giving, taking = request.param
    return giving, taking


@pytest.fixture
def giving(from_to: tuple[str, str], connect: Any) -> Side:
    module = client_module(from_to[0])
    return Side(module, connect(module))


@pytest.fixture
def taking(from_to: tuple[str, str], connect: Any) -> Side:
    module = client_module(from_to[1])
    return Side(module, connect(module))


@pytest.fixture
def connect_to() -> Iterator[Callable[..., Any]]:
    """Make a client of a module; it is closed at the end of the test."""
    with opened_clients() as connect_to:
        yield connect_to


@pytest.fixture
def connect(request: pytest.FixtureRequest, connect_to: Callable[..., Any], broker: Broker) -> Callable[..., Any]:
    """Make a client that uses the broker under test, through a tap if there is one."""
    reached = request.getfixturevalue("tapped") if "tapped" in request.fixturenames else broker
    return lambda module, **options: connect_to(module, reached.service_url, **options)


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


@pytest.fixture
def three(new_topic: Callable[..., str], namespace: str, admin: Admin) -> list[str]:
    """Topics in a namespace of their own."""
    name = new_topic(namespace)
    topics = [f"{name}-{letter}" for letter in "abc"]  # in the order of the alphabet
    for each in topics:
        admin.create(each)
    return topics


@pytest.fixture
def tapped(broker: Broker) -> Iterator[Wiretap]:
    """A tap before the broker under test, which clients of the test come through."""
    with closing(Wiretap(broker.service_url)) as tapped:
        yield tapped


def cursors(item: pytest.Item) -> str:
    """Return the positions of all subscriptions of the test's topics, whose names begin alike."""
    arguments = getattr(item, "funcargs", {})
    topic, broker = arguments.get("topic"), arguments.get("broker", arguments.get("real_broker"))
    if topic is None or broker is None:
        return ""
    try:
        names = broker.admin.json("GET", "persistent/public/default")
        return "\n".join(f"{name}: {broker.admin.cursors(name)}" for name in names if name.startswith(topic))
    except (OSError, AdminError) as error:  # the broker may be what failed
        return repr(error)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    started = item.config.stash.get(BROKERS_STARTED, [])
    item.stash[LOG_SIZES] = {each: each.log_size() for each in started}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    """Show what clients and brokers know, and what brokers said, if a test fails that may never fail again."""
    report = yield
    if report.failed:
        if report.when == "call":
            report.sections.append(("what our clients know", what_our_clients_know()))
            report.sections.append(("cursors of the topics", cursors(item)))
        sizes = item.stash.get(LOG_SIZES, {})
        for each in item.config.stash.get(BROKERS_STARTED, []):
            report.sections.append((f"log of {each.service_url}", each.said_since(sizes.get(each, 0))))
    return report
