"""The memory of idle handles and of pending messages: what each takes beside those that are there already."""

from collections.abc import Iterator
from typing import Final

import pytest

from pulsar_actors.broker import EmbeddedBroker
from tests.support.life import run_program

PROGRAM: Final = """
    import gc, os, sys, tracemalloc
    import pulsar_actors as pulsar

    url, what, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    client = pulsar.Client(url)
    most_a_block = 250_000  # Python's table of all interned strings may grow meanwhile, by a megabyte
    options = {"batching_enabled": True, "batching_max_publish_delay_ms": 600_000, "max_pending_messages": 0}
    options |= {"batching_max_messages": 2 * count, "batching_max_allowed_size_in_bytes": 10**9}
    producer = client.create_producer("t", **options)

    def ignore(result, message_id):
        pass

    make = {
        "producer": lambda number: client.create_producer(f"t-{number}"),
        "consumer": lambda number: client.subscribe(f"t-{number}", "s"),
        "reader": lambda number: client.create_reader(f"t-{number}", pulsar.MessageId.earliest),
        "pending message": lambda number: producer.send_async(b"%08d" % number + bytes(92), ignore),
    }[what]
    kept = [make(0)]  # and all that the first of them needs
    producer.flush()
    gc.collect()
    tracemalloc.start()
    kept += [make(number) for number in range(1, count + 1)]
    gc.collect()
    blocks = [trace.size for trace in tracemalloc.take_snapshot().traces]
    print(sum(size for size in blocks if size < most_a_block) / count, flush=True)
    os._exit(0)
"""

MOST: Final = {
    "producer": (400, 9_100),
    "consumer": (400, 14_900),
    "reader": (400, 15_450),
    "pending message": (10_000, 175),
}
"""How many are made, and the most bytes that each may take. A message has 100 bytes, and `bytes` has 33 of its own.

Python 3.10 keeps ended lists and tuples for the next ones, 30 kB of them at a time. With 100 handles they would be 300
bytes of each. The history of the machines is 200 to 400 bytes of each.
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.mark.parametrize("what", MOST)
def test_an_idle_handle_and_a_pending_message_take_little_memory(broker: EmbeddedBroker, what: str) -> None:
    count, most = MOST[what]
    ran = run_program(PROGRAM, broker.service_url, what, str(count), within=120)
    assert ran.code == 0, ran.err
    assert float(ran.out) < most
