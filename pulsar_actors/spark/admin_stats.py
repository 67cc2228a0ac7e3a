"""Statistics from the brokers' web server, `admin.url`: the ledgers of a partition, and whether deduplication is on.

Message ids have gaps, so only the statistics show the number of entries between two ids: they list the ledgers with
their entries and bytes. They do not count messages. The average number of messages in an entry is calculated from the
messages published since the topic was loaded, and is 1 if there were none.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from itertools import pairwise
from operator import itemgetter
from typing import Any, TypeVar

from pulsar_actors.client.admin import AdminInterface
from pulsar_actors.exceptions import ConnectError, InvalidConfiguration, PulsarException
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.http_client import HttpResponse
from pulsar_actors.spark.cluster_access import ClusterAccess
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TopicPosition

__all__ = ["AdminStats", "Ledger", "Ledgers"]


class Ledger(NamedTuple):
    """One ledger, with the number of its entries and their size in bytes."""

    ledger_id: int
    entries: int
    size: int


class Ledgers(NamedTuple):
    """The ledgers of one partition, in order; `messages_per_entry` is an average."""

    ledgers: Sequence[Ledger]
    messages_per_entry: float

    def entries(self, start: TopicPosition, end: TopicPosition) -> int:
        """Count the entries between two positions, including those that are only partly between them."""
        return sum(last - first for _, first, last in self._ranges(start, end))

    def messages(self, start: TopicPosition, end: TopicPosition) -> int:
        """Estimate the messages between two positions."""
        return round(self.entries(start, end) * self.messages_per_entry)

    def size(self, start: TopicPosition, end: TopicPosition) -> float:
        """Estimate the bytes between two positions."""
        return sum((last - first) * ledger.size / ledger.entries for ledger, first, last in self._ranges(start, end))

    def after_bytes(self, start: TopicPosition, end: TopicPosition, most: float) -> TopicPosition:
        """Return the position so many bytes after the start, at least one entry, and not after the end."""
        entries = 0
        remaining = most
        for ledger, first, last in self._ranges(start, end):
            each = ledger.size / ledger.entries
            fit = last - first if not each else min(last - first, int(remaining / each))
            entries += fit
            remaining -= fit * each
            if fit < last - first:
                break
        return self._after(start, end, max(1, entries))

    def split(self, start: TopicPosition, end: TopicPosition, parts: int) -> list[tuple[TopicPosition, TopicPosition]]:
        """Split the range between two positions into parts with about as many entries each, of one entry at least."""
        count = self.entries(start, end)
        parts = max(1, min(parts, count))
        cuts = [start, *(self._after(start, end, count * part // parts) for part in range(1, parts)), end]
        return [(first, last) for first, last in pairwise(cuts) if first < last]

    def _after(self, start: TopicPosition, end: TopicPosition, entries: int) -> TopicPosition:
        for ledger, first, last in self._ranges(start, end):
            if entries < last - first:
                return TopicPosition(ledger.ledger_id, first + entries)
            entries -= last - first
            if not entries:
                return min(end, TopicPosition(ledger.ledger_id, last))
        return end

    def _ranges(self, start: TopicPosition, end: TopicPosition) -> Iterator[tuple[Ledger, int, int]]:
        """Return the ledgers between two positions, each with its first entry there, and the one after its last."""
        for ledger in self.ledgers:
            first = start.entry_id if ledger.ledger_id == start.ledger_id else 0
            last = ledger.entries
            if ledger.ledger_id == end.ledger_id:
                last = min(last, end.entry_id + (1 if end.batch_index else 0))
            is_between = start.ledger_id <= ledger.ledger_id <= end.ledger_id
            if is_between and first < last:
                yield ledger, first, last


T = TypeVar("T")


class AdminStats:
    """The statistics of one cluster."""

    def __init__(self, cluster: ClusterAccess) -> None:
        if cluster.admin_url is None:
            raise InvalidConfiguration("statistics need admin.url, such as http://host:8080")
        self._admin = AdminInterface(cluster.admin_url, cluster.options(), "admin.url")

    def ledgers(self, topic: TopicName) -> Ledgers:
        """Return the ledgers of a partition."""
        ledgers, entries = self._ask(topic, "internalStats", _parse_ledgers)
        messages = self._ask(topic, "stats", itemgetter("msgInCounter")) if entries else 0
        return Ledgers(ledgers, max(1.0, messages / entries) if entries else 1.0)

    def deduplicates(self, topic: TopicName) -> bool:
        """Return whether the broker drops duplicates of a partition's messages."""
        return self._ask(topic, "stats", lambda stats: stats.get("deduplicationStatus")) == "Enabled"

    def close(self) -> None:
        """Close the connections."""
        self._admin.close()

    def _ask(self, topic: TopicName, what: str, read: Callable[[dict[str, Any]], T]) -> T:
        try:
            answer = self._admin.call("GET", f"{topic.rest_path}/{what}")
        except ConnectError as fault:
            raise PulsarException(f"the {what} of {topic} cannot be had at admin.url: {fault}") from fault
        if answer.status == HTTPStatus.OK:
            return _parse_answer(answer, what, read)
        hint = "; credentials go to the hosts that admin.url names, and it can name several"
        raise PulsarException(
            f"admin.url answers {answer.status} to the question for the {what} of {topic}"
            f"{hint if answer.status == HTTPStatus.UNAUTHORIZED else ''}"
        )


def _parse_answer(answer: HttpResponse, what: str, read: Callable[[dict[str, Any]], T]) -> T:
    try:
        return read(json.loads(answer.body))
    except (ValueError, LookupError, TypeError, AttributeError) as fault:
        raise PulsarException(
            f"what admin.url answers to the question for the {what} of a topic is none of Pulsar's: is it the brokers' "
            f"web server? ({type(fault).__name__}: {fault})"
        ) from fault


def _parse_ledgers(internal: dict[str, Any]) -> tuple[list[Ledger], int]:
    """Return the ledgers, and the number of entries published since the topic was loaded."""
    ledgers = [Ledger(one["ledgerId"], one["entries"], one["size"]) for one in internal["ledgers"]]
    if ledgers:  # the ledger that is being written has zeros in the list
        ledgers[-1] = Ledger(ledgers[-1].ledger_id, internal["currentLedgerEntries"], internal["currentLedgerSize"])
    return ledgers, internal["entriesAddedCounter"]
