"""A WSGI application that sends a message for each visit, for a server that forks.

In this folder, with a broker at `PULSAR_URL` or at its usual place:

    gunicorn --config gunicorn.conf.py wsgi_visits:application

A preloading server imports this once and forks its workers off that process, so nothing is connected here. The hooks in
`gunicorn.conf.py` call `open` in each worker, after the fork, and `close` at its end; the application then finds its
client in itself. Any server with such hooks will do.
"""

from collections.abc import Callable
from typing import Any

import pulsar_actors as pulsar

StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Visits:
    """Sends the path of each request to the topic `visits`, and says so when it is stored."""

    def open(self, service_url: str) -> None:
        """Connect: in the worker, once."""
        self._client = pulsar.Client(service_url, operation_timeout_seconds=5)
        self._visits = self._client.create_producer("visits", send_timeout_millis=5000)

    def close(self) -> None:
        """Send what is still pending, and end."""
        self._client.close()

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> list[bytes]:
        """Answer one request. Any number of the worker's threads may do so at once."""
        path = environ.get("PATH_INFO", "/").encode("latin-1")  # in WSGI each character of it stands for a byte
        try:
            self._visits.send(path)
        except pulsar.PulsarException as error:
            status, text = "503 Service Unavailable", f"not counted: {type(error).__name__}\n".encode()
        else:
            status, text = "200 OK", b"counted: %b\n" % path
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [text]


application = Visits()
