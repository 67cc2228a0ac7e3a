"""Spark on this machine, and both brokers; each test has a topic of its own."""

import itertools
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pulsar
import pytest

import pulsar_actors
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.spark import client_pool
from tests.spark.traffic import Count, Traffic
from tests.support.admin import Admin
from tests.support.jars import Unavailable
from tests.support.standalone import QUICK_START, Standalone
from tests.support.subjects import USERS_ADMIN_URL, USERS_URL, Broker

# Drivers, masters and workers run for a minute here: Java's optimizing compiler takes longer than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", " ".join(QUICK_START))

_numbers = itertools.count()
_run = uuid.uuid4().hex[:8]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow PySpark alone to leave sockets to the garbage collector, which warns about them."""
    here = Path(__file__).parent
    unraisable = "ignore:Exception ignored in.*<socket:pytest.PytestUnraisableExceptionWarning"
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("ignore:.*unclosed <socket.*:ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings(unraisable))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with two workers, in which a task has two attempts."""
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
    """An Apache Pulsar: the one of the environment, or a standalone one."""
    if USERS_URL:
        yield Broker(USERS_URL, Admin(USERS_ADMIN_URL))
        return
    standalone = Standalone(tmp_path_factory.mktemp("standalone"))
    try:
        standalone.start()
    except Unavailable as error:
        pytest.fail(f"no real broker: {error}", pytrace=False)
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
    """The name of a new topic."""
    return f"persistent://public/default/s-{_run}-{next(_numbers)}"


@pytest.fixture
def partitioned(topic: str, broker: Broker) -> str:
    """A topic of three partitions."""
    broker.admin.create_partitioned(topic, 3)
    return topic


@pytest.fixture
def traffic(request: pytest.FixtureRequest, broker: Broker) -> Iterator[Traffic]:
    """Messages that another client sends and reads."""
    module = pulsar if "apache" in request.node.callspec.id else pulsar_actors
    with Traffic(broker.service_url, module) as traffic:
        yield traffic


@pytest.fixture
def count(record_property: Callable[[str, object], None]) -> Count:
    """Count lost and repeated messages, for the report of the run if one is written."""

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


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of each pause of a task that waits for its turn with a producer. They pass at once."""
    seconds: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: sum(seconds), sleep=seconds.append)
    monkeypatch.setattr(client_pool, "time", clock)
    return seconds
