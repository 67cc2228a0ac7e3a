"""Every message, field, label, type, default and enum value, against the facts in wire_fields.txt."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from pulsar_actors.wire.PulsarApi_pb2 import DESCRIPTOR, BaseCommand

FACTS = (Path(__file__).parent / "wire_fields.txt").read_text().splitlines()


def entries(lines: Iterable[str]) -> list[str]:
    """Each line of the facts with the message or enum it belongs to, so that every entry stands alone."""
    found: list[str] = []
    owner = ""
    for line in lines:
        if line.startswith("  "):
            found.append(f"{owner}: {line.strip()}")
        elif line and not line.startswith("#"):
            owner = line
            found.append(owner)
    return found


def compiled() -> list[str]:
    """The compiled file in the same form. Read from its bytes: the descriptor classes differ between protobufs."""
    file = FileDescriptorProto.FromString(DESCRIPTOR.serialized_pb)
    lines = [line for enum in file.enum_type for line in enum_lines(enum, "")]
    lines += [line for message in file.message_type for line in message_lines(message, "")]
    return entries(lines)


def enum_lines(enum: EnumDescriptorProto, outer: str) -> Iterator[str]:
    yield f"enum {outer}{enum.name}"
    for value in enum.value:
        yield f"  {value.number} {value.name}"


def message_lines(message: DescriptorProto, outer: str) -> Iterator[str]:
    name = f"{outer}{message.name}"
    yield f"message {name}"
    for field in message.field:
        yield f"  {field_text(field)}"
    for enum in message.enum_type:
        yield from enum_lines(enum, f"{name}.")
    for inner in message.nested_type:
        yield from message_lines(inner, f"{name}.")


def field_text(field: FieldDescriptorProto) -> str:
    label = FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower()
    scalar = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    kind = field.type_name.removeprefix(f".{DESCRIPTOR.package}.") or scalar
    default = f" = {field.default_value}" if field.HasField("default_value") else ""
    return f"{field.number} {label} {kind} {field.name}{default}"


def differences(known: list[str], ours: list[str]) -> list[str]:
    missing = [f"missing: {entry}" for entry in known if entry not in set(ours)]
    return missing + [f"extra: {entry}" for entry in ours if entry not in set(known)]


@pytest.mark.shows("Protobuf interface")
def test_the_descriptor_has_every_entry_of_the_protocol_and_no_other() -> None:
    known, ours = entries(FACTS), compiled()
    assert differences(known, ours) == []
    assert len(known) == len(ours)


def test_the_facts_are_read_whole() -> None:
    kinds = [entry.split()[0] for entry in entries(FACTS) if ":" not in entry]
    assert (kinds.count("message"), kinds.count("enum")) == (93, 19)
    assert len(entries(FACTS)) == 805


@pytest.mark.parametrize(
    ("fact", "instead"),
    [
        ("message MessageIdData: 4 optional int32 batch_index = -1", "9 optional int32 batch_index = -1"),
        ("message MessageIdData: 4 optional int32 batch_index = -1", "4 repeated int32 batch_index = -1"),
        ("message MessageIdData: 4 optional int32 batch_index = -1", "4 optional int64 batch_index = -1"),
        ("message MessageIdData: 4 optional int32 batch_index = -1", "4 optional int32 index = -1"),
        ("message MessageIdData: 4 optional int32 batch_index = -1", "4 optional int32 batch_index = 0"),
        ("message MessageIdData: 4 optional int32 batch_index = -1", "4 optional int32 batch_index"),
        ("message CommandSuccess: 2 optional Schema schema", "2 optional AuthData schema"),
        ("enum TxnAction: 1 ABORT", "2 ABORT"),
    ],
)
def test_a_difference_in_any_part_of_an_entry_is_told_both_ways(fact: str, instead: str) -> None:
    changed = f"{fact.partition(': ')[0]}: {instead}"
    ours = [changed if entry == fact else entry for entry in compiled()]
    assert differences(entries(FACTS), ours) == [f"missing: {fact}", f"extra: {changed}"]


def test_the_file_is_proto2_under_a_name_and_in_a_package_that_no_other_client_uses() -> None:
    file = FileDescriptorProto.FromString(DESCRIPTOR.serialized_pb)
    assert file.syntax == ""  # which is proto2
    assert (file.name, file.package) == ("pulsar_actors/wire/PulsarApi.proto", "pulsar_actors.wire")


def test_a_command_type_has_the_number_of_its_field() -> None:
    types = {value.number for value in BaseCommand.DESCRIPTOR.enum_types_by_name["Type"].values}
    fields = {field.number for field in BaseCommand.DESCRIPTOR.fields if field.name != "type"}
    assert types == fields
