"""Exactly-once writing: all of a batch is visible, and once, or nothing, whatever runs again and whoever dies."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark import inheritable_thread_target

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.exceptions import InvalidTxnStatusError, PulsarException, TransactionNotFound
from pulsar_actors.spark import exactly_once
from pulsar_actors.spark.cluster_access import ClusterAccess
from pulsar_actors.spark.control_topic import COMMITTING, WRITTEN, Record
from pulsar_actors.spark.exactly_once import BatchTransaction, ExactlyOnce, Written
from pulsar_actors.spark.running_task import RunningTask
from tests.spark.stream import writing
from tests.spark.traffic import Traffic, until
from tests.support.admin import Admin
from tests.support.subjects import Broker

JOB = "job"


class Driver:
    """Batches that are written without Spark, whose commits can be left half done."""

    def __init__(self, broker: Broker, topic: str, timeout: float = 60.0) -> None:
        self.cluster = ClusterAccess({"service_url": broker.service_url})
        self.topic = topic
        self.exactly_once = ExactlyOnce(f"{topic}-control", timedelta(seconds=timeout), "stream")
        self.client = self.cluster.client()
        self.job = JOB

    def open(self) -> BatchTransaction:
        return self.exactly_once.open(self.cluster)

    def send(self, *texts: str, batch: int = 7) -> BatchTransaction:
        """Open a transaction, and send the part of one task."""
        opened = self.open()
        self.send_part(opened, texts, batch)
        return opened

    def send_part(self, opened: BatchTransaction, texts: Iterable[str], batch: int = 7) -> Written:
        """Send the part of one task, which has a client of its own."""

        def rows(transaction: Any) -> Written:
            producer = client.create_producer(self.topic)
            sizes = [len(text) for text in texts if producer.send(text.encode(), transaction=transaction)]
            return Written(len(sizes), sum(sizes))

        with self.cluster.client() as client:
            return opened.send_part(client, RunningTask(0, None, batch), self.job, rows, may_repeat=False)

    def commit(
        self,
        opened: BatchTransaction,
        batch: int = 7,
        *,
        parts: AbstractSet[int] = frozenset({0}),
        may_repeat: bool = True,
    ) -> bool:
        """Commit what the tasks for these parts have sent."""
        return opened.commit(self.cluster, self.job, batch, parts, may_repeat=may_repeat)

    def kept(self) -> list[Record]:
        """Return the records that are still kept."""
        return [record for suffix in ("control", "control-attempts") for record in self._kept(f"{self.topic}-{suffix}")]

    def _kept(self, topic: str) -> Iterator[Record]:
        consumer = self.client.subscribe(topic, "spark-exactly-once")
        end = self.client.create_producer(topic).send(b"")
        while (message := consumer.receive(30_000)).message_id() != end:
            yield Record.decode(message.data())
        consumer.close()


@pytest.fixture
def driver(broker: Broker, topic: str) -> Iterator[Driver]:
    driver = Driver(broker, topic)
    yield driver
    driver.client.close()


def test_a_batch_is_visible_with_its_commit(driver: Driver, traffic: Traffic, topic: str) -> None:
    opened = driver.send("1", "2")
    assert traffic.texts(topic) == []
    assert driver.commit(opened)
    assert traffic.texts(topic) == ["1", "2"]


def test_a_batch_that_is_written_is_not_written_again(driver: Driver, traffic: Traffic, topic: str) -> None:
    assert driver.commit(driver.send("1"))
    assert not driver.commit(driver.send("1"))
    assert traffic.texts(topic) == ["1"]
    assert driver.commit(driver.send("2", batch=8), batch=8)
    assert traffic.texts(topic) == ["1", "2"]


def test_a_driver_that_comes_back_when_others_have_gone_on_writes_nothing_again(
    driver: Driver, traffic: Traffic, topic: str
) -> None:
    for batch in (7, 8):
        assert driver.commit(driver.send(f"{batch}", batch=batch), batch=batch)
    assert not driver.commit(driver.send("7"))
    assert traffic.texts(topic) == ["7", "8"]
    driver.job = "other"
    assert driver.commit(driver.send("7 of another job"))
    assert traffic.texts(topic) == ["7", "8", "7 of another job"]


def test_a_marker_that_has_expired_counts_as_long_as_it_is_stored(
    driver: Driver, traffic: Traffic, topic: str, broker: Broker
) -> None:
    assert driver.commit(driver.send("7"))
    broker.admin.skip_all(driver.exactly_once.control_topic)
    assert not driver.commit(driver.send("7"))
    assert driver.commit(driver.send("8", batch=8), batch=8)
    assert traffic.texts(topic) == ["7", "8"]


def test_the_log_warns_if_markers_of_earlier_batches_are_lost(
    driver: Driver, traffic: Traffic, topic: str, broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    assert driver.commit(driver.send("0", batch=0), batch=0)
    assert driver.commit(driver.send("1", batch=1), batch=1)
    assert not caplog.records
    broker.admin.delete(driver.exactly_once.control_topic)
    assert driver.commit(driver.send("2", batch=2), batch=2)
    (warning,) = caplog.messages
    assert "batch 2 of job is the first" in warning
    assert driver.commit(driver.send("3", batch=3), batch=3)
    assert len(caplog.messages) == 1
    assert traffic.texts(topic) == ["0", "1", "2", "3"]


def test_a_driver_that_died_before_the_marker_holds_nothing_back(driver: Driver, traffic: Traffic, topic: str) -> None:
    driver.send("1")
    assert driver.commit(driver.send("1"))
    assert traffic.texts(topic) == ["1"]


def half_commit(driver: Driver, opened: BatchTransaction, batch: int = 7) -> Any:
    """Do what a commit does until END_TXN, and return the transaction."""
    client, transaction = driver.client, opened.join(driver.client)
    client.create_producer(opened.attempts_topic).send(Record(COMMITTING, JOB, batch, opened.id).encode())
    marker = Record(WRITTEN, JOB, batch, opened.id).encode()
    client.create_producer(opened.control_topic).send(marker, transaction=transaction)
    return transaction


def test_of_two_drivers_that_commit_a_batch_the_second_aborts_the_first(
    driver: Driver, traffic: Traffic, topic: str
) -> None:
    first = half_commit(driver, driver.send("1"))
    assert driver.commit(driver.send("1"))
    assert traffic.texts(topic) == ["1"]
    with pytest.raises(PulsarException, match=r"TransactionNotFound|InvalidTxnStatus"):
        first.commit()
    assert traffic.texts(topic) == ["1"]


def test_of_two_drivers_that_commit_a_batch_the_first_may_win(driver: Driver, traffic: Traffic, topic: str) -> None:
    second = driver.send("1")
    half_commit(driver, driver.send("1")).commit()
    assert not driver.commit(second)
    assert traffic.texts(topic) == ["1"]


def test_a_commit_that_comes_between_the_look_and_the_abort_of_the_other_counts(
    driver: Driver, traffic: Traffic, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = driver.send("1"), driver.send("1")
    join = exactly_once.join_transaction

    def commit_the_first(client: Any, transaction: Any, timeout: Any) -> Any:
        if transaction == first.id:
            monkeypatch.undo()
            half_commit(driver, first).commit()
        return join(client, transaction, timeout)

    monkeypatch.setattr(exactly_once, "join_transaction", commit_the_first)
    assert not driver.commit(second)
    assert traffic.texts(topic) == ["1"]


def test_a_driver_that_died_between_the_marker_and_the_commit_has_written_nothing(
    driver: Driver, traffic: Traffic, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_: Any) -> None:
        raise KeyboardInterrupt

    opened = driver.send("1")
    with monkeypatch.context() as patched:
        patched.setattr(exactly_once.SharedTransaction, "commit", die)
        with pytest.raises(KeyboardInterrupt):
            driver.commit(opened)
    assert driver.commit(driver.send("1"))
    assert traffic.texts(topic) == ["1"]


def test_another_job_that_is_half_way_is_let_alone(driver: Driver, traffic: Traffic, topic: str) -> None:
    driver.job = "other"
    other = driver.send("1")
    driver.job = JOB
    assert driver.commit(driver.send("2"))
    driver.job = "other"
    assert driver.commit(other)
    assert traffic.texts(topic) == ["1", "2"]


def test_a_task_whose_part_another_has_begun_is_refused(driver: Driver, traffic: Traffic, topic: str) -> None:
    opened = driver.send("1")
    for _ in range(2):
        with pytest.raises(PulsarException, match="another task has begun to send part 0 of this batch"):
            driver.send_part(opened, ["1", "2"])
    opened.abort(driver.cluster)
    with pytest.raises(PulsarException, match="batch 7 of job is not written, because its transaction ended"):
        driver.commit(opened)
    assert traffic.texts(topic) == []


def test_a_batch_is_aborted_if_a_part_was_begun_whose_repeated_task_found_no_rows(
    driver: Driver, traffic: Traffic, topic: str
) -> None:
    opened = driver.send("1", "2")
    with pytest.raises(PulsarException, match=r"a task has begun to send part 0, .* found no rows there"):
        driver.commit(opened, parts=frozenset())
    traffic.send(topic, ["after"])
    assert traffic.texts(topic) == ["after"]


def test_a_task_of_a_batch_that_is_committed_sends_nothing(driver: Driver, traffic: Traffic, topic: str) -> None:
    opened = driver.open()
    assert driver.commit(opened, parts=frozenset())
    with pytest.raises(PulsarException, match="part 0 of this batch is not sent: the batch is being committed"):
        driver.send_part(opened, ["1"])
    traffic.send(topic, ["after"])
    assert traffic.texts(topic) == ["after"]


class Held:
    """The texts of a task that has begun to send, and goes on when it is told to."""

    def __init__(self) -> None:
        self.began, self.go_on = threading.Event(), threading.Event()

    def __iter__(self) -> Iterator[str]:
        self.began.set()
        assert self.go_on.wait(30)
        yield "1"


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when somebody waits for what another process has."""
    waits, sleep = threading.Event(), time.sleep

    def note_and_sleep(seconds: float) -> None:
        waits.set()
        sleep(seconds)

    monkeypatch.setattr(time, "sleep", note_and_sleep)
    return waits


