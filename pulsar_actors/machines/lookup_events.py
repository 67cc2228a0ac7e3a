"""What a lookup hears and what it answers with: the events and effects of `lookup.py`."""

from typing import Any, NamedTuple

from pulsar_actors.exceptions import PulsarException

# Events of our own side.


class Queue(NamedTuple):
    """Somebody wants to know: the operation timeout starts now."""


class Begin(NamedTuple):
    """Its turn has come."""


class TurnAway(NamedTuple):
    """Its turn will not come: the line is too long."""


class Cancel(NamedTuple):
    """Nobody wants to know any longer."""


# Events of connections and timers.


class Attached(NamedTuple):
    """There is a connection to the broker that is to be asked."""


class AttachFailed(NamedTuple):
    """There is none to be had."""

    error: PulsarException


class Answered(NamedTuple):
    """The broker has answered."""

    command: Any  # one of the answers that `lookup.ANSWERS` names


class Redirected(NamedTuple):
    """Over HTTP: another server is to be asked, at this address. In the binary protocol a redirect is an answer."""

    url: str


class ServiceChanged(NamedTuple):
    """The service URL leads elsewhere from now on; what was asked so far was asked in the wrong place."""

    tls: bool


class Refused(NamedTuple):
    """The broker refused, did not answer in time, or is gone."""

    error: PulsarException


class BackoffOver(NamedTuple):
    """It is time to ask again."""

    generation: int


class OperationTimedOut(NamedTuple):
    """The caller has waited long enough."""

    generation: int


# Effects.


class TakeTurn(NamedTuple):
    """Get in line: `Begin` follows, or `TurnAway` at once."""


class GiveTurn(NamedTuple):
    """Let the next in line begin."""


class Target(NamedTuple):
    """Whom to ask, or where a topic is served: `None` stands for the service URL, of the `service` with that number.

    `cluster` is the service URL instead, where the topic has moved to another cluster.
    """

    logical: str | None
    physical: str | None
    service: int = 0
    cluster: str | None = None


class AttachTo(NamedTuple):
    """Get a connection; answer with `Attached` or `AttachFailed`."""

    target: Target


class Inquire(NamedTuple):
    """Ask on that connection; answer with `Answered` or `Refused`."""

    command: Any
    timeout: float


class Stumbled(NamedTuple):
    """Something has failed and is tried again after a pause: whoever gives up meanwhile can say what it was."""

    error: PulsarException


class Found(NamedTuple):
    """The answer; for a topic also where it is served."""

    command: Any
    target: Target | None


class NotFound(NamedTuple):
    """There will be no answer."""

    error: PulsarException
