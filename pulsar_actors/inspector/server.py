"""The server of the page: HTTP on the loopback address, with threads of its own."""

import contextlib
import socket
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Final

from pulsar_actors.inspector.site import Answer, Site
from pulsar_actors.runtime.fork import forget_on_fork
from pulsar_actors.runtime.log import LOG

HOST: Final = "127.0.0.1"
IDLE_SECONDS: Final = 30
"""A connection of a browser ends after so many seconds without a request."""

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'self'; img-src data:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Inspector:
    """A page that is served until `close`, until the end of a `with` block, or until the program ends."""

    def __init__(self, site: Site, port: int) -> None:
        self._server = _Server(site, port)
        self._thread = threading.Thread(target=self._server.serve_forever, name="pulsar-inspector", daemon=True)
        self.url: Final = f"http://{HOST}:{self._server.server_port}{site.root}"
        """The address of the page. Who knows it can read the page, and set faults."""
        self._thread.start()

    def close(self) -> None:
        """Serve the page no longer. A second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> "Inspector":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Inspector at {self.url}>"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, site: Site, port: int) -> None:
        self.site = site
        self._connections: set[socket.socket] = set()
        super().__init__((HOST, port), _Handler)
        forget_on_fork(self)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        connection, address = super().get_request()
        self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:  # noqa: ANN401 - the base's
        """End a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Close the port, and end the connections of browsers, which keep them open for their next requests."""
        super().server_close()
        for connection in self._connections.copy():
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def forget_everything(self) -> None:
        """Close the port that a forked child has inherited."""
        self.socket.close()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401, ARG002 - the base's
        """Log what the base would print: a browser may go at any time."""
        LOG.debug("a request to the inspector failed: %r", sys.exc_info()[1])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] # as everywhere with this base

    def do_GET(self) -> None:
        self._answer(self.server.site.get)

    def do_POST(self) -> None:
        self.close_connection = True  # a body, which no request needs, is not read
        self._answer(self.server.site.post)

    def _answer(self, ask: Callable[[str], Answer]) -> None:
        answer = ask(self.path)
        self.send_response(answer.status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        if answer.content_type:
            self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - the base's
        """Log nothing: the base would print each request, with the secret."""
