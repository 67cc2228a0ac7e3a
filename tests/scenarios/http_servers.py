"""The HTTP servers of the brokers, as lookups meet them: they answer in time, late or never, or not as they should.

They take the place of a client's connections to HTTP servers. A request goes to a broker's own server without a socket,
and takes the time that dice say. It is answered by what the broker knows when it is sent, which may be of no use when
the answer comes.
"""

import json
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from pulsar_actors.broker.session.directory import Node
from pulsar_actors.broker.web.http import Request
from pulsar_actors.exceptions import CertificateRefused, ConnectError
from pulsar_actors.runtime import http_pool
from pulsar_actors.runtime.http_client import HttpRequest, HttpResponse, endpoint_of
from pulsar_actors.simulation.scheduler import Dice
from tests.scenarios.scene import Scene

LATENCY = 0.02
FOR_NOW = (500, 502, 503, 429)
"""Statuses that may be others a moment later."""
FOR_GOOD = (204, 302, 400, 401, 403, 404, 405, 406, 409, 412, 422)
REASONS = ("not now", "Unauthorized to validateTopicOperation for operation [LOOKUP]", "\n\nMessage: no\n\nStacktrace:")
NONSENSE = (
    b"", b"<html>", b"null", b"7", b"[1]", b"{}", b"[" * 100_000, b"\xff", b'{"brokerUrl":7,"partitions":"2"}',
    b'{"brokerUrl":"","brokerUrlTls":"","partitions":-1}', b'{"brokerUrl":"broker:6650","partitions":4294967296}',
    b'{"brokerUrl":"http://broker:8080","brokerUrlTls":"pulsar://broker:6650","partitions":null}',
)  # fmt: skip
"""Answers to no request at all."""
LIES = (
    b'["persistent://public/default/topic","persistent://public/default/nowhere"]', b'["x"]', b"[]",
    b'{"partitions":0}', b'{"partitions":1}', b'{"partitions":200000}', b'{"type":"STRING","version":0,"data":""}',
)  # fmt: skip
"""Answers to some request, perhaps not to this one."""
NO_ADDRESSES = (
    "",
    "//[",
    "http://",
    "http://b]/",
    "http://a b/",
    "https://me:word@broker:8443/",
    "http://broker:port/",
)
UNSAFE = ("pulsar://broker:6650", "pulsar+ssl://broker:6651", "file:///etc/passwd", "http://broker:8080/")

Answer = Callable[[HttpRequest], HttpResponse]


class Trouble:
    """A trouble with the next requests, so many, after some others; with those to one port if there is one."""

    def __init__(self, answer: Answer, skipped: int, times: int, port: int | None) -> None:
        self.answer = answer
        self._skipped = skipped
        self._left = times
        self._port = port

    def meets(self, request: HttpRequest) -> bool:
        if not self._left or self._port not in (None, endpoint_of(request.url)[2]):
            return False
        if self._skipped:
            self._skipped -= 1
            return False
        self._left -= 1
        return True


