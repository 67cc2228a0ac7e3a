"""What a connection is told when it is made."""

from typing import NamedTuple


class ConnectionSettings(NamedTuple):
    """Whom to reach, as whom, and how long to wait, in seconds. The hosts are tried in their order."""

    hosts: tuple[tuple[str, int], ...]
    client_version: str
    tls: bool = False
    proxy_to_broker_url: str | None = None
    handshake_timeout: float = 10.0
    keepalive_interval: float = 30.0
    flush_timeout: float = 1.0
    tcp_no_delay: bool = True
