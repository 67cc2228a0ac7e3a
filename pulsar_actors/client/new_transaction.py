"""Opens transactions: finds the transaction coordinators of the cluster, and uses them in turn.

The number of coordinators is that of the partitions of a system topic. It is asked for with the first transaction, and
again in another cluster. Each coordinator gets an actor with its first transaction, so a client without transactions
has none.
"""

from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, Final

from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.transaction import Transaction
from pulsar_actors.client.validation import instance_of
from pulsar_actors.exceptions import InvalidArgument, OperationNotSupported, TopicNotFound
from pulsar_actors.machines.connection_commands import COORDINATOR
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.transaction_coordinator import CoordinatorHandler
from pulsar_actors.runtime.actor import ActorRef, forget_actors_on, tell
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.transaction_coordinator_actor import (
    NewTransaction,
    OpenedTransaction,
    TransactionCoordinatorActor,
)
from pulsar_actors.runtime.transaction_work import SubscriptionAcks
from pulsar_actors.wire.PulsarApi_pb2 import CommandPartitionedTopicMetadata
from pulsar_actors.wire.transaction_id import TransactionId
from pulsar_actors.wire.transaction_requests import ASSIGNMENT_TOPIC

SHORTEST_TIMEOUT: Final = 0.1
"""Seconds. A coordinator aborts a transaction at once whose timeout is shorter."""

LONGEST_BACKOFF: Final = 6.0
"""Seconds. Callers wait for the coordinator, for no longer than the operation timeout."""

_timeout = instance_of(timedelta)


class TransactionOpener:
    """Opens the transactions of one client. Any thread may use it."""

    def __init__(self, context: ClientContext) -> None:
        self._context = context
        self._lock = context.engine.interleaving.lock()
        self._coordinators = 0
        self._counted_after = 0  # so many moves to other services
        self._turn = count()
        self._actors: dict[int, ActorRef] = {}
        self._subscription_acks = SubscriptionAcks(context.engine.interleaving)

    def open(self, timeout: timedelta, shared_as: int | None = None) -> "SlimFuture[OpenedTransaction]":
        """Open a transaction, and return a future of it. Shared ones with the same number have the same coordinator."""
        _timeout("timeout", timeout)
        seconds = timeout.total_seconds()
        if seconds < SHORTEST_TIMEOUT:
            raise InvalidArgument(f"the timeout of a transaction is 0.1 s or more, not {seconds:g} s")
        opened: SlimFuture[OpenedTransaction] = self._context.pending_calls.track(SlimFuture())
        new = NewTransaction(seconds, opened, shared=shared_as is not None)
        turn = next(self._turn) if shared_as is None else shared_as
        moves = self._context.counters.moves
        if self._coordinators and moves == self._counted_after:
            self._ask(turn, new)
        else:
            found = self._context.ask_broker(_how_many())
            found.add_done_callback(lambda done: self._found(done, moves, turn, new))
        return opened

    def join(self, transaction: TransactionId, timeout: timedelta) -> "SlimFuture[OpenedTransaction]":
        """Take part in a shared transaction that another client has opened, and return a future of it."""
        opened: SlimFuture[OpenedTransaction] = self._context.pending_calls.track(SlimFuture())
        new = NewTransaction(timeout.total_seconds(), opened, shared=True, joined=transaction)
        tell(self._actor_of(transaction.most), new)
        return opened

    def _found(self, done: "Future[Any]", moves: int, turn: int, new: NewTransaction) -> None:
        error, opened = done.exception(), new.opened
        number = 0 if error is not None else int(done.result().partitions)
        if number:
            self._coordinators, self._counted_after = number, moves
            self._ask(turn, new)
        elif isinstance(error, Exception) and not isinstance(error, TopicNotFound):
            self._context.pending_calls.fail(opened, error)
        else:
            what = "the cluster has no transaction coordinators"
            how = "set transactionCoordinatorEnabled=true in its brokers' configuration"
            self._context.pending_calls.fail(opened, OperationNotSupported(f"{what}: {how}"))

    def _ask(self, turn: int, new: NewTransaction) -> None:
        tell(self._actor_of(turn % self._coordinators), new)

    def _actor_of(self, coordinator: int) -> ActorRef:
        with self._lock:
            actor = self._actors.get(coordinator)
            if actor is None or not actor.is_alive():  # it ends by an error that a retry cannot cure
                actor = self._actors[coordinator] = self._start(coordinator)
        return actor

    def _start(self, coordinator: int) -> ActorRef:
        context = self._context
        registration, settings = context.registrations.new(COORDINATOR), context.handle_settings
        longest = max(settings.first_backoff, min(settings.longest_backoff, LONGEST_BACKOFF))
        backoff = Backoff(registration.loop.chance, settings.first_backoff, longest)
        machine = CoordinatorHandler(coordinator, backoff, settings.operation_timeout)
        new_backoff = partial(settings.backoff, registration.loop)
        actor = TransactionCoordinatorActor(
            *(registration, machine, coordinator, settings.operation_timeout, new_backoff, context.pending_calls),
            subscription_acks=self._subscription_acks,
            interleaving=context.engine.interleaving,
        )
        address = actor.begin()
        if context.pending_calls.closed is not None:  # its loop has ended, and will not start the actor
            forget_actors_on(context.engine.loops)
        return address


def open_transaction(context: ClientContext, timeout: timedelta, client: object) -> Transaction:
    """Open a transaction, and wait for it."""
    opened = context.wait_for_answer(context.only(TransactionOpener).open(timeout), "new_transaction()")
    return Transaction(opened, context.engine, context.pending_calls, client)


def open_transaction_soon(context: ClientContext, timeout: timedelta, client: object) -> SlimFuture[Transaction]:
    """Open a transaction, and return a future of it."""
    transaction: SlimFuture[Transaction] = SlimFuture()

    def opened(done: "Future[OpenedTransaction]") -> None:
        error = done.exception()
        if isinstance(error, Exception):
            settle(transaction, error)
        else:
            settle(transaction, Transaction(done.result(), context.engine, context.pending_calls, client))

    context.only(TransactionOpener).open(timeout).add_done_callback(opened)
    return transaction


def _how_many() -> CommandPartitionedTopicMetadata:
    topic = str(ASSIGNMENT_TOPIC)
    return CommandPartitionedTopicMetadata(topic=topic, request_id=0, metadata_auto_creation_enabled=False)
