"""An OAuth2 issuer whose answers a test chooses."""

import contextlib
import json
import ssl
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

from tests.support.web_server import Asked, Said, WebServer, web_server

CLIENT_ID = "ali"
CLIENT_SECRET = "open-sesame-40"
WELL_KNOWN = "/.well-known/openid-configuration"


class IssuerInHand:
    """An OAuth2 issuer that issues `token-1`, `token-2` and so on, until the test replaces its answers."""

    def __init__(self, server: WebServer) -> None:
        self.server = server
        self.metadata: dict[str, Any] = {"token_endpoint": f"{server.url}/oauth/token"}
        self.grant: dict[str, Any] = {"token_type": "Bearer", "expires_in": 3600}
        self.replaced: dict[str, Said] = {}
        self.asked_for_tokens: list[dict[str, str]] = []
        server.answer = self._answer

    @property
    def url(self) -> str:
        return self.server.url

    def settings(self, **more: Any) -> str:
        """Return the client's configuration. A value of None leaves a setting out."""
        known = {"issuer_url": self.url, "client_id": CLIENT_ID, "client_secret": CLIENT_SECRET, **more}
        return json.dumps({name: value for name, value in known.items() if value is not None})

    def tokens_given(self) -> int:
        return len(self.asked_for_tokens)

    def next_token(self) -> str:
        return f"token-{self.tokens_given()}"

    def refuse(self, status: int, body: Any, *headers: tuple[str, str]) -> None:
        """Answer requests for a token with this response."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.replaced["/oauth/token"] = Said(status, content, headers)

    def _answer(self, asked: Asked) -> Said:
        if asked.path == "/oauth/token":
            form = parse_qs(asked.body.decode(), strict_parsing=True)
            self.asked_for_tokens.append({name: value for name, (value,) in form.items()})
        if asked.path in self.replaced:
            return self.replaced[asked.path]
        if asked.path == WELL_KNOWN:
            return Said(200, json.dumps(self.metadata).encode())
        if asked.path == "/oauth/token" and asked.method == "POST":
            return Said(200, json.dumps({"access_token": self.next_token(), **self.grant}).encode())
        return Said(404, b"<html>nothing here</html>")


@contextlib.contextmanager
def issuing(context: ssl.SSLContext | None = None) -> Iterator[IssuerInHand]:
    """Run an issuer until the end of the block."""
    with web_server(context) as server:
        yield IssuerInHand(server)
