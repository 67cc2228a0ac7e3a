"""Frames and commands against their layout, BaseCommand as protobuf writes it, and every way a stream can be cut."""

import pickle
import struct
import tracemalloc
from typing import Any

import pytest
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire import errors, frames
from pulsar_actors.wire.errors import CommandOverrun, EncodeError, FrameError, FrameTooLarge, FrameTooSmall
from pulsar_actors.wire.frames import (
    DEFAULT_FRAME_LIMIT,
    Frame,
    FrameReader,
    decode_command,
    encode_command,
    encode_payload_command,
    frame_limit,
    serialise_command,
)
from tests.wire.any_message import filled

SEND = pb.CommandSend(producer_id=1, sequence_id=2)
LIMIT = 100


def layout(command: bytes, rest: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(command) + len(rest), len(command)) + command + rest


def contents(frames: list[Frame]) -> list[tuple[bytes, bytes]]:
    return [(frame.command, bytes(frame.rest)) for frame in frames]


FRAMES = st.lists(st.tuples(st.binary(max_size=20), st.binary(max_size=40)), max_size=6)


@pytest.mark.shows("Framing")
@pytest.mark.shows("Payload commands", "totalSize", "commandSize")
def test_a_payload_frame_is_two_sizes_the_command_and_the_entry() -> None:
    buffers = encode_payload_command(SEND, b"head", memoryview(b"payload"))
    # BaseCommand: type 6 (SEND), field 6 of 4 bytes: producer 1, sequence id 2.
    assert b"".join(buffers) == bytes.fromhex("00000017 00000008 08 06 32 04 08 01 10 02") + b"headpayload"


def test_a_payload_is_written_without_being_copied() -> None:
    payload = memoryview(b"payload")
    assert encode_payload_command(SEND, payload)[-1] is payload


def test_an_entry_is_counted_in_bytes_whatever_its_items_are() -> None:
    buffers = encode_payload_command(SEND, b"head", memoryview(b"payloads").cast("I"))
    (frame,) = FrameReader().feed(b"".join(buffers))
    assert frame.rest == b"headpayloads"


@pytest.mark.parametrize("entry", ["text", None, 3, [1, 2]])
def test_an_entry_that_is_not_bytes_is_not_written(entry: Any) -> None:
    with pytest.raises(EncodeError, match=f"an entry is bytes or a view of them, not {type(entry).__name__}"):
        encode_payload_command(SEND, entry)


def test_a_written_frame_is_read_as_the_same_command_and_entry() -> None:
    stream = b"".join(
        [encode_command(pb.CommandPing()), *encode_payload_command(SEND, b"entry"), encode_command(pb.CommandPong())]
    )
    expected = [(serialise_command(pb.CommandPing()), b""), (serialise_command(SEND), b"entry")]
    assert contents(FrameReader().feed(stream)) == [*expected, (serialise_command(pb.CommandPong()), b"")]


def test_a_frame_beyond_what_its_size_can_say_is_not_written() -> None:
    piece = bytes(2**26)
    with pytest.raises(EncodeError, match="over what its size field can say"):
        encode_payload_command(SEND, *[piece] * 64)


def test_a_stream_cut_anywhere_gives_the_same_frames() -> None:
    frames = [(b"", b""), (b"c", b""), (b"command", b"payload" * 3), (b"last", b"\x00")]
    stream = b"".join(layout(*frame) for frame in frames)
    for first in range(len(stream) + 1):
        for second in range(first, len(stream) + 1):
            reader = FrameReader(LIMIT)
            pieces = stream[:first], stream[first:second], stream[second:]
            assert contents([frame for piece in pieces for frame in reader.feed(piece)]) == frames


def test_a_stream_fed_byte_by_byte_gives_each_frame_at_its_last_byte() -> None:
    stream = layout(b"one", b"two") + layout(b"", b"")
    reader = FrameReader()
    given_at = {at: frames for at in range(len(stream)) if (frames := contents(reader.feed(stream[at : at + 1])))}
    assert given_at == {13: [(b"one", b"two")], 21: [(b"", b"")]}


# As many bytes of a frame as show that its last size makes no sense.
SENSELESS: list[tuple[bytes, type[FrameError]]] = [
    *[(struct.pack(">I", size), FrameTooSmall) for size in range(4)],
    (struct.pack(">I", LIMIT + 1), FrameTooLarge),
    (b"\xff" * 4, FrameTooLarge),
    (struct.pack(">II", 10, 7), CommandOverrun),
    (struct.pack(">II", 4, 2**32 - 1), CommandOverrun),
]


