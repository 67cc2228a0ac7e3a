"""A WSGI application that sends a message for each visit, for a server that forks.

Run it in this folder, with a broker at `PULSAR_URL` or at Pulsar's usual address:

    gunicorn --config gunicorn_hooks.py wsgi_visits:application

A preloading server imports this module once and forks its workers from that process, so the module connects nothing.
The hooks in `gunicorn_hooks.py` call `open` in each worker, after the fork, and `close` at its end. Any server with
such hooks will do.
"""

from collections.abc import Callable
from typing import Any

import pulsar_actors as pulsar

StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Visits:
    """The application. It sends the path of each request to the topic `visits`, and answers when the path is stored."""

    def open(self, service_url: str) -> None:
        """Connect. Call this once in each worker."""
        self._client = pulsar.Client(service_url, operation_timeout_seconds=5)
        self._visits = self._client.create_producer("visits", send_timeout_millis=5000)

    def close(self) -> None:
        """Send pending messages, and close the client."""
        self._client.close()

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        """Answer one request. Several threads of the worker may call this at once."""
        path = environ.get("PATH_INFO", "/").encode("latin-1")  # in WSGI each character stands for a byte
        try:
            self._visits.send(path)
        except pulsar.PulsarException as error:
            status, text = "503 Service Unavailable", f"not counted: {type(error).__name__}\n".encode()
        else:
            status, text = "200 OK", b"counted: %b\n" % path
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [text]


application = Visits()
