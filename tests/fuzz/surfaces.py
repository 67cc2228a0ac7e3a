"""What else comes from outside: names and URLs of users, values of other programs, encrypted entries, HTTP requests.

Each function takes any bytes. Only the errors that are documented may escape, and what was understood must mean the
same when it is written and read again.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Any, TypeVar

from google.protobuf.message import DecodeError

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.web.calls import BrokerUrls, WebContext
from pulsar_actors.broker.web.server import WebServer
from pulsar_actors.exceptions import CryptoError, PulsarException, UndecodableMessage, WrongContent
from pulsar_actors.runtime.message_crypto import ConsumerKeys, new_data_key
from pulsar_actors.runtime.schema_versions import StoredSchema
from pulsar_actors.schema import (
    Array,
    AvroSchema,
    BooleanSchema,
    Bytes,
    DateSchema,
    Double,
    DoubleSchema,
    FloatSchema,
    InstantSchema,
    Int8Schema,
    Int16Schema,
    Int32Schema,
    Int64Schema,
    JsonSchema,
    KeyValueEncodingType,
    KeyValueSchema,
    LocalDateSchema,
    LocalDateTimeSchema,
    LocalTimeSchema,
    Long,
    Map,
    Record,
    Schema,
    SchemaType,
    String,
    StringSchema,
    TimeSchema,
    TimestampSchema,
)
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata
from pulsar_actors.wire.service_url import ServiceUrl
from pulsar_actors.wire.topic_name import TopicName
from tests.support.bench_loop import BenchLoop, Wire

_T = TypeVar("_T")


def tried(call: Callable[..., _T], *arguments: Any) -> _T | None:
    """Call what may refuse its arguments."""
    try:
        return call(*arguments)
    except PulsarException:
        return None


def text_of(data: bytes) -> str:
    """Return any text, also one with halves of surrogate pairs."""
    return data.decode("utf-8", "surrogatepass" if len(data) % 2 else "replace") if _is_text(data) else repr(data)


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True


def topic_name(data: bytes) -> None:
    """A topic name."""
    found = tried(TopicName.parse, text_of(data))
    if found is not None:
        assert TopicName.parse(str(found)) == found
        assert str(found).encode()


def service_url(data: bytes) -> None:
    """A service URL."""
    found = tried(ServiceUrl.parse, text_of(data))
    if found is not None:
        assert ServiceUrl.parse(str(found)) == found
        assert all(0 < port < 65536 for _, port in found.hosts)


DEFINITION: dict[str, Any] = {
    "type": "record",
    "name": "Visit",
    "fields": [
        {"name": "name", "type": "string"},
        {"name": "at", "type": "long"},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
        {"name": "sizes", "type": {"type": "map", "values": "double"}, "default": {}},
        {"name": "more", "type": ["null", "bytes", "int"], "default": None},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "A"},
        {"name": "next", "type": ["null", "Visit"], "default": None},
    ],
}
AVRO = AvroSchema(None, DEFINITION)


class Visit(Record):
    """A record of the official client's kind."""

    name = String(required=True)
    at = Long()
    tags = Array(String())
    sizes = Map(Double())
    more = Bytes()


@dataclass
class Call:
    """A record of type hints."""

    name: str
    at: int = 0
    tags: list[str] = field(default_factory=list)
    more: bytes | None = None
    day: date | None = None


SCHEMAS: list[Schema] = [
    StringSchema(),
    BooleanSchema(),
    Int8Schema(),
    Int16Schema(),
    Int32Schema(),
    Int64Schema(),
    FloatSchema(),
    DoubleSchema(),
    DateSchema(),
    TimeSchema(),
    TimestampSchema(),
    InstantSchema(),
    LocalDateSchema(),
    LocalTimeSchema(),
    LocalDateTimeSchema(),
    JsonSchema(Visit),
    JsonSchema(Call),
    AvroSchema(Visit),
    AvroSchema(Call),
    AVRO,
    KeyValueSchema(StringSchema(), AVRO, KeyValueEncodingType.INLINE),
]


