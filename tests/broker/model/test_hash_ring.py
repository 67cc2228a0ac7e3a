"""Who gets which key was recorded from a real broker."""

from typing import Any

from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe

KEY_SHARED = CommandSubscribe.SubType.Key_Shared

# Pulsar 4.2.4: four consumers, alpha, beta, gamma and another alpha; the keys key-0 to key-39, then one key with the
# ordering keys order-40 to order-49; the number of the consumer that got each.
RECORDED = "00032112101302210003001131000030232303333330000133"


def send_recorded_keys(producer: Any) -> None:
    for number in range(50):
        keys = {"partition_key": f"key-{number}"} if number < 40 else {"ordering_key": f"order-{number}".encode()}
        producer.send(b"%d" % number, **keys)


def owners(consumers: list[Any]) -> str:
    by_key = {data: str(number) for number, each in enumerate(consumers) for data in each.got}
    return "".join(by_key[b"%d" % number] for number in range(50))


def test_the_ring_divides_the_keys_as_a_real_broker_does(world: Any) -> None:
    consumers = [world.consumer(kind=KEY_SHARED, name=name) for name in ("alpha", "beta", "gamma", "alpha")]
    send_recorded_keys(world.producer())
    assert owners(consumers) == RECORDED


def test_the_division_does_not_depend_on_who_was_there_meanwhile(world: Any) -> None:
    gone = world.consumer(kind=KEY_SHARED, name="delta")
    consumers = [world.consumer(kind=KEY_SHARED, name=name) for name in ("alpha", "beta", "gamma", "alpha")]
    gone.made.close()
    send_recorded_keys(world.producer())
    assert owners(consumers) == RECORDED


def test_of_two_who_want_the_same_place_the_second_gets_it_when_the_first_is_gone(world: Any) -> None:
    many = [world.consumer(kind=KEY_SHARED, name=f"n{number}", permits=0) for number in range(40)]
    ring = many[0].made.subscription.dispatcher.choice
    contested = next(place for place, wanting in ring._at.items() if len(wanting) == 2)
    first, second = (each.made for each in many if each.made in ring._at[contested])
    assert ring.owner(contested) is first
    first.close()
    assert ring.owner(contested) is second


def test_a_place_behind_the_last_point_belongs_to_the_first(world: Any) -> None:
    consumer = world.consumer(kind=KEY_SHARED)
    ring = consumer.made.subscription.dispatcher.choice
    assert ring.owner(65_535) is consumer.made
    consumer.made.close()
    assert ring.owner(1) is None
