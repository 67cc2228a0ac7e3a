"""Where the cluster is: `pulsar://host1:6650,host2,[::1]:6652`.

A service URL is a scheme and one or more hosts, each with a port or with the scheme's own: `pulsar` 6650,
`pulsar+ssl` 6651, `http` 80, `https` 443. Brokers name each other in the same form, so
lookup answers are read here too.

Nothing else belongs to it. Other clients drop a path without a word, or take a user name and forget it; here either
is refused, except for a lone slash at the end. Credentials come through the `authentication` option, and an error
never repeats what stood before an `@` or after the hosts, since that is where people put secrets.
Host names are ASCII (an international name goes in its `xn--` form) and are compared in lower case.
"""

import re
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple

from pulsar_actors.exceptions import InvalidUrl

_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE | re.ASCII)
_MAX_PORT = 65535
_PORT = re.compile(r"[0-9]{1,5}")


class ServiceUrl(NamedTuple):
    """A scheme and its hosts; an IPv6 address stands without its brackets."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, text: str) -> "ServiceUrl":
        """Read a service URL of one host or several."""
        if "@" in text:
            raise InvalidUrl(
                "a service URL takes no user name or password (not repeated here): use the authentication option"
            )
        scheme, separator, rest = text.partition("://")
        scheme = scheme.lower()
        if not separator or scheme not in _PORTS:
            raise InvalidUrl(f"a service URL begins with one of {', '.join(f'{name}://' for name in _PORTS)}")
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        if rest[len(authority) :] not in {"", "/"}:
            raise InvalidUrl(f"nothing may follow the hosts of a service URL, {authority!r}, except one '/'")
        return cls(scheme, tuple(_parse_host(part, _PORTS[scheme]) for part in authority.split(",")))

    @property
    def is_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.scheme in {"pulsar+ssl", "https"}

    @property
    def is_http(self) -> bool:
        """Whether topics are looked up over HTTP."""
        return self.scheme in {"http", "https"}

    def __str__(self) -> str:
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return f"{self.scheme}://{hosts}"


def _parse_host(text: str, default_port: int) -> tuple[str, int]:
    if not text:
        raise InvalidUrl("a host of the service URL is empty")
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise InvalidUrl(f"{text!r} is not an IPv6 address in brackets, with or without a port")
        return _parse_ipv6(address), _parse_port(rest[1:], text) if rest else default_port
    host, colon, port = text.partition(":")
    if ":" in port:
        raise InvalidUrl(f"{text!r} has more than one colon: an IPv6 address goes in brackets, as in [::1]:6650")
    if not _HOST.fullmatch(host):
        raise InvalidUrl(f"{host!r} is not a host name: it takes ASCII letters, digits, '-', '_' and single dots")
    return host.lower(), _parse_port(port, text) if colon else default_port


def _parse_ipv6(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except AddressValueError as error:
        raise InvalidUrl(f"{text!r} is not an IPv6 address") from error


def _parse_port(text: str, host: str) -> int:
    port = int(text) if _PORT.fullmatch(text) else 0
    if not 1 <= port <= _MAX_PORT:
        raise InvalidUrl(f"the port of {host!r} is not a number from 1 to {_MAX_PORT}")
    return port