class HttpServers:
    """Those of a scene, with a few troubles, each from a moment of its own on; `until` is when the last one begins.

    Refusals that no retry can cure, and answers that are lies, are for those who bear it: `lies`.
    """

    def __init__(self, scene: Scene, most: int, *, lies: bool = False) -> None:
        self._scene = scene
        self._dice = Dice(scene.world.seed, "http servers")
        self._troubles: list[Trouble] = []
        self._answers: Sequence[Answer] = (
            self._be_away, self._be_silent, self._be_silent, self._be_late, self._distrust, self._refuse_for_now,
            self._send_on, self._send_in_circles, self._lead_astray, self._talk_nonsense,
        )  # fmt: skip
        if lies:
            self._answers = (
                *self._answers, self._refuse_for_good, self._lie, self._send_nowhere, self._send_into_the_open,
            )  # fmt: skip
        self.until = 0.0
        for _ in range(self._dice.below(most + 1)):
            at = 10.0 ** (self._dice.chance() * 4 - 3)
            self.until = max(self.until, at)
            scene.world.after(at, self._begin)

    def replace_connections(self) -> AbstractContextManager[object]:
        """Have all clients reach these servers, and no others."""
        return mock.patch.object(http_pool, "HttpPool", return_value=self)

    def close(self) -> None:
        """Close idle connections: there are none."""

    def send(self, request: HttpRequest) -> HttpResponse:
        """Answer a request."""
        self._take(request, LATENCY * self._dice.chance())
        for trouble in [] if self._scene.is_calm else self._troubles:
            if trouble.meets(request):
                self._scene.troubled[trouble.answer.__name__.strip("_")] += 1
                self._scene.world.note(f"TROUBLE {trouble.answer.__name__} for {request.url}")
                return trouble.answer(request)
        return self._serve(request)

    def _begin(self) -> None:
        dice = self._dice
        answer = self._one(self._answers)
        times = 60 if answer == self._send_in_circles else self._one((1, 1, 2, 5, 60))
        port = endpoint_of(self._one(self._nodes()).web_url)[2] if dice.happens(0.3) else None
        self._troubles.append(Trouble(answer, dice.below(3), times, port))

    def _one(self, of: Sequence[Any]) -> Any:
        return of[self._dice.below(len(of))]

    def _nodes(self) -> list[Node]:
        assert self._scene.broker is not None
        return self._scene.broker.nodes

    def _take(self, request: HttpRequest, seconds: float) -> None:
        """Let the request take so long, or as long as it may."""
        self._scene.world.spend(min(seconds, request.timeout))
        if seconds >= request.timeout:
            raise ConnectError(f"no answer of {_host(request)} within {request.timeout:g} s")

    def _serve(self, request: HttpRequest) -> HttpResponse:
        scheme, host, port = endpoint_of(request.url)
        origin = f"{scheme}://{host}:{port}"
        node = next((each for each in self._nodes() if origin in (each.web_url, each.web_url_tls)), None)
        if node is None:
            raise ConnectError(f"no connection to {host}:{port}: its name is not known")
        assert self._scene.broker is not None
        server = self._scene.broker._web._server(node, encrypted=scheme == "https")
        headers = {name.lower(): value for name, value in request.headers.items()}
        target = request.url.removeprefix(origin)
        response = server.answer(Request(request.method, target, headers, request.body or b""))
        return HttpResponse(response.status, {name.lower(): value for name, value in response.headers}, response.body)

    # Servers that are not there, or not in time.

    def _be_away(self, request: HttpRequest) -> HttpResponse:
        raise ConnectError(f"no connection to {_host(request)}: the connection was refused")

    def _be_silent(self, request: HttpRequest) -> HttpResponse:
        self._take(request, math.inf)
        raise AssertionError

    def _be_late(self, request: HttpRequest) -> HttpResponse:
        response = self._serve(request)
        self._take(request, 1.5 * self._dice.chance() * request.timeout)
        return response

    def _distrust(self, request: HttpRequest) -> HttpResponse:
        if endpoint_of(request.url)[0] == "https":
            raise CertificateRefused(f"no connection to {_host(request)}: its certificate has expired")
        return self._be_away(request)

    # Servers that refuse.

    def _refuse_for_now(self, request: HttpRequest) -> HttpResponse:
        return self._refusal(FOR_NOW)

    def _refuse_for_good(self, request: HttpRequest) -> HttpResponse:
        return self._refusal(FOR_GOOD)

    def _refusal(self, statuses: Sequence[int]) -> HttpResponse:
        body = json.dumps({"reason": self._one(REASONS)}).encode() if self._dice.happens(0.7) else b"<html>"
        return HttpResponse(self._one(statuses), {}, body)

    # Servers that redirect.

    def _send_on(self, request: HttpRequest) -> HttpResponse:
        scheme, host, port = endpoint_of(request.url)
        node = self._one(self._nodes())
        there = node.web_url_tls if scheme == "https" else node.web_url
        return _redirect(there + request.url.removeprefix(f"{scheme}://{host}:{port}"))

    def _send_in_circles(self, request: HttpRequest) -> HttpResponse:
        return _redirect(request.url)

    def _send_nowhere(self, request: HttpRequest) -> HttpResponse:
        return _redirect(self._one(NO_ADDRESSES))

    def _send_into_the_open(self, request: HttpRequest) -> HttpResponse:
        return _redirect(self._one(UNSAFE))

    # Servers that answer something else.

    def _lead_astray(self, request: HttpRequest) -> HttpResponse:
        nodes = self._nodes()
        plain = self._one(("pulsar://nowhere:1", *(node.service_url for node in nodes)))
        encrypted = self._one(("pulsar+ssl://nowhere:1", *(node.service_url_tls for node in nodes)))
        return HttpResponse(200, {}, json.dumps({"brokerUrl": plain, "brokerUrlTls": encrypted}).encode())

    def _talk_nonsense(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, self._one(NONSENSE))

    def _lie(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, {}, self._one(LIES))


def _redirect(address: str) -> HttpResponse:
    return HttpResponse(307, {"location": address}, b"")


def _host(request: HttpRequest) -> str:
    _, host, port = endpoint_of(request.url)
    return f"{host}:{port}"
