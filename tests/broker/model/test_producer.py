from typing import Any

import pytest

from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.wire.PulsarApi_pb2 import ProducerAccessMode, ServerError

MODES = ProducerAccessMode
SHARED, EXCLUSIVE, WAIT, FENCE = MODES.Shared, MODES.Exclusive, MODES.WaitForExclusive, MODES.ExclusiveWithFencing


def refusal_of(world: Any, **fields: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        world.producer(**fields)
    return refusal.value


def test_a_name_in_use_is_refused(world: Any) -> None:
    world.producer(name="p")
    refusal = refusal_of(world, name="p")
    assert refusal.code == ServerError.ProducerBusy
    topic = "persistent://public/default/t"
    assert refusal.reason == f"Producer with name 'p' is already connected to topic '{topic}'"


def test_the_same_producer_takes_its_own_place_with_a_higher_epoch(world: Any) -> None:
    again = {"name": "p", "connection": 1, "producer_id": 5}
    old = world.producer(**again, epoch=1)
    refusal_of(world, **again, epoch=1)
    refusal_of(world, **{**again, "connection": 2}, epoch=2)
    refusal_of(world, **{**again, "producer_id": 6}, epoch=2)
    new = world.producer(**again, epoch=2)
    assert (old.heard, old.made.connected, world.topic().producers["p"]) == ([], False, new.made)
    old.close()
    assert world.topic().producers["p"] is new.made


def test_a_shared_topic_has_no_epoch_until_somebody_has_had_it_alone(world: Any) -> None:
    assert world.producer().made.topic_epoch is None
    world.topic().disconnect_producers()
    world.producer(access_mode=EXCLUSIVE).close()
    assert world.producer().made.topic_epoch == 0


def test_nobody_joins_an_exclusive_producer(world: Any) -> None:
    world.producer(access_mode=EXCLUSIVE, name="owner")
    text = "Topic has an existing exclusive producer: owner"
    shared, exclusive = refusal_of(world), refusal_of(world, access_mode=EXCLUSIVE)
    assert (shared.code, shared.reason) == (ServerError.ProducerBusy, text)
    assert (exclusive.code, exclusive.reason) == (ServerError.ProducerFenced, text)


def test_an_exclusive_producer_does_not_join_others(world: Any) -> None:
    world.producer()
    refusal = refusal_of(world, access_mode=EXCLUSIVE)
    assert (refusal.code, refusal.reason) == (ServerError.ProducerFenced, "Topic has existing shared producers")


@pytest.mark.parametrize("mode", [SHARED, EXCLUSIVE])
def test_nobody_goes_before_those_who_wait(world: Any, mode: Any) -> None:
    world.producer()
    world.producer(access_mode=WAIT)
    assert "None" in refusal_of(world, access_mode=mode).reason


def test_those_who_wait_get_the_topic_one_after_the_other(world: Any) -> None:
    owners = [world.producer(), world.producer()]
    waiting = [world.producer(access_mode=WAIT) for _ in range(2)]
    assert [each.made.ready for each in waiting] == [False, False]
    with pytest.raises(Refusal, match="closed"):
        waiting[0].send()
    owners[0].close()
    assert waiting[0].heard == []
    owners[1].close()
    assert (waiting[0].heard, waiting[0].made.ready, waiting[0].made.topic_epoch) == (["ready"], True, 0)
    waiting[0].close()
    assert (waiting[1].heard, waiting[1].made.topic_epoch) == (["ready"], 1)


def test_one_that_waits_for_a_free_topic_has_it_at_once(world: Any) -> None:
    assert world.producer(access_mode=WAIT).made.ready


def test_one_that_waits_may_give_up(world: Any) -> None:
    owner = world.producer()
    world.producer(access_mode=WAIT).close()
    assert world.topic().waiting_producers == 0
    owner.close()
    world.producer()


def test_fencing_sends_everybody_away(world: Any) -> None:
    owner = world.producer(access_mode=EXCLUSIVE)
    waiting = world.producer(access_mode=WAIT)
    fencing = world.producer(access_mode=FENCE)
    assert owner.heard == [("closed", None)]
    assert [str(each) for each in waiting.heard] == ["ProducerFenced: Fenced out"]
    assert (fencing.made.topic_epoch, list(world.topic().producers.values())) == (1, [fencing.made])


@pytest.mark.parametrize("mode", [EXCLUSIVE, WAIT, FENCE])
def test_one_that_was_sent_away_is_recognised_by_its_epoch(world: Any, mode: Any) -> None:
    world.producer(access_mode=EXCLUSIVE)
    world.producer(access_mode=FENCE).close()
    refusal = refusal_of(world, access_mode=mode, topic_epoch=0)
    assert refusal.code == ServerError.ProducerFenced
    assert refusal.reason == "Topic epoch has already moved. Current epoch: 1, Producer epoch: 0"


def test_a_negative_epoch_is_outdated_for_a_topic_that_has_none(world: Any) -> None:
    assert "epoch has already moved" in refusal_of(world, access_mode=EXCLUSIVE, topic_epoch=-(2**63)).reason


def test_an_outdated_producer_fences_nobody(world: Any) -> None:
    owner = world.producer(access_mode=FENCE)
    world.topic().unload()
    owner = world.producer(access_mode=FENCE)
    refusal_of(world, access_mode=FENCE, topic_epoch=0)
    assert (owner.heard, owner.made.connected) == ([], True)


def test_one_that_comes_back_keeps_its_epoch(world: Any) -> None:
    owner = world.producer(access_mode=EXCLUSIVE)
    world.topic().unload()
    assert world.producer(access_mode=EXCLUSIVE, topic_epoch=owner.made.topic_epoch).made.topic_epoch == 0


def test_an_unload_ends_the_wait_of_the_first_and_the_others_are_forgotten_and_not_told(world: Any) -> None:
    world.producer()
    waiting = world.producer(access_mode=WAIT)
    forgotten = world.producer(access_mode=WAIT)
    world.topic().unload()
    (refusal,) = waiting.heard
    assert refusal.code == ServerError.ServiceNotReady
    assert forgotten.heard == []
    forgotten.close()
    world.producer()
