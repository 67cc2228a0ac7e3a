"""The call of an admin or lookup handler: the parsed request, the routes to handlers, and the checks of JSON values.

A `WebCall` has the decoded parts of the path and of the query, and methods for what many handlers need first, with
Pulsar's refusals. The `WebContext` is shared by all calls of one broker.

In a route, `{name}` matches any one segment of the path, and `{domain}` only Pulsar's two domains. If several routes
match, one with a fixed word takes precedence over one with a name in the same place, so tables may be joined in any
order. A path is decoded after it is split, because an encoded slash is part of a name.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast
from urllib.parse import unquote_to_bytes

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.model.interfaces import Address, Missing
from pulsar_actors.broker.model.namespace import Namespace
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.web.http import HttpRefusal, Response
from pulsar_actors.exceptions import InvalidTopicName
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.topic_name import TopicName

__all__ = [
    "MAX_PARTITIONS",
    "BrokerUrls",
    "CallHandler",
    "Route",
    "RouteMatch",
    "Router",
    "WebCall",
    "WebContext",
    "as_count",
    "as_flag",
    "as_number",
    "as_object",
    "as_strings",
    "read_query",
]


_TRUE = {"true", "1"}
_NUMBER = re.compile("-?[0-9]{1,18}")  # so each number is below 2^63


class BrokerUrls(NamedTuple):
    """The URLs of one broker; empty if it has no such port. `advertised` has the addresses of its listeners."""

    service_url: str = ""
    service_url_tls: str = ""
    web_url: str = ""
    web_url_tls: str = ""
    advertised: Mapping[str, Address] = MappingProxyType({})


@dataclass(slots=True)
class WebContext:
    """The model, the clock and the addresses that all calls of one broker share."""

    cluster: Cluster
    loop: Loop
    name: str
    """The name of the broker that is asked, as in `Cluster.owner_of`."""
    urls_of: Callable[[str], BrokerUrls]
    encrypted: bool = False
    """True if requests come over TLS."""

    @property
    def urls(self) -> BrokerUrls:
        """The URLs of the broker that is asked."""
        return self.urls_of(self.name)

    @property
    def broker_id(self) -> str:
        """Pulsar's id of the broker: the address of its web server."""
        urls = self.urls
        return (urls.web_url or urls.web_url_tls).partition("://")[2]


@dataclass(slots=True)
class WebCall:
    """One request for a handler."""

    context: WebContext
    parts: dict[str, str]
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    target: str

    @property
    def cluster(self) -> Cluster:
        """The model."""
        return self.context.cluster

    def flag(self, name: str, *, default: bool = False) -> bool:
        """Read a flag of the query."""
        text = self.query.get(name)
        return default if text is None else text.lower() in _TRUE

    def number(self, name: str) -> int:
        """Read a number in the path; 404 for anything else."""
        text = self.parts[name]
        if _NUMBER.fullmatch(text) is None:
            raise HttpRefusal(404, f"{name} is a whole number in this path, not {excerpt(text)}")
        return int(text)

    def value(self) -> Any:  # noqa: ANN401 - any JSON value
        """Read the body as JSON; an empty body is None, as in Pulsar."""
        if not self.body.strip():
            return None
        content_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json" and not (
            content_type.startswith("application/") and content_type.endswith("+json")
        ):
            raise HttpRefusal(
                415, f"the body is to come with 'Content-Type: application/json', not {excerpt(content_type)}"
            )
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as fault:
            raise HttpRefusal(400, f"the body is not JSON: {fault}") from fault

    def topic_name(self) -> TopicName:
        """Read the topic name in the path."""
        parts = self.parts
        owners = [parts["tenant"], *([parts["cluster"]] if "cluster" in parts else []), parts["namespace"]]
        try:
            name = TopicName.parse(f"{parts['domain']}://{'/'.join(owners)}/{parts['topic']}")
        except InvalidTopicName as fault:
            raise HttpRefusal(412, f"Topic name is not valid: {fault}") from fault
        if name != (parts["domain"], parts["tenant"], parts.get("cluster"), parts["namespace"], parts["topic"]):
            raise HttpRefusal(412, "Topic name is not valid: a slash in one of its parts makes it another name")
        return name

    def namespace(self) -> Namespace:
        """Find the namespace in the path."""
        try:
            return self.cluster.namespace(f"{self.parts['tenant']}/{self.parts['namespace']}")
        except Missing as fault:
            raise HttpRefusal(404, "Namespace does not exist") from fault

    def topic(self) -> Topic:
        """Find the topic in the path, which has no partitions."""
        name = self.topic_name()
        topic = self.cluster.find_topic(name)
        if topic is None:
            raise HttpRefusal(404, f"Topic {name} not found")
        return topic

    def partition_count(self) -> int:
        """Count the partitions of the topic in the path; 0 for a topic without, or an unknown one."""
        name = self.topic_name()
        namespace = self.cluster.namespaces.get(name.namespace_name)
        return namespace.partitioned.get(str(name), 0) if namespace else 0

    def topics(self) -> list[Topic]:
        """Find the topic in the path, or its partitions."""
        name = self.topic_name()
        count = self.partition_count()
        if not count:
            return [self.topic()]
        return [self.cluster.open_topic(name.partition(index)) for index in range(count)]


