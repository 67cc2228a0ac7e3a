"""Reading metadata."""

import pytest

from pulsar_actors.wire.errors import MalformedBatch, MalformedEntry
from pulsar_actors.wire.metadata import read_metadata
from pulsar_actors.wire.PulsarApi_pb2 import BrokerEntryMetadata, MessageIdData, SingleMessageMetadata


def test_metadata_is_read_whatever_its_strings_are() -> None:
    metadata = read_metadata(SingleMessageMetadata, b"\x18\x05\x12\x02\xff\xfe", 0, MalformedBatch)
    assert metadata.payload_size == 5
    assert metadata.HasField("partition_key")


def test_unreadable_metadata_is_blamed_where_it_lies() -> None:
    with pytest.raises(MalformedEntry, match="cannot read a BrokerEntryMetadata") as caught:
        read_metadata(BrokerEntryMetadata, b"\xff", 7, MalformedEntry)
    assert (caught.value.at, caught.value.size) == (7, 1)


def test_metadata_that_lacks_something_is_blamed_with_its_first_lack() -> None:
    with pytest.raises(MalformedBatch) as caught:
        read_metadata(SingleMessageMetadata, b"\x18\x00" + b"\x0a\x00" * 100_000, 4, MalformedBatch)
    assert caught.value.args == ("SingleMessageMetadata without its required properties[0].key", 4, 200_002)


def test_nesting_without_end_is_unreadable() -> None:
    data = b"\x08\x01\x10\x01"
    for _ in range(5_000):
        size = len(data)
        data = b"\x3a" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + data
    with pytest.raises(MalformedEntry):
        read_metadata(MessageIdData, data, 0, MalformedEntry)
