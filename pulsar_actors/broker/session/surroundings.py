"""What all the connections of a broker have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from google.protobuf.message import Message

from pulsar_actors.broker.model.cluster import Cluster
from pulsar_actors.broker.session.directory import Directory
from pulsar_actors.broker.session.gate import Judge
from pulsar_actors.broker.tokens import Identity
from pulsar_actors.runtime.loop import Loop

__all__ = ["Handler", "Handlers", "Surroundings", "TokenCheck"]

Handler: TypeAlias = Callable[[Any, Any, memoryview], object]
"""Takes the session, the command, and what follows it."""

Handlers: TypeAlias = Mapping[type[Message], Handler]


class TokenCheck(Protocol):
    """Whoever can tell a good token."""

    def check(self, token: str, now_ms: int) -> Identity:
        """Say whose it is; TokenRefused says what is wrong with it."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """One for each broker; `keepalive` is in seconds.

    Everybody is welcome where there are no `tokens`, no `passwords` and no `certificates`: the latter says that clients
    may be known by the certificates that they show.
    """

    loop: Loop
    cluster: Cluster
    directory: Directory
    faults: Judge
    handlers: Handlers
    tokens: TokenCheck | None
    passwords: Mapping[str, str] | None = field(repr=False)
    certificates: bool
    keepalive: float
    broker_entry_metadata: bool