CallHandler = Callable[[WebCall], Response]

_DOMAINS = ("persistent", "non-persistent")
_HEX = frozenset("0123456789abcdefABCDEF")


class Route(NamedTuple):
    """A method, a path with names for its variable parts, and a handler."""

    method: str
    path: str
    handler: CallHandler


class RouteMatch(NamedTuple):
    """The handler of a request, and the variable parts of its path."""

    handler: CallHandler
    parts: dict[str, str]


class Router:
    """A table of routes."""

    __slots__ = ("_routes",)

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes: dict[int, list[tuple[list[str], Route]]] = {}
        for route in sorted(routes, key=_generality):
            pattern = route.path.split("/")[1:]
            self._routes.setdefault(len(pattern), []).append((pattern, route))

    def find(self, method: str, path: str) -> RouteMatch:
        """Find the handler of a request; 404 and 405 for an unknown path or method."""
        segments = [_decode(segment) for segment in path.split("/")[1:]]
        if len(segments) > 1 and not segments[-1]:
            segments.pop()  # a slash at the end is ignored
        allowed: set[str] = set()
        for pattern, route in self._routes.get(len(segments), ()):
            parts = _match(pattern, segments)
            if parts is None:
                continue
            if route.method == method or (route.method, method) == ("GET", "HEAD"):
                return RouteMatch(route.handler, parts)
            allowed.add(route.method)
        if allowed:
            raise _not_allowed(method, path, allowed)
        raise HttpRefusal(404, f"{method} {excerpt(path)} is not implemented by the embedded broker")


def read_query(text: str) -> dict[str, str]:
    """Read the query. If a name comes twice, the last value counts."""
    pairs = (pair.partition("=") for pair in text.split("&") if pair)
    return {_decode(name.replace("+", " ")): _decode(value.replace("+", " ")) for name, _, value in pairs}


def _match(pattern: list[str], segments: list[str]) -> dict[str, str] | None:
    parts: dict[str, str] = {}
    for expected, segment in zip(pattern, segments, strict=True):
        if not expected.startswith("{"):
            if expected != segment:
                return None
        elif not segment or (expected == "{domain}" and segment not in _DOMAINS):
            return None
        else:
            parts[expected[1:-1]] = segment
    return parts


def _generality(route: Route) -> tuple[bool, ...]:
    return tuple(segment.startswith("{") for segment in route.path.split("/"))


def _not_allowed(method: str, path: str, allowed: set[str]) -> HttpRefusal:
    methods = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
    return HttpRefusal(405, f"{excerpt(path)} takes {methods}, not {method}", (("Allow", methods),))


def _decode(text: str) -> str:
    """Undo percent-encoding."""
    _, *encoded = text.split("%")
    if any(len(part) < 2 or not _HEX.issuperset(part[:2]) for part in encoded):  # noqa: PLR2004 - two digits
        raise HttpRefusal(400, f"in {excerpt(text)} a percent sign is not followed by two hexadecimal digits")
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as fault:
        raise HttpRefusal(400, f"{excerpt(text)} does not decode to UTF-8") from fault


MAX_PARTITIONS: Final = 100_000
"""A limit, because partitions are created at once and each takes memory."""


def as_object(value: object, what: str) -> dict[str, Any]:
    """Read a JSON object."""
    if not isinstance(value, dict):
        raise HttpRefusal(400, f"{what} is a JSON object, not {excerpt(value)}")
    return cast("dict[str, Any]", value)


def as_strings(value: object, what: str) -> dict[str, str]:
    """Read a JSON object of strings; None is an empty one."""
    if value is None:
        return {}
    for name, each in as_object(value, what).items():
        if not isinstance(each, str):
            raise HttpRefusal(400, f"{what} is an object of strings, and {excerpt(name)} has {excerpt(each)}")
    return cast("dict[str, str]", value)


def as_flag(value: object, what: str) -> bool:
    """Read true or false."""
    if not isinstance(value, bool):
        raise HttpRefusal(400, f"{what} is true or false, not {excerpt(value)}")
    return value


def as_number(value: object, what: str) -> int:
    """Read a whole number of 64 bits."""
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**63) <= value < 2**63:
        raise HttpRefusal(400, f"{what} is a whole number, not {excerpt(value)}")
    return value


def as_count(value: object, what: str) -> int:
    """Read a number from 0 on."""
    if as_number(value, what) < 0:
        raise HttpRefusal(412, f"{what} is 0 or more, not {excerpt(value)}")
    return as_number(value, what)
