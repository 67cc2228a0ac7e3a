"""`produce` and `consume` on the embedded broker: what one writes is what the other reads, and what clients have."""

import io
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

import pulsar_actors as pulsar
from pulsar_actors.__main__ import main
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.schema import AvroSchema, JsonSchema, Record, String, StringSchema
from tests.support.life import closed_port
from tests.support.topics import terminate

Command = Callable[..., str]
DEFINITION = {"type": "record", "name": "Fruit", "fields": [{"name": "kind", "type": "string"}]}


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url) as client:
        yield client


@pytest.fixture
def command(broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Run a command on the broker, with this as its standard input, and return what it writes."""

    def ran(*words: str, status: int = 0, given: bytes = b"", says: str = "") -> str:
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(given)))
        assert main([*words, "-u", broker.service_url]) == status
        said = capsys.readouterr()
        assert says in said.err, said.err
        return said.out

    return ran


def stored(client: pulsar.Client, topic: str, **options: Any) -> list[pulsar.Message]:
    reader = client.create_reader(topic, pulsar.MessageId.earliest, **options)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(10_000))
    return found


def everything(topic: str, count: int) -> list[str]:
    return ["consume", topic, "-p", "Earliest", "-n", str(count)]


def test_each_line_of_the_input_is_a_message(command: Command, client: pulsar.Client) -> None:
    command("produce", "t", given=b"one\r\n\xff\x00\n\nlast", says="messages stored on t: 4\n")
    assert [message.data() for message in stored(client, "t")] == [b"one", b"\xff\x00", b"", b"last"]


def test_messages_and_files_are_sent_in_turn_and_as_often_as_is_asked_for(
    command: Command, client: pulsar.Client, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"two\nlines\n")
    command(*("produce", "t", "-m", "a", "-m", "b", "-f", str(tmp_path / "file"), "-n", "2", "-k", "key", "-p", "x=1"))
    found = stored(client, "t")
    assert [message.data() for message in found] == [b"a", b"b", b"two\nlines\n"] * 2
    assert {(message.partition_key(), message.properties()["x"]) for message in found} == {("key", "1")}


def test_an_empty_line_of_json_is_skipped(command: Command, client: pulsar.Client) -> None:
    given = b'{"payload": "one"}\n\n  \r\n{"payload": "two"}\n\nno JSON\n'
    command("produce", "t", "--json", given=given, status=1, says="line 6: a line is an object of JSON")
    assert [message.data() for message in stored(client, "t")] == [b"one", b"two"]


@pytest.mark.parametrize(("name", "says"), [("none", "there is no file '{}'"), ("folder", "'{}' is a folder")])
def test_a_file_that_cannot_be_read_is_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, says: str
) -> None:
    (tmp_path / "folder").mkdir()
    file = str(tmp_path / name)
    with pytest.raises(SystemExit) as ended:
        main(["produce", "t", "-m", "a", "-f", file])
    assert ended.value.code == 2
    assert f"argument -f/--file: {says.format(file)}" in capsys.readouterr().err


def test_what_consume_writes_in_json_produce_reads(command: Command, client: pulsar.Client) -> None:
    producer = client.create_producer("from")
    producer.send(b"\xff", {"a": "1"}, "key", "order", event_timestamp=17)
    producer.send("größer".encode())
    producer.send(None, partition_key="gone")
    lines = command(*everything("from", 3), "--json")
    command("produce", "to", "--json", given=lines.encode())

    def facts(message: pulsar.Message) -> tuple[Any, ...]:
        own = message.data(), message.properties(), message.partition_key(), message.ordering_key()
        return *own, message.event_timestamp(), message.has_null_value()

    assert [facts(message) for message in stored(client, "to")] == [
        facts(message) for message in stored(client, "from")
    ]
    first = json.loads(lines.splitlines()[0])
    assert (first["payload_base64"], first["topic"], first["id"]) == (
        "/w==",
        "persistent://public/default/from",
        str(stored(client, "from")[0].message_id()),
    )


def test_a_value_of_bytes_is_the_payload(command: Command, client: pulsar.Client) -> None:
    producer = client.create_producer("t")
    producer.send(b"plum")
    producer.send(b"\xff")
    auto = [*everything("t", 2), "--schema", "auto"]
    assert command(*auto) == "plum\n\\xff\n"
    first, second = (json.loads(line) for line in command(*auto, "--json").splitlines())
    assert (first["payload"], second["payload_base64"]) == ("plum", "/w==")
    assert "value" not in first


def test_bytes_in_a_value_are_written_as_avro_writes_them_in_json(command: Command, client: pulsar.Client) -> None:
    class Photo(pulsar.schema.Record):
        pixels = pulsar.schema.Bytes()

    client.create_producer("t", schema=pulsar.schema.AvroSchema(Photo)).send(Photo(pixels=b"\x00\xffA"))
    line = json.loads(command(*everything("t", 1), "--schema", "auto", "--json"))
    assert line["value"] == {"pixels": "\x00\xffA"}


PART = {"type": "record", "name": "Part", "fields": [{"name": "b", "type": "bytes"}]}
NOON = datetime(2020, 1, 31, 12, 0, 0, 250_000, timezone.utc)
TYPES_AND_VALUES: list[tuple[Any, list[Any]]] = [
    ("bytes", [b"", b"\x00\xffA"]),
    ({"type": "fixed", "name": "F", "size": 2}, [b"\xff\x00"]),
    ({"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}, [Decimal("-1.25"), Decimal("1E+3")]),
    ({"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 9}, [Decimal(7)]),
    ({"type": "int", "logicalType": "date"}, [NOON.date()]),
    ({"type": "int", "logicalType": "time-millis"}, [NOON.time()]),
    ({"type": "long", "logicalType": "time-micros"}, [NOON.time()]),
    ({"type": "long", "logicalType": "timestamp-millis"}, [NOON]),
    ({"type": "long", "logicalType": "timestamp-micros"}, [NOON]),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, [NOON.replace(tzinfo=None)]),
    ({"type": "long", "logicalType": "local-timestamp-micros"}, [NOON.replace(tzinfo=None)]),
    ({"type": "string", "logicalType": "uuid"}, [UUID(int=1)]),
    ({"type": "bytes", "logicalType": "unheard-of"}, [b"\xff"]),
    ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, ["B"]),
    (["null", "bytes"], [None, b"\xff"]),
    (["null", {"type": "long", "logicalType": "timestamp-millis"}], [None, NOON]),
    (["bytes", "string", "double", {"type": "enum", "name": "E", "symbols": ["A"]}], ["text", "A", 1.5]),
    ([{"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "boolean"], [Decimal("2.50"), True]),
    ({"type": "array", "items": ["int", "bytes"]}, [[1, b"\xff"]]),
    ({"type": "map", "values": {"type": "array", "items": "bytes"}}, [{"a": [b"\xff"]}]),
    (PART, [{"b": b"\xff"}]),
    ([{**PART, "name": "Other", "fields": [{"name": "o", "type": "bytes"}]}, PART], [{"b": b"\xff"}, {"o": b"\xfe"}]),
    ([PART, {"type": "map", "values": "bytes"}], [{"b": b"\xff"}, {"x": b"\xff", "y": b""}]),
]


@pytest.mark.parametrize(("of", "values"), TYPES_AND_VALUES, ids=lambda given: str(given)[:60])
def test_what_consume_writes_of_avro_in_json_produce_reads(
    command: Command, client: pulsar.Client, tmp_path: Path, of: Any, values: list[Any]
) -> None:
    definition = {"type": "record", "name": "R", "fields": [{"name": "a", "type": of}]}
    (tmp_path / "r.avsc").write_text(json.dumps(definition))
    schema, asked = AvroSchema(None, schema_definition=definition), ["--schema", f"avro:{tmp_path / 'r.avsc'}"]
    producer = client.create_producer("from", schema=schema)
    for value in values:
        producer.send({"a": value})
    lines = command(*everything("from", len(values)), "--schema", "auto", "--json")
    command("produce", "to", *asked, "--json", given=lines.encode())
    alone = "".join(f"{json.dumps(json.loads(line)['value'])}\n" for line in lines.splitlines())
    command("produce", "to", *asked, given=alone.encode())
    sent = [repr(message.value()) for message in stored(client, "from", schema=schema)]
    assert [repr(message.value()) for message in stored(client, "to", schema=schema)] == [*sent, *sent]


def test_a_record_that_contains_itself_is_read_in_json(command: Command, client: pulsar.Client, tmp_path: Path) -> None:
    fields = [{"name": "b", "type": "bytes"}, {"name": "next", "type": ["null", "Node"], "default": None}]
    definition = {"type": "record", "name": "Node", "namespace": "of.lists", "fields": fields}
    (tmp_path / "node.avsc").write_text(json.dumps(definition))
    given = '{"b": "\u00ff", "next": {"b": "\u00fe"}}'.encode()
    command("produce", "t", "--schema", f"avro:{tmp_path / 'node.avsc'}", given=given)
    (found,) = stored(client, "t", schema=AvroSchema(None, schema_definition=definition))
    assert found.value() == {"b": b"\xff", "next": {"b": b"\xfe", "next": None}}


@pytest.mark.parametrize(
    ("of", "value", "says"),
    [
        ("bytes", "€", "'€' has characters that are no bytes"),
        ("long", "7", "'7' is no value of the type long"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "B", "'B' is no value of the type enum"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, "x", "'x' is no decimal"),
        (
            {"type": "long", "logicalType": "timestamp-millis"},
            "2020-01-31 12:00",
            "'2020-01-31 12:00' needs a time zone",
        ),
        (
            {"type": "long", "logicalType": "local-timestamp-millis"},
            "2020-01-31T12:00Z",
            "'2020-01-31T12:00Z' has a time zone",
        ),
        ({"type": "int", "logicalType": "date"}, "soon", "Invalid isoformat string: 'soon'"),
    ],
)
def test_a_text_that_is_no_value_of_its_field_is_told(
    command: Command, tmp_path: Path, of: Any, value: str, says: str
) -> None:
    definition = {"type": "record", "name": "R", "fields": [{"name": "a", "type": of}]}
    (tmp_path / "r.avsc").write_text(json.dumps(definition))
    words = "produce", "t", "--schema", f"avro:{tmp_path / 'r.avsc'}"
    command(*words, "--json", given=json.dumps({"value": {"a": value}}).encode(), status=1, says=f"line 1: a: {says}")
    command(*words, given=json.dumps({"a": value}).encode(), status=1, says=f"failed: WrongContent: a: {says}")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("no JSON", "line 2: a line is an object of JSON: "),
        ("[" * 100_000, "line 2: a line is an object of JSON: "),
        ("[1]", "line 2: a line is an object of JSON, not list"),
        ("{}", "line 2: a line has a payload, a payload_base64 or a value"),
        ('{"payload": 7}', "line 2: payload is a str here, not int"),
        ('{"payload_base64": "?"}', "line 2: payload: "),
        ('{"payload": "a", "payload_base64": "YQ=="}', "line 2: a line has payload or payload_base64, and not both"),
        ('{"payload": "\\ud800"}', "line 2: payload: "),
        ('{"payload": "a", "properties": []}', "line 2: properties is a dict here, not list"),
        ('{"payload": "a", "properties": {"a": 1}}', "properties"),
        ('{"payload": "a", "event_time": true}', "line 2: event_time is a int here, not bool"),
        ('{"payload": "a", "colour": "red"}', "line 2: a message has no colour"),
        ('{"value": {"a": 1}}', "line 2: value is for a producer with a schema"),
    ],
)
def test_a_line_that_cannot_be_sent_ends_it_and_what_came_before_is_sent(
    command: Command, client: pulsar.Client, line: str, says: str
) -> None:
    given = f'{{"payload": "first"}}\n{line}\n{{"payload": "third"}}\n'.encode()
    command("produce", "t", "--json", given=given, status=1, says=says)
    assert [message.data() for message in stored(client, "t")] == [b"first"]


def test_values_are_encoded_by_a_schema_and_decoded_by_that_of_each_message(
    command: Command, client: pulsar.Client, tmp_path: Path
) -> None:
    file = tmp_path / "fruit.avsc"
    file.write_text(json.dumps(DEFINITION))
    command("produce", "avro", "--schema", f"avro:{file}", given=b'{"kind": "pear"}\n')
    command("produce", "avro", "--schema", f"avro:{file}", "--json", given=b'{"value": {"kind": "plum"}, "key": "k"}\n')
    schema = AvroSchema(None, schema_definition=DEFINITION)
    assert [message.value() for message in stored(client, "avro", schema=schema)] == [
        {"kind": "pear"},
        {"kind": "plum"},
    ]
    lines = [json.loads(line) for line in command(*everything("avro", 2), "--schema", "auto", "--json").splitlines()]
    assert [(line["value"], line.get("key")) for line in lines] == [({"kind": "pear"}, None), ({"kind": "plum"}, "k")]
    assert command(*everything("avro", 2), "--schema", "auto") == "{'kind': 'pear'}\n{'kind': 'plum'}\n"


def test_text_has_a_schema_of_its_own(command: Command, client: pulsar.Client) -> None:
    command("produce", "text", "--schema", "string", given="größer\n".encode())
    assert [message.value() for message in stored(client, "text", schema=StringSchema())] == ["größer"]
    assert command(*everything("text", 1), "--schema", "string") == "größer\n"


class Fruit(Record):
    kind = String()


def test_bytes_must_fit_the_schema_of_a_topic_that_has_one(command: Command, client: pulsar.Client) -> None:
    client.create_producer("fruit", schema=JsonSchema(Fruit)).send(Fruit(kind="pear"))
    command("produce", "fruit", "--schema", "auto", given=b'{"kind": "plum"}\n')
    command("produce", "fruit", "--schema", "auto", given=b"plum\n", status=1, says="failed: WrongContent")
    assert [message.value().kind for message in stored(client, "fruit", schema=JsonSchema(Fruit))] == ["pear", "plum"]


@pytest.mark.parametrize(
    "schema", ["nonsense", "avro", "avro:", "avro:/no/such/file", "avro:deep", "json", "json:deep"]
)
def test_a_schema_that_is_none_is_refused_with_the_usage(
    schema: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deep").write_text("[" * 100_000)
    with pytest.raises(SystemExit):
        main(["produce", "t", "--schema", schema])
    assert "argument --schema: " in capsys.readouterr().err


AUTO = ["--schema", "auto", "--json"]


def test_values_of_a_json_topic_go_round(command: Command, client: pulsar.Client, tmp_path: Path) -> None:
    (tmp_path / "fruit.json").write_text(json.dumps(DEFINITION))
    command("produce", "from", "--schema", f"json:{tmp_path / 'fruit.json'}", given=b'{"kind": "pear"}\n')
    lines = command(*everything("from", 1), *AUTO)
    assert json.loads(lines)["value"] == {"kind": "pear"}
    command("produce", "to", "--schema", f"json:{tmp_path / 'fruit.json'}", "--json", given=lines.encode())
    command("produce", "to", *AUTO, given=lines.encode())
    pears = stored(client, "to", schema=JsonSchema(Fruit))
    assert [message.value().kind for message in pears] == ["pear", "pear"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (AvroSchema(None, schema_definition=PART), {"b": b"\xff"}),
        (StringSchema(), "pear"),
        (pulsar.schema.BooleanSchema(), True),
        (pulsar.schema.Int64Schema(), -7),
        (pulsar.schema.DoubleSchema(), 1.5),
    ],
    ids=lambda given: str(given)[:30],
)
def test_values_go_round_by_the_schema_of_their_topic(
    command: Command, client: pulsar.Client, schema: Any, value: object
) -> None:
    client.create_producer("from", schema=schema).send(value)
    client.create_producer("to", schema=schema)
    command("produce", "to", *AUTO, given=command(*everything("from", 1), *AUTO).encode())
    assert [message.value() for message in stored(client, "to", schema=schema)] == [value]


def test_a_value_that_the_topic_takes_none_of_is_told(command: Command, client: pulsar.Client) -> None:
    pair = pulsar.schema.KeyValueSchema(StringSchema(), StringSchema())
    client.create_producer("pairs", schema=pair)
    says = "failed: WrongContent: a topic with a schema of the type KEY_VALUE takes no values of JSON: send a payload"
    command("produce", "pairs", *AUTO, given=b'{"value": ["a", "b"]}', status=1, says=says)
    command("produce", "plain", *AUTO, given=b'{"value": 7}', status=1, says="failed: WrongContent: ")


def test_a_message_above_the_limit_travels_in_pieces_if_that_is_asked_for(command: Command, tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(6_000_000))
    large = "produce", "t", "-f", str(tmp_path / "large")
    command(*large, status=1, says="failed: 1, the first with MessageTooBig: --chunking sends it in pieces\n")
    command(*large, "--chunking", "-m", "small", says="messages stored on t: 2\n")
    assert command(*everything("t", 2)) == f"small\n{bytes(6_000_000).decode()}\n"


def test_a_subscription_goes_on_where_it_was_and_a_reader_leaves_nothing(
    command: Command, client: pulsar.Client
) -> None:
    producer = client.create_producer("t")
    for content in (b"1", b"2", b"3"):
        producer.send(content)
    assert command(*everything("t", 3)) == "1\n2\n3\n"
    assert command("consume", "t", "-s", "s", "-p", "Earliest", "-n", "2") == "1\n2\n"
    assert command("consume", "t", "-s", "s", "-n", "1") == "3\n"
    assert command("consume", "t", "-s", "s", "-w", "0.1") == ""


def test_a_subscription_goes_on_within_a_batch(command: Command) -> None:
    command("produce", "t", "-m", "one", "-m", "two", "-m", "three")
    one = ("consume", "t", "-s", "s", "-p", "Earliest", "-n", "1")
    assert [command(*one) for _ in range(3)] == ["one\n", "two\n", "three\n"]


@pytest.mark.parametrize(("words", "entries"), [([], 1), (["--no-batching"], 2)])
def test_messages_travel_alone_if_that_is_asked_for(
    command: Command, client: pulsar.Client, words: list[str], entries: int
) -> None:
    command("produce", "t", "-m", "one", "-m", "two", *words)
    ids = [message.message_id() for message in stored(client, "t")]
    assert len({(each.ledger_id(), each.entry_id()) for each in ids}) == entries


@pytest.mark.parametrize("words", [[], ["-s", "s"], ["-s", "s", "-w", "5"]])
def test_the_end_of_a_terminated_topic_is_a_regular_end(
    broker: EmbeddedBroker, command: Command, client: pulsar.Client, words: list[str]
) -> None:
    client.create_producer("t").send(b"last")
    terminate(broker, "t")
    says = "end: the topic takes no more messages, and all that it has are received\n"
    assert command("consume", "t", "-p", "Earliest", *words, says=says) == "last\n"


def test_a_subscription_that_the_broker_refuses_as_terminated_is_an_error(
    broker: EmbeddedBroker, command: Command
) -> None:
    broker.faults.on("subscribe").refuse("TopicTerminatedError", "gone")
    command("consume", "t", "-s", "s", status=1, says="failed: ")


def test_several_topics_and_a_pattern(command: Command, client: pulsar.Client) -> None:
    for topic in ("one", "only", "two"):
        client.create_producer(topic).send(topic.encode())
    assert sorted(command("consume", "one", "two", "-p", "Earliest", "-n", "2").split()) == ["one", "two"]
    pattern = ["consume", "public/default/on.*", "--regex", "-p", "Earliest", "-n", "2"]
    assert sorted(command(*pattern, "-s", "s").split()) == ["one", "only"]
    with pytest.raises(SystemExit):
        command(*pattern)


@pytest.mark.parametrize(
    ("topics", "says"),
    [
        (["["], "'[' is no pattern: unterminated character set"),
        (["one", "two"], "--regex takes one pattern, such as 'one|two'"),
    ],
)
def test_a_pattern_that_is_none_is_refused_with_the_usage(
    topics: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["consume", *topics, "-s", "s", "--regex"])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize("words", [[], ["--json"]])
def test_values_that_are_nested_too_deep_end_it_with_a_line_and_what_came_before_is_sent(
    command: Command, client: pulsar.Client, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "fruit.avsc").write_text(json.dumps(DEFINITION))
    pear, deep = '{"kind": "pear"}', "[" * 100_000
    lines = [f'{{"value": {one}}}' if words else one for one in (pear, deep)]
    says = "messages stored on t: 1\nfailed: "
    options = ["--schema", f"avro:{tmp_path / 'fruit.avsc'}", *words]
    command("produce", "t", *options, given="\n".join(lines).encode(), status=1, says=says)
    assert len(stored(client, "t", schema=AvroSchema(None, schema_definition=DEFINITION))) == 1


def test_values_as_deep_as_json_can_be_end_it_with_a_line(command: Command, tmp_path: Path) -> None:
    fields = [{"name": "next", "type": ["null", "Node"]}]
    (tmp_path / "node.avsc").write_text(json.dumps({"type": "record", "name": "Node", "fields": fields}))
    deep = '{"next": ' * 700 + "null" + "}" * 700
    options = ["--schema", f"avro:{tmp_path / 'node.avsc'}"]
    command("produce", "t", *options, given=deep.encode(), status=1, says="messages stored on t: 0\nfailed: ")
    line = f'{{"value": {deep}}}'
    command("produce", "t", *options, "--json", given=line.encode(), status=1, says="failed: InvalidMessage: line 1: ")


def test_verbose_says_what_a_message_is(command: Command, client: pulsar.Client) -> None:
    client.create_producer("t").send(b"x", {"a": "1"}, "k")
    (found,) = stored(client, "t")
    assert command(*everything("t", 1), "-v") == f"{found.message_id()} persistent://public/default/t key=k a=1\nx\n"


def test_a_terminal_gets_no_control_characters_of_a_message(
    command: Command, client: pulsar.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.create_producer("t").send(b"\x1b[2m\x1b[31mred\ttab\x07\xc2\x9b", {"a": "\x1b"})
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    head, content = command(*everything("t", 1), "-v").splitlines()
    assert content == "\\x1b[2m\\x1b[31mred\ttab\\x07\\x9b"
    assert (head[:5], head[-10:]) == ("\x1b[2m(", "a=\\x1b\x1b[0m")


def test_a_terminal_is_shown_how_many_there_were_unless_it_shows_the_messages(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def said_by(*words: str) -> str:
        assert main([*words, "-u", broker.service_url]) == 0
        return capsys.readouterr().err

    produce, consume, result = ("produce", "t", "-m", "a"), everything("t", 1), "messages stored on t: 1\n"
    monkeypatch.setattr("pulsar_actors.cli.message_counter._SECONDS", 0.0)
    assert (said_by(*produce), said_by(*consume)) == (result, "")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    counted = "\r1 messages\r\x1b[K"
    assert (said_by(*produce), said_by(*consume)) == (counted + result, counted)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert said_by(*consume) == ""


@pytest.mark.parametrize("words", [["produce", "t", "-m", "a"], ["consume", "t"]])
def test_the_name_of_an_error_is_said_once(
    broker: EmbeddedBroker, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    broker.faults.on("lookup").refuse("TopicNotFound", "no such topic")
    assert main([*words, "-u", broker.service_url]) == 1
    assert capsys.readouterr().err == "failed: TopicNotFound: no such topic\n"


def test_a_message_that_fails_is_counted(broker: EmbeddedBroker, command: Command) -> None:
    broker.faults.on("send").refuse("TopicTerminatedError", "no more")
    command("produce", "t", "-m", "a", status=1, says="failed: 1, the first with TopicTerminated")


@pytest.mark.parametrize("words", [["produce", "t", "-m", "a"], ["consume", "t"]])
def test_a_broker_that_is_not_there_is_an_error_of_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with closed_port() as url:
        assert main([*words, "-u", url, "--timeout", "0.5"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("failed: ")
    assert len(said.splitlines()) == 1


def program(broker: EmbeddedBroker, *words: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "pulsar_actors", *words, "-u", broker.service_url]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)  # noqa: S603


def test_ctrl_c_ends_consume_with_the_status_0(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    client.create_producer("t").send(b"x")
    with program(broker, "consume", "t", "-p", "Earliest") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "x\n"
        running.send_signal(signal.SIGINT)
        assert running.communicate(timeout=30) == ("", "")
        assert running.returncode == 0


def test_who_reads_the_output_may_go_away(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    producer = client.create_producer("t")
    with program(broker, "consume", "t", "-s", "s") as running:
        assert running.stdout is not None
        running.stdout.close()
        while running.poll() is None:
            producer.send(bytes(1000))
        assert running.returncode == 0
        assert running.stderr is not None
        assert running.stderr.read() == ""


def test_lines_are_sent_as_they_come(broker: EmbeddedBroker, client: pulsar.Client) -> None:
    consumer = client.subscribe("t", "s")
    with program(broker, "produce", "t", stdin=subprocess.PIPE) as running:
        assert running.stdin is not None
        for line in ("first", "second"):
            running.stdin.write(f"{line}\n")
            running.stdin.flush()
            assert consumer.receive(20_000).data() == line.encode()
        out, said = running.communicate(timeout=30)
        assert (out, said) == ("", "messages stored on t: 2\n")


def test_a_rate_is_kept(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(
        "pulsar_actors.cli.produce.time", SimpleNamespace(monotonic=lambda: sum(slept), sleep=slept.append)
    )
    command("produce", "t", "-m", "a", "-n", "11", "-r", "10")
    assert sum(slept) == pytest.approx(1.0)
