import re

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from tests.benchmarks import receiver_queue


def test_each_queue_size_has_the_rates_of_all_computations() -> None:
    with EmbeddedBroker() as broker:
        client = pulsar.Client(broker.service_url)
        try:
            table = receiver_queue.measure(client, 500, 2, sizes=(10, 1000), microseconds=(0, 5))
        finally:
            client.close()
    head, *lines = table.splitlines()
    assert [int(number) for number in re.findall(r"(\d+) us", head)] == [0, 5]
    assert [line.split()[0] for line in lines] == ["10", "1,000"]
    assert all(len(re.findall(r"[\d,]+ \([\d,]+ to [\d,]+\) \d+%", line)) == 2 for line in lines)
    assert lines[-1].count(" 100%") == 2


def test_a_computation_takes_its_time() -> None:
    compute = receiver_queue.computation(1000)
    assert 0.3e-3 < min(receiver_queue.seconds_of(compute) for _ in range(20)) < 3e-3
