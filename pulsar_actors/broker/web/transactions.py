"""The admin calls for transactions: the coordinators, single transactions, and what topics and subscriptions have."""

from dataclasses import replace
from typing import Final

from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.broker.model.transaction_coordinator import Transaction, TransactionCoordinator
from pulsar_actors.broker.web.calls import CallHandler, Route, WebCall
from pulsar_actors.broker.web.http import NO_CONTENT, HttpRefusal, Response, json_response
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId

__all__ = ["TRANSACTION_ROUTES"]


def _list_coordinators(call: WebCall) -> Response:
    urls = call.context.urls_of
    served = [(each, call.cluster.owner_of(each.topic) or call.context.name) for each in call.cluster.coordinators]
    return json_response(
        [{"id": each.topic.partition_index, "brokerServiceUrl": urls(owner).service_url} for each, owner in served]
    )


def _get_coordinator_stats(call: WebCall) -> Response:
    """Return the statistics of one coordinator, or of all."""
    wanted = call.query.get("coordinatorId")
    if wanted is None:
        stats = {str(each.topic.partition_index): _coordinator_stats(each) for each in call.cluster.coordinators}
        return json_response(stats)
    for each in call.cluster.coordinators:
        if wanted == str(each.topic.partition_index):
            return json_response(_coordinator_stats(each))
    raise _no_coordinator(wanted)


def _coordinator_stats(coordinator: TransactionCoordinator) -> dict[str, object]:
    loaded_ms = coordinator.loaded_ms
    if loaded_ms is None:
        raise _no_coordinator(str(coordinator.topic.partition_index))
    return {
        "state": "Ready",
        "leastSigBits": coordinator.last,
        "lowWaterMark": coordinator.low_water_mark if coordinator.transactions else 0,
        "ongoingTxnSize": len(coordinator.transactions),
        "recoverStartTime": loaded_ms,
        "recoverEndTime": loaded_ms,
    }


def _no_coordinator(number: str) -> HttpRefusal:
    return HttpRefusal(404, f"Transaction coordinator not found! coordinator id : {number}")


def _transaction_id(call: WebCall) -> TransactionId:
    return TransactionId(call.number("most"), call.number("least"))


def _running(call: WebCall) -> TransactionCoordinator:
    """Find the coordinator of the transaction in the path."""
    try:
        return call.cluster.coordinators.running(call.number("most"))
    except Refusal as refusal:
        raise HttpRefusal(404, refusal.reason) from refusal


def _transaction(call: WebCall) -> Transaction:
    """Find the transaction in the path."""
    coordinator = _running(call)
    try:
        return coordinator.find(_transaction_id(call))
    except Refusal as refusal:
        raise HttpRefusal(404, refusal.reason) from refusal


def _get_metadata(call: WebCall) -> Response:
    return json_response(_metadata(call, _transaction(call)))


def _metadata(call: WebCall, transaction: Transaction) -> dict[str, object]:
    acknowledged: dict[str, dict[str, object]] = {}
    for topic, subscription in transaction.subscriptions:
        acknowledged.setdefault(topic, {})[subscription] = {}
    return {
        "txnId": str(transaction.id),
        "status": transaction.status.name,
        "openTimestamp": transaction.opened_ms,
        "timeoutAt": transaction.timeout_ms,
        "producedPartitions": {
            name: {} if topic is None else _part_of_topic(topic, transaction.id)
            for name in transaction.topics
            for topic in [call.cluster.find_topic(TopicName.parse(name))]
        },
        "ackedPartitions": acknowledged,
    }


def _part_of_topic(topic: Topic, transaction: TransactionId) -> dict[str, object]:
    """Return the start of a transaction in a topic, and whether it is aborted there."""
    buffer = topic.transaction_buffer
    start = buffer.start_of(transaction)
    position = {} if start is None else {"startPosition": f"{start.ledger_id}:{start.entry_id}"}
    return {**position, "aborted": transaction in buffer.aborted}


def _list_slow(call: WebCall) -> Response:
    """List the transactions that have been open for so many milliseconds."""
    opened_before = call.context.loop.wall_clock_ms() - call.number("timeout")
    slow = [
        transaction
        for coordinator in call.cluster.coordinators
        for transaction in coordinator.transactions.values()
        if transaction.opened_ms <= opened_before
    ]
    return json_response({str(each.id): _metadata(call, each) for each in slow})


def _abort(call: WebCall) -> Response:
    transaction = _transaction(call)
    _running(call).end(transaction.id, commit=False, when_ended=_do_nothing)
    return NO_CONTENT


def _do_nothing(_: Refusal | None) -> None:
    """Do nothing: the answer is sent already."""


def _topic(call: WebCall) -> Topic:
    """Find the topic in the path, which has no domain: only persistent topics have transactions."""
    return replace(call, parts={**call.parts, "domain": "persistent"}).topic()


def _get_part_of_topic(call: WebCall) -> Response:
    return json_response(_part_of_topic(_topic(call), _transaction_id(call)))


def _get_buffer_stats(call: WebCall) -> Response:
    topic = _topic(call)
    buffer, managed_ledger = topic.transaction_buffer, topic.managed_ledger
    return json_response(
        {
            "state": "Ready",
            "maxReadPosition": "{}:{}".format(*managed_ledger.position(managed_ledger.readable_end - 1)),
            "ongoingTxnSize": buffer.ongoing,
            "totalAbortedTransactions": len(buffer.aborted),
        }
    )


def _get_pending_ack_stats(call: WebCall) -> Response:
    subscription = _topic(call).subscriptions.get(call.parts["subscription"])
    if subscription is None:
        raise HttpRefusal(404, f"Subscription {call.parts['subscription']} not found")
    return json_response({"state": "Ready", "ongoingTxnSize": subscription.pending_acks.ongoing})


def _if_enabled(handler: CallHandler) -> CallHandler:
    def handle(call: WebCall) -> Response:
        if not len(call.cluster.coordinators):
            raise HttpRefusal(503, "This Broker is not configured with transactionCoordinatorEnabled=true.")
        return handler(call)

    return handle


_PATH: Final = "/admin/v3/transactions"
_TOPIC_PATH: Final = "{tenant}/{namespace}/{topic}"
TRANSACTION_ROUTES: Final = (
    Route("GET", f"{_PATH}/coordinators", _if_enabled(_list_coordinators)),
    Route("GET", f"{_PATH}/coordinatorStats", _if_enabled(_get_coordinator_stats)),
    Route("GET", f"{_PATH}/transactionMetadata/{{most}}/{{least}}", _if_enabled(_get_metadata)),
    Route("GET", f"{_PATH}/slowTransactions/{{timeout}}", _if_enabled(_list_slow)),
    Route("POST", f"{_PATH}/abortTransaction/{{most}}/{{least}}", _if_enabled(_abort)),
    Route("GET", f"{_PATH}/transactionInBufferStats/{_TOPIC_PATH}/{{most}}/{{least}}", _if_enabled(_get_part_of_topic)),
    Route("GET", f"{_PATH}/transactionBufferStats/{_TOPIC_PATH}", _if_enabled(_get_buffer_stats)),
    Route("GET", f"{_PATH}/pendingAckStats/{_TOPIC_PATH}/{{subscription}}", _if_enabled(_get_pending_ack_stats)),
)
