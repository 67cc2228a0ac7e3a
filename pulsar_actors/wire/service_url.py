"""Service URLs, the addresses of clusters, such as `pulsar://host1:6650,host2,[::1]:6652`; and addresses of brokers.

A service URL is a scheme and one or more hosts, each with a port or with the scheme's default: `pulsar` 6650,
`pulsar+ssl` 6651, `http` 80, `https` 443. Brokers name each other in the same form, so lookup answers are read here
too.

A service URL has no other parts. Other clients silently ignore a path or a user name. This client refuses both, except
for one slash at the end. Credentials belong to the `authentication` option, and an error never repeats a part where
people put secrets: before an `@` (or `%40`), after the hosts, or in the place of a port that is no number.

Host names are ASCII (an international name is written in its `xn--` form) and are compared in lower case. The zone of
an IPv6 address (`%eth0`) takes the unreserved characters of RFC 3986, since it is written into addresses and headers.

A broker gives two addresses, for plain connections and for TLS. The user's choice decides which one is used. If the
field has an address of the other kind, it counts as missing: an answer must never lead a client that has to use TLS to
a plain connection.

A broker that is named without an address to dial is reached through the service URL. A proxy answers there, and must be
told the broker's name, unless the service URL names that broker itself. Only the service URL decides if that connection
uses TLS. The connections from the proxy to brokers may differ: a proxy with TLS to its clients and plain connections to
its brokers names the brokers by their plain addresses.
"""

import re

from pulsar_actors.exceptions import InvalidUrl
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.errors import excerpt

_PORTS = {"pulsar": 6650, "pulsar+ssl": 6651, "http": 80, "https": 443}
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", re.IGNORECASE | re.ASCII)
_MAX_PORT = 65535
_PORT = re.compile(r"[0-9]{1,5}")
_ZONE = re.compile(r"[a-z0-9._~-]+", re.IGNORECASE | re.ASCII)
_LONGEST = 16_384  # characters: hundreds of hosts with long names


class ServiceUrl(NamedTuple):
    """A scheme and its hosts, each once; an IPv6 address is kept without its brackets."""

    scheme: str
    hosts: tuple[tuple[str, int], ...]

    @classmethod
    def parse(cls, text: str) -> "ServiceUrl":
        """Read a service URL of one host or several."""
        try:
            scheme, separator, rest = text.partition("://")
        except (AttributeError, TypeError) as fault:
            raise InvalidUrl(f"a service URL is a str, not {type(text).__name__}") from fault
        if len(text) > _LONGEST:
            raise InvalidUrl(f"a service URL has at most {_LONGEST:,} characters, not {len(text):,}")
        if "@" in text or "%40" in text:
            raise InvalidUrl(
                "a service URL takes no user name or password (not repeated here): use the authentication option"
            )
        scheme = scheme.lower()
        if not separator or scheme not in _PORTS:
            meant = "" if separator else _suggestion(text)
            raise InvalidUrl(f"a service URL begins with one of {', '.join(f'{name}://' for name in _PORTS)}{meant}")
        if "://" in rest:
            raise InvalidUrl(f"a service URL has its scheme once, before the first of its hosts: {scheme}://a:1,b:1")
        authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
        hosts = tuple(dict.fromkeys(_parse_host(part, _PORTS[scheme]) for part in authority.split(",")))
        if rest[len(authority) :] not in {"", "/"}:
            raise InvalidUrl(f"nothing may follow the hosts of a service URL, {excerpt(authority)}, except one '/'")
        return cls(scheme, hosts)

    @property
    def is_tls(self) -> bool:
        """True for pulsar+ssl and https."""
        return self.scheme in {"pulsar+ssl", "https"}

    @property
    def is_http(self) -> bool:
        """True if topics are looked up over HTTP."""
        return self.scheme in {"http", "https"}

    @property
    def origins(self) -> tuple[str, ...]:
        """The URL of each single host."""
        return tuple(f"{self.scheme}://{host}" for host in self._addresses())

    def starting_with(self, turn: int) -> "ServiceUrl":
        """Return the URL with its hosts rotated, so that each turn begins with the host after the one before."""
        first = turn % len(self.hosts)
        return self._replace(hosts=self.hosts[first:] + self.hosts[:first])

    def __str__(self) -> str:
        return f"{self.scheme}://{','.join(self._addresses())}"

    def _addresses(self) -> list[str]:
        return [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts]


def _suggestion(text: str) -> str:
    """Suggest the URL for hosts without a scheme if each has a port: a lone word may be a secret."""
    if not all(":" in host for host in text.split(",")):
        return ""
    try:
        return f"; write {excerpt(str(ServiceUrl.parse(f'pulsar://{text}')))}"
    except InvalidUrl:
        return ""


def _parse_host(text: str, default_port: int) -> tuple[str, int]:
    if not text:
        raise InvalidUrl("a host of the service URL is empty")
    if text.startswith("["):
        address, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise InvalidUrl("a host of the service URL is not an IPv6 address in brackets, with or without a port")
        host = _parse_ipv6(address)
        return host, _parse_port(rest[1:], f"[{host}]") if rest else default_port
    host, colon, port = text.partition(":")
    if ":" in port:
        raise InvalidUrl(
            "a host of the service URL has more than one colon: an IPv6 address goes in brackets, as in [::1]:6650"
        )
    if not _HOST.fullmatch(host):
        problem = "is not a host name: it takes ASCII letters, digits, '-', '_' and single dots"
        raise InvalidUrl(f"{excerpt(host)} {problem}")
    return host.lower(), _parse_port(port, host) if colon else default_port


def _parse_ipv6(text: str) -> str:
    from ipaddress import AddressValueError, IPv6Address  # noqa: PLC0415 - few programs need it

    zone = text.partition("%")[2]
    try:
        address = str(IPv6Address(text))
    except AddressValueError:  # its text repeats all of the address
        raise InvalidUrl(f"{excerpt(text)} is not an IPv6 address") from None
    if zone and not _ZONE.fullmatch(zone):
        raise InvalidUrl(f"{excerpt(zone)} is not the zone of an IPv6 address: letters, digits, '-', '.', '_' and '~'")
    return address


def _parse_port(text: str, host: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InvalidUrl(f"a port of the service URL (not repeated here) is not a number from 1 to {_MAX_PORT}")
    port = int(text) if _PORT.fullmatch(text) else 0
    if not 1 <= port <= _MAX_PORT:
        raise InvalidUrl(f"the port of {excerpt(f'{host}:{text}')} is not a number from 1 to {_MAX_PORT}")
    return port


class BrokerRoute(NamedTuple):
    """The address to dial, with TLS or not as the scheme says, and the broker to ask a proxy for, as `host:port`."""

    dial: ServiceUrl
    proxied_broker: str | None


def route_to_broker(logical: str | None, physical: str | None, service: ServiceUrl) -> BrokerRoute:
    """Find the route to a broker by its name and its address. If both are missing, any host of the service URL is used.

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
    """Return the address for plain or TLS connections; empty if it is missing or of the other kind."""
    address = encrypted if tls else plain
    return address if is_broker_address(address, tls=tls) else ""
