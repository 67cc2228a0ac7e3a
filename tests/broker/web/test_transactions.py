from typing import Any

import pytest

from pulsar_actors.broker.model.consumer import AckedEntry
from pulsar_actors.broker.model.entry import EARLIEST_POSITION
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.wire.transaction_id import TransactionId

TRANSACTIONS = "/admin/v3/transactions"
TOPIC = "persistent://public/default/t"
ASSIGNMENT = "/admin/v2/persistent/pulsar/system/transaction_coordinator_assign"


@pytest.fixture
def coordinator(web: Any) -> Any:
    coordinator = web.cluster.coordinators.find(0)
    coordinator.load()
    return coordinator


@pytest.fixture
def opened(web: Any, coordinator: Any) -> TransactionId:
    """A transaction with a message in t and an acknowledgement on its subscription."""
    transaction: TransactionId = coordinator.begin(30_000)
    plain = web.publish("t", b"plain")
    subscription = web.cluster.find_topic(web.name("t")).create_subscription("s", at=EARLIEST_POSITION)
    coordinator.add_topics(transaction, [TOPIC])
    coordinator.add_subscriptions(transaction, [(TOPIC, "s")])
    web.publish("t", b"in", txnid_most_bits=0, txnid_least_bits=0)
    subscription.pending_acks.add_cumulative(transaction, AckedEntry(plain))
    return transaction


def test_the_coordinators_are_listed_with_their_brokers(web: Any, coordinator: Any) -> None:
    assert web.told("GET", f"{TRANSACTIONS}/coordinators") == [{"id": 0, "brokerServiceUrl": "pulsar://here:1"}]
    web.cluster.assign(str(coordinator.topic), "there")
    assert web.told("GET", f"{TRANSACTIONS}/coordinators") == [{"id": 0, "brokerServiceUrl": "pulsar://there:1"}]


def test_a_coordinator_counts_its_transactions(web: Any, opened: TransactionId) -> None:
    loaded = web.loop.wall_clock_ms()
    stats = {
        "state": "Ready",
        "leastSigBits": 0,
        "lowWaterMark": -1,
        "ongoingTxnSize": 1,
        "recoverStartTime": loaded,
        "recoverEndTime": loaded,
    }
    assert web.told("GET", f"{TRANSACTIONS}/coordinatorStats") == {"0": stats}
    assert web.told("GET", f"{TRANSACTIONS}/coordinatorStats?coordinatorId={opened.most}") == stats
    assert web.refusal("GET", f"{TRANSACTIONS}/coordinatorStats?coordinatorId=7")[0] == 404


def test_a_transaction_is_described(web: Any, opened: TransactionId) -> None:
    topic = web.cluster.find_topic(web.name("t"))
    described = {
        "txnId": "(0,0)",
        "status": "OPEN",
        "openTimestamp": web.loop.wall_clock_ms(),
        "timeoutAt": 30_000,
        "producedPartitions": {
            TOPIC: {"startPosition": "{}:{}".format(*topic.last_position()), "aborted": False},
        },
        "ackedPartitions": {TOPIC: {"s": {}}},
    }
    assert web.told("GET", f"{TRANSACTIONS}/transactionMetadata/{opened.most}/{opened.least}") == described
    assert web.told("GET", f"{TRANSACTIONS}/slowTransactions/0") == {"(0,0)": described}
    assert web.told("GET", f"{TRANSACTIONS}/slowTransactions/1") == {}


@pytest.mark.parametrize("path", ["transactionMetadata/0/5", "transactionMetadata/9/0"])
def test_an_unknown_transaction_is_not_found(web: Any, coordinator: Any, path: str) -> None:
    del coordinator
    status, reason = web.refusal("GET", f"{TRANSACTIONS}/{path}")
    assert status == 404
    assert "not found" in reason


def test_an_administrator_can_abort_a_transaction(web: Any, opened: TransactionId) -> None:
    path = f"{opened.most}/{opened.least}"
    assert web.ask("POST", f"{TRANSACTIONS}/abortTransaction/{path}").status == 204
    web.loop.advance(0)
    assert web.told("GET", f"{TRANSACTIONS}/transactionInBufferStats/public/default/t/{path}") == {"aborted": True}
    assert web.refusal("POST", f"{TRANSACTIONS}/abortTransaction/{path}")[0] == 404