@pytest.mark.shows("Framing", "maximum frame size")
@pytest.mark.parametrize(("head", "kind"), SENSELESS)
@pytest.mark.parametrize("before", [b"", layout(b"good", b"frame")])
def test_a_senseless_size_is_refused_as_soon_as_it_is_there(before: bytes, head: bytes, kind: type[FrameError]) -> None:
    reader = FrameReader(LIMIT)
    assert len(reader.feed(before + head[:-1])) == bool(before)
    with pytest.raises(kind) as caught:
        reader.feed(head[-1:])
    expected = len(before) + len(head) - 4, int.from_bytes(head[-4:], "big")
    assert (caught.value.at, caught.value.size) == expected

    for tail in (b"", bytes(200)):
        whole = FrameReader(LIMIT)
        with pytest.raises(kind) as caught:
            whole.feed(before + head + tail)
        assert (caught.value.at, caught.value.size) == expected
        assert contents(whole.frames_before_fault) == ([(b"good", b"frame")] if before else [])


def test_the_text_of_a_fault_says_what_where_and_how_many_bytes() -> None:
    reader = FrameReader(LIMIT)
    reader.feed(layout(b"abc"))
    with pytest.raises(
        FrameTooLarge, match=r"a frame of 5,000 bytes is over the limit of 100 \(at byte 11, 5,000 bytes\)"
    ):
        reader.feed(struct.pack(">I", 5000))


def test_an_answer_in_http_is_said_to_be_that_if_it_is_the_first_thing_that_comes() -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with pytest.raises(FrameTooLarge, match="is one of HTTP: this is the broker's web port"):
        FrameReader().feed(answer)
    with pytest.raises(FrameTooLarge, match=r"a frame of 1,213,486,160 bytes is over the limit"):
        FrameReader().feed(layout(b"abc") + answer)


def test_the_position_of_a_fault_counts_frames_that_came_in_pieces() -> None:
    reader = FrameReader(LIMIT)
    good = layout(b"abc", b"def")
    reader.feed(good[:5])
    with pytest.raises(FrameTooSmall) as caught:
        reader.feed(good[5:] + good + bytes(4))
    assert caught.value.at == 2 * len(good)
    assert contents(reader.frames_before_fault) == [(b"abc", b"def")] * 2


def test_after_a_fault_every_feed_raises_it_again() -> None:
    reader = FrameReader()
    with pytest.raises(FrameTooSmall) as first:
        reader.feed(layout(b"good") + bytes(4))
    for data in (b"", layout(b"good")):
        with pytest.raises(FrameTooSmall) as again:
            reader.feed(data)
        assert again.value is first.value
        assert reader.frames_before_fault == []


@pytest.mark.shows("Framing", "maximum frame size")
def test_the_limit_is_a_message_of_five_megabytes_and_ten_kilobytes_until_it_is_changed() -> None:
    assert FrameReader().limit == DEFAULT_FRAME_LIMIT == frame_limit(5 * 1024 * 1024) == 5 * 1024 * 1024 + 10 * 1024
    assert FrameReader().feed(struct.pack(">I", DEFAULT_FRAME_LIMIT)) == []
    with pytest.raises(FrameTooLarge):
        FrameReader().feed(struct.pack(">I", DEFAULT_FRAME_LIMIT + 1))


@pytest.mark.parametrize("size", [0, -1, -20_000, -(2**31)])
def test_a_broker_that_names_no_positive_size_means_the_usual_one(size: int) -> None:
    assert frame_limit(size) == DEFAULT_FRAME_LIMIT
    assert frame_limit(1) == 1 + 10 * 1024


def test_a_changed_limit_applies_from_the_next_feed() -> None:
    frame = layout(b"", bytes(LIMIT))
    reader = FrameReader(LIMIT + 3)
    with pytest.raises(FrameTooLarge):
        reader.feed(frame)
    reader = FrameReader(LIMIT + 3)
    reader.limit += 1
    assert len(reader.feed(frame)) == 1
    reader.limit -= 1
    with pytest.raises(FrameTooLarge):
        reader.feed(frame)


@pytest.mark.parametrize("cut", [1, 5, 12])
def test_a_frame_keeps_no_more_than_itself(cut: int) -> None:
    frame = layout(b"c", b"payload")
    reader, stream = FrameReader(), frame * 3
    frames = [*reader.feed(stream[: len(frame) + cut]), *reader.feed(stream[len(frame) + cut :])]
    assert contents(frames) == [(b"c", b"payload")] * 3
    assert [type(each.rest) for each in frames] == [bytes] * 3, "a view would keep the whole piece"


