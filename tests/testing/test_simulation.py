"""Virtual time for the tests of users: what they are told in `pulsar_actors.testing`."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pykka
import pytest

import pulsar_actors as pulsar
from pulsar_actors import InvalidArgument
from pulsar_actors.broker import EmbeddedBroker, Settings
from pulsar_actors.broker.fault_rules import Fault
from pulsar_actors.simulation.scheduler import OutOfTime, SeedFailed, TasksFailed
from pulsar_actors.testing import NetworkConditions, Simulation, explore
from tests.support.life import SOON, InThread

HALF_AN_HOUR = 1800.0


def worker(client: pulsar.Client, did: list[tuple[float, bytes]]) -> None:
    """Handle jobs. One that fails is tried again after half an hour; a program under test, as a user would write it."""
    earliest = pulsar.InitialPosition.Earliest  # jobs may have come before the worker
    consumer = client.subscribe("jobs", "worker", initial_position=earliest, negative_ack_redelivery_delay_ms=1_800_000)
    failed: set[bytes] = set()
    try:
        for message in consumer:
            did.append((time.monotonic(), message.data()))
            if message.data() not in failed:
                failed.add(message.data())
                consumer.negative_acknowledge(message)
            else:
                consumer.acknowledge(message)
    except pulsar.AlreadyClosed:
        pass


def play(scenario: Callable[[Simulation], object]) -> None:
    with Simulation() as simulation:
        scenario(simulation)
        simulation.sleep(1)


def test_half_an_hour_of_waiting_takes_no_time() -> None:
    began = time.perf_counter()
    did: list[tuple[float, bytes]] = []
    with Simulation(seed=3) as simulation:
        simulation.start(worker, simulation.client(), did)
        simulation.client().create_producer("jobs").send(b"report")
        simulation.until(lambda: len(did) == 2)
        assert simulation.now >= HALF_AN_HOUR
    (first, _), (second, _) = did
    assert HALF_AN_HOUR <= second - first < HALF_AN_HOUR + 30
    assert time.perf_counter() - began < 30


def test_a_program_sleeps_and_reads_the_clock_in_virtual_time() -> None:
    real_sleep, real_time, real_monotonic = time.sleep, time.time, time.monotonic

    def nap() -> tuple[float, float]:
        before, wall = time.monotonic(), time.time()
        time.sleep(86_000)
        return time.monotonic() - before, time.time() - wall

    with Simulation() as simulation:
        napper = simulation.start(nap)
        simulation.until(lambda: napper.ended)
        assert napper.result() == (pytest.approx(86_000), pytest.approx(86_000))
        time.sleep(100)
        assert simulation.now == pytest.approx(86_100)
    assert (time.sleep, time.time, time.monotonic) == (real_sleep, real_time, real_monotonic)


def test_other_threads_keep_their_time() -> None:
    seen: list[float] = []
    with Simulation() as simulation:
        simulation.sleep(10**6)
        thread = threading.Thread(target=lambda: (time.sleep(0.001), seen.append(time.time())))
        thread.start()
        thread.join()
    assert abs(seen[0] - time.time()) < 60


def test_the_same_seed_does_the_same_again_and_another_one_may_not() -> None:
    def received(seed: int) -> list[bytes]:
        got: list[bytes] = []
        with Simulation(seed) as simulation:
            consumer = simulation.client().subscribe("t", "s")

            def send(name: bytes) -> None:
                producer = simulation.client().create_producer("t")
                for number in range(5):
                    producer.send(name + b"%d" % number)

            senders = [simulation.start(send, name) for name in (b"a", b"b")]
            simulation.until(lambda: all(sender.ended for sender in senders))
            while len(got) < 10:
                got.append(consumer.receive().data())
        return got

    orders = [received(seed) for seed in range(6)]
    assert orders == [received(seed) for seed in range(6)]
    assert len({tuple(order) for order in orders}) > 1


def test_faults_are_those_of_an_embedded_broker() -> None:
    with Simulation() as simulation:
        producer = simulation.client().create_producer("t")
        fault = simulation.broker.faults.on("send").close_connection()
        producer.send(b"x")
        assert fault.happened == 1
        simulation.broker.cut_connections()
        producer.send(b"y")
        assert producer.stats().reconnects == 2


def test_the_broker_has_settings_and_topics() -> None:
    with Simulation(settings=Settings(deduplication=True)) as simulation:
        simulation.broker.create_topic("parts", partitions=3)
        client = simulation.client()
        assert len(client.get_topic_partitions("parts")) == 3
        producer = client.create_producer("t", producer_name="p")
        simulation.broker.faults.on("receipt").close_connection()
        producer.send(b"once")
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        assert reader.read_next().data() == b"once"
        assert not reader.has_message_available()
        with pytest.raises(pulsar.InvalidArgument, match="exists"):
            simulation.broker.create_topic("parts")


def test_options_of_a_client_are_checked_as_ever() -> None:
    with Simulation() as simulation:
        with pytest.raises(pulsar.InvalidArgument, match="io_threads"):
            simulation.client(io_threads=0)
        client = simulation.client(operation_timeout_seconds=5)
        simulation.broker.faults.on("producer", times=None).drop()
        before = simulation.now
        with pytest.raises(pulsar.Timeout):
            client.create_producer("t")
        assert 5 <= simulation.now - before < 15


def test_an_error_in_a_thread_fails_the_block() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(TasksFailed, match="ZeroDivisionError"):
        play(lambda simulation: simulation.start(fail))


def test_an_error_that_was_asked_for_does_not() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with Simulation() as simulation:
        failing = simulation.start(fail)
        simulation.until(lambda: failing.ended)
        with pytest.raises(ZeroDivisionError):
            failing.result()


def test_an_error_of_the_test_itself_is_not_hidden_by_what_still_runs() -> None:
    closes: list[Fault] = []

    def fail(simulation: Simulation) -> None:
        simulation.start(worker, simulation.client(), [])
        simulation.sleep(1)
        closes.append(simulation.broker.faults.on("close_consumer", times=None).drop())
        raise AssertionError("of the test")

    before = pykka.ActorRegistry.get_all()
    with pytest.raises(AssertionError, match="of the test"):
        play(fail)
    assert closes[0].happened == 0  # nobody waits for a client to close
    assert pykka.ActorRegistry.get_all() == before


def test_a_condition_that_does_not_come_true_is_a_timeout() -> None:
    with Simulation() as simulation:
        with pytest.raises(pulsar.Timeout, match="5 virtual seconds have passed"):
            simulation.until(lambda: False, timeout=5)
        assert simulation.now == 5


def test_a_receive_that_nothing_will_ever_answer_is_told_and_does_not_hang() -> None:
    with pytest.raises(OutOfTime, match=r"86,400 s of virtual time are over"):
        play(lambda simulation: simulation.client().subscribe("t", "s").receive())


async def coroutine(simulation: Simulation, did: list[float]) -> bytes:
    async with simulation.asyncio_client() as client:
        consumer = await client.subscribe("t", "s")
        producer = await client.create_producer("t")
        await asyncio.sleep(HALF_AN_HOUR)
        did.append(simulation.now)
        await producer.send(b"x")
        message = await consumer.receive()
        await consumer.acknowledge(message)
        data: bytes = message.data()
        return data


def test_asyncio_has_virtual_time_too() -> None:
    did: list[float] = []
    with Simulation(seed=2) as simulation:
        assert simulation.run_async(coroutine(simulation, did)) == b"x"
    assert did[0] >= HALF_AN_HOUR


def test_tasks_that_are_left_are_cancelled_and_an_error_of_a_coroutine_is_the_callers() -> None:
    cancelled: list[str] = []

    async def wait_for_ever() -> None:
        try:
            await asyncio.sleep(10**9)
        except asyncio.CancelledError:
            cancelled.append("yes")
            raise

    async def fail() -> None:
        task = asyncio.ensure_future(wait_for_ever())
        await asyncio.sleep(1)
        assert not task.done()
        raise ZeroDivisionError

    with Simulation() as simulation:
        with pytest.raises(ZeroDivisionError):
            simulation.run_async(fail())
        assert simulation.now < 100
    assert cancelled == ["yes"]


def race(simulation: Simulation) -> None:
    """Go wrong with some seeds: two read a counter and write it."""
    client = simulation.client()
    counter: dict[str, int] = {"count": 0}

    def increment() -> None:
        count = counter["count"]
        client.create_producer("t").send(b"x")
        counter["count"] = count + 1

    both: list[Any] = [simulation.start(increment) for _ in range(2)]
    simulation.until(lambda: all(one.ended for one in both))
    assert counter["count"] == 2


def test_a_seed_that_fails_is_named_with_the_command_that_plays_it_alone() -> None:
    with pytest.raises(SeedFailed, match="PULSAR_SIMULATION_SEED=") as raised:
        explore(20, race)
    assert "test_a_seed_that_fails_is_named" in str(raised.value)


def test_the_network_can_be_bad_and_nothing_is_lost() -> None:
    reconnects: list[int] = []

    def send_and_receive(simulation: Simulation) -> None:
        client = simulation.client()
        consumer, producer = client.subscribe("t", "s"), client.create_producer("t")
        for number in range(5):
            producer.send(b"%d" % number)
        seen: set[bytes] = set()
        while len(seen) < 5:
            message = consumer.receive()
            seen.add(message.data())
            consumer.acknowledge(message)
        reconnects.append(client.stats().reconnects)

    explore(10, send_and_receive, network=NetworkConditions(cut=0.05, spike=0.02))
    assert len(reconnects) == 10
    assert sum(reconnects) > 0


FUTURES: dict[str, Callable[[pulsar.Producer, pulsar.Consumer], Any]] = {
    "send_async": lambda producer, consumer: producer.send_async(b"x"),
    "send_many": lambda producer, consumer: producer.send_many([b"x", b"y"]),
    "receive_async": lambda producer, consumer: (producer.send_async(b"x"), consumer.receive_async())[1],
    "batch_receive_async": lambda producer, consumer: (producer.send_async(b"x"), consumer.batch_receive_async())[1],
    "acknowledge_async": lambda producer, consumer: (
        producer.send(b"x"),
        consumer.acknowledge_async(consumer.receive()),
    )[1],
}


@pytest.mark.parametrize("call", FUTURES)
@pytest.mark.parametrize("timeout", [None, 5])
def test_a_future_comes_in_virtual_time_to_the_test_and_to_its_threads(call: str, timeout: float | None) -> None:
    def run(simulation: Simulation, topic: str) -> None:
        client = simulation.client()
        consumer = client.subscribe(topic, "s", ack_receipt_enabled=True)
        future = FUTURES[call](client.create_producer(topic), consumer)
        assert not future.done()
        future.result(timeout)
        assert FUTURES[call](client.create_producer(topic), consumer).exception(timeout) is None

    with Simulation() as simulation:
        run(simulation, "a")
        thread = simulation.start(run, simulation, "b")
        simulation.until(lambda: thread.ended)


@pytest.mark.parametrize("wait", ["result", "exception"])
@pytest.mark.parametrize("call", ["receive_async", "send_async"])
def test_the_timeout_of_a_future_is_in_virtual_time(call: str, wait: str) -> None:
    with Simulation() as simulation:
        client = simulation.client()
        consumer, producer = client.subscribe("t", "s"), client.create_producer("t", send_timeout_millis=0)
        simulation.broker.faults.on("send").drop()
        future = producer.send_async(b"x") if call == "send_async" else consumer.receive_async()
        before = simulation.now
        with pytest.raises(futures.TimeoutError):
            getattr(future, wait)(HALF_AN_HOUR)
        assert simulation.now - before == pytest.approx(HALF_AN_HOUR)


def test_several_futures_are_waited_for_in_virtual_time() -> None:
    def run(simulation: Simulation) -> None:
        client = simulation.client()
        producer, idle = client.create_producer("t"), client.subscribe("nothing comes", "s")
        never = idle.receive_async()
        sent = [producer.send_async(b"x") for _ in range(3)]
        assert futures.wait(sent).done == set(sent)
        sent = [producer.send_async(b"x") for _ in range(3)]
        assert set(futures.as_completed(sent, HALF_AN_HOUR)) == set(sent)
        assert futures.wait([never, producer.send_async(b"x")], None, futures.FIRST_COMPLETED).not_done == {never}
        before = simulation.now
        assert futures.wait([never, *sent], HALF_AN_HOUR).not_done == {never}
        with pytest.raises(futures.TimeoutError):
            list(futures.as_completed([never], HALF_AN_HOUR))
        assert simulation.now - before >= 2 * HALF_AN_HOUR
        assert never.cancel()

    with Simulation() as simulation:
        run(simulation)
        thread = simulation.start(run, simulation)
        simulation.until(lambda: thread.ended)


def test_a_future_that_never_comes_is_told_and_does_not_hang() -> None:
    with Simulation() as simulation:
        consumer = simulation.client().subscribe("t", "s")
        waiting = consumer.receive_async()
        with pytest.raises(OutOfTime):
            waiting.result()
        with pytest.raises(OutOfTime):
            futures.wait([waiting])


def test_futures_of_other_threads_and_after_the_block_come_in_real_time() -> None:
    with EmbeddedBroker() as broker, pulsar.Client(broker.service_url) as client:
        producer = client.create_producer("t")
        with Simulation() as simulation:
            assert InThread(lambda: producer.send_async(b"x").result(SOON)).result()
            assert simulation.now == 0
        assert producer.send_async(b"x").result(SOON)


@pytest.mark.parametrize("seeds", [0, -1, True, [], "17", None, 1.5, [1, "x"]])
def test_a_test_that_would_play_no_seed_is_refused(seeds: Any) -> None:
    with pytest.raises(InvalidArgument, match="seed"):
        explore(seeds, lambda _: None)


@pytest.mark.parametrize("seed", ["17", None, 1.5, True])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(InvalidArgument, match="a seed is a whole number"):
        Simulation(seed)


def test_a_simulation_has_its_seed() -> None:
    seen: list[int] = []
    explore([5, 7], lambda simulation: seen.append(simulation.seed))
    assert seen == [5, 7]