def value(data: bytes) -> None:
    """A schema (one byte), and what is decoded with it."""
    if not data:
        return
    schema = SCHEMAS[data[0] % len(SCHEMAS)]
    try:
        decoded = schema.decode(data[1:])
    except (UndecodableMessage, UnicodeDecodeError):  # the latter from StringSchema, as in the official client
        return
    try:
        encoded = schema.encode(decoded)
    except WrongContent:
        assert has_wide_int(decoded)
        return
    assert repr(schema.decode(encoded)) == repr(decoded)


def has_wide_int(decoded: Any) -> bool:
    """Tell whether an `int` of a visit has over 32 bits, which Avro libraries for Python read, but do not write."""
    if isinstance(decoded, tuple):
        return any(map(has_wide_int, decoded))
    if not isinstance(decoded, dict):
        return False
    more = decoded["more"]
    return (isinstance(more, int) and not -(2**31) <= more < 2**31) or has_wide_int(decoded["next"])


def written(data: bytes) -> None:
    """The length of a writer's schema (two bytes), that schema, and what is decoded with it."""
    size = int.from_bytes(data[:2], "big")
    stored = StoredSchema(SchemaType.AVRO, data[2 : 2 + size], {}, b"\0")
    AVRO._writers.clear()
    try:
        AVRO.decode_written(data[2 + size :], stored)
    except UndecodableMessage:
        return


class _Pair:
    """A pair of RSA keys, made when it is first needed."""

    private = public = b""

    @classmethod
    def read(cls, kind: str) -> tuple[bytes, Mapping[str, str]]:
        if not cls.private:
            from cryptography.hazmat.primitives import serialization as form  # noqa: PLC0415 - slow to load
            from cryptography.hazmat.primitives.asymmetric import rsa  # noqa: PLC0415 - the same

            pair = rsa.generate_private_key(65537, 1024)  # noqa: S505 - it protects nothing, and takes a tenth of the time
            cls.private = pair.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
            cls.public = pair.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo)
        return (cls.private if kind == "private" else cls.public), {}


def encrypted(data: bytes) -> None:
    """How to change a good entry (one byte), the metadata of an entry, and its payload after a zero byte."""
    how, rest = data[:1], data[1:]
    header, _, payload = rest.partition(b"\0\0")
    try:
        metadata = MessageMetadata.FromString(header)
    except DecodeError:
        metadata = MessageMetadata(producer_name="p", sequence_id=1, publish_time=1)
    if how and how[0] % 2:
        key = new_data_key(["k"], lambda *_: _Pair.read("public"), 0.0)
        payload = key.encrypt(metadata, payload)
        metadata.encryption_param = bytes(metadata.encryption_param)[: how[0] // 16]
    keys = ConsumerKeys(lambda *_: _Pair.read("private"), lambda: 0.0)
    with suppress(CryptoError):
        keys.decrypt(metadata, payload, {})


def http(data: bytes) -> None:
    """What comes on an HTTP connection of the broker, in two pieces. The first byte says where it is split."""
    loop, wire = BenchLoop(), Wire()
    urls = BrokerUrls("pulsar://here:1", "", "http://here:3", "")
    server = WebServer(WebContext(Cluster(loop, None), loop, "here", lambda _: urls), None)
    connection = server.accept(wire, "peer")
    at = data[0] * len(data) // 256 if data else 0
    for piece in (data[1 : at + 1], data[at + 1 :]):
        if piece and not wire.closed:
            connection.received(piece)
            loop.run()
    answer = bytes(wire.written)
    assert not answer or answer.startswith(b"HTTP/1.1 ")
    assert b"a bug of the embedded broker" not in answer, answer
    for part in answer.split(b"HTTP/1.1 ")[1:]:
        head, _, body = part.partition(b"\r\n\r\n")
        if b"application/json" in head and body and b"content-length" in head.lower():
            json.loads(body.decode())
    loop.advance(200.0)
    assert wire.closed or not data


SURFACES: list[Callable[[bytes], None]] = [topic_name, service_url, value, written, encrypted, http]
