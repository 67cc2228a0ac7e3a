"""What the statistics say of one topic, and of all partitions together, under Pulsar's names.

As in `subscription_stats.py`, what has no meaning here is there with the values of a broker that uses none of it.
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, Protocol, cast

from pulsar_actors.broker.model.consumer_stats import instant, rate
from pulsar_actors.broker.model.log import Log
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.producer_stats import producer_stats
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.subscription_stats import cursor_stats, subscription_stats
from pulsar_actors.broker.model.topic_counters import TopicCounters
from pulsar_actors.wire.topic_name import TopicName

_NEVER_ANYTHING: dict[str, Any] = {
    "systemTopicBytesInCounter": 0,
    "bytesOutInternalCounter": 0,
    "backlogQuotaLimitSize": -1,
    "backlogQuotaLimitTime": -1,
    "oldestBacklogMessageAgeSeconds": -1,
    "publishRateLimitedTimes": 0,
    "earliestMsgPublishTimeInBacklogs": 0,
    "offloadedStorageSize": 0,
    "lastOffloadLedgerId": 0,
    "lastOffloadSuccessTimeStamp": 0,
    "lastOffloadFailureTimeStamp": 0,
    "ongoingTxnCount": 0,
    "abortedTxnCount": 0,
    "committedTxnCount": 0,
    "replication": {},
    "nonContiguousDeletedMessagesRangesSerializedSize": 0,
    "delayedMessageIndexSizeInBytes": 0,
    "compaction": {
        "lastCompactionRemovedEventCount": 0,
        "lastCompactionSucceedTimestamp": 0,
        "lastCompactionFailedTimestamp": 0,
        "lastCompactionDurationTimeInMills": 0,
    },
}


class Observed(Protocol):
    """A topic, as far as its statistics go."""

    name: TopicName
    log: Log
    subscriptions: dict[str, Subscription]
    terminated: bool
    counters: TopicCounters

    @property
    def producers(self) -> dict[str, Producer]:
        """Those that are connected."""
        ...

    @property
    def waiting_producers(self) -> int:
        """How many producers wait."""
        ...

    @property
    def deduplicates(self) -> bool:
        """Whether duplicates are dropped."""
        ...

    def now_ms(self) -> int:
        """Read the clock."""
        ...


_NOT_SUMMED = {*_NEVER_ANYTHING, "deduplicationStatus"}


def topic_stats(topic: Observed) -> dict[str, Any]:
    """Give what `GET …/stats` gives."""
    now_ms = topic.now_ms()
    log, counters = topic.log, topic.counters
    publishers = [producer_stats(producer, now_ms) for producer in topic.producers.values()]
    subscriptions = {name: subscription_stats(each) for name, each in topic.subscriptions.items()}
    stats = {
        **_NEVER_ANYTHING,
        "msgRateOut": _total(subscriptions, "msgRateOut"),
        "msgThroughputOut": _total(subscriptions, "msgThroughputOut"),
        "nonContiguousDeletedMessagesRanges": int(_total(subscriptions, "nonContiguousDeletedMessagesRanges")),
        "msgRateIn": rate(counters.messages_in, counters.loaded_ms, now_ms),
        "msgThroughputIn": rate(counters.bytes_in, counters.loaded_ms, now_ms),
        "bytesInCounter": counters.bytes_in,
        "msgInCounter": counters.messages_in,
        "bytesOutCounter": counters.bytes_out + sum(each["bytesOutCounter"] for each in subscriptions.values()),
        "msgOutCounter": counters.messages_out + sum(each["msgOutCounter"] for each in subscriptions.values()),
        "averageMsgSize": counters.bytes_in / counters.messages_in if counters.messages_in else 0.0,
        "msgChunkPublished": counters.chunks_in > 0,
        "storageSize": log.size,
        "backlogSize": max((each["backlogSize"] for each in subscriptions.values()), default=0),
        "publishers": publishers,
        "waitingPublishers": topic.waiting_producers,
        "subscriptions": subscriptions,
        "topicCreationTimeStamp": counters.created_ms,
        "lastPublishTimeStamp": counters.last_publish_ms,
    }
    if topic.name.is_persistent:
        return {**stats, "deduplicationStatus": "Enabled" if topic.deduplicates else "Disabled"}
    return {
        **stats,
        "msgDropRate": _total(subscriptions, "msgDropRate"),
        "publishers": [{**each, "msgDropRate": 0.0} for each in publishers],
    }


def _total(subscriptions: Mapping[str, dict[str, Any]], name: str) -> float:
    return sum((each.get(name, 0.0) for each in subscriptions.values()), 0.0)


def internal_stats(topic: Observed) -> dict[str, Any]:
    """Give what `GET …/internalStats` gives."""
    log = topic.log
    ledgers = log.ledgers
    firsts = accumulate((entries for _, entries in ledgers), initial=0)
    stats = {
        "entriesAddedCounter": log.end,
        "numberOfEntries": log.end - log.base,
        "totalSize": log.size,
        "currentLedgerEntries": ledgers[-1][1],
        "currentLedgerSize": log.size_from(log.end - ledgers[-1][1]),
        "waitingCursorsCount": sum(each.cursor.read >= log.end for each in topic.subscriptions.values()),
        "pendingAddEntriesCount": 0,
        "cursors": {name: cursor_stats(each) for name, each in topic.subscriptions.items()},
    }
    if not topic.name.is_persistent:
        return stats
    return {
        **stats,
        "lastLedgerCreatedTimestamp": instant(topic.counters.loaded_ms),
        "lastConfirmedEntry": "{}:{}".format(*log.last_position),
        "state": "Terminated" if topic.terminated else "LedgerOpened",
        "ledgers": [
            *(
                _ledger(ledger, entries, log.size_from(first, entries))
                for (ledger, entries), first in zip(ledgers[:-1], firsts, strict=False)
            ),
            _ledger(ledgers[-1][0], 0),  # of the open one it says nothing
        ],
        "properties": {},
        "schemaLedgers": [],
        "compactedLedger": _ledger(-1, -1, size=-1),
    }


def _ledger(ledger_id: int, entries: int, size: int = 0) -> dict[str, Any]:
    return {
        "ledgerId": ledger_id,
        "entries": entries,
        "size": size,
        "offloaded": False,
        "underReplicated": False,
    }


def partitioned_stats(partitions: Mapping[str, dict[str, Any]], count: int) -> dict[str, Any]:
    """Add up the statistics of partitions: numbers are summed, and subscriptions of one name are one."""
    total: dict[str, Any] = {**_NEVER_ANYTHING, "publishers": [], "subscriptions": {}}
    for stats in partitions.values():
        _add(total, {name: value for name, value in stats.items() if name not in _NOT_SUMMED})
    return {**total, "metadata": {"partitions": count, "deleted": False}, "partitions": dict(partitions)}


def _add(total: dict[str, Any], stats: Mapping[str, Any]) -> None:
    for name, value in stats.items():
        if isinstance(value, Mapping):
            _add(total.setdefault(name, {}), cast("Mapping[str, Any]", value))
        elif name not in total or isinstance(value, (bool, str)):
            total[name] = value
        else:
            total[name] += value
