"""Events and effects of the lookup machine, and the broker addresses in its answers.

Brokers give their addresses twice, for plain connections and for TLS. The user chooses which of the two counts. An
address of the other kind in its field is no address: an answer must not lead a client that was told to encrypt to a
plain connection, however the brokers are configured.

A broker that is named without an address to dial is reached through the service URL. A proxy answers there, and has to
be told the broker's name, unless the service URL names that broker itself. The service URL alone says whether that
connection is encrypted. The proxy's own connections are its own affair: one that speaks TLS with its clients and plain
text with its brokers names the brokers by their plain addresses.
"""

from typing import Any, NamedTuple

from pulsar_actors.exceptions import InvalidUrl, PulsarException
from pulsar_actors.wire.service_url import ServiceUrl

# Events of the client.


class BrokerRoute(NamedTuple):
    """The address to dial, with TLS or not as the scheme says, and the broker to ask a proxy for, as `host:port`."""

    dial: ServiceUrl
    proxied_broker: str | None


class Enqueue(NamedTuple):
    """Start the lookup; the operation timeout starts now."""


class TurnCame(NamedTuple):
    """The lookup may run."""


class TurnDenied(NamedTuple):
    """The lookup may not run: too many wait already."""


class Cancel(NamedTuple):
    """End the lookup: the client is closing."""


# Events of connections, brokers and timers.


class LookupAttached(NamedTuple):
    """There is a connection to the broker to ask."""


class LookupAttachFailed(NamedTuple):
    """No connection could be made."""

    error: PulsarException


class LookupAnswered(NamedTuple):
    """The broker has answered."""

    command: Any  # of one of the classes in `lookup.ANSWER_TYPES`


class Redirected(NamedTuple):
    """Over HTTP: ask another server, at this address. In the binary protocol a redirect is an answer."""

    url: str


class ServiceChanged(NamedTuple):
    """The service URL names other brokers from now on; an answer of the old ones is of no use."""

    tls: bool


class LookupRefused(NamedTuple):
    """The broker refused, did not answer in time, or the connection was lost."""

    error: PulsarException


class BackoffOver(NamedTuple):
    """It is time to try again."""

    generation: int


class OperationTimedOut(NamedTuple):
    """The operation timeout is over."""

    generation: int


# Effects.


class TakeTurn(NamedTuple):
    """Queue the lookup: `TurnCame` follows, or `TurnDenied` at once."""


class GiveTurn(NamedTuple):
    """Let the next lookup in the queue run."""


class LookupTarget(NamedTuple):
    """The broker to ask, or the broker that serves a topic: its name and the address to dial.

    None stands for the service URL: the one that the client had at its change number `service`, or `cluster` if the
    topic has moved to another cluster.
    """

    logical: str | None
    physical: str | None
    service: int = 0
    cluster: str | None = None


class AttachTo(NamedTuple):
    """Get a connection; answer with `LookupAttached` or `LookupAttachFailed`."""

    target: LookupTarget


class SendLookup(NamedTuple):
    """Send the request on that connection; answer with `LookupAnswered` or `LookupRefused`."""

    command: Any
    timeout: float


class AttemptFailed(NamedTuple):
    """Report a failure that is tried again after a backoff, so that a caller that gives up meanwhile can name it."""

    error: PulsarException


class Found(NamedTuple):
    """End the lookup with the answer; for a topic also with the broker that serves it."""

    command: Any
    target: LookupTarget | None


class NotFound(NamedTuple):
    """End the lookup with an error."""

    error: PulsarException


def route_to_broker(logical: str | None, physical: str | None, service: ServiceUrl) -> BrokerRoute:
    """Find the route to a broker by its name and its address; if both are missing, any host of the service URL will do.

    Raises InvalidUrl if one of them is no URL.
    """
    if physical is not None:
        return BrokerRoute(ServiceUrl.parse(physical), None)
    if logical is None:
        return BrokerRoute(service, None)
    named = ServiceUrl.parse(logical)
    if named.hosts[0] in service.hosts:
        return BrokerRoute(ServiceUrl(service.scheme, named.hosts), None)
    return BrokerRoute(service, str(named._replace(hosts=named.hosts[:1])).partition("://")[2])


def is_broker_address(address: str, *, tls: bool) -> bool:
    """Return whether the address is a URL of the binary protocol, encrypted if and only if `tls`."""
    try:
        return ServiceUrl.parse(address).scheme == ("pulsar+ssl" if tls else "pulsar")
    except InvalidUrl:
        return False


def is_broker_name(name: str) -> bool:
    """Return whether a proxy may know a broker by this name: a URL of the binary protocol, encrypted or not."""
    return is_broker_address(name, tls=False) or is_broker_address(name, tls=True)


def usable_address(plain: str, encrypted: str, *, tls: bool) -> str:
    """Return the address of the kind that counts; empty if it is missing or of the other kind."""
    address = encrypted if tls else plain
    return address if is_broker_address(address, tls=tls) else ""
