from typing import Any

import pytest

from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.transaction_coordinator import TransactionStatus
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe, ServerError
from pulsar_actors.wire.transaction_id import TransactionId

TOPIC = "persistent://public/default/t"


@pytest.fixture
def coordinator(world: Any) -> Any:
    coordinator = world.cluster.coordinators.find(0)
    coordinator.load()
    return coordinator


def refused(code: Any, call: Any, *arguments: Any, **options: Any) -> None:
    with pytest.raises(Refusal) as caught:
        call(*arguments, **options)
    assert caught.value.code == code


def ended(world: Any, coordinator: Any, transaction: Any, *, commit: bool) -> bool:
    """End a transaction, and say whether that was answered."""
    heard: list[Refusal | None] = []
    coordinator.end(transaction, commit=commit, when_ended=heard.append)
    assert not heard
    world.pass_time(0)
    return heard == [None]


def test_the_ids_of_transactions_are_the_coordinator_and_a_counter_from_zero(coordinator: Any) -> None:
    assert [coordinator.begin(1000) for _ in range(2)] == [TransactionId(0, 0), TransactionId(0, 1)]


def test_an_end_reaches_all_topics_and_subscriptions(world: Any, coordinator: Any) -> None:
    sender, out = world.producer(), world.consumer()
    source = world.consumer("source", subscription_type=CommandSubscribe.SubType.Shared)
    world.producer("source").send(b"task")
    transaction = coordinator.begin(60_000)
    coordinator.add_topics(transaction, [TOPIC])
    coordinator.add_topics(transaction, [TOPIC])
    coordinator.add_subscriptions(transaction, [("persistent://public/default/source", "s")])
    sender.send(b"result", transaction=transaction)
    source.ack_in(transaction, b"task")
    assert ended(world, coordinator, transaction, commit=True)
    assert out.take() == [b"result"]
    assert source.subscription.backlog() == 0


def test_topics_and_subscriptions_that_are_gone_do_not_keep_a_transaction_from_ending(
    world: Any, coordinator: Any
) -> None:
    world.topic()
    transaction = coordinator.begin(60_000)
    coordinator.add_topics(transaction, ["persistent://public/default/nix"])
    coordinator.add_subscriptions(transaction, [(TOPIC, "nix"), ("persistent://public/default/nix", "s")])
    assert ended(world, coordinator, transaction, commit=True)


def test_the_same_end_is_accepted_until_it_is_done_and_no_other(world: Any, coordinator: Any) -> None:
    transaction = coordinator.begin(60_000)
    coordinator.log_takes = 1.0
    heard: list[Refusal | None] = []
    coordinator.end(transaction, commit=True, when_ended=heard.append)
    world.pass_time(1)
    coordinator.end(transaction, commit=True, when_ended=heard.append)
    refused(ServerError.InvalidTxnStatus, coordinator.end, transaction, commit=False, when_ended=print)
    refused(ServerError.InvalidTxnStatus, coordinator.add_topics, transaction, [TOPIC])
    refused(ServerError.InvalidTxnStatus, coordinator.add_subscriptions, transaction, [(TOPIC, "s")])
    world.pass_time(1)
    assert heard[0] is None


@pytest.mark.parametrize(
    ("pause", "commit", "statuses"),
    [(0.5, True, "OPEN COMMITTING"), (1.5, True, "COMMITTING COMMITTED"),
     (0.5, False, "OPEN ABORTING"), (1.5, False, "ABORTING ABORTED")],
)  # fmt: skip
def test_of_two_ends_that_are_under_way_the_second_is_refused_with_the_status(
    world: Any, coordinator: Any, pause: float, statuses: str, *, commit: bool
) -> None:
    coordinator.log_takes = 1.0
    transaction = coordinator.begin(60_000)
    heard: list[Any] = []
    coordinator.end(transaction, commit=commit, when_ended=heard.append)
    world.pass_time(pause)
    coordinator.end(transaction, commit=commit, when_ended=heard.append)
    world.pass_time(4)
    refusal = next(each for each in heard if each)
    expected, status = statuses.split()
    text = f"Expect Txn `{transaction}` to be in {expected} status but it is in {status} status"
    assert (len(heard), refusal.code, refusal.reason) == (2, ServerError.InvalidTxnStatus, text)


