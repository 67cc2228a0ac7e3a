"""The statistics of topics, subscriptions, consumers and producers, under Pulsar's names.

Fields without a meaning here (replication, filters, rate limits, the index of delayed messages on disk) have the values
of a real broker that uses none of these, because tools look for the fields. Rates are averages since the topic was
loaded, or since the consumer or producer connected, because no timer samples them once a minute.
"""

from collections.abc import Mapping
from datetime import datetime, timezone
from itertools import accumulate
from typing import Any, cast

from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.dispatcher import Dispatcher, NonPersistentDispatcher
from pulsar_actors.broker.model.producer import Producer
from pulsar_actors.broker.model.selectors import ActiveConsumerSelector, KeySelector
from pulsar_actors.broker.model.shared_dispatcher import MultipleConsumersDispatcher
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode, ProducerAccessMode

_UNUSED_SUBSCRIPTION_STATS: dict[str, Any] = {
    "msgRateExpired": 0.0,
    "consumersAfterMarkDeletePosition": {},
    "drainingHashesCount": 0,
    "drainingHashesClearedTotal": 0,
    "drainingHashesUnackedMessages": 0,
    "nonContiguousDeletedMessagesRangesSerializedSize": 0,
    "delayedMessageIndexSizeInBytes": 0,
    "filterProcessedMsgCount": 0,
    "filterAcceptedMsgCount": 0,
    "filterRejectedMsgCount": 0,
    "filterRescheduledMsgCount": 0,
    **{
        f"dispatchThrottled{what}EventsBy{whose}Limit": 0
        for whose in ("Subscription", "Topic", "Broker")
        for what in ("Msg", "Bytes")
    },
}
_SUMMED = {
    "msgRateOut": 0.0,
    "msgThroughputOut": 0.0,
    "msgRateRedeliver": 0.0,
    "messageAckRate": 0.0,
    "chunkedMessageRate": 0.0,
    "unackedMessages": 0,
}
_LATEST = ("lastConsumedFlowTimestamp", "lastConsumedTimestamp", "lastAckedTimestamp")
_UNUSED_TOPIC_STATS: dict[str, Any] = {
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
_NOT_SUMMED = {*_UNUSED_TOPIC_STATS, "deduplicationStatus"}
_MS = 1000.0


def topic_stats(topic: Topic) -> dict[str, Any]:
    """Return the answer to `GET …/stats`."""
    now_ms = topic.now_ms()
    managed_ledger, counters = topic.managed_ledger, topic.counters
    publishers = [producer_stats(producer, now_ms) for producer in topic.producers.values()]
    subscriptions = {name: subscription_stats(each) for name, each in topic.subscriptions.items()}
    stats = {
        **_UNUSED_TOPIC_STATS,
        "msgRateOut": _total(subscriptions, "msgRateOut"),
        "msgThroughputOut": _total(subscriptions, "msgThroughputOut"),
        "nonContiguousDeletedMessagesRanges": int(_total(subscriptions, "nonContiguousDeletedMessagesRanges")),
        "msgRateIn": _rate(counters.messages_in, counters.loaded_ms, now_ms),
        "msgThroughputIn": _rate(counters.bytes_in, counters.loaded_ms, now_ms),
        "bytesInCounter": counters.bytes_in,
        "msgInCounter": counters.messages_in,
        "bytesOutCounter": counters.bytes_out + sum(each["bytesOutCounter"] for each in subscriptions.values()),
        "msgOutCounter": counters.messages_out + sum(each["msgOutCounter"] for each in subscriptions.values()),
        "averageMsgSize": counters.bytes_in / counters.messages_in if counters.messages_in else 0.0,
        "msgChunkPublished": counters.chunks_in > 0,
        "storageSize": managed_ledger.size,
        "backlogSize": max((each["backlogSize"] for each in subscriptions.values()), default=0),
        "publishers": publishers,
        "waitingPublishers": topic.waiting_producers,
        "subscriptions": subscriptions,
        "topicCreationTimeStamp": counters.created_ms,
        "lastPublishTimeStamp": counters.last_publish_ms,
        "ongoingTxnCount": topic.transaction_buffer.ongoing,
        "abortedTxnCount": len(topic.transaction_buffer.aborted),
        "committedTxnCount": topic.transaction_buffer.committed,
    }
    if topic.name.is_persistent:
        return {**stats, "deduplicationStatus": "Enabled" if topic.deduplicates else "Disabled"}
    return {
        **stats,
        "msgDropRate": _total(subscriptions, "msgDropRate"),
        "publishers": [{**each, "msgDropRate": 0.0} for each in publishers],
    }


def partitioned_stats(partitions: Mapping[str, dict[str, Any]], count: int) -> dict[str, Any]:
    """Add up the statistics of partitions: numbers are summed, and subscriptions merged by name."""
    total: dict[str, Any] = {**_UNUSED_TOPIC_STATS, "publishers": [], "subscriptions": {}}
    for stats in partitions.values():
        _add(total, {name: value for name, value in stats.items() if name not in _NOT_SUMMED})
    return {**total, "metadata": {"partitions": count, "deleted": False}, "partitions": dict(partitions)}


def internal_stats(topic: Topic) -> dict[str, Any]:
    """Return the answer to `GET …/internalStats`."""
    managed_ledger = topic.managed_ledger
    ledgers = managed_ledger.ledgers
    firsts = accumulate((entries for _, entries in ledgers), initial=0)
    stats = {
        "entriesAddedCounter": managed_ledger.end,
        "numberOfEntries": managed_ledger.end - managed_ledger.base,
        "totalSize": managed_ledger.size,
        "currentLedgerEntries": ledgers[-1][1],
        "currentLedgerSize": managed_ledger.size_from(managed_ledger.end - ledgers[-1][1]),
        "waitingCursorsCount": sum(
            each.cursor.read_offset >= managed_ledger.readable_end for each in topic.subscriptions.values()
        ),
        "pendingAddEntriesCount": 0,
        "cursors": {name: cursor_stats(each) for name, each in topic.subscriptions.items()},
    }
    if not topic.name.is_persistent:
        return stats
    return {
        **stats,
        "lastLedgerCreatedTimestamp": _iso_time(topic.counters.loaded_ms),
        "lastConfirmedEntry": "{}:{}".format(*managed_ledger.last_position),
        "state": "Terminated" if topic.terminated else "LedgerOpened",
        "ledgers": [
            *(
                _ledger(ledger, entries, managed_ledger.size_from(first, entries))
                for (ledger, entries), first in zip(ledgers[:-1], firsts, strict=False)
            ),
            _ledger(ledgers[-1][0], 0),  # the open ledger has no numbers
        ],
        "properties": {},
        "schemaLedgers": [],
        "compactedLedger": _ledger(-1, -1, size=-1),
    }


def subscription_stats(subscription: Subscription) -> dict[str, Any]:
    """Return the statistics of a subscription."""
    dispatcher = subscription.dispatcher
    backlog = subscription.backlog()
    delayed = dispatcher.delayed if dispatcher else 0
    counters = subscription.counters
    now_ms = subscription.now_ms()
    consumers = [
        {**consumer_stats(consumer, now_ms), **_keys_of(dispatcher, consumer)} for consumer in subscription.consumers
    ]
    subscription_type = subscription.subscription_type
    stats = {
        **_UNUSED_SUBSCRIPTION_STATS,
        **{name: sum((consumer[name] for consumer in consumers), start) for name, start in _SUMMED.items()},
        **{name: max((consumer[name] for consumer in consumers), default=0) for name in _LATEST},
        "bytesOutCounter": counters.bytes_out + sum(consumer["bytesOutCounter"] for consumer in consumers),
        "msgOutCounter": counters.messages_out + sum(consumer["msgOutCounter"] for consumer in consumers),
        "msgBacklog": backlog,
        "backlogSize": subscription.cursor.managed_ledger.size_from(subscription.cursor.mark_delete + 1),
        "earliestMsgPublishTimeInBacklog": 0,
        "msgBacklogNoDelayed": backlog - delayed,
        "blockedSubscriptionOnUnackedMsgs": isinstance(dispatcher, MultipleConsumersDispatcher)
        and dispatcher.throttled,
        "msgDelayed": delayed,
        "msgInReplay": dispatcher.replaying if dispatcher else 0,
        "type": "None" if subscription_type is None else CommandSubscribe.SubType.Name(subscription_type),
        "msgExpired": counters.expired,
        "totalMsgExpired": counters.expired,
        "lastExpireTimestamp": counters.last_expire_ms,
        "lastMarkDeleteAdvancedTimestamp": counters.last_mark_delete_ms,
        "consumers": consumers,
        "isDurable": subscription.durable,
        "durable": subscription.durable,
        "isReplicated": subscription.cursor.replicated,
        "replicated": subscription.cursor.replicated,
        "allowOutOfOrderDelivery": any(consumer.request.allow_out_of_order for consumer in subscription.consumers),
        "nonContiguousDeletedMessagesRanges": len(subscription.cursor.ranges()),
        "subscriptionProperties": subscription.properties,
    }
    if isinstance(dispatcher, NonPersistentDispatcher):
        stats["msgDropRate"] = float(dispatcher.dropped)
    selector = dispatcher.selector if dispatcher else None
    if isinstance(selector, KeySelector) and selector.consumers:
        stats["keySharedMode"] = KeySharedMode.Name(selector.consumers[0].request.key_shared_mode)
    if isinstance(selector, ActiveConsumerSelector) and selector.active:
        stats["activeConsumerName"] = selector.active.name
    return stats


def consumer_stats(consumer: Consumer, now_ms: int) -> dict[str, Any]:
    """Return the statistics of a consumer."""
    counters = consumer.counters

    def per_second(count: int) -> float:
        return _rate(count, counters.connected_ms, now_ms)

    return {
        "msgRateOut": per_second(counters.messages_out),
        "msgThroughputOut": per_second(counters.bytes_out),
        "bytesOutCounter": counters.bytes_out,
        "msgOutCounter": counters.messages_out,
        "msgRateRedeliver": per_second(counters.messages_redelivered),
        "messageAckRate": per_second(counters.messages_acked),
        "chunkedMessageRate": per_second(counters.chunks_out),
        "consumerName": consumer.name,
        "availablePermits": consumer.permits,
        "unackedMessages": consumer.unacked,
        "avgMessagesPerEntry": round(counters.messages_out / counters.entries_out) if counters.entries_out else 0,
        "blockedConsumerOnUnackedMsgs": consumer.blocked,
        "drainingHashesCount": 0,
        "drainingHashesClearedTotal": 0,
        "drainingHashesUnackedMessages": 0,
        "address": consumer.request.address,
        "connectedSince": _iso_time(counters.connected_ms),
        "clientVersion": consumer.request.client_version,
        "lastAckedTimestamp": counters.last_ack_ms,
        "lastConsumedTimestamp": counters.last_sent_ms,
        "firstMessagesSentTimestamp": counters.first_sent_ms,
        "lastConsumedFlowTimestamp": counters.last_flow_ms,
        "firstConsumedFlowTimestamp": counters.first_flow_ms,
        "metadata": consumer.request.metadata,
        "lastAckedTime": _iso_time(counters.last_ack_ms),
        "lastConsumedTime": _iso_time(counters.last_sent_ms),
    }


def producer_stats(producer: Producer, now_ms: int) -> dict[str, Any]:
    """Return the statistics of a producer."""
    since = producer.connected_ms
    return {
        "accessMode": ProducerAccessMode.Name(producer.request.access_mode),
        "msgRateIn": _rate(producer.messages_in, since, now_ms),
        "msgThroughputIn": _rate(producer.bytes_in, since, now_ms),
        "averageMsgSize": producer.bytes_in / producer.messages_in if producer.messages_in else 0.0,
        "chunkedMessageRate": _rate(producer.chunks_in, since, now_ms),
        "producerId": producer.request.producer_id,
        "supportsPartialProducer": producer.request.supports_partial_producer,
        "producerName": producer.name,
        "address": producer.request.address,
        "connectedSince": _iso_time(since),
        "clientVersion": producer.request.client_version,
        "metadata": producer.request.metadata,
    }


def _total(subscriptions: Mapping[str, dict[str, Any]], name: str) -> float:
    return sum((each.get(name, 0.0) for each in subscriptions.values()), 0.0)


def _add(total: dict[str, Any], stats: Mapping[str, Any]) -> None:
    for name, value in stats.items():
        if isinstance(value, Mapping):
            _add(total.setdefault(name, {}), cast("Mapping[str, Any]", value))
        elif name not in total or isinstance(value, (bool, str)):
            total[name] = value
        else:
            total[name] += value


def _keys_of(dispatcher: Dispatcher | None, consumer: Consumer) -> dict[str, Any]:
    """Return the fields that only consumers of Key_Shared have."""
    if dispatcher is None or not isinstance(dispatcher.selector, KeySelector):
        return {}
    ranges = [list(each) for each in dispatcher.selector.ranges(consumer)]
    return {"keyHashRangeArrays": ranges, "drainingHashes": []}


def cursor_stats(subscription: Subscription) -> dict[str, Any]:
    """Return the internal statistics of a subscription's cursor."""
    cursor, managed_ledger = subscription.cursor, subscription.cursor.managed_ledger
    ranges = [(managed_ledger.position(first - 1), managed_ledger.position(last)) for first, last in cursor.ranges()]
    return {
        "markDeletePosition": "{}:{}".format(*cursor.mark_delete_position),
        "readPosition": "{}:{}".format(*managed_ledger.position(cursor.read_offset)),
        "waitingReadOp": cursor.read_offset >= managed_ledger.readable_end,
        "pendingReadOps": 0,
        "messagesConsumedCounter": managed_ledger.end - subscription.backlog(),
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": "[{}]".format(
            ",".join(f"({after[0]}:{after[1]}..{last[0]}:{last[1]}]" for after, last in ranges)
        ),
        "lastLedgerSwitchTimestamp": "1970-01-01T00:00:00Z",
        "state": "Open" if subscription.durable else "NoLedger",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": managed_ledger.end - cursor.mark_delete - 1,
        "totalNonContiguousDeletedMessagesRange": len(ranges),
        "subscriptionHavePendingRead": bool(subscription.consumers)
        and cursor.read_offset >= managed_ledger.readable_end,
        "subscriptionHavePendingReplayRead": False,
        "properties": {},
    }


def _ledger(ledger_id: int, entries: int, size: int = 0) -> dict[str, Any]:
    return {
        "ledgerId": ledger_id,
        "entries": entries,
        "size": size,
        "offloaded": False,
        "underReplicated": False,
    }


def _rate(count: int, since_ms: int, now_ms: int) -> float:
    """Return the average per second."""
    return count * _MS / max(_MS, now_ms - since_ms)


def _iso_time(ms: int) -> str:
    """Write a time in the format of Pulsar."""
    return datetime.fromtimestamp(ms / _MS, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