def test_a_substitute_waits_for_a_task_that_still_sends(
    driver: Driver, traffic: Traffic, topic: str, waits: threading.Event
) -> None:
    opened, held = driver.open(), Held()
    with ThreadPoolExecutor(2) as tasks:
        first = tasks.submit(driver.send_part, opened, held)
        assert held.began.wait(30)
        waits.clear()
        second = tasks.submit(driver.send_part, opened, ["1"])
        assert waits.wait(30)
        held.go_on.set()
        assert first.result(30) == Written(1, 1)
        with pytest.raises(PulsarException, match="another task has begun to send part 0 of this batch"):
            second.result(30)
    assert driver.commit(opened)
    assert traffic.texts(topic) == ["1"]


def test_a_driver_aborts_a_batch_when_the_tasks_that_still_send_have_ended(
    driver: Driver, traffic: Traffic, topic: str, waits: threading.Event
) -> None:
    opened, held = driver.open(), Held()
    with ThreadPoolExecutor(2) as threads:
        task = threads.submit(driver.send_part, opened, held)
        assert held.began.wait(30)
        waits.clear()
        aborting = threads.submit(opened.abort, driver.cluster)
        assert waits.wait(30)
        held.go_on.set()
        assert task.result(30) == Written(1, 1)
        aborting.result(30)
    traffic.send(topic, ["after"])
    assert traffic.texts(topic) == ["after"]


