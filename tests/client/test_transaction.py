from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker


class Refusing(pulsar.ProducerInterceptor):
    """Lets no message be built."""

    def before_send(self, producer: Any, message: pulsar.MessageToSend) -> pulsar.MessageToSend:
        return message._replace(content=object())


@pytest.mark.parametrize("interceptors", [[], [Refusing()]], ids=["a mistake", "a mistake of an interceptor"])
def test_a_message_that_could_not_be_built_is_counted_once_and_does_not_keep_a_transaction_open(
    broker: EmbeddedBroker, interceptors: list[Any]
) -> None:
    with pulsar.Client(broker.service_url) as client:
        producer = client.create_producer("mistakes", interceptors=interceptors)
        transaction = client.new_transaction()
        with pytest.raises((TypeError, pulsar.PulsarException)):
            producer.send(b"x" if interceptors else object(), transaction=transaction)
        work = transaction._work
        assert work._begun == 0
        transaction.abort_async().result(timeout=10)
