"""Which addresses in a broker's answers lead to a broker.

Brokers give their addresses twice, for plain connections and for TLS, and which of the two counts is the user's choice.
An address of the other kind in its place is no address: a client that was told to encrypt is not led into the open by
an answer, whoever has configured it so.
"""

from pulsar_actors.exceptions import InvalidUrl
from pulsar_actors.wire.service_url import ServiceUrl


def leads_to_a_broker(address: str, *, tls: bool) -> bool:
    """Tell whether it is a URL of the binary protocol, and encrypted if and only if it has to be."""
    try:
        return ServiceUrl.parse(address).scheme == ("pulsar+ssl" if tls else "pulsar")
    except InvalidUrl:
        return False


def address_of_our_kind(plain: str, encrypted: str, *, tls: bool) -> str:
    """Choose between the two that an answer gives; give nothing if ours leads nowhere."""
    address = encrypted if tls else plain
    return address if leads_to_a_broker(address, tls=tls) else ""
