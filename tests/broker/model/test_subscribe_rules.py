from typing import Any

import pytest

from pulsar_actors.broker.model.position import EARLIEST
from pulsar_actors.broker.model.refusal import Missing, Refusal
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, ServerError

TYPES = CommandSubscribe.SubType


def refusal_of(world: Any, **fields: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        world.consumer(**fields)
    return refusal.value


def test_a_blank_name_is_refused(world: Any) -> None:
    assert refusal_of(world, subscription=" ").reason == "Empty subscription name"


def test_only_one_consumer_at_a_time_may_read_what_is_compacted(world: Any) -> None:
    for kind in (TYPES.Shared, TYPES.Key_Shared):
        assert refusal_of(world, kind=kind, read_compacted=True).code == ServerError.NotAllowedError
    world.consumer(read_compacted=True)


def test_a_name_is_durable_or_it_is_not(world: Any) -> None:
    world.consumer(subscription="d", kind=TYPES.Shared)
    world.consumer(subscription="n", kind=TYPES.Shared, durable=False)
    durable = refusal_of(world, subscription="d", kind=TYPES.Shared, durable=False)
    assert durable.reason == "Durable subscription with the same name already exists."
    other = refusal_of(world, subscription="n", kind=TYPES.Shared)
    assert (other.code, other.reason) == (
        ServerError.NotAllowedError,
        "NonDurable subscription with the same name already exists.",
    )
    world.consumer(subscription="n", kind=TYPES.Shared, durable=False)


def test_where_subscriptions_are_not_made_by_themselves_only_readers_come_without(world: Any) -> None:
    world.cluster.namespace("public/default").policies.allow_auto_subscription_creation = False
    refusal = refusal_of(world)
    assert isinstance(refusal, Missing)
    assert refusal.code == ServerError.SubscriptionNotFound
    world.consumer(durable=False, subscription="reader")
    world.consumer("non-persistent://public/default/t")
    world.topic().create_subscription("s", at=EARLIEST)
    world.consumer()
