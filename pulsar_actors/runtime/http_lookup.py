"""One question about topics, asked over HTTP. It blocks, so it is asked off the loop.

The hosts of the service URL are tried in turn, each with its share of the time: one that is not there, whose
certificate is refused, or that is at fault (a status from 500 on) leaves it to the next. Whatever else comes is the
answer. A redirect is not followed here, for how far one goes is a decision.

Credentials go to the hosts of the service URL, for those are the user's own words. They do not follow a redirect to any
other: an answer would be enough to have them sent anywhere.
"""

import time
from base64 import b64encode
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, NamedTuple
from urllib.parse import urljoin

from google.protobuf.message import Message

from pulsar_actors.exceptions import (
    BrokerRefusal,
    CertificateRefused,
    ConnectError,
    ErrorGettingAuthenticationData,
    Misdirected,
    PulsarException,
)
from pulsar_actors.machines.ledgers.server_errors import refusal
from pulsar_actors.machines.lookup_events import Answered, Redirected
from pulsar_actors.runtime.connection_actor import Entrance
from pulsar_actors.runtime.http import Answer, Question, endpoint_of
from pulsar_actors.wire.excerpt import excerpt
from pulsar_actors.wire.http_questions import answer_in, error_of, path_of, reason_in
from pulsar_actors.wire.service_url import ServiceUrl

__all__ = ["HttpLookup", "credentials_of"]

MOST_BYTES: Final = 64 << 20
"""Of one answer: a namespace may have hundreds of thousands of topics."""

_NO_HEADERS: Final[Mapping[str, str]] = {}


class HttpLookup(NamedTuple):
    """A question, at the service URL or at the address that a redirect gave."""

    command: Message
    service: ServiceUrl
    address: str | None
    timeout: float

    def ask(self, entrance: Entrance) -> Answered | Redirected:
        """Ask it; what went wrong is raised."""
        urls, trusted = self._urls(), {(self.service.scheme, *host) for host in self.service.hosts}
        headers = credentials_of(entrance) if endpoint_of(urls[0]) in trusted else _NO_HEADERS
        deadline, faults = time.monotonic() + self.timeout, list[PulsarException]()
        for left in range(len(urls), 0, -1):
            url = urls[-left]
            share = max(0.001, (deadline - time.monotonic()) / left)
            try:
                answer = entrance.http.ask(Question(url, share, headers=headers, most_bytes=MOST_BYTES))
            except ConnectError as fault:
                faults.append(fault)
                continue
            if headers:
                entrance.judge(answer.status != HTTPStatus.UNAUTHORIZED)
            if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                return self._judge(url, answer, withheld=bool(not headers and self.address))
            faults.append(_refused(url, answer))
        raise _worth_saying(faults)

    def _urls(self) -> list[str]:
        if self.address is not None:
            return [self.address]
        path = path_of(self.command)
        return [f"{origin}{path}" for origin in self.service.origins]

    def _judge(self, url: str, answer: Answer, *, withheld: bool) -> Answered | Redirected:
        if answer.status == HTTPStatus.OK:
            try:
                return Answered(answer_in(self.command, answer.body))
            except Misdirected as fault:
                raise Misdirected(f"{_host(url)}: {fault}") from fault
        if HTTPStatus.MULTIPLE_CHOICES <= answer.status < HTTPStatus.BAD_REQUEST and "location" in answer.headers:
            return Redirected(_address(url, answer.headers["location"]))
        refused = _refused(url, answer)
        if withheld and answer.status == HTTPStatus.UNAUTHORIZED:
            hint = "credentials do not follow a redirect: put this host into the service URL as well"
            raise type(refused)(refused.code, f"{refused.reason}; {hint}")
        raise refused


def _address(url: str, location: str) -> str:
    """Make a whole address of where a redirect leads."""
    try:
        return urljoin(url, location)
    except ValueError:
        raise Misdirected(f"{_host(url)} redirects to what is no address: {excerpt(location)}") from None


def credentials_of(entrance: Entrance) -> Mapping[str, str]:
    """Make the headers that say who the client is; a certificate says so by itself."""
    try:
        method, data = entrance.fetch_credentials(None)
    except PulsarException:
        raise
    except BaseException as fault:  # sys.exit() of a user's own method is no more than that
        why = str(fault) or type(fault).__name__
        raise ErrorGettingAuthenticationData("AuthenticationError", f"no credentials could be had: {why}") from fault
    match method:
        case "token":
            text = f"Bearer {data.decode('latin-1')}"  # in a header, each byte as it is
        case "basic":
            text = f"Basic {b64encode(data).decode()}"
        case _:
            return _NO_HEADERS
    return {"Authorization": text, "X-Pulsar-Auth-Method-Name": method}


def _refused(url: str, answer: Answer) -> BrokerRefusal:
    """Make of a status the error that the binary protocol has for it."""
    reason = f"{_host(url)} answers {answer.status}: {reason_in(answer.body)}"
    return refusal(error_of(answer.status), reason)


def _worth_saying(faults: list[PulsarException]) -> PulsarException:
    """Choose what to say of several hosts: that a certificate was refused is final only if all of them were."""
    passing = [fault for fault in faults if not isinstance(fault, CertificateRefused)]
    return passing[-1] if passing else faults[-1]


def _host(url: str) -> str:
    _, host, port = endpoint_of(url)
    return f"{host}:{port}"
