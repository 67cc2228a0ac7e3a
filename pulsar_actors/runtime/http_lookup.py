"""A lookup over HTTP: one request and its answer. It blocks, so it runs off the loop.

The hosts of the service URL are tried in turn, each with its share of the time. A host that cannot be reached, whose
certificate is refused, or that fails (a status from 500 on) leaves the request to the next. Any other response is the
answer. A redirect is not followed here: the lookup's state machine decides that, and counts redirects.

If every host lets the time for a connection pass, that is a ConnectTimeout, which no retry follows: the service URL may
be wrong. But hosts that have answered before are in trouble, or are starting, and a client may go to another cluster.

Credentials go only to the hosts of the service URL, which the user has named. They do not follow a redirect to another
host: otherwise a single response could send them anywhere.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urljoin

from google.protobuf.message import Message

from pulsar_actors.exceptions import (
    AuthenticationError,
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    ConnectTimeout,
    ErrorGettingAuthenticationData,
    InvalidUrl,
    Misdirected,
    PulsarException,
)
from pulsar_actors.machines.lookup_events import LookupAnswered, Redirected
from pulsar_actors.machines.trackers.server_errors import refusal
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.connection_actor import ServiceAccess
from pulsar_actors.runtime.http_client import HttpRequest, HttpResponse, endpoint_of
from pulsar_actors.wire.errors import excerpt
from pulsar_actors.wire.http_lookup import error_of_status, parse_answer, parse_reason, request_path
from pulsar_actors.wire.service_url import ServiceUrl

__all__ = ["HttpLookup", "auth_headers", "is_of_a_host"]


MAX_RESPONSE_BYTES: Final = 64 << 20
"""The most bytes in one response: a namespace may have hundreds of thousands of topics."""

_NO_HEADERS: Final[Mapping[str, str]] = {}


class HttpLookup(NamedTuple):
    """A request to the service URL, or to the address of a redirect, and the time when it must be answered."""

    command: Message
    service: ServiceUrl
    address: str | None
    deadline: float
    silence_may_end: bool = False  # the hosts have answered before, or the client can change to another cluster

    def send(self, access: ServiceAccess, now: Callable[[], float]) -> LookupAnswered | Redirected:
        """Send the request, and return the answer or a redirect. Raise any other outcome."""
        urls, trusted = self._urls(), {(self.service.scheme, *host) for host in self.service.hosts}
        headers = auth_headers(access) if endpoint_of(urls[0]) in trusted else _NO_HEADERS
        faults = list[PulsarException]()
        for left in range(len(urls), 0, -1):
            url = urls[-left]
            share = max(0.001, (self.deadline - now()) / left)
            try:
                response = access.http.send(HttpRequest(url, share, headers=headers, most_bytes=MAX_RESPONSE_BYTES))
            except ConnectError as fault:
                faults.append(fault)
                continue
            if headers:
                access.report_verdict(not _rejects_credentials(url, response))
            if response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return self._judge(url, response, without_credentials=bool(not headers and self.address))
            faults.append(_refused(url, response))
        raise _error_of_all(faults, silence_may_end=self.silence_may_end)

    def _urls(self) -> list[str]:
        if self.address is None:
            path = request_path(self.command)
            return [f"{origin}{path}" for origin in self.service.origins]
        try:
            endpoint_of(self.address)
        except InvalidUrl as fault:
            raise Misdirected(f"a redirect leads to what is no address: {fault}") from None
        return [self.address]

    def _judge(self, url: str, response: HttpResponse, *, without_credentials: bool) -> LookupAnswered | Redirected:
        if response.status == HTTPStatus.OK:
            try:
                return LookupAnswered(parse_answer(self.command, response.body))
            except Misdirected as fault:
                raise Misdirected(f"{_host(url)}: {fault}") from fault
        if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST and "location" in response.headers:
            return Redirected(_address(url, response.headers["location"]))
        refused = _refused(url, response)
        if without_credentials and _rejects_credentials(url, response):
            hint = "credentials do not follow a redirect: put this host into the service URL as well"
            raise type(refused)(refused.code, f"{refused.reason}; {hint}")
        raise refused


def is_of_a_host(outcome: object) -> bool:
    """Return whether the outcome of a lookup shows that a host has answered it."""
    if isinstance(outcome, ErrorGettingAuthenticationData):  # nobody was asked
        return False
    return isinstance(outcome, (LookupAnswered, Redirected, BrokerRefusal))


def _address(url: str, location: str) -> str:
    """Return the full address of a redirect."""
    try:
        return urljoin(url, location)
    except ValueError:
        raise Misdirected(f"{_host(url)} redirects to what is no address: {excerpt(location)}") from None


def auth_headers(access: ServiceAccess) -> Mapping[str, str]:
    """Return the headers with the credentials; a client certificate needs none."""
    try:
        method, data = access.fetch_credentials(None)
    except PulsarException:
        raise
    except BaseException as fault:  # a user's own method may call sys.exit()
        why = str(fault) or type(fault).__name__
        raise ErrorGettingAuthenticationData("AuthenticationError", f"no credentials could be had: {why}") from fault
    match method:
        case "token":
            text = f"Bearer {data.decode('latin-1')}"  # in a header each byte stands for itself
        case "basic":
            text = f"Basic {b64encode(data).decode()}"
        case "athenz":
            return {"Athenz-Role-Auth": data.decode("latin-1")}
        case _:
            return _NO_HEADERS
    return {"Authorization": text, "X-Pulsar-Auth-Method-Name": method}


def _rejects_credentials(url: str, response: HttpResponse) -> bool:
    """Return whether the server does not know who asks. It also answers 401 to a known role that may not do this."""
    return response.status == HTTPStatus.UNAUTHORIZED and isinstance(_refused(url, response), AuthenticationError)


def _refused(url: str, response: HttpResponse) -> BrokerRefusal:
    """Return the error that the binary protocol has for a status."""
    reason = parse_reason(response.body)
    error = error_of_status(response.status, reason)
    return refusal(error, f"{_host(url)} answers {response.status}: {reason}")


def _error_of_all(faults: list[PulsarException], *, silence_may_end: bool) -> PulsarException:
    """Choose the error for several hosts: a refused certificate or silence is final only if it is that of all."""
    passing = [fault for fault in faults if not isinstance(fault, CertificateRefused)]
    last = passing[-1] if passing else faults[-1]
    if not isinstance(last, ConnectTimeout):
        return last
    if silence_may_end or not all(isinstance(fault, ConnectTimeout) for fault in faults):
        return ConnectError(str(last))
    return ConnectTimeout("; ".join(str(fault) for fault in faults))


def _host(url: str) -> str:
    _, host, port = endpoint_of(url)
    return f"{host}:{port}"