def test_a_driver_does_not_wait_long_for_a_task_that_does_not_end(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(exactly_once, "TASKS_END_WITHIN", 0.5)
    opened, held = driver.open(), Held()
    with ThreadPoolExecutor(1) as tasks:
        task = tasks.submit(driver.send_part, opened, held)
        assert held.began.wait(30)
        opened.abort(driver.cluster)
        held.go_on.set()
        with pytest.raises((TransactionNotFound, InvalidTxnStatusError)):
            task.result(30)
    assert "is aborted, although tasks may still send" in caplog.text


def test_a_task_of_a_batch_that_is_aborted_sends_nothing(driver: Driver, traffic: Traffic, topic: str) -> None:
    opened = driver.open()
    opened.abort(driver.cluster)
    with pytest.raises(PulsarException, match="part 0 of this batch is not sent: the batch is being aborted"):
        driver.send_part(opened, ["1"])
    traffic.send(topic, ["after"])
    assert traffic.texts(topic) == ["after"]


def test_the_transaction_of_a_stream_is_found_until_it_is_committed(driver: Driver) -> None:
    assert driver.exactly_once.last_opened(driver.cluster) is None
    first = driver.open()
    second = driver.send("1")
    for _ in range(2):
        assert driver.exactly_once.last_opened(driver.cluster) == second
    assert driver.commit(second)
    assert driver.exactly_once.last_opened(driver.cluster) == first
    other = driver.exactly_once._replace(stream="other")
    assert other.last_opened(driver.cluster) is None


def test_records_that_are_not_needed_are_not_kept(driver: Driver) -> None:
    for batch in (7, 8, 9):
        driver.commit(driver.send("1", batch=batch), batch=batch)
    driver.commit(driver.send("1", batch=9), batch=9)
    assert [(record.kind, record.batch) for record in driver.kept()] == [(WRITTEN, 9)]


def test_a_job_that_cannot_run_again_leaves_no_marker(driver: Driver) -> None:
    driver.commit(driver.send("1"), may_repeat=False)
    assert driver.kept() == []


def test_nothing_of_a_batch_that_takes_too_long_is_visible(broker: Broker, topic: str, traffic: Traffic) -> None:
    driver = Driver(broker, topic, timeout=0.5)
    with driver.client:
        ended = r"open for longer than its timeout of 0\.5 s|has been ended|not found"
        with pytest.raises(PulsarException, match=ended):
            driver.send_part(driver.open(), slow_texts())
        assert traffic.texts(topic) == []


def slow_texts() -> Iterator[str]:
    """Yield texts until an error comes of it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        yield "1"


# With Spark.


def rows(spark: Any, last: int, partitions: int = 2) -> Any:
    return spark.range(0, last, 1, partitions).selectExpr("id", "cast(id as string) as value")


def write(frame: Any, broker: Broker, topic: str, **options: str) -> None:
    writing(frame.select("value"), broker, topic=topic, exactlyOnce="true", **options)


def test_a_job_is_written_as_a_whole(spark: Any, broker: Broker, traffic: Traffic, partitioned: str) -> None:
    write(rows(spark, 5000, 3), broker, partitioned)
    assert sorted(map(int, traffic.texts(partitioned))) == list(range(5000))


def test_a_job_without_rows_is_written(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    write(rows(spark, 0), broker, topic)
    write(rows(spark, 3), broker, topic)
    assert sorted(traffic.texts(topic)) == ["0", "1", "2"]


def test_nothing_of_a_job_that_fails_is_visible_and_nothing_waits_for_it(
    spark: Any, broker: Broker, traffic: Traffic, topic: str
) -> None:
    failing = rows(spark, 40_000).selectExpr("if(id % 20000 = 17777, raise_error('half way'), value) as value")
    with pytest.raises(Exception, match=r"half way|has begun to send part"):
        write(failing, broker, topic)
    traffic.send(topic, ["after"])
    assert traffic.texts(topic) == ["after"]


def test_a_job_with_a_name_is_written_once(spark: Any, broker: Broker, traffic: Traffic, topic: str) -> None:
    for _ in range(2):
        write(rows(spark, 1000), broker, topic, writerName="of 20 November")
    assert sorted(map(int, traffic.texts(topic))) == list(range(1000))
    write(rows(spark, 1000), broker, topic, writerName="of 21 November")
    assert len(traffic.texts(topic)) == 2000


def test_a_task_that_failed_half_way_fails_the_job_unless_its_rows_are_told_apart(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, tmp_path: Path
) -> None:
    numbers = spark.sparkContext.parallelize(range(200_000), 2)
    frame = numbers.mapPartitions(failing_once(tmp_path / "failed")).toDF("value string")
    with pytest.raises(Exception, match="another task has begun to send part"):
        write(frame, broker, topic)
    assert traffic.texts(topic) == []
    broker.admin.set_deduplication(topic, on=True)
    assert until(lambda: broker.admin.is_deduplicating(topic))
    options = {"idempotent": "true", "rowsRepeatInOrder": "true", "admin.url": broker.admin.web_url}
    failing = numbers.map(lambda number: (f"{number}" if number % 100_000 < 77_777 else 1 / 0,)).toDF("value string")
    with pytest.raises(Exception, match="ZeroDivisionError"):
        write(failing, broker, topic, writerName="job", **options)
    for _ in range(2):
        (tmp_path / "failed").unlink()
        write(frame, broker, topic, writerName="job", **options)
    assert sorted(map(int, traffic.texts(topic))) == list(range(200_000))


def test_a_job_fails_if_the_repeated_task_of_one_that_failed_half_way_has_no_rows(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, tmp_path: Path
) -> None:
    flag = tmp_path / "failed"

    def once(numbers: Iterable[int]) -> Iterator[tuple[str]]:
        return iter(()) if flag.exists() else failing_once(flag)(numbers)

    frame = spark.sparkContext.parallelize(range(200_000), 2).mapPartitions(once).toDF("value string")
    with pytest.raises(Exception, match="a task has begun to send part"):
        write(frame, broker, topic)
    traffic.send(topic, ["after"])
    assert traffic.texts(topic) == ["after"]


def failing_once(flag: Path) -> Callable[[Iterable[int]], Iterator[tuple[str]]]:
    """Return a function of a partition's numbers that fails in the middle of the first task that gets there."""

    def texts(numbers: Iterable[int]) -> Iterator[tuple[str]]:
        for number in numbers:
            if number % 100_000 == 77_777 and not flag.exists():
                flag.touch()
                raise ArithmeticError("half way")
            yield (f"{number}",)

    return texts


def test_a_stream_is_written_exactly_once(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    numbers = [f"{number}" for number in range(1000)]
    for sent in (numbers[:400], numbers[400:]):
        traffic.send(topic, sent)
        reader = spark.readStream.format("pulsar").option("service.url", broker.service_url).option("topic", topic)
        frame = reader.option("startingOffsets", "earliest").option("subscriptionPrefix", "copy").load()
        writer = frame.writeStream.format("pulsar").option("service.url", broker.service_url)
        writer = writer.option("topic", f"{topic}-out").option("exactlyOnce", "true")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
    assert sorted(map(int, traffic.texts(f"{topic}-out"))) == list(range(1000))


def test_a_stream_goes_on_under_another_query_name(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    for name in ("first", "second"):
        traffic.send(topic, [name])
        reader = spark.readStream.format("pulsar").option("service.url", broker.service_url).option("topic", topic)
        frame = reader.option("startingOffsets", "earliest").option("subscriptionPrefix", "copy").load()
        writer = frame.writeStream.format("pulsar").option("service.url", broker.service_url).queryName(name)
        writer = writer.option("topic", f"{topic}-out").option("exactlyOnce", "true")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
    assert traffic.texts(f"{topic}-out") == ["first", "second"]


def test_nothing_waits_for_a_batch_of_a_stream_of_which_no_task_has_ended(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    traffic.send(topic, [f"{number}" for number in range(20_000)], per_batch=1000)
    reader = spark.readStream.format("pulsar").option("service.url", broker.service_url).option("topic", topic)
    frame = reader.option("startingOffsets", "earliest").option("subscriptionPrefix", "copy").load()
    failing = frame.selectExpr("if(cast(value as string) = '17777', raise_error('half way'), value) as value")
    writer = failing.writeStream.format("pulsar").option("service.url", broker.service_url)
    writer = writer.option("topic", f"{topic}-out").option("exactlyOnce", "true")
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    with pytest.raises(Exception, match=r"half way|has begun to send part"):
        query.awaitTermination(120)
    traffic.send(f"{topic}-out", ["after"])
    assert traffic.texts(f"{topic}-out") == ["after"]


def test_a_batch_of_a_stream_whose_end_spark_has_not_noted_is_not_written_again(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    traffic.send(topic, [f"{number}" for number in range(100)])
    reader = spark.readStream.format("pulsar").option("service.url", broker.service_url).option("topic", topic)
    frame = reader.option("startingOffsets", "earliest").option("subscriptionPrefix", "copy").load()
    writer = frame.writeStream.format("pulsar").option("service.url", broker.service_url)
    writer = writer.option("topic", f"{topic}-out").option("exactlyOnce", "true")
    for _ in range(2):
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        for noted in Path(checkpoint, "commits").iterdir():
            noted.unlink()
    assert sorted(map(int, traffic.texts(f"{topic}-out"))) == list(range(100))


def test_threads_of_foreach_batch_that_inherit_its_properties_write_each_batch(
    spark: Any, broker: Broker, traffic: Traffic, topic: str, checkpoint: str
) -> None:
    def each(frame: Any, _: int) -> None:
        def copy(name: str) -> None:
            spark.createDataFrame([], "a int")  # which makes the session active in the thread
            write(frame.selectExpr("cast(value as string) as value"), broker, f"{topic}-{name}", writerName=name)

        with ThreadPoolExecutor() as pool:
            copies = [pool.submit(inheritable_thread_target(spark)(copy), name) for name in ("first", "second")]
        assert [one.result() for one in copies] == [None, None]

    for batch in (["0", "1"], ["2"]):
        traffic.send(topic, batch)
        reader = spark.readStream.format("pulsar").option("service.url", broker.service_url).option("topic", topic)
        frame = reader.option("startingOffsets", "earliest").option("subscriptionPrefix", "copy").load()
        writer = frame.writeStream.foreachBatch(each).option("checkpointLocation", checkpoint)
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert [sorted(traffic.texts(f"{topic}-{name}")) for name in ("first", "second")] == [["0", "1", "2"]] * 2


def test_a_cluster_without_transactions_is_refused(spark: Any, topic: str) -> None:
    with EmbeddedBroker(settings=Settings(transaction_coordinators=0)) as broker:
        subject = Broker(broker.service_url, Admin(broker.web_url))
        with pytest.raises(Exception, match="set transactionCoordinatorEnabled=true"):
            write(rows(spark, 1), subject, topic)