def test_a_topic_and_a_subscription_tell_of_their_transactions(web: Any, opened: TransactionId) -> None:
    topic = web.cluster.find_topic(web.name("t"))
    ledger = topic.last_position().ledger_id
    path = f"public/default/t/{opened.most}/{opened.least}"
    part = {"startPosition": f"{ledger}:1", "aborted": False}
    assert web.told("GET", f"{TRANSACTIONS}/transactionInBufferStats/{path}") == part
    stats = {"state": "Ready", "maxReadPosition": f"{ledger}:0", "ongoingTxnSize": 1, "totalAbortedTransactions": 0}
    assert web.told("GET", f"{TRANSACTIONS}/transactionBufferStats/public/default/t") == stats
    pending = {"state": "Ready", "ongoingTxnSize": 1}
    assert web.told("GET", f"{TRANSACTIONS}/pendingAckStats/public/default/t/s") == pending
    assert web.refusal("GET", f"{TRANSACTIONS}/pendingAckStats/public/default/t/nix")[0] == 404
    assert web.refusal("GET", f"{TRANSACTIONS}/transactionBufferStats/public/default/nix")[0] == 404
    stats = web.told("GET", "/admin/v2/persistent/public/default/t/stats")
    assert [stats[f"{what}TxnCount"] for what in ("ongoing", "aborted", "committed")] == [1, 0, 0]


@pytest.mark.parametrize("path", [f"{ASSIGNMENT}-partition-0", ASSIGNMENT])
def test_an_unload_of_the_partition_stops_the_coordinator(web: Any, coordinator: Any, path: str) -> None:
    assert coordinator.begin(30_000) == TransactionId(0, 0)
    assert web.ask("PUT", f"{path}/unload").status == 204
    with pytest.raises(Refusal):
        web.cluster.coordinators.running(0)
    assert web.refusal("GET", f"{TRANSACTIONS}/transactionMetadata/0/0")[0] == 404
    assert web.refusal("GET", f"{TRANSACTIONS}/coordinatorStats")[0] == 404


def test_a_peek_shows_hidden_entries_and_what_became_of_them(web: Any, coordinator: Any) -> None:
    web.publish("t", b"committed", txnid_most_bits=0, txnid_least_bits=0)
    web.publish("t", b"aborted", txnid_most_bits=0, txnid_least_bits=1)
    topic = web.cluster.find_topic(web.name("t"))
    topic.create_subscription("s", at=EARLIEST_POSITION)
    for transaction, commit in ((TransactionId(0, 0), True), (TransactionId(0, 1), False)):
        coordinator.begin(30_000)
        coordinator.add_topics(transaction, [TOPIC])
        coordinator.end(transaction, commit=commit, when_ended=lambda _: None)
    web.loop.advance(0)
    web.publish("t", b"open", txnid_most_bits=0, txnid_least_bits=2)
    names = ("txnid-least-bits", "marker-type", "txn-aborted", "txn-uncommitted")
    seen = []
    for number in range(1, 6):
        answer = web.ask("GET", f"/admin/v2/persistent/public/default/t/subscription/s/position/{number}")
        headers = dict(answer.headers)
        seen.append((answer.body, *[headers.get(f"X-Pulsar-{name}") for name in names]))
    assert seen == [  # as a real broker does
        (b"committed", "0", None, "false", "false"),
        (b"aborted", "1", None, "true", "false"),
        (b"", "0", "21", "false", "false"),
        (b"", "1", "22", "true", "false"),
        (b"open", "2", None, "false", "true"),
    ]


def test_a_broker_without_transactions_says_so(web: Any) -> None:
    off = type(web)(Settings(transaction_coordinators=0))
    status, reason = off.refusal("GET", f"{TRANSACTIONS}/coordinators")
    assert status == 503
    assert "transactionCoordinatorEnabled" in reason