def test_a_piece_that_its_owner_may_change_is_copied() -> None:
    buffer = bytearray(layout(b"c", b"payload") + layout(b"c", b"payload")[:5])
    reader = FrameReader()
    frames = reader.feed(buffer)
    buffer[:] = bytes(len(buffer))
    buffer.clear()  # which no view forbids
    frames += reader.feed(bytearray(layout(b"c", b"payload")[5:]))
    assert contents(frames) == [(b"c", b"payload")] * 2
    assert all(type(frame.command) is type(frame.rest) is bytes for frame in frames)


@pytest.mark.parametrize(
    "piece",
    [
        memoryview(layout(b"cmd!", b"payl")),
        memoryview(layout(b"cmd!", b"payl")).cast("I"),
        memoryview(b"".join(bytes([byte, 0]) for byte in layout(b"cmd!", b"payl")))[::2],
    ],
    ids=["bytes", "words", "every second"],
)
def test_a_view_of_any_shape_is_read_as_its_bytes(piece: memoryview) -> None:
    (frame,) = FrameReader().feed(piece)
    assert type(frame.command) is bytes
    assert contents([frame]) == [(b"cmd!", b"payl")]


@pytest.mark.parametrize("piece", ["text", 16, None, [0, 0, 0, 4]])
def test_what_is_not_bytes_is_not_fed(piece: Any) -> None:
    with pytest.raises(TypeError, match=type(piece).__name__):
        FrameReader().feed(piece)


def test_a_claimed_size_takes_no_memory() -> None:
    head = struct.pack(">II", 4_000_000, 10)
    reader = FrameReader()
    tracemalloc.start()
    try:
        reader.feed(head)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000


def test_a_large_frame_in_small_pieces_takes_little_more_memory_than_its_bytes() -> None:
    stream = layout(b"c", bytes(2**21))
    reader = FrameReader()
    pieces = [stream[at : at + 4096] for at in range(0, len(stream), 4096)]
    tracemalloc.start()
    try:
        frames = [frame for piece in pieces for frame in reader.feed(piece)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(frames) == 1
    assert peak < 1.5 * len(stream)


MESSAGE = pb.CommandMessage(consumer_id=1, message_id=pb.MessageIdData(ledgerId=1, entryId=2))


@pytest.mark.parametrize("command", [SEND, MESSAGE])
def test_a_command_that_carries_an_entry_is_not_written_without_one(command: Message) -> None:
    with pytest.raises(EncodeError, match="is written with its entry: `encode_payload_command`"):
        encode_command(command)


def test_a_command_that_carries_no_entry_is_not_written_with_one() -> None:
    with pytest.raises(EncodeError, match="CommandPing carries no entry: `encode_command`"):
        encode_payload_command(pb.CommandPing(), b"entry")


# Commands.

FIELDS = [field for field in pb.BaseCommand.DESCRIPTOR.fields if field.message_type is not None]

COMMANDS = {field.name: filled(field.message_type) for field in FIELDS if field.message_type}


def in_base(command: Message, field: str) -> pb.BaseCommand:
    wrap: Any = pb.BaseCommand
    return wrap(type=pb.BaseCommand.DESCRIPTOR.fields_by_name[field].number, **{field: command})


def test_a_type_and_its_field_have_the_same_number_and_every_class_is_used_once() -> None:
    assert {field.number for field in FIELDS} == set(pb.BaseCommand.Type.values())
    assert len({field.message_type.full_name for field in FIELDS if field.message_type}) == len(FIELDS)


@pytest.mark.shows("Command Ack", "properties", "txnid_most_bits", "txnid_least_bits")
@pytest.mark.shows("Protobuf interface")
@pytest.mark.parametrize("field", COMMANDS)
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_every_command_is_written_as_protobuf_writes_it_and_read_back_whole(field: str, data: st.DataObject) -> None:
    command = data.draw(COMMANDS[field])
    written = serialise_command(command)
    assert written == in_base(command, field).SerializeToString()
    assert decode_command(written) == command
    assert decode_command(memoryview(written)) == command


@pytest.mark.shows("Simple commands")
@pytest.mark.shows("Simple commands", "totalSize", "commandSize", "message")
def test_a_simple_frame_is_its_size_the_command_size_and_the_command() -> None:
    # BaseCommand: field 1 (type) = 18, field 18 (ping) = an empty message.
    assert encode_command(pb.CommandPing()) == bytes.fromhex("00000009 00000005 08 12 9201 00")
    flow = pb.CommandFlow(consumer_id=3, messagePermits=500)
    assert encode_command(flow) == bytes.fromhex("0000000d 00000009 08 0b 5a 05 08 03 10 f403")


@pytest.mark.parametrize("data", [b"\xff", b"\x08", b"\x0b\x0b", b"\x08\x12\x92\x01\x05"])
def test_bytes_that_protobuf_can_not_read_are_a_malformed_command(data: bytes) -> None:
    with pytest.raises(errors.MalformedCommand, match=f"protobuf cannot read a .*{len(data)} bytes"):
        decode_command(data)


PING = b"\x92\x01\x00"


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (b"\x08\x63", 99),
        (b"\x08" + b"\xff" * 9 + b"\x01", -1),
        (b"\x08\x00", 0),
        (b"\x08\x12\x08\x8f\x4e" + PING, 9999),
        (b"\x08\x8f\x4e\x08\x12" + PING, 9999),
        (b"\x08\x12" + PING + b"\x08\x8f\x4e", 9999),
        (b"\x08\x12" + PING + b"\x88\x00\x8f\x4e", 9999),  # the tag in a byte more than it needs
    ],
)
def test_an_unknown_type_is_reported_as_unknown_and_not_as_connect(data: bytes, number: int) -> None:
    with pytest.raises(errors.UnknownCommand, match=f"unknown type {number} ") as caught:
        decode_command(data)
    assert caught.value.size == len(data)


