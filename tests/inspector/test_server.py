"""The page over HTTP: who gets it, and how it begins and ends."""

import contextlib
import http.client
import logging
import os
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from pulsar_actors import machines
from pulsar_actors.inspector.server import Inspector
from pulsar_actors.inspector.site import Site
from pulsar_actors.inspector.snapshot import Snapshot


def empty() -> Snapshot:
    return Snapshot("nothing", {}, [], 0, [])


@pytest.fixture
def inspector() -> Iterator[Inspector]:
    with Inspector(Site(empty, (machines,), {}), 0) as inspector:
        yield inspector


def ask(inspector: Inspector, method: str, name: str = "") -> http.client.HTTPResponse:
    url = urlsplit(inspector.url)
    with contextlib.closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=20)) as connection:
        connection.request(method, url.path + name)
        answer = connection.getresponse()
        answer.read()
        return answer


def test_it_is_on_the_loopback_address_only(inspector: Inspector) -> None:
    url = urlsplit(inspector.url)
    assert url.hostname == "127.0.0.1"
    with socket.socket() as other:
        other.bind(("127.0.0.2", url.port))  # free: the server has not taken the port of all addresses


def test_no_browser_keeps_it_frames_it_or_lets_it_load_from_elsewhere(inspector: Inspector) -> None:
    headers = ask(inspector, "GET").headers
    assert headers["Content-Security-Policy"] == "default-src 'self'; img-src data:; frame-ancestors 'none'"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_each_has_another_secret() -> None:
    urls = set()
    for _ in range(3):
        with Inspector(Site(empty, (machines,), {}), 0) as one:
            urls.add(urlsplit(one.url).path)
    assert len(urls) == 3
    assert min(map(len, urls)) > 20


@pytest.mark.parametrize("method", ["PUT", "DELETE", "HEAD", "NONSENSE"])
def test_other_methods_are_refused(inspector: Inspector, method: str) -> None:
    assert ask(inspector, method).status == 501


def test_a_port_that_is_taken_is_an_error_at_once(inspector: Inspector) -> None:
    port = urlsplit(inspector.url).port
    assert port is not None
    with pytest.raises(OSError, match="in use"):
        Inspector(Site(empty, (machines,), {}), port)


def test_close_ends_the_thread_and_frees_the_port() -> None:
    inspector = Inspector(Site(empty, (machines,), {}), 0)
    assert ask(inspector, "GET", "snapshot").status == 200
    inspector.close()
    inspector.close()
    assert "pulsar-inspector" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ConnectionRefusedError):
        ask(inspector, "GET")


def test_close_ends_a_connection_that_a_browser_keeps() -> None:
    inspector = Inspector(Site(empty, (machines,), {}), 0)
    url = urlsplit(inspector.url)
    with contextlib.closing(http.client.HTTPConnection(str(url.hostname), url.port, timeout=20)) as browser:
        browser.request("GET", url.path)
        browser.getresponse().read()
        assert browser.sock is not None
        inspector.close()
        assert browser.sock.recv(1) == b""


def test_a_client_that_goes_in_the_middle_and_nonsense_disturb_nobody(
    inspector: Inspector, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    url = urlsplit(inspector.url)
    for sent in (b"", b"\x16\x03\x01\x02\x00", b"GET " + b"/" * 70_000, f"GET {url.path}snap".encode()):
        with socket.create_connection((str(url.hostname), url.port), timeout=20) as other:
            other.sendall(sent)
    with caplog.at_level(logging.INFO):
        assert ask(inspector, "GET", "snapshot").status == 200
    assert capsys.readouterr() == ("", "")
    assert not caplog.records


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_forked_child_does_not_keep_the_port_open(inspector: Inspector) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)  # until the parent has looked
        os._exit(0)
    try:
        os.close(reading)
        inspector.close()
        with pytest.raises(ConnectionRefusedError):
            ask(inspector, "GET")
    finally:
        os.close(writing)
        os.waitpid(child, 0)
