"""Strings that are not UTF-8, with both forms of protobuf."""

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor

from pulsar_actors.wire.PulsarApi_pb2 import EncryptionKeys, KeyValue, MessageMetadata, SingleMessageMetadata
from pulsar_actors.wire.strings import parse, readable, undecoded_string

BAD = b"a\xff\xc3"
SHOWN = BAD.decode(errors="replace")
NEWER = b"\xf8\x3f\x05"  # a field 1023 of a newer protocol


def spoilt(message: Any) -> bytes:
    """Write a message with bytes that are not UTF-8 wherever it says BAD."""
    written: bytes = message.SerializeToString()
    return written.replace(b"BAD", BAD)


METADATA = MessageMetadata(
    producer_name="BAD",
    sequence_id=1,
    publish_time=2,
    replicate_to=["fine", "BAD"],
    properties=[KeyValue(key="k", value="v"), KeyValue(key="BAD", value="BAD")],
    encryption_keys=[EncryptionKeys(key="k", value=b"BAD", metadata=[KeyValue(key="k\xe9", value="BAD")])],
)


def test_every_string_becomes_text_and_nothing_else_changes() -> None:
    message = readable(parse(MessageMetadata, spoilt(METADATA) + NEWER))
    assert message.producer_name == SHOWN == "a\ufffd\ufffd"
    assert list(message.replicate_to) == ["fine", SHOWN]
    assert [(each.key, each.value) for each in message.properties] == [("k", "v"), (SHOWN, SHOWN)]
    assert message.encryption_keys[0].value == BAD
    assert [(each.key, each.value) for each in message.encryption_keys[0].metadata] == [("k\xe9", SHOWN)]
    assert (message.sequence_id, message.publish_time) == (1, 2)
    assert not message.HasField("partition_key")
    assert message.SerializeToString().endswith(NEWER)


def test_a_message_of_texts_comes_back_itself() -> None:
    message = MessageMetadata(producer_name="\xfc", sequence_id=1, publish_time=2, partition_key="k\U0001f600")
    assert undecoded_string(message) is None
    assert readable(message) is message


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (METADATA, "MessageMetadata.producer_name"),
        (SingleMessageMetadata(payload_size=1, partition_key="BAD"), "SingleMessageMetadata.partition_key"),
        (
            SingleMessageMetadata(
                payload_size=1, properties=[KeyValue(key="k", value="v"), KeyValue(key="k", value="BAD")]
            ),
            "KeyValue.value",
        ),
        (
            MessageMetadata(producer_name="p", sequence_id=1, publish_time=2, replicate_to=["fine", "BAD"]),
            "MessageMetadata.replicate_to",
        ),
        (
            MessageMetadata(
                producer_name="p", sequence_id=1, publish_time=2, encryption_keys=[EncryptionKeys(key="BAD", value=b"")]
            ),
            "EncryptionKeys.key",
        ),
    ],
)
def test_the_field_is_named(message: Any, field: str) -> None:
    assert undecoded_string(type(message).FromString(spoilt(message))) == field


def test_reading_goes_another_way_where_protobuf_refuses_the_message() -> None:
    class Strict:
        """A class of protobuf's pure-Python form, as far as this goes."""

        DESCRIPTOR: Descriptor = KeyValue.DESCRIPTOR

        @staticmethod
        def FromString(data: bytes) -> KeyValue:  # noqa: N802 - protobuf's name
            message = KeyValue.FromString(data)
            for value in (message.key, message.value):
                if isinstance(value, bytes):
                    value.decode()
            return message

    strict: Any = Strict
    assert parse(strict, spoilt(KeyValue(key="BAD", value="v"))) == KeyValue(key=SHOWN, value="v")


BOTH = """
    import json, struct
    from google.protobuf.internal import api_implementation
    from pulsar_actors.exceptions import WireError
    from pulsar_actors.wire.batch import split_batch
    from pulsar_actors.wire.commands import decode_command
    from pulsar_actors.wire.entries import open_entry
    from pulsar_actors.wire.message_id import MessageId
    from pulsar_actors.wire.strings import readable

    told = {"form": api_implementation.Type()}
    sized = lambda data: struct.pack(">I", len(data)) + data

    metadata = readable(open_entry(memoryview(sized(bytes.fromhex("0a02ff70 1001 1802 2205 0a01ff 1200")))).metadata)
    told["entry"] = [metadata.producer_name, metadata.properties[0].key, metadata.publish_time]

    batch = [sized(bytes.fromhex("1800 1202c328")), sized(bytes.fromhex("1800 0a06 0a01ff 1201fe"))] * 2
    messages = split_batch(b"".join(batch), 4)
    told["batch"] = [
        [metadata.partition_key, [(each.key, each.value) for each in metadata.properties]]
        for metadata in (readable(message.metadata) for message in messages)
    ]

    for name, command in {
        "error": "080e 7207 0801 1000 1a01ff",
        "topics": "0821 8a0206 0801 1202 ff74",
        "in a property": "080a 520b 0801 1000 2a05 0a01ff 1001",
    }.items():
        try:
            told[name] = str(decode_command(bytes.fromhex(command)))
        except WireError as fault:
            told[name] = type(fault).__name__, str(fault)

    nested = bytes.fromhex("0801 1001")
    for _ in range(3000):
        size = len(nested)
        nested = b"\\x3a" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + nested
    try:
        MessageId.deserialize(nested)
    except WireError as fault:
        told["nested"] = type(fault).__name__
    print(json.dumps(told))
"""


@pytest.mark.parametrize("form", ["upb", "python"])
def test_both_forms_of_protobuf_read_alike(form: str) -> None:
    run = subprocess.run(  # noqa: S603 - our own text, run by our own interpreter
        [sys.executable, "-c", textwrap.dedent(BOTH)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": form},
    )
    assert run.stderr == ""
    told = json.loads(run.stdout)
    assert told["form"] == form
    assert told["entry"] == ["\ufffdp", "\ufffd", 2]
    assert told["batch"] == [["\ufffd(", []], ["", [["\ufffd", "\ufffd"]]]] * 2
    for name, field in [
        ("error", "Error.message"),
        ("topics", "Response.topics"),
        ("in a property", "KeyLongValue.key"),
    ]:
        kind, text = told[name]
        assert kind == "MalformedCommand"
        assert field in text
    assert told["nested"] == "MalformedMessageId"