@pytest.mark.parametrize("data", [b"", b"\x92\x01\x00", b"\x0a\x01a"])
def test_a_command_without_a_type_lacks_a_field(data: bytes) -> None:
    with pytest.raises(errors.MissingField, match="without its type"):
        decode_command(data)


def test_a_type_without_its_command_lacks_a_field() -> None:
    with pytest.raises(errors.MissingField, match="type SEND_RECEIPT without its field send_receipt"):
        decode_command(b"\x08\x07" + b"\x92\x01\x00")


def test_missing_required_fields_are_named_at_any_depth() -> None:
    ack = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[pb.MessageIdData(ledgerId=1)])
    data = pb.BaseCommand(type=pb.BaseCommand.ACK, ack=ack).SerializePartialToString()
    with pytest.raises(errors.MissingField, match=r"CommandAck without its required message_id\[0\]\.entryId"):
        decode_command(data)
    data = pb.BaseCommand(type=pb.BaseCommand.SEND, send=pb.CommandSend(producer_id=1)).SerializePartialToString()
    with pytest.raises(errors.MissingField, match="CommandSend without its required sequence_id"):
        decode_command(data)


def test_an_unknown_enum_value_is_reported_with_the_rest_of_its_command_also_after_pickling() -> None:
    whole = pb.CommandSubscribe(
        topic="t", subscription="s", subType=pb.CommandSubscribe.Key_Shared, consumer_id=1, request_id=9
    )
    data = in_base(whole, "subscribe").SerializeToString().replace(b"\x18\x03", b"\x18\x2a")
    with pytest.raises(errors.UnknownEnumValue, match=r"CommandSubscribe\.subType has the unknown value 42 ") as caught:
        decode_command(data)
    for fault in (caught.value, pickle.loads(pickle.dumps(caught.value))):  # noqa: S301 - our own pickle
        assert str(fault) == str(caught.value)
        assert (fault.field, fault.number, fault.size) == ("CommandSubscribe.subType", 42, len(data))
        assert isinstance(fault.command, pb.CommandSubscribe)
        assert fault.command.request_id == 9


def test_an_unknown_enum_value_below_the_command_is_found() -> None:
    schema = pb.Schema(name="n", schema_data=b"", type=pb.Schema.Json)
    whole = pb.CommandGetOrCreateSchema(request_id=1, topic="t", schema=schema)
    data = pb.BaseCommand(type=pb.BaseCommand.GET_OR_CREATE_SCHEMA, getOrCreateSchema=whole).SerializeToString()
    assert data.count(b"\x20\x02") == 1  # field 4 of Schema: its type
    with pytest.raises(errors.UnknownEnumValue, match=r"Schema\.type has the unknown value 77 "):
        decode_command(data.replace(b"\x20\x02", b"\x20\x4d"))


