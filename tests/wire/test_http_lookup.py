import json
from typing import Any

import pytest

from pulsar_actors.exceptions import InternalError, InvalidTopicName, Misdirected
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.http_lookup import error_of_status, parse_answer, parse_reason, request_path

TOPIC = pb.CommandLookupTopic(topic="persistent://public/default/t", request_id=0)
PARTITIONS = pb.CommandPartitionedTopicMetadata(topic="persistent://public/default/t", request_id=0)
TOPICS = pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=0)
SCHEMA = pb.CommandGetSchema(topic="persistent://public/default/t", request_id=0)


def lookup(topic: str, **more: Any) -> pb.CommandLookupTopic:
    return pb.CommandLookupTopic(topic=topic, request_id=0, **more)


PATHS = [
    (TOPIC, "/lookup/v2/topic/persistent/public/default/t"),
    (lookup("non-persistent://a/b/c"), "/lookup/v2/topic/non-persistent/a/b/c"),
    (lookup("persistent://a/b/x ü"), "/lookup/v2/topic/persistent/a/b/x%20%C3%BC"),
    (lookup("persistent://a/us/b/c/d"), "/lookup/v2/destination/persistent/a/us/b/c%2Fd"),
    (
        lookup("persistent://a/b/c", advertised_listener_name="in side&x"),
        "/lookup/v2/topic/persistent/a/b/c?listenerName=in+side%26x",
    ),
    (PARTITIONS, "/admin/v2/persistent/public/default/t/partitions?checkAllowAutoCreation=true"),
    (
        pb.CommandPartitionedTopicMetadata(
            topic="persistent://a/us/b/c", request_id=0, metadata_auto_creation_enabled=False
        ),
        "/admin/persistent/a/us/b/c/partitions?checkAllowAutoCreation=false",
    ),
    (TOPICS, "/admin/v2/namespaces/public/default/topics?mode=PERSISTENT"),
    (
        pb.CommandGetTopicsOfNamespace(namespace="a/us/b", request_id=0, mode=pb.CommandGetTopicsOfNamespace.ALL),
        "/admin/namespaces/a/us/b/destinations?mode=ALL",
    ),
    (SCHEMA, "/admin/v2/schemas/public/default/t/schema"),
    (
        pb.CommandGetSchema(topic="persistent://a/b/c", request_id=0, schema_version=(7).to_bytes(8, "big")),
        "/admin/v2/schemas/a/b/c/schema/7",
    ),
]


@pytest.mark.parametrize(("command", "path"), PATHS)
def test_each_question_has_its_path(command: Any, path: str) -> None:
    assert request_path(command) == path


def test_a_command_that_has_no_http_form_is_an_internal_error() -> None:
    for ask in (request_path, lambda command: parse_answer(command, b"{}")):
        with pytest.raises(InternalError, match="CommandPing has no form in HTTP"):
            ask(pb.CommandPing())


def test_a_topic_that_would_walk_about_in_a_path_is_refused() -> None:
    with pytest.raises(InvalidTopicName):
        request_path(lookup("persistent://a/b/.."))


@pytest.mark.parametrize("tls_name", ["brokerUrlTls", "brokerUrlSsl"])
def test_a_lookup_is_answered_with_both_addresses_of_a_broker(tls_name: str) -> None:
    body = {"brokerUrl": "pulsar://b:1", tls_name: "pulsar+ssl://b:2", "httpUrl": "http://b:3"}
    answer = parse_answer(TOPIC, json.dumps(body).encode())
    assert isinstance(answer, pb.CommandLookupTopicResponse)
    assert answer.response == pb.CommandLookupTopicResponse.Connect
    assert (answer.brokerServiceUrl, answer.brokerServiceUrlTls) == ("pulsar://b:1", "pulsar+ssl://b:2")
    assert not answer.proxy_through_service_url


def test_a_broker_may_have_one_address_alone() -> None:
    answer: Any = parse_answer(TOPIC, b'{"brokerUrl": null, "brokerUrlTls": "pulsar+ssl://b:2"}')
    assert (answer.brokerServiceUrl, answer.brokerServiceUrlTls) == ("", "pulsar+ssl://b:2")


