"""What producers' and consumers' actors and the guardian say to each other.

The guardian gives each its place when it makes it. It then finds brokers and connections for them, tells them when to
end, and hears when they have ended. What they say to connections is in `members.py`.
"""

from typing import NamedTuple

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.lookup_events import Target
from pulsar_actors.runtime.actor import Address
from pulsar_actors.runtime.members import Member, Token


class Place(NamedTuple):
    """Where a producer or consumer is, and whom it knows there."""

    kind: str
    id: int
    guardian: Address
    slot: int


class FindBroker(NamedTuple):
    """To the guardian: find who serves the topic, in this cluster if one is named."""

    topic: str
    cluster_url: str | None
    asker: Token


class StillLooking(NamedTuple):
    """No answer yet: this has failed, and is tried again."""

    question: int
    error: PulsarException


class BrokerFound(NamedTuple):
    """The answer."""

    question: int
    outcome: Target | PulsarException


class AttachMember(NamedTuple):
    """To the guardian: have this member join a connection to the broker."""

    broker: Target | str
    slot: int
    member: Member


class Joining(NamedTuple):
    """From the guardian: this is the connection; `Bound` or `Unbound` comes from it."""

    number: int
    connection: Address


class Retired(NamedTuple):
    """To the guardian: a producer or consumer has ended."""

    who: Address


class CloseHandle(NamedTuple):
    """End the producer or consumer; `Ties.ended` tells when that is done."""
