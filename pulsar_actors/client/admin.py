"""The admin interface of the brokers: HTTP calls to their web server, with the credentials and the TLS of a client.

A broker redirects to the one that owns the topic. Credentials are sent only to the hosts in the given URL, which may be
several: otherwise one answer could send them anywhere. If a host does not answer, the next is asked; so a change may be
asked for twice, and the second answer may be that it is made already.
"""

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.transport_config import service_access
from pulsar_actors.exceptions import ConnectError, InvalidConfiguration
from pulsar_actors.runtime.http_client import HttpRequest, HttpResponse, endpoint_of
from pulsar_actors.runtime.http_lookup import auth_headers
from pulsar_actors.wire.service_url import ServiceUrl

__all__ = ["AdminInterface", "parse_admin_url"]

REDIRECTS: Final = (
    HTTPStatus.MOVED_PERMANENTLY,
    HTTPStatus.FOUND,
    HTTPStatus.TEMPORARY_REDIRECT,
    HTTPStatus.PERMANENT_REDIRECT,
)
MOST_REDIRECTS: Final = 10
MOST_BYTES: Final = 64 << 20
_NOTHING_AFTER_HOSTS: Final = re.compile(r"https?://[^/?#]*/?")


def parse_admin_url(url: str, name: str) -> ServiceUrl:
    """Parse the URL of an admin interface, or say what `name` takes."""
    if not url.startswith(("http://", "https://")):
        raise InvalidConfiguration(f"{name} is the address of the brokers' web server, such as http://host:8080")
    if not _NOTHING_AFTER_HOSTS.fullmatch(url):
        raise InvalidConfiguration(f"{name} ends after its hosts, as http://host:8080 does: it takes no path")
    return ServiceUrl.parse(url)


class AdminInterface:
    """The admin interface of one cluster. `name` is what errors call the URL."""

    def __init__(self, url: str, options: ClientOptions, name: str) -> None:
        self._service = parse_admin_url(url, name)
        self._name = name
        self._timeout = float(options.operation_timeout_seconds)
        self._access = service_access(options)

    def call(self, method: str, path: str, body: object = None) -> HttpResponse:
        """Send a request for a path below `/admin/v2/`, with a body in JSON. Return the answer, whatever its status.

        Raise ConnectError if no host answers.
        """
        fault = ConnectError(f"{self._name} has no host")
        for origin in self._service.origins:
            try:
                return self._send(method, f"{origin}/admin/v2/{path}", body)
            except ConnectError as error:
                fault = error
        raise fault

    def close(self) -> None:
        """Close the connections."""
        self._access.http.close()

    def _send(self, method: str, url: str, body: object) -> HttpResponse:
        trusted = {(self._service.scheme, *host) for host in self._service.hosts}
        content, kind = (
            (None, {}) if body is None else (json.dumps(body).encode(), {"Content-Type": "application/json"})
        )
        for _ in range(MOST_REDIRECTS):
            credentials: Mapping[str, str] = auth_headers(self._access) if endpoint_of(url) in trusted else {}
            answer = self._access.http.send(
                HttpRequest(url, self._timeout, method, {**credentials, **kind}, content, MOST_BYTES)
            )
            if answer.status not in REDIRECTS or "location" not in answer.headers:
                return answer
            url = urljoin(url, answer.headers["location"])
        raise ConnectError(f"{self._name} redirects again and again")
