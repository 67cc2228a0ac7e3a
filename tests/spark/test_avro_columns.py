"""Avro and JSON by columns: the same as fastavro and Python's `json` make of each message."""

import json
from io import BytesIO
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors import WrongContent
from pulsar_actors.spark.avro_decoder import NotByColumns, decode_columns
from pulsar_actors.spark.avro_encoder import encode_columns
from pulsar_actors.spark.avro_evolution import resolved
from pulsar_actors.spark.avro_types import ValueType, value_type
from pulsar_actors.spark.decoded_values import from_fastavro, from_json
from pulsar_actors.spark.json_decoder import decode_lines
from pulsar_actors.spark.json_encoder import encode_lines
from tests.spark.avro_cases import Case, cases, record


def written(definition: Any, values: list[Any]) -> list[bytes]:
    schema = fastavro.parse_schema(json.loads(json.dumps(definition)))
    payloads = []
    for one in values:
        buffer = BytesIO()
        fastavro.schemaless_writer(buffer, schema, one)
        payloads.append(buffer.getvalue())
    return payloads


def read(definition: Any, payloads: list[bytes], reader: Any = None) -> list[Any]:
    schemas = [fastavro.parse_schema(json.loads(json.dumps(one))) for one in (definition, reader) if one is not None]
    return [fastavro.schemaless_reader(BytesIO(one), *schemas) for one in payloads]


def column(kind: ValueType, values: list[Any]) -> pa.Array:
    """Make the column as it is made of single messages."""
    convert = from_fastavro(kind) or (lambda one: one)
    return pa.array([None if one is None else convert(one) for one in values], kind.arrow)


@given(cases())
def test_records_are_decoded_as_fastavro_decodes_them(case: Case) -> None:
    definition, values = case
    kind, payloads = value_type(definition), written(definition, values)
    found = decode_columns(kind, payloads)
    found.validate(full=True)
    assert found.equals(column(kind, read(definition, payloads)))


@given(cases())
def test_fastavro_reads_what_is_encoded(case: Case) -> None:
    definition, values = case
    kind = value_type(definition)
    expected = column(kind, values)
    payloads = encode_columns(kind.fields, expected.flatten())
    if "decimal" in json.dumps(definition):  # fastavro 1.9 writes a -128 in two bytes; Java, and newer ones, in one
        assert repr(read(definition, payloads)) == repr(read(definition, written(definition, values)))
    else:
        assert payloads == written(definition, values)


@given(cases(), st.data())
def test_a_slice_of_rows_is_encoded_as_those_rows(case: Case, data: Any) -> None:
    definition, values = case
    kind = value_type(definition)
    start = data.draw(st.integers(0, len(values)))
    stop = data.draw(st.integers(start, len(values)))
    rows = column(kind, values).slice(start, stop - start)
    for encode in (encode_columns, encode_lines):
        whole = encode(kind.fields, column(kind, values).flatten())
        assert encode(kind.fields, rows.flatten()) == whole[start:stop]


@given(cases(), st.data())
def test_damaged_messages_are_decoded_as_fastavro_decodes_them_or_not_by_columns(case: Case, data: Any) -> None:
    definition, values = case
    kind, payloads = value_type(definition), written(definition, values)
    for _ in range(data.draw(st.integers(1, 3))):
        if not payloads:
            break
        number = data.draw(st.integers(0, len(payloads) - 1))
        payload = payloads[number]
        match data.draw(st.sampled_from(["cut", "more", "byte"])):
            case "cut":
                payloads[number] = payload[: data.draw(st.integers(0, len(payload)))]
            case "more":
                payloads[number] = payload + data.draw(st.binary(max_size=4))
            case _ if payload:
                place = data.draw(st.integers(0, len(payload) - 1))
                payloads[number] = payload[:place] + data.draw(st.binary(min_size=1, max_size=1)) + payload[place + 1 :]
    try:
        found = decode_columns(kind, payloads)
    except NotByColumns:
        return
    found.validate(full=True)
    expected = column(kind, read(definition, payloads))
    assert repr(found.to_pylist()) == repr(expected.to_pylist())  # a NaN is not equal to itself


ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 0}


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        ("int", b"\x02\x00"), ("int", b""), ("int", b"\x80"), ("int", b"\x80\x80\x80\x80\x10"),
        ("long", b"\x80" * 10 + b"\x01"), ("boolean", b"\x02"), (["null", "int"], b"\x04\x02"),
        (["null", "int"], b"\x01\x02"), (["int"], b"\x02\x02"),
        (ENUM, b"\x02"), (ENUM, b"\x01"), (DECIMAL, b"\x00"), (DECIMAL, b"\x04\x03\xe8"), ("string", b"\x02\xff"),
        ("string", b"\x01"), ("double", b"\0" * 7), ({"type": "array", "items": "int"}, b"\xfe\xff\xff\x0f"),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),
        ({"type": "int", "logicalType": "time-millis"}, b"\x01"),
    ],
)  # fmt: skip
def test_bytes_that_the_schema_does_not_have_are_not_decoded_by_columns(kind: Any, payload: bytes) -> None:
    with pytest.raises(NotByColumns):
        decode_columns(value_type(record([("f", kind)])), [payload])


