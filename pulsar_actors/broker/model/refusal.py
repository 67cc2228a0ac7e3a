"""How the model says no: with the word of the protocol for it, and a sentence.

Sessions answer with both. The HTTP side looks at the class as well: what is missing has another status than what is in
the way. Everything that refuses does so before it has changed anything. Where clients or people know Pulsar's own
sentence for a refusal, it is used here too.
"""

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.wire.PulsarApi_pb2 import ServerError


class Refusal(PulsarException):
    """The model did not do it: `code` is the ServerError to answer with, `reason` says why."""

    def __init__(self, code: "ServerError.ValueType", reason: str) -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return f"{ServerError.Name(self.code)}: {self.reason}"


class Missing(Refusal):
    """There is no such tenant, namespace, topic, subscription, schema or entry."""


class Conflict(Refusal):
    """It exists already."""


class Busy(Refusal):
    """Something is connected to it, or in it, that must go first."""
