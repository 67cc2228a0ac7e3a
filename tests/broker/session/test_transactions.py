"""The requests to coordinators, as a client sends them, and what they do to its messages and acknowledgements."""

from typing import Any

import pytest
from google.protobuf.message import Message

from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.machines.trackers.ack_set import to_words
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support.session_bench import TOPIC, Bench, Caller, messages, only

ASSIGNMENT_TOPIC = "persistent://pulsar/system/transaction_coordinator_assign"
COMMIT, ABORT = pb.TxnAction.COMMIT, pb.TxnAction.ABORT


@pytest.fixture
def bench() -> Bench:
    return Bench(settings=Settings(transaction_coordinators=2))


@pytest.fixture
def caller(bench: Bench) -> Caller:
    caller = bench.client()
    for number in range(2):
        assert caller.ask(connect(number)) == pb.CommandTcClientConnectResponse(request_id=1)
    return caller


def connect(number: int = 0) -> pb.CommandTcClientConnectRequest:
    return pb.CommandTcClientConnectRequest(request_id=1, tc_id=number)


def new(number: int = 0, ttl: int = 60_000) -> pb.CommandNewTxn:
    return pb.CommandNewTxn(request_id=2, tc_id=number, txn_ttl_millis=ttl)


def about(kind: Any, least: int = 0, most: int = 0, **fields: Any) -> Any:
    return kind(request_id=3, txnid_most_bits=most, txnid_least_bits=least, **fields)


def end(least: int = 0, most: int = 0, action: Any = COMMIT) -> pb.CommandEndTxn:
    return pb.CommandEndTxn(request_id=3, txnid_most_bits=most, txnid_least_bits=least, txn_action=action)


def ended(bench: Bench, caller: Caller, *asked: Message) -> list[Message]:
    """Ask, and give the answers that come when the coordinator has done it."""
    heard = caller.say(*asked)
    bench.loop.advance(0)
    return [*heard, *caller.heard()]


def test_the_coordinators_are_as_many_as_the_partitions_of_a_system_topic(caller: Caller) -> None:
    asked = pb.CommandPartitionedTopicMetadata(
        topic=ASSIGNMENT_TOPIC, request_id=4, metadata_auto_creation_enabled=False
    )
    answer = caller.ask(asked)
    assert answer.partitions == 2
    found = caller.ask(pb.CommandLookupTopic(topic=f"{ASSIGNMENT_TOPIC}-partition-1", request_id=4))
    assert found.response == pb.CommandLookupTopicResponse.Connect


def test_each_coordinator_counts_its_transactions_from_zero(caller: Caller) -> None:
    opened = [caller.ask(new(number)) for number in (0, 1, 1)]
    assert opened == [
        pb.CommandNewTxnResponse(request_id=2, txnid_most_bits=most, txnid_least_bits=least)
        for most, least in [(0, 0), (1, 0), (1, 1)]
    ]


def test_the_answers_name_the_transaction(bench: Bench, caller: Caller) -> None:
    caller.ask(new(1))
    added = caller.ask(about(pb.CommandAddPartitionToTxn, most=1, partitions=[TOPIC]))
    assert added == about(pb.CommandAddPartitionToTxnResponse, most=1)
    subscription = [pb.Subscription(topic=TOPIC, subscription="s")]
    added = caller.ask(about(pb.CommandAddSubscriptionToTxn, most=1, subscription=subscription))
    assert added == about(pb.CommandAddSubscriptionToTxnResponse, most=1)
    assert ended(bench, caller, end(most=1)) == [about(pb.CommandEndTxnResponse, most=1)]


@pytest.mark.parametrize("action", [COMMIT, ABORT])
def test_messages_are_shown_or_hidden_before_the_end_is_answered(bench: Bench, caller: Caller, action: Any) -> None:
    caller.ask(new())
    caller.produce()
    caller.consume(permits=10)
    caller.ask(about(pb.CommandAddPartitionToTxn, partitions=[TOPIC]))
    ids = {"txnid_most_bits": 0, "txnid_least_bits": 0}
    (receipt,) = caller.send(pb.CommandSend(producer_id=0, sequence_id=0, **ids), b"in", **ids)
    assert isinstance(receipt, pb.CommandSendReceipt)
    heard = ended(bench, caller, end(action=action))
    sent = [(receipt.message_id.ledgerId, receipt.message_id.entryId)]
    assert messages(heard) == (sent if action == COMMIT else [])
    assert heard[-1] == about(pb.CommandEndTxnResponse)


