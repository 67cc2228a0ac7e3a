from pulsar_actors.machines.ledgers.producer_identity import ProducerIdentity
from pulsar_actors.wire.PulsarApi_pb2 import CommandProducer, CommandProducerSuccess, KeyValue, ProducerAccessMode


def test_a_request_carries_what_the_user_chose_and_leaves_the_users_command_alone() -> None:
    chosen = CommandProducer(
        topic="t",
        producer_id=3,
        metadata=[KeyValue(key="k", value="v")],
        producer_access_mode=ProducerAccessMode.Exclusive,
        initial_subscription_name="s",
    )
    request = ProducerIdentity(chosen).next_request()
    assert (request.topic, request.producer_id, request.initial_subscription_name) == ("t", 3, "s")
    assert request.metadata[0].value == "v"
    assert request.producer_access_mode == ProducerAccessMode.Exclusive
    assert not chosen.HasField("epoch")


def test_a_name_given_by_the_broker_stays_the_brokers() -> None:
    identity = ProducerIdentity(CommandProducer(topic="t", producer_id=3))
    identity.adopt(CommandProducerSuccess(request_id=1, producer_name="p-1", schema_version=b"2"))
    assert (identity.name, identity.schema_version) == ("p-1", b"2")
    request = identity.next_request()
    assert (request.producer_name, request.user_provided_producer_name) == ("p-1", False)


def test_a_topic_epoch_is_kept_until_another_is_given() -> None:
    identity = ProducerIdentity(CommandProducer(topic="t", producer_id=3))
    assert not identity.next_request().HasField("topic_epoch")
    identity.adopt(CommandProducerSuccess(request_id=1, producer_name="p", topic_epoch=0))
    identity.adopt(CommandProducerSuccess(request_id=2, producer_name="p"))
    assert identity.next_request().HasField("topic_epoch")


def test_epochs_rise_by_one() -> None:
    identity = ProducerIdentity(CommandProducer(topic="t", producer_id=3))
    assert [identity.next_request().epoch for _ in range(3)] == [0, 1, 2]


def test_a_close_names_the_producer() -> None:
    assert ProducerIdentity(CommandProducer(topic="t", producer_id=3)).close_request().producer_id == 3
