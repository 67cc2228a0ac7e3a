"""The table of routes: a method, a path with names for its variable parts, and who answers.

A variable part matches any one segment of the path, but for `{domain}`, which is one of Pulsar's two. Of several
routes that match, the first with a fixed word where the others have a name wins; so tables may be put together in any
order. A path is decoded after it is cut, for an encoded slash is part of a name.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from pulsar_actors.broker.web.calls import Call
from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.responses import Response
from pulsar_actors.wire.excerpt import excerpt

__all__ = ["Handler", "Match", "Route", "Router", "read_query"]

Handler = Callable[[Call], Response]

_DOMAINS = ("persistent", "non-persistent")
_HEX = frozenset("0123456789abcdefABCDEF")


class Route(NamedTuple):
    """One line of a table."""

    method: str
    path: str
    handler: Handler


class Match(NamedTuple):
    """Who answers a request, and the variable parts of its path."""

    handler: Handler
    parts: dict[str, str]


class Router:
    """Finds the route of a request."""

    __slots__ = ("_routes",)

    def __init__(self, routes: Iterable[Route]) -> None:
        self._routes: dict[int, list[tuple[list[str], Route]]] = {}
        for route in sorted(routes, key=_generality):
            pattern = route.path.split("/")[1:]
            self._routes.setdefault(len(pattern), []).append((pattern, route))

    def find(self, method: str, path: str) -> Match:
        """Find who answers; 404 and 405 say that nobody does."""
        segments = [_decode(segment) for segment in path.split("/")[1:]]
        if len(segments) > 1 and not segments[-1]:
            segments.pop()  # a slash at the end means nothing
        allowed: set[str] = set()
        for pattern, route in self._routes.get(len(segments), ()):
            parts = _match(pattern, segments)
            if parts is None:
                continue
            if route.method == method or (route.method, method) == ("GET", "HEAD"):
                return Match(route.handler, parts)
            allowed.add(route.method)
        if allowed:
            raise _not_allowed(method, path, allowed)
        raise HttpRefusal(404, f"{method} {excerpt(path)} is not implemented by the embedded broker")


def read_query(text: str) -> dict[str, str]:
    """Read what stands after the question mark; of a name that comes twice the last counts."""
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
