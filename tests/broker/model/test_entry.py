from typing import Any

import pytest

from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata


def entry(**fields: Any) -> StoredEntry:
    known = {"producer_name": "p", "sequence_id": 7, "publish_time": 1, **fields}
    return StoredEntry(b"data", MessageMetadata(**known), "p", 99)


@pytest.mark.parametrize(
    ("fields", "same_as"),
    [
        ({"partition_key": "k", "ordering_key": b"o"}, {"partition_key": "o"}),
        ({"partition_key": "azE=", "partition_key_b64_encoded": True}, {"partition_key": "k1"}),
        ({"partition_key": "?", "partition_key_b64_encoded": True}, {"partition_key": "?"}),
        ({}, {"partition_key": "p-7"}),
        ({"partition_key": ""}, {"ordering_key": b""}),
    ],
)
def test_the_hash_is_of_the_ordering_key_else_the_key_else_the_producer(
    fields: dict[str, Any], same_as: dict[str, Any]
) -> None:
    assert entry(**fields).key_hash == entry(**same_as).key_hash


def test_a_key_that_is_not_utf8_is_hashed_as_the_bytes_it_is() -> None:
    metadata = MessageMetadata.FromString(
        MessageMetadata(producer_name="p", sequence_id=7, publish_time=1, partition_key="@")
        .SerializeToString()
        .replace(b"@", b"\xff")
    )
    assert StoredEntry(b"", metadata, "p", 0).key_hash == entry(ordering_key=b"\xff").key_hash


def test_a_hash_has_31_bits() -> None:
    assert all(0 <= entry(partition_key=str(number)).key_hash < 2**31 for number in range(100))


def test_a_batch_of_one_is_told_from_a_plain_message() -> None:
    assert (entry().is_batch, entry().messages) == (False, 1)
    assert (entry(num_messages_in_batch=1).is_batch, entry(num_messages_in_batch=1).messages) == (True, 1)


@pytest.mark.parametrize("claim", [0, -5])
def test_an_absurd_number_of_messages_counts_as_one(claim: int) -> None:
    assert entry(num_messages_in_batch=claim).messages == 1


def test_the_last_chunk_is_known() -> None:
    fields = {"uuid": "u", "num_chunks_from_msg": 3}
    assert [entry(chunk_id=chunk, **fields).is_last_chunk for chunk in range(3)] == [False, False, True]
    assert entry().chunk_of is None