@pytest.mark.parametrize("kind", [{"type": "array", "items": "int"}, {"type": "map", "values": "int"}])
def test_blocks_that_tell_their_bytes_are_decoded(kind: Any) -> None:
    items = b"\x02\x04" if kind["type"] == "array" else b"\x02a\x02\x02b\x04"
    payload = b"\x03" + bytes([2 * len(items)]) + items + b"\x02" + items[: len(items) // 2] + b"\0"
    definition = record([("f", kind)])
    found = decode_columns(value_type(definition), [payload, b"\0"])
    values = found.to_pylist()
    assert [len(one["f"]) for one in values] == [3, 0]
    if kind["type"] == "array":
        assert values == read(definition, [payload, b"\0"])


# JSON.


@given(cases(without=("map",)))
def test_what_is_encoded_in_json_is_decoded_the_same_at_once_and_one_by_one(case: Case) -> None:
    definition, values = case
    kind = value_type(definition)
    expected = column(kind, values)
    payloads = encode_lines(kind.fields, expected.flatten())
    convert = from_json(kind) or (lambda one: one)
    assert pa.array([convert(json.loads(one)) for one in payloads], kind.arrow).equals(expected)
    try:
        found = decode_lines(kind, payloads)
    except NotByColumns:
        return
    found.validate(full=True)
    assert found.equals(expected)


@pytest.mark.parametrize(
    "payload",
    [
        b'{"a": 1, "b": "x"}', b'{"b":"\\u00e4\\n","a":-3,"more":[{}]}', b'{"a":1}', b'{"a":null,"b":null}', b"{}",
        b'{"a":1.0,"b":"x"}', b'{"a":1e2,"b":"x"}', b'{"a":true,"b":"x"}', b'{"a":"1","b":"x"}', b'{"a":2147483648}',
        b'{"a":1,"a":2,"b":"x"}', b'{"a":1}{"a":2}', b' {"a":1}', b'{"a":1,"b":"\xff"}', b'{"a":1,"b":"\\ud800"}',
        b'{"a":1,\n"b":"x"}', b'{"a":1,"b":"x"', b"[]", b"null", b"", b'{"a":01}', b'{"a":NaN}', b'{"a":1,}',
        b'{"a":1,"b":"\t"}', b'{"a":1,"b":"\\u0000"}', b'{"a":1, "b":7}', b'{"a":-0}', b'\xef\xbb\xbf{"a":1}',
    ],
)  # fmt: skip
def test_json_of_any_kind_is_decoded_at_once_as_it_is_one_by_one_or_not_at_all(payload: bytes) -> None:
    kind = value_type(record([("a", ["null", "int"]), ("b", ["null", "string"])]))
    convert = from_json(kind) or (lambda one: one)
    for payloads in ([payload], [b'{"a":5,"b":"y"}', payload, b'{"a":6}']):
        try:
            found = decode_lines(kind, payloads)
        except NotByColumns:
            continue
        assert found.equals(pa.array([convert(json.loads(one)) for one in payloads], kind.arrow))


@pytest.mark.parametrize(
    "payloads",
    [
        [b'{"a":1}{"z":{}', b',"a":2}'], [b'{"a":1}\n{"a":2}', b" "], [b'{"a":1,"z":"}', b'{"}'],
        [b'{"a":1}{"z":{}', b'{"a":2}'],
    ],
)  # fmt: skip
def test_a_record_is_never_completed_by_the_next_message(payloads: list[bytes]) -> None:
    with pytest.raises(NotByColumns):
        decode_lines(value_type(record([("a", ["null", "int"])])), payloads)


def test_a_field_that_is_missing_and_has_a_default_is_decoded_one_by_one() -> None:
    kind = value_type({**record([]), "fields": [field("a", "int"), field("b", "string", default="x")]})
    assert decode_lines(kind, [b'{"a":1,"b":"y"}']).to_pylist() == [{"a": 1, "b": "y"}]
    with pytest.raises(NotByColumns):
        decode_lines(kind, [b'{"a":1}'])


def test_timestamps_in_json_may_be_null_and_are_never_wrapped_around() -> None:
    kind = value_type(record([("at", ["null", {"type": "long", "logicalType": "timestamp-millis"}])]))
    found = decode_lines(kind, [b'{"at":-1}', b'{"at":null}', b'{"at":400000000000000}'])
    assert pa.compute.cast(found.field(0), pa.int64()).to_pylist() == [-1000, None, 400_000_000_000_000_000]
    for number in (-(1 << 63), (1 << 63) - 1):
        with pytest.raises(NotByColumns):
            decode_lines(kind, [b'{"at":%d}' % number])


def test_text_is_escaped() -> None:
    texts = ['a"b', "\\", '\\"', "ä\u2028", "/"]
    payloads = encode_lines(value_type(record([('f"', "string")])).fields, [pa.array(texts)])
    assert [json.loads(one) for one in payloads] == [{'f"': text} for text in texts]


def test_common_json_is_decoded_at_once() -> None:
    kind = value_type(
        record(
            [
                ("n", "long"),
                ("text", ["null", "string"]),
                ("price", "double"),
                ("at", {"type": "long", "logicalType": "timestamp-millis"}),
                ("inner", record([("parts", {"type": "array", "items": "int"})], "I")),
            ]
        )
    )
    payload = b'{"n": 1, "text": "a\\"b", "price": 1.5, "at": 1234, "inner": {"parts": [1, 2]}}'
    (found,) = decode_lines(kind, [payload]).to_pylist()
    found["at"] = found["at"].timestamp()
    assert found == {"n": 1, "text": 'a"b', "price": 1.5, "at": 1.234, "inner": {"parts": [1, 2]}}


# Evolution.


OLD = record(
    [("a", "int"), ("b", ["null", "string"]), ("c", "float"), ("gone", "string"), ("r", record([("x", "int")], "I"))]
)
VALUES = [
    {"a": 1, "b": None, "c": 0.5, "gone": "g", "r": {"x": 1}},
    {"a": -2, "b": "t", "c": 1.5, "gone": "", "r": {"x": 2}},
]


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


@pytest.mark.parametrize(
    ("fields", "by_columns"),
    [
        ([field("r", record([("x", "int")], "I")), field("a", "int")], True),
        ([field("a", ["null", "long"]), field("c", "double")], True),
        ([field("a", "int"), field("new", ["null", "int"], default=None), field("also", "string", default="s")], True),
        ([field("r", {**record([], "I"), "fields": [field("y", "int", default=7), field("x", "long")]})], True),
        ([field("a", "double")], False),
        ([field("other", "int", default=1, aliases=["a"])], False),
        ([field("b", "bytes")], False),
        ([field("a", "int"), field("d", {"type": "map", "values": "int"}, default={"k": 1})], False),
    ],
)
def test_messages_of_an_older_schema_are_resolved_as_fastavro_resolves_them(fields: Any, *, by_columns: bool) -> None:
    new = {**record([]), "fields": fields}
    old_kind, kind, payloads = value_type(OLD), value_type(new), written(OLD, VALUES)
    if not by_columns:
        with pytest.raises(NotByColumns):
            resolved(decode_columns(old_kind, payloads), old_kind, kind)
        return
    expected = column(kind, read(OLD, payloads, new))
    assert resolved(decode_columns(old_kind, payloads), old_kind, kind).equals(expected)


@pytest.mark.parametrize("fields", [[field("b", "string")], [field("a", "int"), field("new", "int")]])
def test_messages_that_cannot_be_resolved_are_not_decoded_by_columns(fields: Any) -> None:
    kind = value_type({**record([]), "fields": fields})
    with pytest.raises(NotByColumns):
        resolved(decode_columns(value_type(OLD), written(OLD, VALUES)), value_type(OLD), kind)


# Values that do not fit.


@pytest.mark.parametrize("encode", [encode_columns, encode_lines])
@pytest.mark.parametrize(
    ("kind", "arrow", "value", "says"),
    [
        ("int", pa.int32(), None, "the field f is null, and the schema of the topic says that it is not"),
        (record([("x", "int")], "I"), pa.struct([("x", pa.int32())]), {"x": None}, "the field x is null"),
    ],
)
def test_a_null_where_the_schema_has_none_is_refused(encode: Any, kind: Any, arrow: Any, value: Any, says: str) -> None:
    with pytest.raises(WrongContent, match=says):
        encode(value_type(record([("f", kind)])).fields, [pa.array([value], arrow)])


@pytest.mark.parametrize(
    ("kind", "arrow", "value", "says"),
    [
        (
            {"type": "enum", "name": "E", "symbols": ["A"]},
            pa.string(),
            "B",
            "'B' is none of the symbols of the schema: A",
        ),
        ({"type": "fixed", "name": "F", "size": 3}, pa.binary(), b"ab", "has 3 bytes"),
    ],
)
def test_a_value_that_the_schema_does_not_have_is_refused(kind: Any, arrow: Any, value: Any, says: str) -> None:
    with pytest.raises(WrongContent, match=says):
        encode_columns(value_type(record([("f", kind)])).fields, [pa.array([value], arrow)])


def test_one_very_long_array_is_not_decoded_step_by_step_with_all_messages() -> None:
    definition = record([("f", {"type": "array", "items": "int"})])
    with pytest.raises(NotByColumns):
        decode_columns(value_type(definition), written(definition, [{"f": list(range(10_000))}, {"f": [1]}]))


@pytest.mark.parametrize("encode", [encode_columns, encode_lines])
def test_floats_that_are_no_numbers_are_written_and_read(encode: Any) -> None:
    definition = record([("f", "double")])
    kind = value_type(definition)
    expected = pa.array([float("inf"), float("-inf"), 1.0], pa.float64())
    payloads = encode(kind.fields, [expected])
    convert = from_json(kind) or (lambda one: one)
    values = read(definition, payloads) if encode is encode_columns else [convert(json.loads(one)) for one in payloads]
    assert [one["f"] for one in values] == expected.to_pylist()
