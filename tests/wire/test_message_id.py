import itertools
import pickle
from typing import Any

import _pulsar
import pulsar
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pulsar_actors.wire.errors import EncodeError, MalformedMessageId
from pulsar_actors.wire.message_id import EARLIEST, LATEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import MessageIdData

ids = st.integers(-1, 2**63 - 1)
small = st.integers(-1, 2**31 - 1)


def make(ledger_id: st.SearchStrategy[int], entry_id: st.SearchStrategy[int]) -> st.SearchStrategy[MessageId]:
    return st.builds(MessageId, ledger_id, entry_id, small, small, st.just(0), st.none())


plain_ids = make(ids, ids)
whole_ids = st.builds(MessageId, ids, ids, small, small, st.integers(0, 2**31 - 1), st.none() | plain_ids)


def official(message_id: MessageId) -> pulsar.MessageId:
    return pulsar.MessageId(message_id.partition, message_id.ledger_id, message_id.entry_id, message_id.batch_index)


@given(plain_ids)
@example(EARLIEST)
@example(LATEST)
@example(MessageId(1, 2))
@example(MessageId(1, 2, 3, 4))
def test_the_bytes_are_those_of_the_official_client(message_id: MessageId) -> None:
    assert message_id.serialize() == official(message_id).serialize()


def test_the_ends_of_a_topic_are_those_of_the_official_client() -> None:
    assert EARLIEST.serialize() == pulsar.MessageId.earliest.serialize()
    assert LATEST.serialize() == pulsar.MessageId.latest.serialize()


@pytest.mark.parametrize(
    "message_id",
    [
        MessageId(1, 2, 3, 4, 10),
        MessageId(1, 2, 3, first_chunk=MessageId(1, 0, 3)),
        MessageId(7, 9, first_chunk=MessageId(5, 8)),
    ],
)
def test_batch_size_and_first_chunk_survive_the_official_client(message_id: MessageId) -> None:
    relayed = _pulsar.MessageId.deserialize(message_id.serialize()).serialize()
    assert relayed == message_id.serialize()
    assert MessageId.deserialize(relayed)[:] == message_id[:]


@given(whole_ids)
def test_every_field_survives_serialising_and_pickling(message_id: MessageId) -> None:
    for copy in (MessageId.deserialize(message_id.serialize()), pickle.loads(pickle.dumps(message_id))):  # noqa: S301 - pickled on the same line
        assert copy[:] == message_id[:]
        assert type(copy) is MessageId


@given(plain_ids, plain_ids)
def test_the_order_is_ledger_entry_batch_index_partition(left: MessageId, right: MessageId) -> None:
    def rank(message_id: MessageId) -> tuple[int, ...]:
        return (message_id.ledger_id, message_id.entry_id, message_id.batch_index, message_id.partition)

    assert (left < right) == (rank(left) < rank(right))
    assert (left <= right) == (rank(left) <= rank(right))
    assert (left > right) == (rank(left) > rank(right))
    assert (left >= right) == (rank(left) >= rank(right))
    assert (left == right) == (rank(left) == rank(right))
    assert (left != right) == (rank(left) != rank(right))


def test_a_batch_index_weighs_more_than_a_partition() -> None:
    assert MessageId(1, 1, 5, 0) < MessageId(1, 1, 0, 1)
    assert min(MessageId(1, 1, 2, 0), MessageId(1, 1, 1, 0)).partition == 1


@given(plain_ids)
def test_within_one_partition_the_official_client_agrees_on_the_order(message_id: MessageId) -> None:
    grid = [
        MessageId(ledger, entry, 0, index) for ledger, entry, index in itertools.product((1, 2), (0, 3), (-1, 0, 1))
    ]
    for other in [*grid, message_id._replace(batch_index=0)]:
        mine = message_id._replace(partition=other.partition)
        assert (mine < other) == (official(mine) < official(other))
        assert (mine == other) == (official(mine) == official(other))


@given(make(st.integers(0, 2**63 - 2), st.integers(0)))
def test_earliest_sorts_first_and_latest_last(message_id: MessageId) -> None:
    assert EARLIEST < message_id < LATEST


def test_batch_size_and_first_chunk_are_no_part_of_who_a_message_is() -> None:
    bare, dressed = MessageId(1, 2, 3, 4), MessageId(1, 2, 3, 4, 10, MessageId(1, 0))
    assert bare == dressed
    assert hash(bare) == hash(dressed)
    assert not bare < dressed
    assert bare <= dressed


def test_ids_that_differ_anywhere_else_are_different_members_of_a_set() -> None:
    grid = [MessageId(*fields) for fields in itertools.product((1, 2), (1, 2), (-1, 0), (-1, 0))]
    assert len(set(grid)) == 16


