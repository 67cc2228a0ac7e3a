import json
from typing import Any

import pytest
from session_bench import TOPIC, Bench, port_of

from pulsar_actors.broker.tokens import Tokens

TOKENS = Tokens(b"a secret of the tests")


class Browser:
    """Asks over HTTP, in memory."""

    def __init__(self, bench: Bench, node: Any = None) -> None:
        from bench_loop import Wire  # noqa: PLC0415

        self._bench = bench
        self.wire = Wire()
        self._owner = bench.loop.doors[port_of((node or bench.node).web_url)](self.wire, "127.0.0.1:5")

    def get(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        lines = [f"GET {path} HTTP/1.1", "Host: h", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self._owner.received("\r\n".join(lines).encode())
        self._bench.loop.run()
        head, _, body = bytes(self.wire.written).partition(b"\r\n\r\n")
        self.wire.written.clear()
        status, *fields = head.decode().split("\r\n")
        return int(status.split()[1]), dict(field.split(": ", 1) for field in fields), body


LOOKUP = "/lookup/v2/topic/persistent/public/default/t"


def test_a_lookup_over_http_names_the_broker() -> None:
    bench = Bench()
    status, _, body = Browser(bench).get(LOOKUP)
    assert status == 200
    assert json.loads(body)["brokerUrl"] == bench.node.service_url


def test_a_lookup_over_http_is_redirected_to_the_broker_that_has_the_topic() -> None:
    bench = Bench()
    second = bench.broker.add_listener()
    bench.broker.assign(TOPIC, second)
    status, headers, _ = Browser(bench).get(LOOKUP)
    assert status == 307
    assert headers["Location"].startswith(second.web_url)
    status, _, body = Browser(bench, second).get(LOOKUP)
    assert (status, json.loads(body)["brokerUrl"]) == (200, second.service_url)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer nonsense"}, 401),
        ({"Authorization": f"Bearer {TOKENS.issue('me')}"}, 200),
    ],
)
def test_a_broker_that_wants_tokens_wants_them_over_http_too(headers: dict[str, str], status: int) -> None:
    bench = Bench(tokens=TOKENS)
    assert Browser(bench).get(LOOKUP, **headers)[0] == status


def test_who_asks_over_http_without_a_token_is_told_that_one_is_wanted() -> None:
    assert b"wants a token, and the request came with none" in Browser(Bench(tokens=TOKENS)).get(LOOKUP)[2]


def test_closing_the_broker_ends_the_connections() -> None:
    bench = Bench()
    browser = Browser(bench)
    browser.get(LOOKUP)
    bench.broker.close()
    assert browser.wire.closed
