import contextlib
import logging
import socket
import ssl
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pulsar_actors.exceptions import CertificateRefused, ConnectError, ConnectTimeout, InvalidUrl
from pulsar_actors.runtime.http_client import MOST_AT_ONCE, HttpClient, HttpRequest
from pulsar_actors.runtime.tls import client_context, server_context
from pulsar_actors.runtime.tls_config import Certificate
from tests.support.certificates import LONG_AGO, Authority, Files
from tests.support.life import InThread, full_backlog
from tests.support.web_server import Asked, Said, WebServer, web_server

SECRET = "open-sesame"
SOON = 10.0


def no_tls() -> ssl.SSLContext:
    raise AssertionError("no https is asked for")


@contextlib.contextmanager
def asking(
    make_context: Callable[[], ssl.SSLContext] = no_tls, connection_timeout: float | None = None
) -> Iterator[HttpClient]:
    http = HttpClient(make_context, connection_timeout)
    try:
        yield http
    finally:
        http.close()


@contextlib.contextmanager
def saying(*pieces: bytes, every: float = 0.0) -> Iterator[str]:
    """Give the URL of a port that answers anything with these pieces, and then says nothing more."""
    over = threading.Event()

    def serve() -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as accepted:
            accepted.recv(65_536)
            for piece in pieces:
                accepted.sendall(piece)
                over.wait(every)
            over.wait(SOON)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = threading.Thread(target=serve, daemon=True)
        serving.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        over.set()
    serving.join()


def fault_of(call: Callable[[], Any]) -> ConnectError:
    with pytest.raises(ConnectError) as failed:
        call()
    said = "".join(traceback.format_exception(failed.value))
    assert SECRET not in said
    assert failed.value.__context__ is None
    return failed.value


def test_what_is_asked_arrives_and_what_is_answered_comes_back() -> None:
    with web_server() as server, asking() as http:
        server.answer = lambda _: Said(404, b"none here", (("X-Reason", "gone"),))
        answer = http.send(HttpRequest(f"{server.url}/a/b?c=d", SOON, "POST", {"X-Who": "me"}, b"more"))
        assert (answer.status, answer.body, answer.headers["x-reason"]) == (404, b"none here", "gone")
        (asked,) = server.asked
        assert (asked.method, asked.path, asked.headers["x-who"], asked.body) == ("POST", "/a/b?c=d", "me", b"more")
        assert asked.headers["accept-encoding"] == "identity"


def test_one_connection_serves_one_question_after_the_other() -> None:
    with web_server() as server, asking() as http:
        for _ in range(3):
            http.send(HttpRequest(server.url, SOON))
        assert server.connections == 1
        http.close()
        http.send(HttpRequest(server.url, SOON))
        assert server.connections == 2


def test_connections_of_requests_that_are_sent_at_once_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    at_once = threading.Barrier(MOST_AT_ONCE)

    def answer(_: Asked) -> Said:
        at_once.wait(SOON)
        return Said()

    with web_server() as server, asking() as http:
        server.answer = answer
        for _ in range(2):
            for each in [InThread(lambda: http.send(HttpRequest(server.url, SOON))) for _ in range(MOST_AT_ONCE)]:
                assert each.result().status == 200
        assert server.connections == MOST_AT_ONCE
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_redirect_is_an_answer_and_is_not_followed() -> None:
    with web_server() as server, asking() as http:
        server.answer = lambda _: Said(307, b"", (("Location", f"{server.url}/there"),))
        answer = http.send(HttpRequest(f"{server.url}/here", SOON))
        assert (answer.status, answer.headers["location"]) == (307, f"{server.url}/there")
        assert [asked.path for asked in server.asked] == ["/here"]


def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with web_server() as server, asking() as http:
        assert http.send(HttpRequest(server.url, SOON)).status == 200


