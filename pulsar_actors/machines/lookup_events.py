"""Events and effects of the lookup machine."""

from typing import Any, Final

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.named_tuple import NamedTuple

MIGRATED: Final = 2**31
"""The number of the cluster that a topic has migrated to. The client has none for it, and no transactions there."""


class LookupTarget(NamedTuple):
    """The broker to ask, or the broker that serves a topic: its name and the address to dial.

    None as `logical` means any host of the service URL. `service` counts the client's changes of the service URL or of
    the credentials, so that an answer of an earlier one is recognised, and `home` those of the URL: it is the number of
    the cluster, or MIGRATED. `cluster` is the service URL of the cluster that the topic has migrated to, if it has.
    `tls` is true if the service URL encrypts.
    """

    logical: str | None
    physical: str | None
    service: int = 0
    cluster: str | None = None
    home: int = 0
    tls: bool = False


class AssignedBroker(NamedTuple):
    """The broker to which the topic's last broker has sent a producer or consumer, reached as the last one was.

    The URL is the broker's own, also behind a proxy. `cluster` is as in `LookupTarget`.
    """

    url: str
    proxied: bool = False
    cluster: str | None = None

    def target(self, service: int) -> LookupTarget:
        """Return how to reach it, for the client's present service URL."""
        return LookupTarget(self.url, None if self.proxied else self.url, service, self.cluster)


# Events of the client.


class Enqueue(NamedTuple):
    """Start the lookup; the operation timeout starts now."""


class LookupPermitGranted(NamedTuple):
    """The lookup may run: it has a permit until it releases it."""


class LookupPermitDenied(NamedTuple):
    """The lookup may not run: too many wait already."""


class Cancel(NamedTuple):
    """End the lookup: the client is closing."""


# Events of connections, brokers and timers.


class LookupAttached(NamedTuple):
    """There is a connection to the broker to ask. The next try can go to another of so many hosts."""

    hosts: int = 1


class LookupAnswered(NamedTuple):
    """The broker has answered."""

    command: Any  # of one of the classes in `lookup.ANSWER_TYPES`


class Redirected(NamedTuple):
    """Over HTTP: ask another server, at this address. In the binary protocol a redirect is an answer."""

    url: str


class ServiceChanged(NamedTuple):
    """The service URL names other brokers from now on. An answer of the old ones is useless."""

    tls: bool


class LookupRefused(NamedTuple):
    """The broker refused, did not answer in time, or the connection was lost, or none could be made."""

    error: PulsarException


class BackoffOver(NamedTuple):
    """The backoff after a failed attempt is over."""

    generation: int


class OperationTimedOut(NamedTuple):
    """The operation timeout is over."""

    generation: int


# Effects.


class AcquireLookupPermit(NamedTuple):
    """Queue the lookup: `LookupPermitGranted` follows, or `LookupPermitDenied` at once."""


class ReleaseLookupPermit(NamedTuple):
    """Let the next lookup in the queue run; or leave the queue."""


class AttachTo(NamedTuple):
    """Get a connection; answer with `LookupAttached` or `LookupRefused`.

    Each time that it is one to the service URL, another host is asked than the time before, if there are several.
    """

    target: LookupTarget


class SendLookup(NamedTuple):
    """Send the request on that connection; answer with `LookupAnswered` or `LookupRefused`.

    `answer_within` is the time for the answer, from when the request is sent.
    """

    command: Any
    timeout: float
    answer_within: float


class AttemptFailed(NamedTuple):
    """Report a failure that is retried after a backoff, so that a caller that times out meanwhile can name it."""

    error: PulsarException


class Found(NamedTuple):
    """End the lookup with the answer; for a topic also with the broker that serves it."""

    command: Any
    target: LookupTarget | None


class NotFound(NamedTuple):
    """End the lookup with an error."""

    error: PulsarException
