"""A Spark on this machine, and both brokers; each test has a topic of its own."""

import itertools
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pulsar
import pytest
from admin import Admin
from jars import Unavailable
from standalone import Standalone
from subjects import USERS_ADMIN_URL, USERS_URL, Broker
from traffic import Count, Traffic

import pulsar_actors
from pulsar_actors.broker.embedded import EmbeddedBroker

# For drivers, masters and workers that live for a minute: the better compiler of Java's takes longer than it saves.
for variable in ("SPARK_SUBMIT_OPTS", "SPARK_DAEMON_JAVA_OPTS"):
    os.environ.setdefault(variable, "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

_numbers = itertools.count()
_run = uuid.uuid4().hex[:8]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let PySpark leave its sockets to the garbage collector, which says so: nothing else of a test may."""
    here = Path(__file__).parent
    unraisable = "ignore:Exception ignored in.*<socket:pytest.PytestUnraisableExceptionWarning"
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*unclosed <socket.*:ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings(unraisable))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with two workers, that tries a task twice."""
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        sql.SparkSession.builder.master("local[2,2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
    )
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def apache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """An Apache Pulsar: the user's, or one of our own."""
    if USERS_URL:
        yield Broker(USERS_URL, Admin(USERS_ADMIN_URL))
        return
    standalone = Standalone(tmp_path_factory.mktemp("standalone"))
    try:
        standalone.start()
    except Unavailable as error:
        if os.environ.get("CI"):
            pytest.fail(f"CI is set, and there is no real broker: {error}", pytrace=False)
        pytest.skip(f"no real broker: {error}")
    yield Broker(standalone.service_url, standalone.admin)
    standalone.kill()


@pytest.fixture(scope="session")
def embedded() -> Iterator[Broker]:
    with EmbeddedBroker() as broker:
        yield Broker(broker.service_url, Admin(broker.web_url))


@pytest.fixture(scope="session", params=["apache", "embedded"])
def broker(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def topic() -> str:
    """The name of a topic that nobody has used."""
    return f"persistent://public/default/s-{_run}-{next(_numbers)}"


@pytest.fixture
def partitioned(topic: str, broker: Broker) -> str:
    """A topic of three partitions."""
    broker.admin.create_partitioned(topic, 3)
    return topic


@pytest.fixture
def traffic(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Traffic]:
    """What another client sends and reads."""
    module = pulsar if "apache" in request.node.callspec.id else pulsar_actors
    with Traffic(broker.service_url, module) as traffic:
        yield traffic


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Count:
    """What came of it stands in the report of the run, if one is written."""

    def count(texts: list[str], sent: int) -> int:
        found = list(map(int, texts))
        lost, again = set(range(sent)) - set(found), len(found) - len(set(found))
        for name, number in (("sent", sent), ("found", len(found)), ("lost", len(lost)), ("twice", again)):
            record_property(name, number)
        assert not lost
        assert set(found) == set(range(sent))
        return again

    return count


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
