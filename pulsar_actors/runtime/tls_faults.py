"""How TLS fails: apart from TLS itself, which is loaded only where it is spoken."""

from pulsar_actors.exceptions import PulsarException


class TlsFailed(PulsarException):
    """The stream is broken, or was refused; its text says why, and what can be done."""


class PeerDistrusted(TlsFailed):
    """The peer's certificate was refused."""
