"""Lookup requests and answers over HTTP, translated from and to the commands of the binary protocol.

A broker's web server answers four kinds of request. Each is a GET of a path, and the answer is JSON:

    LOOKUP                    /lookup/v2/topic/{domain}/{tenant}/{namespace}/{topic}
    PARTITIONED_METADATA      /admin/v2/{domain}/{tenant}/{namespace}/{topic}/partitions
    GET_TOPICS_OF_NAMESPACE   /admin/v2/namespaces/{tenant}/{namespace}/topics
    GET_SCHEMA                /admin/v2/schemas/{tenant}/{namespace}/{topic}/schema

Topic names of the older form, which contain a cluster, have paths of their own.

A refusal is an HTTP status. It is translated to the error that a broker gives for the same fault in the binary
protocol, so that no other module needs to know which of the two was used.
"""

import json
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from google.protobuf.message import Message

from pulsar_actors.exceptions import InternalError, Misdirected
from pulsar_actors.wire.errors import excerpt
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

__all__ = ["error_of_status", "parse_answer", "parse_reason", "request_path"]


LARGEST_PARTITION_COUNT: Final = 2**31 - 1
_V1_PARTS: Final = 2
_SCHEMAS: Final = {"NONE": "None", "BYTES": "None", "BOOLEAN": "Bool"}
"""Schema types whose HTTP name is not the binary protocol's name in capitals."""
_UNAUTHORIZED: Final = 401
_SERVER_ERRORS: Final = 500
_NOT_PERMITTED: Final = "Unauthorized to "
"""A broker's words in a 401 to a role that it knows: it may not do this."""

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
"""Other statuses from 500 on may be temporary: the server, or a proxy in front of it, is at fault."""


def request_path(command: Message) -> str:
    """Return the path and query of the request."""
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


def parse_answer(command: Message, body: bytes) -> Message:
    """Read the answer to a command; Misdirected if the body is not one."""
    try:
        document = json.loads(body)
        match command:
            case CommandLookupTopic():
                return _parse_lookup(document)
            case CommandPartitionedTopicMetadata():
                return _parse_partitions(document)
            case CommandGetTopicsOfNamespace():
                return CommandGetTopicsOfNamespaceResponse(request_id=0, topics=_parse_topics(document))
            case CommandGetSchema():
                return _parse_schema(document)
            case _:
                raise InternalError(f"{type(command).__name__} has no form in HTTP")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as fault:
        raise Misdirected(f"what answers {type(command).__name__} is not the JSON that it should be") from fault


def _parse_lookup(document: Any) -> CommandLookupTopicResponse:  # noqa: ANN401 - any JSON
    return CommandLookupTopicResponse(
        request_id=0,
        response=CommandLookupTopicResponse.Connect,
        brokerServiceUrl=document.get("brokerUrl") or document.get("nativeUrl") or "",
        brokerServiceUrlTls=document.get("brokerUrlTls") or document.get("brokerUrlSsl") or "",
        authoritative=True,
    )


def _parse_partitions(document: Any) -> CommandPartitionedTopicMetadataResponse:  # noqa: ANN401 - any JSON
    count = document["partitions"]
    if type(count) is not int or not 0 <= count <= LARGEST_PARTITION_COUNT:
        raise ValueError(count)
    success = CommandPartitionedTopicMetadataResponse.Success
    return CommandPartitionedTopicMetadataResponse(request_id=0, response=success, partitions=count)


def _parse_topics(document: Any) -> list[str]:  # noqa: ANN401 - any JSON
    if not isinstance(document, list):
        raise TypeError(document)
    return cast("list[str]", document)  # protobuf refuses anything but str


def _parse_schema(document: Any) -> CommandGetSchemaResponse:  # noqa: ANN401 - any JSON
    kind = _SCHEMAS.get(document["type"]) or document["type"].title().replace("_", "")
    data = document.get("data", "")
    properties: dict[str, str] = document.get("properties") or {}
    return CommandGetSchemaResponse(
        request_id=0,
        schema=Schema(
            name=document.get("name", ""),
            schema_data=_key_value_schema(data) if kind == "KeyValue" else data.encode(),
            type=Schema.Type.Value(kind),
            properties=[KeyValue(key=key, value=value) for key, value in properties.items()],
        ),
        schema_version=int(document["version"]).to_bytes(8, "big"),
    )


def _key_value_schema(text: str) -> bytes:
    """Join the schemas of key and value, each after its length, as the binary protocol does."""
    both = json.loads(text)
    parts = (json.dumps(both[name], separators=(",", ":")).encode() for name in ("key", "value"))
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def error_of_status(status: int, reason: str) -> "ServerError.ValueType":
    """Return the error of the binary protocol for an HTTP status that is no success. A 401 may mean two errors."""
    if status == _UNAUTHORIZED and _NOT_PERMITTED in reason:
        return ServerError.AuthorizationError
    return _ERRORS.get(status, ServerError.UnknownError if status >= _SERVER_ERRORS else ServerError.NotAllowedError)


def parse_reason(body: bytes) -> str:
    """Return the reason of a refusal, if the body is the JSON that Pulsar sends; an HTML page has none."""
    try:
        reason = json.loads(body)["reason"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return "no reason was given"
    if not isinstance(reason, str):
        return "no reason was given"
    words, trace, _ = reason.partition("\n\nMessage: ")[2].partition("\n\nStacktrace:")
    return excerpt(words if trace else reason)  # after an exception the broker sends a stack trace around its message