def test_partitions_are_counted_and_topics_are_listed() -> None:
    partitions: Any = parse_answer(PARTITIONS, b'{"partitions": 3, "deleted": false}')
    assert partitions.partitions == 3
    topics: Any = parse_answer(TOPICS, b'["persistent://public/default/a"]')
    assert list(topics.topics) == ["persistent://public/default/a"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("NONE", "None"), ("BYTES", "None"), ("BOOLEAN", "Bool"), ("JSON", "Json"), ("INT8", "Int8")),
        *(("PROTOBUF_NATIVE", "ProtobufNative"), ("LOCAL_DATE_TIME", "LocalDateTime"), ("AVRO", "Avro")),
    ],
)
def test_the_names_of_schemas_are_those_of_the_binary_protocol(name: str, kind: str) -> None:
    body = {"version": 2, "type": name, "data": "{}", "properties": {"a": "b"}}
    answer: Any = parse_answer(SCHEMA, json.dumps(body).encode())
    assert answer.schema.type == pb.Schema.Type.Value(kind)
    assert answer.schema.schema_data == b"{}"
    assert [(each.key, each.value) for each in answer.schema.properties] == [("a", "b")]
    assert answer.schema_version == (2).to_bytes(8, "big")


def test_the_two_schemas_of_a_key_and_a_value_stand_one_after_the_other() -> None:
    body = {"version": 0, "type": "KEY_VALUE", "data": json.dumps({"key": {"type": "string"}, "value": ""})}
    answer: Any = parse_answer(SCHEMA, json.dumps(body).encode())
    assert answer.schema.schema_data == b'\0\0\0\x11{"type":"string"}\0\0\0\x02""'


NO_ANSWERS = [
    *(
        (each, body)
        for each in (TOPIC, PARTITIONS, TOPICS, SCHEMA)
        for body in (b"", b"<html>", b"\xff", b"5", b"null")
    ),
    *((each, body) for each in (TOPIC, PARTITIONS, TOPICS, SCHEMA) for body in (b"{}[]", b"[5]", b"[" * 100_000)),
    *((PARTITIONS, b'{"partitions": %s}' % count) for count in (b"-1", b'"3"', b"99999999999", b"true")),
    *((TOPIC, b'{"brokerUrl": 5}'), (TOPICS, b'{"topics": []}'), (SCHEMA, b'{"type": "WHAT", "version": 1}')),
    *((SCHEMA, b'{"type": "JSON", "data": %s, "version": 1}' % data) for data in (b"5", b"null")),
    (SCHEMA, b'{"type": "JSON", "data": "", "version": -1}'),
]


@pytest.mark.parametrize(("command", "body"), NO_ANSWERS)
def test_what_is_no_answer_is_said_to_be_none(command: Any, body: bytes) -> None:
    with pytest.raises(Misdirected, match="not the JSON"):
        parse_answer(command, body)


def test_an_answer_to_a_lookup_without_any_address_is_for_others_to_judge() -> None:
    answer: Any = parse_answer(TOPIC, b"{}")
    assert answer.brokerServiceUrl == ""


@pytest.mark.parametrize(
    ("status", "error"),
    [
        *((401, "AuthenticationError"), (403, "AuthorizationError"), (404, "TopicNotFound"), (409, "NotAllowedError")),
        *((412, "InvalidTopicName"), (429, "TooManyRequests"), (503, "ServiceNotReady"), (500, "UnknownError")),
        *((502, "UnknownError"), (418, "NotAllowedError"), (204, "NotAllowedError"), (999, "UnknownError")),
    ],
)
def test_a_status_has_the_name_that_the_binary_protocol_has_for_it(status: int, error: str) -> None:
    assert pb.ServerError.Name(error_of_status(status, "a reason")) == error


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("Unauthorized to validateTopicOperation for operation [LOOKUP] on topic [t]", "AuthorizationError"),
        ("Authentication required", "AuthenticationError"),
        ("Failed to authenticate: the token has expired", "AuthenticationError"),
        ("no reason was given", "AuthenticationError"),
    ],
)
def test_a_role_that_may_not_do_it_is_told_from_one_that_is_not_known(reason: str, error: str) -> None:
    assert pb.ServerError.Name(error_of_status(401, reason)) == error


def test_a_reason_is_repeated_as_far_as_it_is_one() -> None:
    assert parse_reason(b'{"reason": "Topic not found"}') == "'Topic not found'"
    assert len(parse_reason(json.dumps({"reason": "x" * 10_000}).encode())) < 200
    tripped = (
        "\n --- An unexpected error occurred in the server ---\n\nMessage: no such listener\n\nStacktrace:\n\nat x"
    )
    assert parse_reason(json.dumps({"reason": tripped}).encode()) == "'no such listener'"
    for body in (b"", b"<html>", b'{"reason": 5}', b"[]", b"null", b"[" * 100_000):
        assert parse_reason(body) == "no reason was given"
