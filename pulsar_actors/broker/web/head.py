"""The head of an HTTP/1 request: the request line and the headers, and what they say about the body.

A server and whatever stands before it must never disagree about where a request ends, or somebody's bytes become
somebody else's request. So everything that can be read in two ways is refused: a line that ends without CR, a space
before the colon, a folded header, two lengths, a length beside chunks, a transfer coding other than chunked.

Only ASCII is a head, apart from header values, which are read as Latin-1 and are never more than compared.
"""

import re
from typing import Final, NamedTuple

from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.wire.excerpt import excerpt

__all__ = ["CHUNKED", "HEADER", "MAX_HEAD", "MAX_TARGET", "METHODS", "Head", "read_head"]

METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
MAX_TARGET: Final = 8 * 1024
MAX_HEAD: Final = 32 * 1024
CHUNKED: Final = -1
"""The length of a body that comes in chunks, each with a length of its own."""

_LINE = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) ([!-~]+) HTTP/([0-9])\.([0-9])")
HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_ABSOLUTE = re.compile(r"https?://[^/?#]+", re.IGNORECASE)
_MAX_LENGTH_DIGITS = 18


class Head(NamedTuple):
    """What comes before the body."""

    method: str
    target: str  # path and query, as they were sent
    headers: dict[str, str]  # by their names in lower case; repeated ones are joined with commas
    length: int  # of the body, or CHUNKED
    keeps_alive: bool
    expects_continue: bool


def read_head(data: bytes) -> Head:
    """Read everything up to the empty line, which is not in `data` any more."""
    line, *rest = data.decode("latin-1").split("\r\n")
    method, target, minor = _request_line(line)
    headers = _headers(rest)
    if minor and "host" not in headers:
        raise HttpRefusal(400, "a request of HTTP/1.1 names its Host, this one does not")
    expectation = headers.get("expect", "")
    if expectation and expectation.lower() != "100-continue":
        raise HttpRefusal(417, f"the only expectation that is met is 100-continue, not {excerpt(expectation)}")
    return Head(
        method=method,
        target=target,
        headers=headers,
        length=_body_length(headers, has_chunks=bool(minor)),
        keeps_alive=_keeps_alive(headers, by_default=bool(minor)),
        expects_continue=bool(expectation) and bool(minor),
    )


def _request_line(line: str) -> tuple[str, str, int]:
    """Give the method, the target and the minor version."""
    match = _LINE.fullmatch(line)
    if match is None:
        raise HttpRefusal(400, f"a request begins with a line such as 'GET /path HTTP/1.1', not with {excerpt(line)}")
    method, target, major, minor = match.groups()
    if major != "1":
        raise HttpRefusal(505, f"this server speaks HTTP/1.1 and HTTP/1.0, not HTTP/{major}.{minor}")
    if method not in METHODS:
        raise HttpRefusal(
            501, f"the method {excerpt(method)} is not implemented; there are {', '.join(sorted(METHODS))}"
        )
    if len(target) > MAX_TARGET:
        raise HttpRefusal(
            414, f"the target of the request has {len(target):,} characters, over the limit of {MAX_TARGET:,}"
        )
    absolute = _ABSOLUTE.match(target)
    if absolute is not None:  # the form for proxies, which servers understand too
        target = target[absolute.end() :]
        target = target if target.startswith("/") else f"/{target}"
    if not target.startswith("/"):
        raise HttpRefusal(400, f"the target of a request begins with '/', and {excerpt(target)} does not")
    return method, target, min(int(minor), 1)


def _headers(lines: list[str]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines:
        match = HEADER.fullmatch(line)
        if match is None:
            raise HttpRefusal(400, f"{excerpt(line)} is not a header: it is written 'Name: value', on one line")
        name, value = match[1].lower(), match[2]
        if name in {"host", "content-length", "transfer-encoding"} and name in headers:
            raise HttpRefusal(400, f"the header {name} comes twice")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


def _body_length(headers: dict[str, str], *, has_chunks: bool) -> int:
    """Tell how long the body is; a request that does not say has none."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if length is not None:
            raise HttpRefusal(400, "a body has a Content-Length or comes in chunks, and not both")
        if not has_chunks:
            raise HttpRefusal(400, "HTTP/1.0 has no Transfer-Encoding")
        if coding.lower() != "chunked":
            raise HttpRefusal(501, f"the only Transfer-Encoding that is implemented is chunked, not {excerpt(coding)}")
        return CHUNKED
    if length is None:
        return 0
    if not (length.isascii() and length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS):
        raise HttpRefusal(400, f"a Content-Length is a number of bytes, not {excerpt(length)}")
    return int(length)


def _keeps_alive(headers: dict[str, str], *, by_default: bool) -> bool:
    """Tell whether another request may follow on the connection."""
    wishes = {wish.strip().lower() for wish in headers.get("connection", "").split(",")}
    return "close" not in wishes and (by_default or "keep-alive" in wishes)