def test_a_coordinator_that_is_loaded_again_goes_on_with_a_commit_and_refuses_whoever_asks_again(
    world: Any, coordinator: Any
) -> None:
    coordinator.log_takes = 1.0
    transaction = coordinator.begin(60_000)
    heard: list[Any] = []
    coordinator.end(transaction, commit=True, when_ended=heard.append)
    world.pass_time(1.5)
    coordinator.unload()
    coordinator.load()
    coordinator.end(transaction, commit=True, when_ended=heard.append)
    world.pass_time(2)
    codes = [ServerError.TransactionCoordinatorNotFound, ServerError.InvalidTxnStatus]
    assert [refusal.code for refusal in heard] == codes
    refused(ServerError.TransactionNotFound, coordinator.find, transaction)


def test_a_transaction_that_has_ended_is_forgotten(world: Any, coordinator: Any) -> None:
    transaction = coordinator.begin(60_000)
    assert ended(world, coordinator, transaction, commit=True)
    for commit in (True, False):
        refused(ServerError.TransactionNotFound, coordinator.end, transaction, commit=commit, when_ended=print)
    refused(ServerError.TransactionNotFound, coordinator.add_topics, transaction, [TOPIC])


def test_a_transaction_is_aborted_at_its_timeout(world: Any, coordinator: Any) -> None:
    sender, receiver = world.producer(), world.consumer()
    transaction = coordinator.begin(2_000)
    coordinator.add_topics(transaction, [TOPIC])
    sender.send(b"in", transaction=transaction)
    sender.send(b"plain")
    world.pass_time(1.9)
    assert coordinator.find(transaction).status is TransactionStatus.OPEN
    world.pass_time(0.2)
    assert receiver.take() == [b"plain"]
    refused(ServerError.TransactionNotFound, coordinator.end, transaction, commit=True, when_ended=print)


@pytest.mark.parametrize("timeout", [0, 99])
def test_a_very_short_timeout_aborts_at_once(world: Any, coordinator: Any, timeout: int) -> None:
    transaction = coordinator.begin(timeout)
    refused(ServerError.InvalidTxnStatus, coordinator.end, transaction, commit=True, when_ended=print)
    world.pass_time(0)
    refused(ServerError.TransactionNotFound, coordinator.find, transaction)


def test_a_coordinator_runs_from_its_loading_to_its_unloading(world: Any) -> None:
    coordinators = world.cluster.coordinators
    refused(ServerError.TransactionCoordinatorNotFound, coordinators.running, 0)
    coordinators.find(0).load()
    transaction = coordinators.running(0).begin(60_000)
    coordinators.unload("persistent://pulsar/system/transaction_coordinator_assign-partition-0")
    refused(ServerError.TransactionCoordinatorNotFound, coordinators.running, 0)
    coordinators.find(0).load()
    assert ended(world, coordinators.running(0), transaction, commit=True)
    refused(ServerError.TransactionCoordinatorNotFound, coordinators.find, 1)


def test_a_timeout_that_passes_while_no_broker_runs_the_coordinator_counts_when_one_does(
    world: Any, coordinator: Any
) -> None:
    short, long = coordinator.begin(1_000), coordinator.begin(60_000)
    coordinator.unload()
    world.pass_time(5)
    assert coordinator.find(short).status is TransactionStatus.OPEN
    coordinator.load()
    world.pass_time(0)
    refused(ServerError.TransactionNotFound, coordinator.find, short)
    assert ended(world, coordinator, long, commit=True)


def test_the_low_water_mark_is_below_the_oldest_transaction(world: Any, coordinator: Any) -> None:
    first, second = coordinator.begin(60_000), coordinator.begin(60_000)
    assert coordinator.low_water_mark == -1
    assert ended(world, coordinator, second, commit=True)
    assert coordinator.low_water_mark == -1
    assert ended(world, coordinator, first, commit=True)
    assert coordinator.low_water_mark == 1
