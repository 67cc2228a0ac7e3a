"""What the statistics say of one subscription, under Pulsar's names.

What has no meaning here (replication, filters, rate limits, the index of delayed messages on disk) is there with the
values that a broker gives which uses none of it, because tools look for the fields.
"""

from typing import Any

from pulsar_actors.broker.model.active_consumer import ActiveConsumer
from pulsar_actors.broker.model.choices import KeyChoice
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.consumer_stats import consumer_stats
from pulsar_actors.broker.model.dispatcher import Dispatcher, PassingDispatcher
from pulsar_actors.broker.model.spread_dispatcher import SpreadDispatcher
from pulsar_actors.broker.model.subscription import Subscription
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, KeySharedMode

_NEVER_ANYTHING: dict[str, Any] = {
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


def subscription_stats(subscription: Subscription) -> dict[str, Any]:
    """Give the statistics of a subscription."""
    dispatcher = subscription.dispatcher
    backlog = subscription.backlog()
    delayed = dispatcher.delayed if dispatcher else 0
    counters = subscription.counters
    consumers = [{**consumer_stats(consumer), **_keys_of(dispatcher, consumer)} for consumer in subscription.consumers]
    kind = subscription.kind
    stats = {
        **_NEVER_ANYTHING,
        **{name: sum((consumer[name] for consumer in consumers), start) for name, start in _SUMMED.items()},
        **{name: max((consumer[name] for consumer in consumers), default=0) for name in _LATEST},
        "bytesOutCounter": counters.bytes_out + sum(consumer["bytesOutCounter"] for consumer in consumers),
        "msgOutCounter": counters.messages_out + sum(consumer["msgOutCounter"] for consumer in consumers),
        "msgBacklog": backlog,
        "backlogSize": subscription.cursor.log.size_from(subscription.cursor.mark + 1),
        "earliestMsgPublishTimeInBacklog": 0,
        "msgBacklogNoDelayed": backlog - delayed,
        "blockedSubscriptionOnUnackedMsgs": isinstance(dispatcher, SpreadDispatcher) and dispatcher.throttled,
        "msgDelayed": delayed,
        "msgInReplay": dispatcher.replaying if dispatcher else 0,
        "type": "None" if kind is None else CommandSubscribe.SubType.Name(kind),
        "msgExpired": counters.expired,
        "totalMsgExpired": counters.expired,
        "lastExpireTimestamp": counters.last_expire_ms,
        "lastMarkDeleteAdvancedTimestamp": counters.last_mark_ms,
        "consumers": consumers,
        "isDurable": subscription.durable,
        "durable": subscription.durable,
        "isReplicated": subscription.cursor.replicated,
        "replicated": subscription.cursor.replicated,
        "allowOutOfOrderDelivery": any(consumer.request.allow_out_of_order for consumer in subscription.consumers),
        "nonContiguousDeletedMessagesRanges": len(subscription.cursor.ranges()),
        "subscriptionProperties": subscription.properties,
    }
    if isinstance(dispatcher, PassingDispatcher):
        stats["msgDropRate"] = float(dispatcher.dropped)
    choice = dispatcher.choice if dispatcher else None
    if isinstance(choice, KeyChoice) and choice.consumers:
        stats["keySharedMode"] = KeySharedMode.Name(choice.consumers[0].request.key_shared_mode)
    if isinstance(choice, ActiveConsumer) and choice.active:
        stats["activeConsumerName"] = choice.active.name
    return stats


def _keys_of(dispatcher: Dispatcher | None, consumer: Consumer) -> dict[str, Any]:
    """Give what is said of the consumers of Key_Shared only."""
    if dispatcher is None or not isinstance(dispatcher.choice, KeyChoice):
        return {}
    ranges = [list(each) for each in dispatcher.choice.ranges(consumer)]
    return {"keyHashRangeArrays": ranges, "drainingHashes": []}


def cursor_stats(subscription: Subscription) -> dict[str, Any]:
    """Give what the internal statistics say of a subscription's cursor."""
    cursor, log = subscription.cursor, subscription.cursor.log
    ranges = [(log.position(first - 1), log.position(last)) for first, last in cursor.ranges()]
    return {
        "markDeletePosition": "{}:{}".format(*cursor.mark_position),
        "readPosition": "{}:{}".format(*log.position(cursor.read)),
        "waitingReadOp": cursor.read >= log.end,
        "pendingReadOps": 0,
        "messagesConsumedCounter": log.end - subscription.backlog(),
        "cursorLedger": -1,
        "cursorLedgerLastEntry": -1,
        "individuallyDeletedMessages": "[{}]".format(
            ",".join(f"({after[0]}:{after[1]}..{last[0]}:{last[1]}]" for after, last in ranges)
        ),
        "lastLedgerSwitchTimestamp": "1970-01-01T00:00:00Z",
        "state": "Open" if subscription.durable else "NoLedger",
        "active": bool(subscription.consumers),
        "numberOfEntriesSinceFirstNotAckedMessage": log.end - cursor.mark - 1,
        "totalNonContiguousDeletedMessagesRange": len(ranges),
        "subscriptionHavePendingRead": bool(subscription.consumers) and cursor.read >= log.end,
        "subscriptionHavePendingReplayRead": False,
        "properties": {},
    }
