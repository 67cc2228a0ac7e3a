"""The examples for web servers, served by these servers, as a user starts them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from tests.support.life import until

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
GUNICORN = ("gunicorn", "--bind", "127.0.0.1:0", "--workers", "2")
SECONDS = 30.0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as running:
        yield running


class Server:
    """A web server with an example in it, for a `with` block."""

    def __init__(self, broker: EmbeddedBroker, home: Path, *words: str) -> None:
        self._environment = {**os.environ, "PULSAR_URL": broker.service_url, "HOME": str(home)}
        self._words = words
        self.said = ""

    def __enter__(self) -> "Server":
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            [sys.executable, "-m", *self._words], cwd=EXAMPLES, env=self._environment, stderr=subprocess.PIPE, text=True
        )
        self._url = self._read_address()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()

    def _read_address(self) -> str:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said += line
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                return found[0]
        raise AssertionError(self.said)

    def ask(self, path: str, order: object = None) -> Any:
        """Return the status and the answer. With an order it is posted."""
        content = None if order is None else json.dumps(order).encode()
        asked = Request(self._url + path, content, {"Content-Type": "application/json"})  # noqa: S310 - our own
        try:
            with urlopen(asked, timeout=SECONDS) as answer:  # noqa: S310 - the same
                return answer.status, answer.read().decode()
        except HTTPError as refused:
            with refused:
                return refused.code, refused.read().decode()

    def stop(self) -> None:
        """End it as systemd does."""
        self._process.send_signal(signal.SIGTERM)
        _, said = self._process.communicate(timeout=SECONDS)
        assert "Traceback" not in self.said + said, self.said + said


def connections(broker: EmbeddedBroker) -> int:
    return broker.call(lambda inside: len(inside.connections))


def test_gunicorn_has_a_client_in_each_worker_and_closes_it(broker: EmbeddedBroker, tmp_path: Path) -> None:
    words = (*GUNICORN, "--config", "gunicorn_hooks.py", "wsgi_visits:application")
    with Server(broker, tmp_path, *words) as server:
        until(lambda: connections(broker) == 2)
        assert server.ask("/apples") == (200, "counted: /apples\n")
        server.stop()
        until(lambda: connections(broker) == 0)
    with pulsar.Client(broker.service_url) as client, client.create_reader("visits", pulsar.MessageId.earliest) as read:
        assert read.read_next(10_000).data() == b"/apples"


def test_a_site_on_django_takes_orders_under_gunicorn(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with Server(broker, tmp_path, *GUNICORN, "django_shop:application") as server:
        for _ in range(8):
            status, answer = server.ask("/orders", {"customer": "ann"})
            assert (status, list(json.loads(answer))) == (202, ["stored"])
        assert server.ask("/orders", {})[0] == 400
        server.stop()
        until(lambda: connections(broker) == 0)


def test_a_service_on_fastapi_prices_orders_under_uvicorn(broker: EmbeddedBroker, tmp_path: Path) -> None:
    with Server(broker, tmp_path, "uvicorn", "--port", "0", "fastapi_service:app") as server:
        assert server.ask("/orders", {"customer": "ann", "fruit": "pears", "count": 2})[0] == 202
        until(lambda: server.ask("/bills/ann") == (200, '{"cents":40}'))
        server.stop()
        until(lambda: connections(broker) == 0)