def test_the_search_for_enums_passes_by_what_can_hold_none(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []

    def unknown(message: Message) -> None:
        searched.append(message.DESCRIPTOR.name)

    monkeypatch.setattr(frames, "unknown_enum", unknown)
    properties = [pb.KeyValue(key="k", value="v")] * 1_000
    schema = pb.Schema(name="n", schema_data=b"", type=pb.Schema.Json, properties=properties)
    decode_command(serialise_command(pb.CommandGetSchemaResponse(request_id=1, schema=schema)))
    assert sorted(searched) == ["BaseCommand", "CommandGetSchemaResponse", "Schema"]


NOT_UTF_8: list[tuple[Message, str]] = [
    (pb.CommandError(request_id=1, error=pb.ServerError.UnknownError, message="BAD"), "CommandError.message"),
    (
        pb.CommandLookupTopicResponse(request_id=1, brokerServiceUrl="BAD"),
        "CommandLookupTopicResponse.brokerServiceUrl",
    ),
    (
        pb.CommandGetTopicsOfNamespaceResponse(request_id=1, topics=["BAD"]),
        "CommandGetTopicsOfNamespaceResponse.topics",
    ),
    (
        pb.CommandGetSchemaResponse(request_id=1, schema=pb.Schema(name="BAD", schema_data=b"", type=pb.Schema.Json)),
        "Schema.name",
    ),
    (
        pb.CommandSubscribe(
            topic="t" * 200,
            subscription="s",
            subType=pb.CommandSubscribe.Shared,
            consumer_id=1,
            request_id=9,
            metadata=[pb.KeyValue(key="k", value="v"), pb.KeyValue(key="k", value="BAD")],
        ),
        "KeyValue.value",
    ),
]


@pytest.mark.parametrize(("command", "field"), NOT_UTF_8, ids=[field for _, field in NOT_UTF_8])
def test_a_string_that_is_no_text_is_a_malformed_command(command: Message, field: str) -> None:
    written = serialise_command(command)
    assert decode_command(written) == command
    with pytest.raises(errors.MalformedCommand, match=field):
        decode_command(written.replace(b"BAD", b"\xff\xc3\x28"))


def test_a_command_with_an_unknown_enum_value_gives_no_bytes_for_text_either() -> None:
    fields = b"\x08\x01\x10\x63\x1a\x01\xff"
    with pytest.raises(errors.MalformedCommand, match=r"CommandError\.message"):
        decode_command(b"\x08\x0e\x72" + bytes([len(fields)]) + fields)


def test_the_commands_of_the_data_path_are_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "undecoded_string", None)
    monkeypatch.setattr(frames, "unknown_enum", None)
    place = pb.MessageIdData(ledgerId=2**63, entryId=1)
    for command in (
        pb.CommandPing(),
        pb.CommandPong(),
        pb.CommandSend(producer_id=1, sequence_id=2**63),
        pb.CommandSendReceipt(producer_id=1, sequence_id=2**63, message_id=place),
        pb.CommandMessage(consumer_id=1, message_id=place),
        pb.CommandFlow(consumer_id=1, messagePermits=1_000),
    ):
        assert decode_command(serialise_command(command)) == command


@pytest.mark.parametrize("length", [*range(110, 135), 1_000, 20_000, 70_000])
def test_a_command_is_written_and_read_alike_at_any_length(length: int) -> None:
    command = pb.CommandError(request_id=1, error=pb.ServerError.UnknownError, message="x" * length)
    assert serialise_command(command) == in_base(command, "error").SerializeToString()
    assert decode_command(serialise_command(command)) == command


@pytest.mark.parametrize("data", [None, "text", 18, [8, 18]])
def test_what_is_not_bytes_is_no_command(data: Any) -> None:
    with pytest.raises(TypeError, match=type(data).__name__):
        decode_command(data)


def test_a_field_of_a_newer_protocol_is_no_fault() -> None:
    command = pb.CommandError(request_id=1, error=pb.ServerError.UnknownError, message="no")
    newer = pb.CommandError.FromString(command.SerializeToString() + b"\xf8\x3f\x05")
    assert decode_command(serialise_command(newer)) == newer
    assert decode_command(serialise_command(command) + b"\xf8\x3f\x05") == command


def test_what_is_no_command_can_not_be_written() -> None:
    with pytest.raises(errors.EncodeError, match="not MessageIdData"):
        encode_command(pb.MessageIdData(ledgerId=1, entryId=1))


def test_a_command_without_its_required_fields_can_not_be_written() -> None:
    with pytest.raises(errors.EncodeError, match="producer_id"):
        encode_command(pb.CommandSendReceipt(sequence_id=1))
