"""A user name and a password, joined by a colon."""

from dataclasses import dataclass

from pulsar_actors.client.credentials.json_object import json_object
from pulsar_actors.client.credentials.secret_arguments import secret_text
from pulsar_actors.exceptions import InvalidArgument

__all__ = ["BasicProvider", "basic", "basic_named"]


@dataclass(frozen=True, slots=True, repr=False)
class BasicProvider:
    """The same answer to whoever asks."""

    method: str
    data: bytes
    tls_certificate: None = None

    def fetch(self, challenge: bytes | None) -> tuple[str, bytes]:  # noqa: ARG002 - a password answers any
        """Give the name and the password."""
        return self.method, self.data


def basic(username: object, password: object, method: object) -> BasicProvider:
    """Check the parts and put them together."""
    name = secret_text("username", username)
    data = f"{name}:{secret_text('password', password)}".encode()
    if ":" in name:
        raise InvalidArgument("username takes no ':', for that is where the password begins")
    return BasicProvider(secret_text("method", method), data)


def basic_named(name: str, parameters: object) -> BasicProvider:
    """Read `{"username": "...", "password": "...", "method": "basic"}`; Java calls the name `userId`."""
    fields = json_object(name, parameters)
    username = fields.get("username", fields.get("userId"))
    return basic(username, fields.get("password"), fields.get("method", "basic"))
