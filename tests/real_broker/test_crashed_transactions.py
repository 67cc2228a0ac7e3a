"""What is left of a transaction after the broker was killed, in each of its phases: all of it, or nothing."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pulsar as official
import pytest

from tests.real_broker.exchange import until
from tests.support.standalone import Standalone
from tests.support.subjects import client_module, opened_clients

pulsar_actors = client_module("ours")
PATIENCE_SECONDS = 120  # a broker starts within this, beside others
COUNT = 40


class Copying:
    """A transaction that copies messages from one topic to another, and the steps of it."""

    def __init__(self, client: Any, topic: str) -> None:
        self.source, self.target = f"{topic}-source", f"{topic}-target"
        self.consumer = client.subscribe(self.source, "s")
        client.create_producer(self.source, batching_enabled=True).send_many([b"%d" % each for each in range(COUNT)])
        self.producer = client.create_producer(self.target)
        self.producer.send(b"before")
        self.client = client
        self.errors: list[Exception] = []

    def opens(self) -> None:
        self.transaction = self.client.new_transaction(timeout=timedelta(minutes=5))

    def sends(self) -> None:
        """Without waiting: receipts may be lost with the broker."""
        self.received = [self.consumer.receive(PATIENCE_SECONDS * 1000) for _ in range(COUNT)]
        for message in self.received:
            self.producer.send_async(message.data(), transaction=self.transaction)

    def is_stored(self) -> None:
        self.producer.flush()

    def acknowledges(self) -> None:
        self.consumer.acknowledge_async(self.received, transaction=self.transaction)

    def ends(self) -> None:
        self.ended = self.transaction.commit_async()

    def has_ended(self) -> None:
        """Commit as often as an outcome is unknown: it never commits twice."""
        for _ in range(5):
            try:
                self.ended.result(timeout=PATIENCE_SECONDS)
            except pulsar_actors.OutcomeUnknown as error:
                self.errors.append(error)
                if self.transaction.state is not pulsar_actors.TransactionState.COMMITTING:
                    return
                self.ended = self.transaction.commit_async()
            except pulsar_actors.PulsarException as error:
                self.errors.append(error)
                return
            else:
                return


STEPS: tuple[Callable[[Copying], None], ...] = (
    Copying.opens,
    Copying.sends,
    Copying.is_stored,
    Copying.acknowledges,
    Copying.ends,
    Copying.has_ended,
)


@pytest.fixture
def connect(crashing: Standalone) -> Iterator[Callable[[Any], Any]]:
    with opened_clients() as connect_to:
        yield lambda module: connect_to(module, crashing.service_url, operation_timeout_seconds=PATIENCE_SECONDS)


@pytest.mark.parametrize("killed_after", STEPS, ids=lambda step: step.__name__)
def test_a_transaction_is_visible_as_a_whole_or_not_at_all(
    crashing: Standalone, connect: Callable[[Any], Any], killed_after: Callable[[Copying], None]
) -> None:
    topic = f"persistent://public/default/killed-{killed_after.__name__}"
    until(crashing.admin.coordinators)
    copying = Copying(connect(pulsar_actors), topic)
    for step in STEPS:
        step(copying)
        if step is killed_after:
            crashing.kill()
            crashing.start()
    is_committed = copying.transaction.state is pulsar_actors.TransactionState.COMMITTED
    copying.consumer.close()
    client = connect(official)
    texts = {}
    for name, reading in (("target", copying.target), ("source", copying.source)):
        end = client.create_producer(reading).send(b"end")
        consumer = client.subscribe(reading, "s", initial_position=official.InitialPosition.Earliest)
        texts[name] = read_until(consumer, end)
    numbers = [b"%d" % each for each in range(COUNT)]
    assert texts["target"] in ([b"before", *numbers], [b"before"])
    assert texts["source"] == ([] if numbers[0] in texts["target"] else numbers)
    assert not is_committed or texts["target"] == [b"before", *numbers]


def read_until(consumer: Any, end: Any) -> list[bytes]:
    found = []
    while (message := consumer.receive(PATIENCE_SECONDS * 1000)).message_id() != end:
        found.append(message.data())
    return found
