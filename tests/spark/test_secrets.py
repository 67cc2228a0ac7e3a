"""Secrets in options reach the broker, and nothing else: no plan, no error, and no record that Spark's UI shows.

A secret that stays in a file is not in the memory of Spark's Java either, and so not in a dump of it.

The broker requires tokens, so a token that did not reach it would fail the test.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker, Settings
from pulsar_actors.broker.tokens import Tokens
from tests.spark.driver import Driver
from tests.spark.traffic import Traffic

TOKENS = Tokens(b"what only the broker knows")
TOKEN = TOKENS.issue("spark")
REFUSED = Tokens(b"what some other broker knows").issue("spark")
SECRETS = [one.rpartition(".")[2] for one in (TOKEN, REFUSED)]


@pytest.fixture
def guarded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tokens=TOKENS, settings=Settings(deduplication=True)) as broker:
        with Traffic(broker.service_url, authentication=pulsar.AuthenticationToken(TOKEN)) as traffic:
            traffic.send("secret", ["1", "2", "3"])
            traffic.send("secret-out", [])
        yield broker


def options(broker: EmbeddedBroker, token: str) -> dict[str, str]:
    return {
        "service.url": broker.service_url,
        "admin.url": broker.web_url,
        "pulsar.client.authPluginClassName": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
        "pulsar.client.authParams": f"token:{token}",
    }


def dump_of_java(spark: Any, folder: Path) -> bytes:
    """Return all objects that the driver's Java has, those that nothing refers to any more among them.

    In local mode it is the Java of the executors, too.
    """
    java, file = spark.sparkContext._jvm.java.lang, folder / "java.hprof"
    diagnostics = java.Class.forName("com.sun.management.HotSpotDiagnosticMXBean")
    java.management.ManagementFactory.getPlatformMXBean(diagnostics).dumpHeap(str(file), False)  # noqa: FBT003
    return file.read_bytes()


def assert_no_secret(text: str) -> None:
    assert [secret for secret in SECRETS if secret in text] == []


def test_the_records_of_queries_show_no_secrets(guarded: EmbeddedBroker, tmp_path: Path) -> None:
    """The token of one query is taken, and that of the other refused."""
    events = tmp_path / "events"
    events.mkdir()
    records = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.log.level": "INFO",
    }
    queries: list[dict[str, Any]] = []
    for token in (TOKEN, REFUSED):
        given = options(guarded, token)
        read = {**given, "topic": "secret", "startingOffsets": "earliest", "subscriptionPrefix": "mine"}
        write = {**given, "topic": "secret-out", "checkpointLocation": str(tmp_path / f"checkpoint {len(queries)}")}
        write.pop("admin.url") if token is REFUSED else write.update(idempotent="true", rowsRepeatInOrder="true")
        queries.append({"read": read, "write": write})
    with Driver(master="local[2]", conf=records, queries=queries) as driver:
        said = driver.output()
    assert "query 1 is copied" in said
    assert "all is copied" not in said
    assert "AuthenticationError" in said
    assert_no_secret(said)
    recorded = "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file())
    assert "SparkListenerEnvironmentUpdate" in recorded
    assert '"subscription":"mine"' in recorded.replace(" ", "")
    assert_no_secret(recorded)


def test_plans_and_errors_show_no_secrets(spark: Any, guarded: EmbeddedBroker) -> None:
    def reader(token: str) -> Any:
        reader = spark.read.format("pulsar").option("topic", "secret").option("minPartitions", "2")
        for name, value in options(guarded, token).items():
            reader = reader.option(name, value)
        return reader

    allowed, refused = reader(TOKEN).load(), reader(REFUSED).schema("value binary").load()
    for frame in (allowed, refused):
        assert_no_secret(frame._jdf.queryExecution().toString())
    assert allowed.count() == 3
    for query in (refused.count, reader(REFUSED).load):  # without a schema, load asks the broker for one
        with pytest.raises(Exception, match="AuthenticationError") as raised:
            query()
        assert_no_secret(str(raised.value))


def test_a_dump_of_the_memory_of_spark_has_no_secret_of_a_file(
    spark: Any, guarded: EmbeddedBroker, tmp_path: Path
) -> None:
    kept, given = TOKENS.issue("in a file"), TOKENS.issue("in the options")
    file = tmp_path / "token"
    file.write_text(kept)
    for params in (file.as_uri(), f"token:{given}"):
        settings = {**options(guarded, ""), "pulsar.client.authParams": params}
        frame = spark.read.format("pulsar").options(**settings, topic="secret", minPartitions="2").load()
        assert frame.count() == 3
        frame.write.format("pulsar").mode("append").options(**settings, topic="secret-out").save()
    memory = dump_of_java(spark, tmp_path)
    assert given.encode() in memory
    assert kept.rpartition(".")[2].encode() not in memory
