import pytest

from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, CommandSend, MessageMetadata, TxnAction
from pulsar_actors.wire.transaction_id import TransactionId, set_transaction, transaction_in
from pulsar_actors.wire.transaction_requests import (
    add_partition_request,
    add_subscription_request,
    coordinator_topic,
    end_request,
    new_transaction_request,
)

FIRST = TransactionId(0, 0)
LARGE = TransactionId(2**63, 2**64 - 1)


@pytest.mark.parametrize("kind", [CommandSend, CommandAck, MessageMetadata])
@pytest.mark.parametrize("transaction", [FIRST, LARGE])
def test_it_is_the_presence_of_an_id_that_tells_a_transaction(kind: type, transaction: TransactionId) -> None:
    command = kind()
    assert transaction_in(command) is None
    set_transaction(command, transaction)
    assert transaction_in(kind.FromString(command.SerializePartialToString())) == transaction


def test_requests_name_the_first_transaction_by_two_zeros() -> None:
    for request in (
        add_partition_request(FIRST, "t"),
        add_subscription_request(FIRST, "t", "s"),
        end_request(FIRST, commit=True),
    ):
        assert transaction_in(request) == FIRST


def test_both_actions_are_written() -> None:
    actions = [end_request(FIRST, commit=commit) for commit in (True, False)]
    assert [each.HasField("txn_action") for each in actions] == [True, True]
    assert [each.txn_action for each in actions] == [TxnAction.COMMIT, TxnAction.ABORT]


def test_a_timeout_is_written_in_milliseconds() -> None:
    assert new_transaction_request(3, 1.5).txn_ttl_millis == 1500
    assert new_transaction_request(3, 0.0001).txn_ttl_millis == 1, "none would abort it at once, and so would 0"


def test_a_coordinator_is_found_by_a_partition_of_the_system_topic() -> None:
    assert coordinator_topic(3) == "persistent://pulsar/system/transaction_coordinator_assign-partition-3"


def test_an_id_is_written_as_other_clients_write_it() -> None:
    assert str(TransactionId(1, 23)) == "(1,23)"
