import re

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from tests.benchmarks import receiver_queue


def test_each_queue_size_has_the_figures_of_all_computations() -> None:
    with EmbeddedBroker() as broker:
        client = pulsar.Client(broker.service_url)
        try:
            table = receiver_queue.measure(client, 500, 2, sizes=(10, 1000), microseconds=(0, 50))
        finally:
            client.close()
    lines = [line.split() for line in table.splitlines()[1:]]
    assert [line[:2] for line in lines] == [["0", "10"], ["0", "1,000"], ["50", "10"], ["50", "1,000"]]
    cpu = [float(line[2]) for line in lines]
    assert min(cpu[2:]) > 25, "the computation is part of it"
    assert all(float(line[3]) >= 0 for line in lines)
    assert all(re.fullmatch(r"[\d,]+ \([\d,]+ to [\d,]+\)", " ".join(line[4:])) for line in lines)


@pytest.mark.parametrize(("microseconds", "times"), [(1000, 1), (10, 100)])
def test_a_computation_takes_its_time_however_short_it_is(microseconds: float, times: int) -> None:
    compute = receiver_queue.computation(microseconds)

    def several() -> None:
        for _ in range(times):
            compute()

    assert 0.7e-3 < min(receiver_queue.seconds_of(several) for _ in range(20)) < 3e-3
