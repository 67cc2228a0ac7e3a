"""A web server for tests: it records requests, and sends the responses that a test chooses."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Asked(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Said(NamedTuple):
    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


class WebServer:
    """The server as a test sees it."""

    def __init__(self, scheme: str, port: int) -> None:
        self.scheme = scheme
        self.port = port
        self.asked: list[Asked] = []
        self.connections = 0
        self.answer: Callable[[Asked], Said] = lambda _: Said()

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"


@contextlib.contextmanager
def web_server(context: ssl.SSLContext | None = None) -> Iterator[WebServer]:
    """Serve on loopback until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            shown.connections += 1
            super().setup()

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked = Asked(self.command, self.path, headers, body)
            shown.asked.append(asked)
            said = shown.answer(asked)
            self.send_response(said.status)
            for name, value in said.headers:
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(said.body)))
            self.end_headers()
            self.wfile.write(said.body)

        def do_POST(self) -> None:
            self.do_GET()

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def get_request(self) -> tuple[socket.socket, Any]:
            accepted, address = super().get_request()
            if context is not None:
                accepted = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
            return accepted, address

        def handle_error(self, *_: Any) -> None:
            """Ignore a client that hangs up: many tests do that."""

    with Server(("127.0.0.1", 0), Handler) as server:
        shown = WebServer("http" if context is None else "https", server.server_port)
        serving = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        serving.start()
        try:
            yield shown
        finally:
            server.shutdown()
            serving.join()
