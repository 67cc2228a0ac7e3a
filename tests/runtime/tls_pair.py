"""Two TLS streams, joined in memory."""

import ssl
from typing import NamedTuple

from pulsar_actors.runtime.tls import TlsStream
from pulsar_actors.runtime.tls_config import TlsFailed


class Pair(NamedTuple):
    """Two ends, agreed with each other."""

    client: TlsStream
    server: TlsStream


def meet(
    client_side: ssl.SSLContext, server_side: ssl.SSLContext, host: str = "localhost"
) -> tuple[Pair, dict[str, str]]:
    """Let them shake hands until both are silent, and give what each of them failed with."""
    pair = Pair(TlsStream(client_side, host), TlsStream(server_side, server_side=True))
    to_server, to_client = pair.client.start(), pair.server.start()
    failures: dict[str, str] = {}
    while to_server or to_client:
        to_client += tell(pair.server, to_server, "server", failures)
        to_server = tell(pair.client, to_client, "client", failures)
        to_client = b""
    return pair, failures


def tell(end: TlsStream, data: bytes, name: str, failures: dict[str, str]) -> bytes:
    if name in failures or not data:
        return b""
    try:
        return end.feed(data).to_send
    except TlsFailed as failure:
        failures[name] = str(failure)
        return end.alert()


def agree(client_side: ssl.SSLContext, server_side: ssl.SSLContext, host: str = "localhost") -> Pair:
    pair, failures = meet(client_side, server_side, host)
    assert failures == {}
    assert pair.client.is_agreed
    assert pair.server.is_agreed
    return pair


def refusal(client_side: ssl.SSLContext, server_side: ssl.SSLContext, host: str = "localhost") -> str:
    pair, failures = meet(client_side, server_side, host)
    assert not (pair.client.is_agreed and pair.server.is_agreed)
    return failures["client"]


def carry(source: TlsStream, target: TlsStream, data: bytes) -> bytes:
    return target.feed(b"".join(source.encrypt([data]))).plaintext
