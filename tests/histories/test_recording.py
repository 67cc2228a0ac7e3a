"""What programs do with a broker in memory is recorded, and breaks no promise; and a lie of a client is found."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from tests.histories.history import Acknowledged, EndedTransaction, Outcome, Sent
from tests.histories.promises import JUDGE, check, counts
from tests.histories.recording import RecordedConsumer, Recorder
from tests.support.life import until

OUT = "persistent://public/default/out"
IN = "persistent://public/default/in"
LONG = 20_000
SHORT = 200
MINUTE = timedelta(minutes=1)


@pytest.fixture
def client() -> Iterator[pulsar.Client]:
    with (
        EmbeddedBroker(settings=Settings(deduplication=True)) as broker,
        closing(pulsar.Client(broker.service_url)) as client,
    ):
        yield client


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def subscribe(recorder: Recorder, client: pulsar.Client, topic: str = IN, **options: Any) -> RecordedConsumer:
    return recorder.consumer(client, topic, "s", initial_position=pulsar.InitialPosition.Earliest, **options)


def judge(recorder: Recorder, client: pulsar.Client, *topics: str) -> list[str]:
    """Take what is left of the subscription, read all topics, and hold the history against the promises."""
    left = subscribe(recorder, client, name=JUDGE)
    try:
        while True:
            left.receive(SHORT)
    except pulsar.Timeout:
        left.close()
    for topic in topics:
        with closing(client.create_reader(topic, pulsar.MessageId.earliest)) as reader:
            while reader.has_message_available():
                recorder.look(topic, reader.read_next(LONG))
    return check(recorder.history)


def test_every_way_to_send_and_to_receive_is_recorded(recorder: Recorder, client: pulsar.Client) -> None:
    producer = recorder.producer(client, IN, once=True, batching_enabled=True)
    producer.send("key")
    producer.send_async().result(20)
    producer.send_with_callback()
    producer.send_many(3).result(20)
    producer.flush()
    consumer = subscribe(recorder, client)
    first = consumer.receive(LONG)
    consumer.acknowledge(first)
    more = consumer.receive_many(2, LONG)
    consumer.acknowledge_all(more)
    consumer.acknowledge_cumulative(consumer.receive(LONG))
    consumer.close()
    reader = recorder.reader(client, IN, pulsar.MessageId.earliest)
    for _ in range(6):
        reader.read_next(LONG)
    assert judge(recorder, client, IN) == []
    assert [sent.outcome for sent in recorder.history.of(Sent)] == [Outcome.DONE] * 6
    counted = counts(recorder.history)
    assert counted.pop("received") >= 2 + len(more) + 6  # the judge gets a whole batch if a part of it is left
    assert counted == {"Sent": 6, "Subscribed": 3, "Acknowledged": 2 + len(more), "Closed": 2, "stored": 6}


def test_a_listener_is_recorded(recorder: Recorder, client: pulsar.Client) -> None:
    producer = recorder.producer(client, IN)
    consumer = subscribe(
        recorder, client, kind=pulsar.ConsumerType.Shared, listener=lambda it, message: it.acknowledge(message)
    )
    for _ in range(5):
        producer.send()
    until(lambda: len(recorder.history.received) == 5)
    consumer.close()
    assert judge(recorder, client, IN) == []
    assert len(recorder.history.received) == 5


@pytest.mark.parametrize("commit", [True, False])
def test_transactions_are_recorded(recorder: Recorder, client: pulsar.Client, *, commit: bool) -> None:
    recorder.producer(client, IN).send()
    consumer, producer = subscribe(recorder, client), recorder.producer(client, OUT)
    transaction = recorder.transaction(client, MINUTE)
    consumer.acknowledge(consumer.receive(LONG), transaction)
    producer.send(transaction=transaction)
    (transaction.commit if commit else transaction.abort)()
    consumer.close()
    assert judge(recorder, client, IN, OUT) == []
    assert [each.outcome for each in recorder.history.of(EndedTransaction)] == [Outcome.DONE]
    assert len(recorder.history.stored) == 1 + commit


def test_errors_are_recorded_as_what_they_say(recorder: Recorder, client: pulsar.Client) -> None:
    producer = recorder.producer(client, IN)
    producer.close()
    with pytest.raises(pulsar.AlreadyClosed):
        producer.send()
    with pytest.raises(pulsar.AlreadyClosed):
        producer.send_async().result(20)
    with pytest.raises(pulsar.SendManyFailed):
        producer.send_many(2).result(20)
    consumer = subscribe(recorder, client)
    consumer.close()
    assert judge(recorder, client, IN) == []
    assert [sent.outcome for sent in recorder.history.of(Sent)] == [Outcome.REFUSED] * 4


def test_repetitions_that_were_asked_for_have_a_reason(recorder: Recorder, client: pulsar.Client) -> None:
    producer = recorder.producer(client, IN)
    producer.send()
    consumer = subscribe(recorder, client, negative_ack_redelivery_delay_ms=1)
    consumer.negative_acknowledge(consumer.receive(LONG))
    consumer.redeliver_unacknowledged_messages()
    consumer.acknowledge(consumer.receive(LONG))
    consumer.seek(pulsar.MessageId.earliest)
    consumer.receive(LONG)
    consumer.close()
    assert judge(recorder, client, IN) == []


class Liar:
    """A producer that says it has stored what it drops."""

    def send(self, content: bytes) -> pulsar.MessageId:
        return pulsar.MessageId(-1, 1, 1, -1)


def test_a_lie_is_found(recorder: Recorder, client: pulsar.Client) -> None:
    producer = recorder.producer(client, IN)
    producer.send()
    producer.producer = Liar()
    producer.send()
    consumer = subscribe(recorder, client)
    consumer.acknowledge(consumer.receive(LONG))
    consumer.close()
    (broken,) = judge(recorder, client, IN)
    assert broken.startswith("confirmed_sends_are_stored")


def test_an_acknowledgement_without_a_receipt_is_certain_with_the_close(
    recorder: Recorder, client: pulsar.Client
) -> None:
    recorder.producer(client, IN).send()
    consumer = subscribe(recorder, client)
    consumer.acknowledge(consumer.receive(LONG))
    assert [each.outcome for each in recorder.history.of(Acknowledged)] == [None]
    consumer.close()
    with_receipts = subscribe(recorder, client, ack_receipt_enabled=True)
    recorder.producer(client, IN).send()
    with_receipts.acknowledge(with_receipts.receive(LONG))
    assert [each.outcome for each in recorder.history.of(Acknowledged)] == [None, Outcome.DONE]
    with_receipts.close()
    assert judge(recorder, client, IN) == []
