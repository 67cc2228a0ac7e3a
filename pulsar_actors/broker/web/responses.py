"""Answers: a status, headers and a body, and how they are written.

Pulsar answers with JSON nearly everywhere, with 204 and no body where something was done, and with `{"reason": …}`
where it was not. Numbers and field names are those of Pulsar; JSON is written without spaces, as Pulsar writes it.
"""

import json
import re
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, NamedTuple

__all__ = ["CONTINUE", "DONE", "EMPTY", "Headers", "Response", "as_json", "encode_response", "refused"]

Headers = tuple[tuple[str, str], ...]

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_UNFIT = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]|[^\x00-\xff]")


class Response(NamedTuple):
    """One answer."""

    status: int
    body: bytes = b""
    content_type: str = ""
    headers: Headers = ()


DONE: Final = Response(204)
EMPTY: Final = Response(200)
"""What Pulsar says where a policy is not set."""


def as_json(value: object, status: int = 200) -> Response:
    """Answer with a value."""
    body = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return Response(status, body.encode("utf-8", "replace"), "application/json")


def refused(status: int, reason: str, headers: Headers = ()) -> Response:
    """Answer with a reason."""
    return as_json({"reason": reason}, status)._replace(headers=headers)


def encode_response(response: Response, *, now_ms: int, keeps_alive: bool, with_body: bool) -> list[bytes]:
    """Write an answer: buffers for one gathered write. To HEAD the body is told of, and not sent."""
    lines = [f"HTTP/1.1 {response.status} {HTTPStatus(response.status).phrase}"]
    lines.append(f"Date: {formatdate(now_ms / 1000, usegmt=True)}")
    if response.content_type:
        lines.append(f"Content-Type: {response.content_type}")
    if response.status != HTTPStatus.NO_CONTENT:
        lines.append(f"Content-Length: {len(response.body)}")
    lines += [f"{name}: {_one_line(value)}" for name, value in response.headers]
    if not keeps_alive:
        lines.append("Connection: close")
    head = "\r\n".join([*lines, "", ""]).encode("latin-1")
    return [head, response.body] if with_body and response.body else [head]


def _one_line(value: str) -> str:
    """Keep what a user chose (a message's key, say) from writing headers of its own, and within Latin-1."""
    return _UNFIT.sub(" ", value)
