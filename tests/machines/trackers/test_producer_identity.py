import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.trackers.producer_identity import HIGHEST_SEQUENCE_ID, ProducerIdentity, SequenceIds
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


# What the official client sends first, seen by a listener: (initial id, what the broker has stored) -> first id.
@pytest.mark.parametrize(("initial", "stored", "first"), [(None, -1, 0), (7, -1, 8), (None, 41, 42)])
def test_the_first_id_is_the_official_clients(initial: int | None, stored: int, first: int) -> None:
    ids = SequenceIds(initial)
    ids.created(stored)
    assert ids.last_published == first - 1
    assert ids.take() == first


def test_an_initial_id_of_0_counts_over_what_the_broker_has_stored() -> None:
    ids = SequenceIds(0)
    ids.created(41)
    assert ids.take() == 1


def test_only_the_first_creation_adopts_the_brokers_id() -> None:
    ids = SequenceIds()
    ids.created(-1)
    assert ids.take(3) == 0
    ids.created(41)
    assert ids.take() == 3


def test_an_adoption_never_turns_ids_back() -> None:
    ids = SequenceIds()
    assert ids.take(100) == 0
    ids.created(41)
    assert ids.take() == 100


def test_a_given_id_of_0_counts() -> None:
    ids = SequenceIds()
    assert ids.take_given(0) == 0
    assert ids.take() == 1


def test_own_ids_go_on_above_given_ones() -> None:
    ids = SequenceIds()
    assert ids.take_given(100) == 100
    assert ids.take_given(50) == 50
    assert ids.take() == 101


def test_the_last_published_id_only_rises() -> None:
    ids = SequenceIds()
    assert ids.last_published == -1
    ids.published(5)
    ids.published(3)
    assert ids.last_published == 5


@pytest.mark.parametrize("bad", [-1, HIGHEST_SEQUENCE_ID + 1])
def test_ids_outside_the_range_are_refused_by_value(bad: int) -> None:
    with pytest.raises(InvalidArgument, match=str(bad)):
        SequenceIds(bad)
    with pytest.raises(InvalidArgument, match=str(bad)):
        SequenceIds().take_given(bad)


def test_ids_run_out_rather_than_wrap_and_nothing_is_lost_by_asking() -> None:
    ids = SequenceIds(HIGHEST_SEQUENCE_ID - 1)
    with pytest.raises(InvalidArgument):
        ids.take(2)
    assert ids.take(1) == HIGHEST_SEQUENCE_ID


@given(st.lists(st.one_of(st.integers(1, 5), st.tuples(st.integers(0, 50)))))
def test_own_ids_always_rise_above_everything_before(steps: list[int | tuple[int]]) -> None:
    ids = SequenceIds()
    highest = -1
    for step in steps:
        if isinstance(step, tuple):
            highest = max(highest, ids.take_given(step[0]))
        else:
            first = ids.take(step)
            assert first > highest
            highest = first + step - 1
