"""The wire against frames that others wrote: the official clients and a real broker (`tests/vectors/README.md`)."""

import base64
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pulsar_actors.wire.batch import encode_batch, is_batch, split_batch
from pulsar_actors.wire.compression import compress, decompress
from pulsar_actors.wire.entries import Entry, decode_entry, encode_broker_metadata, encode_entry
from pulsar_actors.wire.frames import (
    DEFAULT_MAX_MESSAGE_SIZE,
    Frame,
    FrameReader,
    decode_command,
    encode_command,
    encode_payload_command,
)
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand, CompressionType, MessageMetadata, SingleMessageMetadata

FOLDER = Path(__file__).parents[1] / "vectors"
PAYLOAD_COMMANDS = {"SEND", "MESSAGE"}
SMALL = 300  # bytes: a frame up to this size is split at every one of them

# Java writes the fields of a command in the order in which its protocol file declares them, protobuf in the order of
# their numbers. They differ in CONNECT, where `auth_method_name`, declared early, has a late number.
IN_JAVAS_ORDER = {("java", "CONNECT")}


class Vector(NamedTuple):
    file: str
    sender: str
    command: str
    step: str
    frame: bytes
    sent: list[dict[str, Any]]


def lines_of(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / f"{file}.jsonl").read_text().splitlines()[1:]]


def vectors_of(file: str) -> list[Vector]:
    return [
        Vector(file, line["from"], line["command"], line["step"], bytes.fromhex(line["frame"]), line.get("sent", []))
        for line in lines_of(file)
    ]


FILES = sorted(path.stem for path in FOLDER.glob("*.jsonl") if path.stem != "message_ids")
VECTORS = {file: vectors_of(file) for file in FILES}
ALL = [vector for vectors in VECTORS.values() for vector in vectors]

each_file = pytest.mark.parametrize("file", FILES)


def read(data: bytes) -> Frame:
    (frame,) = FrameReader().feed(data)
    return frame


def entries(file: str) -> Iterator[tuple[Vector, Frame, Entry]]:
    for vector in VECTORS[file]:
        if vector.command in PAYLOAD_COMMANDS:
            frame = read(vector.frame)
            yield vector, frame, decode_entry(frame.rest)


def inflated(entry: Entry, payload: bytes | memoryview) -> bytes:
    metadata = entry.metadata
    return bytes(decompress(metadata.compression, payload, metadata.uncompressed_size, DEFAULT_MAX_MESSAGE_SIZE))


def is_chunk(entry: Entry) -> bool:
    return entry.metadata.HasField("chunk_id")


@each_file
def test_a_stream_of_captured_frames_is_cut_where_the_recorder_cut_it(file: str) -> None:
    frames = FrameReader().feed(b"".join(vector.frame for vector in VECTORS[file]))
    cut = [8 + len(frame.command) + len(frame.rest) for frame in frames]
    assert cut == [len(vector.frame) for vector in VECTORS[file]]


@each_file
def test_every_command_is_of_the_type_that_was_recorded(file: str) -> None:
    for vector in VECTORS[file]:
        command = decode_command(read(vector.frame).command)
        number = BaseCommand.Type.Value(vector.command)
        assert BaseCommand.DESCRIPTOR.fields_by_number[number].message_type == command.DESCRIPTOR, vector


