"""What a broker tells its administrators of a topic: asked at `admin.url`, with the client's own credentials.

Brokers send who asks another of them on to the one that has the topic. Credentials do not follow: they go to the hosts
that `admin.url` names, which may be several, and to no others.
"""

import json
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, Final, TypeVar
from urllib.parse import urljoin

from pulsar_actors.client.connecting import entrance
from pulsar_actors.exceptions import ConnectError, InvalidConfiguration, PulsarException
from pulsar_actors.runtime.http import Answer, Question, endpoint_of
from pulsar_actors.runtime.http_lookup import credentials_of
from pulsar_actors.spark.cluster import Cluster
from pulsar_actors.spark.ledgers import Ledger, Ledgers
from pulsar_actors.wire.service_url import ServiceUrl
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["Statistics"]

T = TypeVar("T")

OK: Final = 200
UNAUTHORIZED: Final = 401
REDIRECTS: Final = (301, 302, 307, 308)
MOST_REDIRECTS: Final = 10
MOST_BYTES: Final = 64 << 20
_NO_HEADERS: Final[Mapping[str, str]] = {}


class Statistics:
    """Those of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        if cluster.admin_url is None:
            raise InvalidConfiguration("statistics need admin.url, such as http://host:8080")
        options = cluster.options()
        self._service = ServiceUrl.parse(cluster.admin_url)
        self._timeout = float(options.operation_timeout_seconds)
        self._entrance = entrance(options)

    def ledgers(self, topic: TopicName) -> Ledgers:
        """Ask for the ledgers of a partition."""
        ledgers, entries = self._ask(topic, "internalStats", _ledgers_in)
        messages = self._ask(topic, "stats", itemgetter("msgInCounter")) if entries else 0
        return Ledgers(ledgers, max(1.0, messages / entries) if entries else 1.0)

    def deduplicates(self, topic: TopicName) -> bool:
        """Tell whether the broker drops what it has already."""
        return self._ask(topic, "stats", lambda stats: stats.get("deduplicationStatus")) == "Enabled"

    def close(self) -> None:
        """Close what is open."""
        self._entrance.http.close()

    def _ask(self, topic: TopicName, what: str, read: Callable[[dict[str, Any]], T]) -> T:
        fault: ConnectError | None = None
        for origin in self._service.origins:
            try:
                answer = self._answer(f"{origin}/admin/v2/{topic.rest_path}/{what}")
            except ConnectError as error:
                fault = error
                continue
            if answer.status == OK:
                return _read(answer, what, read)
            hint = "; credentials go to the hosts that admin.url names, and it can name several"
            raise PulsarException(
                f"admin.url answers {answer.status} to the question for the {what} of {topic}"
                f"{hint if answer.status == UNAUTHORIZED else ''}"
            )
        raise PulsarException(f"the {what} of {topic} cannot be had at admin.url: {fault}") from fault

    def _answer(self, url: str) -> Answer:
        """Ask, and follow where that leads."""
        trusted = {(self._service.scheme, *host) for host in self._service.hosts}
        for _ in range(MOST_REDIRECTS):
            headers = credentials_of(self._entrance) if endpoint_of(url) in trusted else _NO_HEADERS
            answer = self._entrance.http.ask(Question(url, self._timeout, headers=headers, most_bytes=MOST_BYTES))
            if answer.status not in REDIRECTS or "location" not in answer.headers:
                return answer
            url = urljoin(url, answer.headers["location"])
        raise ConnectError("admin.url redirects again and again")


def _read(answer: Answer, what: str, read: Callable[[dict[str, Any]], T]) -> T:
    try:
        return read(json.loads(answer.body))
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        raise PulsarException(
            f"what admin.url answers to the question for the {what} of a topic is none of Pulsar's: is it the brokers' "
            f"web server? ({type(fault).__name__}: {fault})"
        ) from fault


def _ledgers_in(internal: dict[str, Any]) -> tuple[list[Ledger], int]:
    """Give the ledgers, and how many entries came since the topic was loaded."""
    ledgers = [Ledger(one["ledgerId"], one["entries"], one["size"]) for one in internal["ledgers"]]
    if ledgers:  # of the one that is being written nothing is said there
        ledgers[-1] = Ledger(ledgers[-1].ledger_id, internal["currentLedgerEntries"], internal["currentLedgerSize"])
    return ledgers, internal["entriesAddedCounter"]
