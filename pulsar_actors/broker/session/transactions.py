"""The handlers of the requests to transaction coordinators.

The broker that serves a coordinator's partition takes them. If it does not run the coordinator, the client has to look
it up, and connect to it with TC_CLIENT_CONNECT, which has the broker load it.

Without transactions every request is refused with ERROR, whose form is that of a request that a broker does not know.
Other refusals are in the answer of the request.
"""

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.broker.model.transaction_coordinator import TransactionCoordinator, coordinator_not_found
from pulsar_actors.broker.session.lookup import require_served
from pulsar_actors.broker.session.session import CommandHandler, CommandHandlers, Session
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAddPartitionToTxn,
    CommandAddPartitionToTxnResponse,
    CommandAddSubscriptionToTxn,
    CommandAddSubscriptionToTxnResponse,
    CommandEndTxn,
    CommandEndTxnOnPartition,
    CommandEndTxnOnSubscription,
    CommandEndTxnResponse,
    CommandError,
    CommandNewTxn,
    CommandNewTxnResponse,
    CommandTcClientConnectRequest,
    CommandTcClientConnectResponse,
    ServerError,
    TxnAction,
)
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId

__all__ = ["TRANSACTION_HANDLERS"]


def on_connect(session: Session, command: CommandTcClientConnectRequest) -> None:
    """Load a coordinator, unless another broker serves its partition."""
    coordinator = session.context.cluster.coordinators.find(command.tc_id)
    require_served(session, str(coordinator.topic))
    coordinator.load()
    session.send(CommandTcClientConnectResponse(request_id=command.request_id))


def on_new(session: Session, command: CommandNewTxn) -> None:
    """Open a transaction."""
    opened = _coordinator(session, command.tc_id).begin(command.txn_ttl_millis)
    session.send(_answer(CommandNewTxnResponse, command.request_id, opened))


def on_add_partition(session: Session, command: CommandAddPartitionToTxn) -> None:
    """Add topics to a transaction."""
    transaction = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
    topics = [str(TopicName.parse(name)) for name in command.partitions]
    _coordinator(session, transaction.most).add_topics(transaction, topics)
    session.send(_answer(CommandAddPartitionToTxnResponse, command.request_id, transaction))


def on_add_subscription(session: Session, command: CommandAddSubscriptionToTxn) -> None:
    """Add subscriptions to a transaction."""
    transaction = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
    subscriptions = [(str(TopicName.parse(each.topic)), each.subscription) for each in command.subscription]
    _coordinator(session, transaction.most).add_subscriptions(transaction, subscriptions)
    session.send(_answer(CommandAddSubscriptionToTxnResponse, command.request_id, transaction))


def on_end(session: Session, command: CommandEndTxn) -> None:
    """Commit or abort a transaction, and answer when that is done everywhere."""
    transaction = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
    coordinator = _coordinator(session, transaction.most)
    commit = command.txn_action == TxnAction.COMMIT
    coordinator.end(transaction, commit=commit, when_ended=partial(_answer_end, session, command))


def _answer_end(session: Session, command: CommandEndTxn, refusal: Refusal | None) -> None:
    if refusal is None:
        transaction = TransactionId(command.txnid_most_bits, command.txnid_least_bits)
        session.send(_answer(CommandEndTxnResponse, command.request_id, transaction))
    else:
        session.refuse(command, refusal)


def on_end_of_broker(_: Session, __: CommandEndTxnOnPartition | CommandEndTxnOnSubscription) -> None:
    """Refuse what only brokers send to each other: here all of them share their topics."""
    raise Refusal(ServerError.NotAllowedError, "only brokers end transactions on single topics and subscriptions")


def _coordinator(session: Session, number: int) -> TransactionCoordinator:
    """Find a coordinator that this broker runs; Refusal."""
    context = session.context
    coordinator = context.cluster.coordinators.running(number)
    if not context.directory.serves(session.node, coordinator.topic):
        raise coordinator_not_found(number)
    return coordinator


def _answer(kind: Callable[..., Any], request_id: int, transaction: TransactionId) -> Any:  # noqa: ANN401 - of that kind
    return kind(request_id=request_id, txnid_most_bits=transaction.most, txnid_least_bits=transaction.least)


def _if_enabled(handler: Callable[[Session, Any], None]) -> CommandHandler:
    def handle(session: Session, command: Any, _: bytes) -> None:  # noqa: ANN401 - any of the requests
        if len(session.context.cluster.coordinators):
            handler(session, command)
        else:
            text = "Transaction manager is not enabled: this broker has no transactions"
            error = ServerError.NotAllowedError
            session.send(CommandError(request_id=command.request_id, error=error, message=text))

    return handle


TRANSACTION_HANDLERS: Final[CommandHandlers] = MappingProxyType(
    {
        CommandTcClientConnectRequest: _if_enabled(on_connect),
        CommandNewTxn: _if_enabled(on_new),
        CommandAddPartitionToTxn: _if_enabled(on_add_partition),
        CommandAddSubscriptionToTxn: _if_enabled(on_add_subscription),
        CommandEndTxn: _if_enabled(on_end),
        CommandEndTxnOnPartition: _if_enabled(on_end_of_broker),
        CommandEndTxnOnSubscription: _if_enabled(on_end_of_broker),
    }
)
