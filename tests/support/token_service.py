"""Athenz's token service, as far as clients ask it: it verifies who asks, and gives role tokens."""

import base64
import contextlib
import json
import re
import ssl
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

from tests.support.web_server import Asked, Said, WebServer, web_server

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class TokenServiceInHand:
    """A token service that knows the service `shopping.some_app` by its key `v1`, and gives `role-1`, `role-2`, ..."""

    def __init__(self, server: WebServer) -> None:
        self.server = server
        self.public_key: PublicKey | None = None
        """None if a certificate proves who asks."""
        self.header = "Athenz-Principal-Auth"
        self.lifetime = 7200.0
        self.replaced: Said | None = None
        server.answer = self._answer

    @property
    def url(self) -> str:
        return self.server.url

    def proofs(self) -> list[str | None]:
        return [asked.headers.get(self.header.lower()) for asked in self.server.asked]

    def _answer(self, asked: Asked) -> Said:
        if self.replaced is not None:
            return self.replaced
        url = urlsplit(asked.path)
        if (asked.method, url.path) != ("GET", "/zts/v1/domain/pulsar/token"):
            return _refused(404, "no such domain")
        if parse_qs(url.query) != {"minExpiryTime": ["7200"], "maxExpiryTime": ["86400"]}:
            return _refused(400, "no such lifetime")
        if self.public_key is not None:
            why = self.fault_of(asked.headers.get(self.header.lower(), ""))
            if why:
                return _refused(401, why)
        token = f"v=Z1;d=pulsar;r=admin;s=role-{len(self.server.asked)}"
        body = json.dumps({"token": token, "expiryTime": int(time.time() + self.lifetime)}).encode()
        return Said(200, body, (("Content-Type", "application/json"),))

    def fault_of(self, token: str) -> str:
        """Return what is wrong with a principal token."""
        assert self.public_key is not None
        unsigned, _, letters = token.partition(";s=")
        form = r"v=S1;d=shopping;n=some_app;h=[^;]+;a=[0-9a-f]+;t=(\d+);e=(\d+);k=v1"
        parts = re.fullmatch(form, unsigned)
        if parts is None:
            return "not the form of a token"
        began, ends = map(int, parts.groups())
        if not began <= time.time() < ends == began + 3600:
            return "not now"
        signature = base64.b64decode(letters.translate(str.maketrans("._-", "+/=")), validate=True)
        try:
            verify(self.public_key, signature, unsigned.encode())
        except InvalidSignature:
            return "not signed by the service"
        return ""


def verify(key: PublicKey, signature: bytes, text: bytes) -> None:
    match key:
        case rsa.RSAPublicKey():
            key.verify(signature, text, padding.PKCS1v15(), hashes.SHA256())
        case _:
            key.verify(signature, text, ec.ECDSA(hashes.SHA256()))


def _refused(status: int, message: str) -> Said:
    return Said(status, json.dumps({"code": status, "message": message}).encode())


def settings(service: TokenServiceInHand, **more: Any) -> str:
    """Return the settings of a client that this service knows. A value of None leaves a setting out."""
    known = {
        "tenantDomain": "Shopping",
        "tenantService": "some_app",
        "providerDomain": "pulsar",
        "keyId": "v1",
        "ztsUrl": service.url,
    }
    return json.dumps({name: value for name, value in {**known, **more}.items() if value is not None})


@contextlib.contextmanager
def token_service(context: ssl.SSLContext | None = None) -> Iterator[TokenServiceInHand]:
    """Run a token service until the end of the block."""
    with web_server(context) as server:
        yield TokenServiceInHand(server)