def test_an_id_is_neither_equal_to_a_tuple_nor_in_an_order_with_one() -> None:
    assert MessageId(1, 2) != (1, 2, -1, -1, 0, None)
    plain = (1, 2, -1, -1, 0, None)
    assert plain != MessageId(1, 2)
    with pytest.raises(TypeError, match="not with tuple"):
        MessageId(1, 2) < (1, 3)  # noqa: B015 - it is the comparison that must fail
    with pytest.raises(TypeError, match="not with tuple"):
        (1, 3) > MessageId(1, 2)  # noqa: B015, SIM300 - the same, from the other side


def test_every_message_of_a_batch_has_the_same_entry_and_position() -> None:
    message_id = MessageId(1, 2, 3, 4, 10, MessageId(1, 0))
    assert message_id.position == (1, 2)
    assert message_id.entry[:] == (1, 2, 3, -1, 0, None)


def test_text_for_people_and_text_for_programmers() -> None:
    assert str(MessageId(1, 2, 3, 4)) == str(pulsar.MessageId(3, 1, 2, 4)) == "(1,2,3,4)"
    assert repr(MessageId(1, 2)) == (
        "MessageId(ledger_id=1, entry_id=2, partition=-1, batch_index=-1, batch_size=0, first_chunk=None)"
    )


def test_minus_one_travels_as_the_greatest_unsigned_number() -> None:
    data = EARLIEST.to_data()
    assert (data.ledgerId, data.entryId) == (2**64 - 1, 2**64 - 1)
    assert not data.HasField("partition")
    assert MessageId.from_data(MessageIdData(ledgerId=2**64 - 1, entryId=7)) == MessageId(-1, 7)


@pytest.mark.parametrize("data", [b"", b"\xff", b"\x08\x01", b"\x10\x01", b"\x08\x01\x10\x02\x3a\x02\x08\x01"])
def test_bytes_that_the_official_client_refuses_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="Failed to parse"):
        _pulsar.MessageId.deserialize(data)
    with pytest.raises(MalformedMessageId):
        MessageId.deserialize(data)


ANY: Any = MessageId  # whose fields take anything, as far as Python cares


@pytest.mark.parametrize(
    "message_id",
    [
        MessageId(2**63, 0),
        MessageId(0, -(2**63) - 1),
        MessageId(0, 0, 2**31),
        MessageId(0, 0, 0, 2**31),
        MessageId(0, 0, batch_size=2**31),
        MessageId(10**5000, 0),
        MessageId(0, 0, 10**5000),
        MessageId(0, 0, first_chunk=MessageId(2**63, 0)),
        ANY("1", 0),
        ANY(None, None),
        ANY(1.5, 2),
        ANY(1, 2, 1.5),
        ANY(1, 2, "x" * 1_000_000),
        ANY(1, 2, first_chunk=(1, 2)),
    ],
    ids=itertools.count(),
)
def test_what_has_no_place_on_the_wire_is_an_encode_error_in_few_words(message_id: MessageId) -> None:
    with pytest.raises(EncodeError) as caught:
        message_id.serialize()
    assert len(str(caught.value)) < 300


def test_a_first_chunk_has_no_first_chunk() -> None:
    chain = MessageId(150, 0)
    for ledger_id in range(150):
        chain = MessageId(ledger_id, 0, first_chunk=chain)
    written = chain.serialize()
    assert written == MessageId(149, 0, first_chunk=MessageId(148, 0)).serialize()
    assert MessageId.deserialize(written)[:] == (149, 0, -1, -1, 0, MessageId(148, 0))

    data = MessageIdData(ledgerId=0, entryId=0)
    for ledger_id in range(1, 50):
        data = MessageIdData(ledgerId=ledger_id, entryId=0, first_chunk_message_id=data)
    read = MessageId.deserialize(data.SerializeToString())
    assert read.ledger_id == 49
    assert read.first_chunk is not None
    assert read.first_chunk[:] == (48, 0, -1, -1, 0, None)


@pytest.mark.parametrize("data", [None, "text", 5, [8, 1, 16, 1]])
def test_what_is_not_bytes_is_no_serialised_id(data: Any) -> None:
    with pytest.raises(MalformedMessageId, match="not a serialised message id"):
        MessageId.deserialize(data)


def test_an_id_is_read_from_any_bytes() -> None:
    data = b"\x08\x01\x10\x02"
    spread = memoryview(b"".join(bytes([byte, 0]) for byte in data))[::2]
    assert [MessageId.deserialize(each) for each in (bytearray(data), memoryview(data), spread)] == [
        MessageId(1, 2)
    ] * 3
