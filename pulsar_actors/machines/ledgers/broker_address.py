"""Which addresses in a broker's answers lead to a broker, and how one gets there.

Brokers give their addresses twice, for plain connections and for TLS, and which of the two counts is the user's choice.
An address of the other kind in its place is no address: a client that was told to encrypt is not led into the open by
an answer, whoever has configured it so.

A broker that is named without an address to dial is reached through the service URL. What answers there is a proxy,
which has to be told the broker's name, unless the service URL names that broker itself. Whether the way there is
encrypted is up to the service URL alone: how the proxy goes on from there is its own affair, and one that speaks TLS
with its clients and none with its brokers names these by their plain addresses.
"""

from typing import NamedTuple

from pulsar_actors.exceptions import InvalidUrl
from pulsar_actors.wire.service_url import ServiceUrl


class Way(NamedTuple):
    """Whom to dial, with TLS or not as the scheme says, and which broker to ask a proxy for, as `host:port`."""

    dial: ServiceUrl
    behind: str | None


def way_to(logical: str | None, physical: str | None, service: ServiceUrl) -> Way:
    """Find the way to a broker by its name and its address; both may be missing, and then any host will do.

    Raises InvalidUrl if what is there makes no sense.
    """
    if physical is not None:
        return Way(ServiceUrl.parse(physical), None)
    if logical is None:
        return Way(service, None)
    named = ServiceUrl.parse(logical)
    if named.hosts[0] in service.hosts:
        return Way(ServiceUrl(service.scheme, named.hosts), None)
    return Way(service, str(named._replace(hosts=named.hosts[:1])).partition("://")[2])


def leads_to_a_broker(address: str, *, tls: bool) -> bool:
    """Tell whether it is a URL of the binary protocol, and encrypted if and only if it has to be."""
    try:
        return ServiceUrl.parse(address).scheme == ("pulsar+ssl" if tls else "pulsar")
    except InvalidUrl:
        return False


def names_a_broker(name: str) -> bool:
    """Tell whether it is a URL of the binary protocol, encrypted or not, by which a proxy knows a broker."""
    return leads_to_a_broker(name, tls=False) or leads_to_a_broker(name, tls=True)


def address_of_our_kind(plain: str, encrypted: str, *, tls: bool) -> str:
    """Choose between the two that an answer gives; give nothing if ours leads nowhere."""
    address = encrypted if tls else plain
    return address if leads_to_a_broker(address, tls=tls) else ""
