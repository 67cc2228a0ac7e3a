"""The questions about topics and their answers as HTTP has them: the commands of the binary protocol, put otherwise.

A broker's web server knows four of them. Each is a GET of a path, and the answer is JSON:

    LOOKUP                    /lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}
    PARTITIONED_METADATA      /admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions
    GET_TOPICS_OF_NAMESPACE   /admin/v2/namespaces/{tenant}/{namespace}/topics
    GET_SCHEMA                /admin/v2/schemas/{tenant}/{namespace}/{topic}/schema

The older names of topics, which have a cluster in them, have paths of their own.

What is refused comes as a status. It is given the name that a broker has for the same thing in the binary protocol, so
that nobody further up need know which of the two was spoken.
"""

import json
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from google.protobuf.message import Message

from pulsar_actors.exceptions import InternalError, Misdirected
from pulsar_actors.wire.excerpt import excerpt
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetSchema,
    CommandGetSchemaResponse,
    CommandGetTopicsOfNamespace,
    CommandGetTopicsOfNamespaceResponse,
    CommandLookupTopic,
    CommandLookupTopicResponse,
    CommandPartitionedTopicMetadata,
    CommandPartitionedTopicMetadataResponse,
    KeyValue,
    Schema,
    ServerError,
)
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["answer_in", "error_of", "path_of", "reason_in"]

MOST_PARTITIONS: Final = 2**31 - 1
_V1_PARTS: Final = 2
_SCHEMAS: Final = {"NONE": "None", "BYTES": "None", "BOOLEAN": "Bool"}
"""Those whose names are not the binary protocol's in capitals."""
_SERVER_ERRORS: Final = 500

_ERRORS: Final = {
    400: ServerError.NotAllowedError,
    401: ServerError.AuthenticationError,
    403: ServerError.AuthorizationError,
    404: ServerError.TopicNotFound,
    405: ServerError.NotAllowedError,
    406: ServerError.NotAllowedError,
    409: ServerError.NotAllowedError,
    412: ServerError.InvalidTopicName,
    422: ServerError.NotAllowedError,
    429: ServerError.TooManyRequests,
    503: ServerError.ServiceNotReady,
}
"""Of the others, those from 500 on may pass: the server is at fault, or somebody between it and us."""


def path_of(command: Message) -> str:
    """Give the path that asks this, with its query."""
    match command:
        case CommandLookupTopic():
            return _lookup_path(command)
        case CommandPartitionedTopicMetadata():
            name = TopicName.parse(command.topic)
            version = "" if name.cluster else "v2/"
            create = str(command.metadata_auto_creation_enabled).lower()
            return f"/admin/{version}{name.rest_path}/partitions?checkAllowAutoCreation={create}"
        case CommandGetTopicsOfNamespace():
            mode = CommandGetTopicsOfNamespace.Mode.Name(command.mode)
            if command.namespace.count("/") == _V1_PARTS:
                return f"/admin/namespaces/{quote(command.namespace)}/destinations?mode={mode}"
            return f"/admin/v2/namespaces/{quote(command.namespace)}/topics?mode={mode}"
        case CommandGetSchema():
            name = TopicName.parse(command.topic)
            version = f"/{int.from_bytes(command.schema_version, 'big')}" if command.schema_version else ""
            return f"/admin/v2/schemas/{name.namespace_name}/{name.encoded_local_name}/schema{version}"
        case _:
            raise InternalError(f"{type(command).__name__} has no form in HTTP")


def _lookup_path(command: CommandLookupTopic) -> str:
    name = TopicName.parse(command.topic)
    kind = "destination" if name.cluster else "topic"
    listener = command.advertised_listener_name
    query = f"?{urlencode({'listenerName': listener})}" if listener else ""
    return f"/lookup/v2/{kind}/{name.rest_path}{query}"


def answer_in(command: Message, body: bytes) -> Message:
    """Read what was answered to a command; Misdirected says that it is no answer to it."""
    try:
        said = json.loads(body)
        match command:
            case CommandLookupTopic():
                return _lookup_in(said)
            case CommandPartitionedTopicMetadata():
                return _partitions_in(said)
            case CommandGetTopicsOfNamespace():
                return CommandGetTopicsOfNamespaceResponse(request_id=0, topics=_texts(said))
            case CommandGetSchema():
                return _schema_in(said)
            case _:
                raise InternalError(f"{type(command).__name__} has no form in HTTP")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as fault:
        raise Misdirected(f"what answers {type(command).__name__} is not the JSON that it should be") from fault


def _lookup_in(said: Any) -> CommandLookupTopicResponse:  # noqa: ANN401 - whatever JSON can say
    return CommandLookupTopicResponse(
        request_id=0,
        response=CommandLookupTopicResponse.Connect,
        brokerServiceUrl=said.get("brokerUrl") or said.get("nativeUrl") or "",
        brokerServiceUrlTls=said.get("brokerUrlTls") or said.get("brokerUrlSsl") or "",
        authoritative=True,
    )


def _partitions_in(said: Any) -> CommandPartitionedTopicMetadataResponse:  # noqa: ANN401 - the same
    count = said["partitions"]
    if type(count) is not int or not 0 <= count <= MOST_PARTITIONS:
        raise ValueError(count)
    success = CommandPartitionedTopicMetadataResponse.Success
    return CommandPartitionedTopicMetadataResponse(request_id=0, response=success, partitions=count)


def _texts(said: Any) -> list[str]:  # noqa: ANN401 - the same
    if not isinstance(said, list):
        raise TypeError(said)
    return cast("list[str]", said)  # protobuf takes nothing but text in its place


def _schema_in(said: Any) -> CommandGetSchemaResponse:  # noqa: ANN401 - the same
    kind = _SCHEMAS.get(said["type"]) or said["type"].title().replace("_", "")
    data = said.get("data", "")
    properties: dict[str, str] = said.get("properties") or {}
    return CommandGetSchemaResponse(
        request_id=0,
        schema=Schema(
            name=said.get("name", ""),
            schema_data=_key_value_schema(data) if kind == "KeyValue" else data.encode(),
            type=Schema.Type.Value(kind),
            properties=[KeyValue(key=key, value=value) for key, value in properties.items()],
        ),
        schema_version=int(said["version"]).to_bytes(8, "big"),
    )


def _key_value_schema(text: str) -> bytes:
    """Put the schemas of a key and a value one after the other, each after its length, as the binary protocol does."""
    both = json.loads(text)
    parts = (json.dumps(both[name], separators=(",", ":")).encode() for name in ("key", "value"))
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def error_of(status: int) -> "ServerError.ValueType":
    """Name what a status that is no success means, in the words of the binary protocol."""
    return _ERRORS.get(status, ServerError.UnknownError if status >= _SERVER_ERRORS else ServerError.NotAllowedError)


def reason_in(body: bytes) -> str:
    """Read why something was refused, where the server says so as Pulsar does: a page for people is no reason."""
    try:
        reason = json.loads(body)["reason"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "no reason was given"
    if not isinstance(reason, str):
        return "no reason was given"
    words, trace, _ = reason.partition("\n\nMessage: ")[2].partition("\n\nStacktrace:")
    return excerpt(words if trace else reason)  # a broker that has tripped says where, and its words are in between
