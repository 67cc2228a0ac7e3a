"""The options of a broker. `EmbeddedBroker` takes them as arguments, and explains them."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.errors import excerpt

__all__ = ["BrokerOptions", "OpenToOthersWarning"]


_LAST_PORT = 65_535


class OpenToOthersWarning(RuntimeWarning):
    """A broker that is made for one machine listens where other machines reach it."""


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The options, checked on creation."""

    host: str = "127.0.0.1"
    port: int = 0
    web_port: int = 0
    tls_port: int = 0
    web_tls_port: int = 0
    certificate_file: str | None = None
    private_key_file: str | None = None
    trust_certs_file: str | None = None
    tokens: Tokens | None = None
    passwords: Mapping[str, str] | None = field(default=None, repr=False)
    settings: Settings = field(default_factory=Settings)
    broker_entry_metadata: bool = False
    keepalive_seconds: float = 30.0
    data_folder: str | Path | None = None

    def __post_init__(self) -> None:
        given: Any = self  # callers need not be typed
        if not isinstance(given.host, str) or not self.host:  # a socket treats an empty host as every address
            raise InvalidArgument(f"host is the address to listen on, such as 127.0.0.1, not {excerpt(self.host)}")
        for name in ("port", "web_port", "tls_port", "web_tls_port"):
            port = getattr(self, name)
            if type(port) is not int or not 0 <= port <= _LAST_PORT:
                raise InvalidArgument(f"{name} is a port from 0 (any free one) to {_LAST_PORT}, not {excerpt(port)}")
        if (self.certificate_file is None) != (self.private_key_file is None):
            raise InvalidArgument("TLS takes both certificate_file and private_key_file, and only one of them is given")
        if self.trust_certs_file is not None and self.certificate_file is None:
            raise InvalidArgument("trust_certs_file is for clients that come over TLS, which takes a certificate_file")
        folder = given.data_folder
        if folder is not None and not (isinstance(folder, str | Path) and str(folder)):  # '' is the current folder
            raise InvalidArgument(f"data_folder is the path of a folder, not {excerpt(folder)}")
        if type(self.keepalive_seconds) not in (int, float) or not self.keepalive_seconds > 0:
            raise InvalidArgument(f"keepalive_seconds is above 0, not {excerpt(self.keepalive_seconds)}")

    @property
    def is_on_loopback(self) -> bool:
        """True if only this machine can connect. A name other than localhost may be an address of any kind."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower().rstrip(".") == "localhost"

    @property
    def wants_credentials(self) -> bool:
        """True if clients must say who they are."""
        return self.tokens is not None or self.passwords is not None or self.trust_certs_file is not None