@each_file
def test_a_frame_split_at_any_byte_is_the_same_frame(file: str) -> None:
    for vector in VECTORS[file]:
        whole, size = read(vector.frame), len(vector.frame)
        splits = range(1, size) if size <= SMALL else [*range(1, 40), *range(40, size, size // 40), size - 1]
        for at in splits:
            reader = FrameReader()
            assert reader.feed(vector.frame[:at]) == [], (vector, at)
            assert reader.feed(vector.frame[at:]) == [whole], (vector, at)


@each_file
def test_every_command_is_written_again_byte_for_byte(file: str) -> None:
    for vector in VECTORS[file]:
        frame = read(vector.frame)
        command = decode_command(frame.command)
        if vector.command in PAYLOAD_COMMANDS:
            written = b"".join(encode_payload_command(command, frame.rest))
        else:
            written = encode_command(command)
        if (file, vector.command) in IN_JAVAS_ORDER:
            assert len(written) == len(vector.frame), vector
            assert decode_command(read(written).command) == command, vector
        else:
            assert written == vector.frame, vector


def test_the_exceptions_to_byte_for_byte_are_needed() -> None:
    differing = {
        (vector.file, vector.command)
        for vector in ALL
        if vector.command not in PAYLOAD_COMMANDS
        and encode_command(decode_command(read(vector.frame).command)) != vector.frame
    }
    assert differing == IN_JAVAS_ORDER


@each_file
def test_every_entry_has_a_right_checksum_and_is_written_again_byte_for_byte(file: str) -> None:
    for vector, frame, entry in entries(file):
        front = b"" if entry.broker_metadata is None else encode_broker_metadata(entry.broker_metadata)
        assert entry.checksum is not None, vector
        assert front + b"".join(encode_entry(entry.metadata, entry.payload)) == frame.rest, vector


@each_file
def test_every_batch_is_split_and_written_again_byte_for_byte(file: str) -> None:
    for vector, _, entry in entries(file):
        if is_batch(entry.metadata):
            batch = inflated(entry, entry.payload)
            messages = split_batch(batch, entry.metadata.num_messages_in_batch)
            assert encode_batch((message.metadata, message.payload) for message in messages) == batch, vector


@each_file
def test_every_payload_compressed_by_us_is_read_as_what_the_official_client_compressed(file: str) -> None:
    for vector, _, entry in entries(file):
        if not is_chunk(entry):
            payload = inflated(entry, entry.payload)
            assert inflated(entry, memoryview(compress(entry.metadata.compression, payload))) == payload, vector


@each_file
def test_every_message_is_what_the_client_was_told_to_send(file: str) -> None:
    for vector, _, entry in entries(file):
        if vector.sent and not is_chunk(entry):
            expected = [in_wire_words(message) for message in vector.sent]
            found = messages_of(entry)
            assert len(found) == len(expected), vector
            for one, other in zip(found, expected, strict=True):
                if "sequence_id" not in other:
                    del one["sequence_id"]  # numbered by the client
                if is_batch(entry.metadata):
                    other.pop("replicate_to", None)  # a batch has no place for it, and the C++ client drops it
                assert one == other, vector


def in_wire_words(sent: dict[str, Any]) -> dict[str, Any]:
    """Say what a program asked for in the names of the protocol; a field it did not set must not be there."""
    told = dict(sent)
    payload = told.pop("payload")
    words: dict[str, Any] = {"payload": bytes.fromhex(payload or "")}
    if payload is None:
        words["null_value"] = True
    if "ordering_key" in told:
        words["ordering_key"] = told.pop("ordering_key").encode()
    if "key_bytes" in told:
        words["partition_key"] = base64.b64encode(bytes.fromhex(told.pop("key_bytes"))).decode()
        words["partition_key_b64_encoded"] = True
    if told.pop("disable_replication", False):
        words["replicate_to"] = ["__local__"]
    renamed = {"event_timestamp": "event_time", "deliver_at": "deliver_at_time", "replication_clusters": "replicate_to"}
    return words | {renamed.get(name, name): value for name, value in told.items()}


def messages_of(entry: Entry) -> list[dict[str, Any]]:
    payload = inflated(entry, entry.payload)
    if not is_batch(entry.metadata):
        return [set_fields(entry.metadata, payload)]
    messages = split_batch(payload, entry.metadata.num_messages_in_batch)
    return [set_fields(message.metadata, message.payload) for message in messages]


MESSAGE_FIELDS = {
    "partition_key",
    "partition_key_b64_encoded",
    "ordering_key",
    "event_time",
    "sequence_id",
    "null_value",
    "deliver_at_time",
}


def set_fields(metadata: MessageMetadata | SingleMessageMetadata, payload: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"payload": payload}
    for field, value in metadata.ListFields():
        # Some clients write a false or a zero where others write nothing.
        if field.name in MESSAGE_FIELDS and (value or field.name == "sequence_id"):
            found[field.name] = value
    if metadata.properties:
        found["properties"] = {each.key: each.value for each in metadata.properties}
    if isinstance(metadata, MessageMetadata) and metadata.replicate_to:
        found["replicate_to"] = list(metadata.replicate_to)
    return found


def test_chunks_joined_in_order_are_the_message_that_was_sent() -> None:
    chunked: dict[tuple[str, str], list[tuple[Vector, Entry]]] = defaultdict(list)
    for vector, _, entry in entries("chunks"):
        if is_chunk(entry):
            chunked[vector.sender, entry.metadata.uuid].append((vector, entry))
    assert {CompressionType.Name(chunks[0][1].metadata.compression) for chunks in chunked.values()} == {"NONE", "ZSTD"}
    for chunks in chunked.values():
        metadata = chunks[-1][1].metadata
        assert [entry.metadata.chunk_id for _, entry in chunks] == list(range(metadata.num_chunks_from_msg))
        joined = b"".join(entry.payload for _, entry in chunks)
        assert len(joined) == metadata.total_chunk_msg_size
        (sent,) = chunks[-1][0].sent
        assert inflated(chunks[-1][1], joined) == bytes.fromhex(sent["payload"])
        assert all(entry.metadata.partition_key == sent["partition_key"] for _, entry in chunks)


def test_message_ids_of_the_official_client_are_read_and_written_byte_for_byte() -> None:
    lines = lines_of("message_ids")
    for line in lines:
        message_id = MessageId.deserialize(bytes.fromhex(line["serialised"]))
        read_as = (message_id.ledger_id, message_id.entry_id, message_id.partition, message_id.batch_index)
        assert read_as == (line["ledger"], line["entry"], line["partition"], line["batch_index"])
        assert message_id.serialize().hex() == line["serialised"], line
    assert any(MessageId.deserialize(bytes.fromhex(line["serialised"])).first_chunk for line in lines)


@pytest.mark.parametrize("sender", ["client", "broker"])
@pytest.mark.parametrize("file", ["codecs", "java"])
def test_the_vectors_have_every_codec_batched_and_not(file: str, sender: str) -> None:
    found = {
        (entry.metadata.compression, is_batch(entry.metadata))
        for vector, _, entry in entries(file)
        if vector.sender == sender and vector.sent
    }
    assert found == {(codec, batched) for codec in CompressionType.values() for batched in (False, True)}


def test_the_vectors_have_entries_with_and_without_the_brokers_metadata() -> None:
    with_metadata = [entry.broker_metadata for _, _, entry in entries("entry_metadata") if entry.broker_metadata]
    assert [metadata.index for metadata in with_metadata] == [0, 1, 2, 5]
    assert all(metadata.broker_timestamp for metadata in with_metadata)
    assert all(entry.broker_metadata is None for _, _, entry in entries("codecs"))


RECORDED_COMMANDS = """
ACK ACK_RESPONSE ACTIVE_CONSUMER_CHANGE ADD_PARTITION_TO_TXN ADD_PARTITION_TO_TXN_RESPONSE
ADD_SUBSCRIPTION_TO_TXN ADD_SUBSCRIPTION_TO_TXN_RESPONSE CLOSE_CONSUMER CLOSE_PRODUCER CONNECT CONNECTED END_TXN
END_TXN_RESPONSE ERROR FLOW GET_LAST_MESSAGE_ID GET_LAST_MESSAGE_ID_RESPONSE GET_OR_CREATE_SCHEMA
GET_OR_CREATE_SCHEMA_RESPONSE GET_SCHEMA GET_SCHEMA_RESPONSE GET_TOPICS_OF_NAMESPACE
GET_TOPICS_OF_NAMESPACE_RESPONSE LOOKUP LOOKUP_RESPONSE MESSAGE NEW_TXN NEW_TXN_RESPONSE PARTITIONED_METADATA
PARTITIONED_METADATA_RESPONSE PING PONG PRODUCER PRODUCER_SUCCESS REACHED_END_OF_TOPIC
REDELIVER_UNACKNOWLEDGED_MESSAGES SEEK SEND SEND_RECEIPT SUBSCRIBE SUCCESS TC_CLIENT_CONNECT_REQUEST
TC_CLIENT_CONNECT_RESPONSE UNSUBSCRIBE WATCH_TOPIC_LIST WATCH_TOPIC_LIST_CLOSE WATCH_TOPIC_LIST_SUCCESS
WATCH_TOPIC_UPDATE
"""


def test_no_kind_of_command_was_lost_when_the_vectors_were_made_again() -> None:
    assert {vector.command for vector in ALL} == set(RECORDED_COMMANDS.split())