def test_acknowledgements_are_answered_and_count_with_the_end(bench: Bench, caller: Caller) -> None:
    caller.ask(new())
    caller.produce()
    shared = pb.CommandSubscribe.Shared
    caller.consume(permits=10, subType=shared)
    heard = caller.send(pb.CommandSend(producer_id=0, sequence_id=0), b"batch", num_messages_in_batch=2)
    (delivered,) = only(heard, pb.CommandMessage)
    subscription = [pb.Subscription(topic=TOPIC, subscription="s")]
    caller.ask(about(pb.CommandAddSubscriptionToTxn, subscription=subscription))
    place = delivered.message_id
    one = pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId, ack_set=to_words(0b10), batch_size=2)
    ack = about(pb.CommandAck, consumer_id=0, ack_type=pb.CommandAck.Individual, message_id=[one])
    assert caller.ask(ack) == pb.CommandAckResponse(consumer_id=0, request_id=3)
    refusal = caller.ask(ack)
    assert (type(refusal), refusal.error) == (pb.CommandAckResponse, pb.ServerError.TransactionConflict)
    (again, answer) = ended(bench, caller, end(action=ABORT))
    assert list(again.ack_set) == []
    assert (again.redelivery_count, answer) == (1, about(pb.CommandEndTxnResponse))


def test_a_cumulative_acknowledgement_names_one_message(bench: Bench, caller: Caller) -> None:
    caller.ask(new())
    caller.produce()
    caller.consume(permits=10)
    places = []
    for number in range(2):
        heard = caller.send(pb.CommandSend(producer_id=0, sequence_id=number), b"x")
        places += [each.message_id for each in only(heard, pb.CommandMessage)]
    caller.ask(about(pb.CommandAddSubscriptionToTxn, subscription=[pb.Subscription(topic=TOPIC, subscription="s")]))
    for named in (places, places[1:]):
        ack = about(pb.CommandAck, consumer_id=0, ack_type=pb.CommandAck.Cumulative, message_id=named)
        assert caller.ask(ack) == pb.CommandAckResponse(consumer_id=0, request_id=3)
    ended(bench, caller, end())
    last = caller.ask(pb.CommandGetLastMessageId(consumer_id=0, request_id=5))
    assert last.consumer_mark_delete_position.entryId == places[1].entryId


NOT_FOUND, NO_COORDINATOR = pb.ServerError.TransactionNotFound, pb.ServerError.TransactionCoordinatorNotFound
REFUSED = [
    (connect(7), pb.CommandTcClientConnectResponse(request_id=1, error=NO_COORDINATOR)),
    (new(7), pb.CommandNewTxnResponse(request_id=2, txnid_most_bits=7, error=NO_COORDINATOR)),
    (
        about(pb.CommandAddPartitionToTxn, 5, partitions=["t"]),
        about(pb.CommandAddPartitionToTxnResponse, 5, error=NOT_FOUND),
    ),
    (about(pb.CommandAddSubscriptionToTxn, 5), about(pb.CommandAddSubscriptionToTxnResponse, 5, error=NOT_FOUND)),
    (end(5), about(pb.CommandEndTxnResponse, 5, error=NOT_FOUND)),
    (end(0, most=7), about(pb.CommandEndTxnResponse, most=7, error=NO_COORDINATOR)),
]


@pytest.mark.parametrize(("asked", "answer"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_a_refusal_is_in_the_answer_of_its_request(caller: Caller, asked: Any, answer: Any) -> None:
    heard = caller.ask(asked)
    assert "not found" in heard.message
    heard.ClearField("message")
    assert heard == answer


def test_what_only_brokers_send_to_each_other_is_refused(caller: Caller) -> None:
    for kind in (pb.CommandEndTxnOnPartition, pb.CommandEndTxnOnSubscription):
        assert caller.refusal(kind(request_id=5)).error == pb.ServerError.NotAllowedError


def test_a_broker_that_does_not_serve_the_partition_does_not_run_the_coordinator(bench: Bench, caller: Caller) -> None:
    caller.ask(new())
    other = bench.broker.add_listener()
    bench.broker.assign(f"{ASSIGNMENT_TOPIC}-partition-0", other)
    assert caller.ask(new()).error == pb.ServerError.TransactionCoordinatorNotFound
    assert caller.ask(connect()).error == pb.ServerError.ServiceNotReady
    there = bench.client(other)
    assert there.ask(end()).error == pb.ServerError.TransactionCoordinatorNotFound
    there.ask(connect())
    assert caller.ask(new()).error == pb.ServerError.TransactionCoordinatorNotFound
    assert ended(bench, there, end()) == [about(pb.CommandEndTxnResponse)]
    assert caller.ask(new(1)).txnid_most_bits == 1


def test_a_request_that_a_fault_refuses_is_refused_in_its_own_answer(bench: Bench, caller: Caller) -> None:
    bench.broker.faults.on(pb.CommandNewTxn).refuse(pb.ServerError.ServiceNotReady, "busy")
    bench.broker.faults.on(pb.CommandEndTxnResponse).refuse(pb.ServerError.UnknownError, "no")
    refused = caller.ask(new())
    assert (type(refused), refused.error) == (pb.CommandNewTxnResponse, pb.ServerError.ServiceNotReady)
    caller.ask(new())
    (answer,) = ended(bench, caller, end())
    assert answer == about(pb.CommandEndTxnResponse, error=pb.ServerError.UnknownError, message="no")


def test_a_transaction_ends_though_its_client_has_gone(bench: Bench, caller: Caller) -> None:
    caller.ask(new())
    caller.say(end())
    caller.hang_up()
    bench.loop.advance(0)
    assert not bench.broker.cluster.coordinators.find(0).transactions