def test_an_answer_that_is_too_long_is_broken_off() -> None:
    with web_server() as server, asking() as http:
        server.answer = lambda _: Said(200, bytes(200_001))
        assert len(http.send(HttpRequest(server.url, SOON, most_bytes=200_001)).body) == 200_001
        fault = fault_of(lambda: http.send(HttpRequest(server.url, SOON, most_bytes=200_000)))
        assert "an answer of more than 200,000 bytes" in str(fault)


SLOW: dict[str, tuple[list[bytes], float]] = {
    "nothing": ([], 0.0),
    "a head that never ends": ([b"HTTP/1.1 200 OK\r\n", *[b"X: y\r\n"] * 90], 0.05),
    "a body that never ends": ([b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", *[b"x"] * 90], 0.05),
}


@pytest.mark.parametrize("answer", SLOW)
def test_the_time_is_for_the_whole_answer(answer: str) -> None:
    pieces, every = SLOW[answer]
    with saying(*pieces, every=every) as url, asking() as http:
        began = time.monotonic()
        fault = fault_of(lambda: http.send(HttpRequest(f"{url}/{SECRET}", 0.4)))
        assert 0.3 < time.monotonic() - began < 4.0  # the slow answers take 4.5 s
        assert str(fault) == f"no answer of {url.removeprefix('http://')} within 0.4 s"


@pytest.mark.parametrize(
    "said", [b"+OK POP3 ready\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nx\r\n"]
)
def test_what_is_no_http_is_said_to_be_none(said: bytes) -> None:
    with saying(said) as url, asking() as http:
        assert "no HTTP" in str(fault_of(lambda: http.send(HttpRequest(url, SOON))))


def test_that_nobody_listens_is_said_with_the_address() -> None:
    with socket.socket() as taken, asking() as http:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        fault = fault_of(lambda: http.send(HttpRequest(f"http://127.0.0.1:{port}/{SECRET}", SOON)))
        assert str(fault) == f"no connection to 127.0.0.1:{port}: Connection refused"


def test_a_host_that_cannot_be_connected_to_takes_the_connection_timeout() -> None:
    with full_backlog() as silent, asking(connection_timeout=0.1) as http:
        host = silent.removeprefix("pulsar://")
        asking_there = InThread(lambda: http.send(HttpRequest(f"http://{host}/{SECRET}", 2 * SOON)))
        fault = fault_of(asking_there.result)  # waits for less than the request may take
    assert isinstance(fault, ConnectTimeout)
    assert str(fault) == f"no connection to {host} within 0.1 s"


@pytest.mark.parametrize("connection_timeout", [None, SOON])
def test_a_request_that_has_less_time_than_a_connection_does_not_judge_the_host(
    connection_timeout: float | None,
) -> None:
    with full_backlog() as silent, asking(connection_timeout=connection_timeout) as http:
        host = silent.removeprefix("pulsar://")
        fault = fault_of(lambda: http.send(HttpRequest(f"http://{host}", 0.1)))
    assert not isinstance(fault, ConnectTimeout)
    assert str(fault) == f"no answer of {host} within 0.1 s"


def test_the_connection_timeout_is_not_for_the_answer() -> None:
    go_on = threading.Event()
    with web_server() as server, asking(connection_timeout=0.1) as http:
        server.answer = lambda _: Said(200 if not go_on.wait(0.3) else 500)
        assert http.send(HttpRequest(server.url, SOON)).status == 200


def test_a_name_that_does_not_exist_is_said_to_be_so() -> None:
    with asking() as http:
        fault = fault_of(lambda: http.send(HttpRequest("http://nowhere.invalid/", SOON)))
        assert str(fault).startswith("no connection to nowhere.invalid:80: ")


@pytest.mark.parametrize("value", [f"{SECRET}\n", f"{SECRET}\u2603"])
def test_a_header_that_cannot_be_sent_is_not_repeated(value: str) -> None:
    with web_server() as server, asking() as http:
        fault = fault_of(lambda: http.send(HttpRequest(server.url, SOON, headers={"Authorization": value})))
        assert "characters that HTTP cannot carry" in str(fault)
        assert server.asked == []


NO_URLS = [
    *("ftp://a/b", "pulsar://a", "//a", "a", "", "http://", "https://:443/", "http://a:99999/", "http://[::1"),
    *("http://a b/", "http://a/\r\nX: y", f"http://me:{SECRET}@host/"),
]


@pytest.mark.parametrize("url", NO_URLS)
def test_a_url_that_cannot_be_asked_is_refused_and_its_end_is_not_repeated(url: str) -> None:
    with asking() as http, pytest.raises(InvalidUrl, match="a URL of HTTP") as refused:
        http.send(HttpRequest(url, SOON))
    assert SECRET not in str(refused.value)


# TLS.


@contextlib.contextmanager
def secure(files: Files, **options: Any) -> Iterator[WebServer]:
    with web_server(server_context(*files, **options)) as server:
        yield server


def test_https_is_spoken_with_whom_the_context_trusts(authority: Authority) -> None:
    files = authority.certify()
    trusting = client_context(authority.file, show=Certificate(*files))
    with secure(files, trust_certs_file=authority.file) as server, asking(lambda: trusting) as http:
        assert http.send(HttpRequest(server.url, SOON)).status == 200


REFUSED: dict[str, tuple[dict[str, Any], bool, str]] = {
    "of another host": ({"names": ("elsewhere.example",)}, True, "does not list the address '127.0.0.1'"),
    "expired": ({"valid": LONG_AGO}, True, "has expired"),
    "self-signed": ({"self_signed": True}, True, "is self-signed"),
    "of an unknown authority": ({}, False, "authority"),
}


@pytest.mark.parametrize("certificate", REFUSED)
def test_a_certificate_that_is_refused_is_named_as_the_reason(authority: Authority, certificate: str) -> None:
    options, trusted, reason = REFUSED[certificate]
    context = client_context(authority.file if trusted else None)
    with secure(authority.certify(**options)) as server, asking(lambda: context) as http:
        fault = fault_of(lambda: http.send(HttpRequest(f"{server.url}/{SECRET}", SOON)))
        assert isinstance(fault, CertificateRefused)
        assert str(fault).startswith(f"no connection to 127.0.0.1:{server.port}: the peer's certificate ")
        assert reason in str(fault)
        assert server.asked == []


@pytest.mark.parametrize("options", [{"allow_insecure": True}, {"validate_hostname": False}])
def test_a_context_that_accepts_more_is_followed(authority: Authority, options: dict[str, bool]) -> None:
    context = client_context(authority.file, **options)
    with secure(authority.certify(["elsewhere.example"])) as server, asking(lambda: context) as http:
        assert http.send(HttpRequest(server.url, SOON)).status == 200


def test_a_port_that_does_not_speak_tls_is_asked_nothing(authority: Authority) -> None:
    with web_server() as server, asking(lambda: client_context(authority.file)) as http:
        url = server.url.replace("http:", "https:")
        assert "does this port speak TLS?" in str(fault_of(lambda: http.send(HttpRequest(url, SOON))))
        assert server.asked == []


def test_a_port_that_does_not_agree_on_tls_takes_the_connection_timeout(authority: Authority) -> None:
    context = client_context(authority.file)
    with saying() as url, asking(lambda: context, connection_timeout=0.1) as http:
        fault = fault_of(lambda: http.send(HttpRequest(url.replace("http:", "https:"), 2 * SOON)))
    assert isinstance(fault, ConnectTimeout)


def test_no_path_and_no_header_is_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with web_server() as server, asking() as http:
        http.send(HttpRequest(server.url, SOON, "POST", {"Authorization": SECRET}, SECRET.encode()))
    assert SECRET not in caplog.text


def test_headers_that_are_wrong_are_passed_over_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    said = f"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nno colon\r\nSet-Cookie: {SECRET}\r\n\r\n{{}}"
    with saying(said.encode()) as url, asking() as http:
        assert http.send(HttpRequest(url, SOON)).body == b"{}"
    assert SECRET not in caplog.text
