"""Acknowledges messages in a transaction.

An open transaction excludes others that acknowledge on the subscription in another way: see `SubscriptionAcks`. If no
other way is open, the subscription is registered with the transaction. Then the consumer's actor sends the
acknowledgement, unless the transaction is over by then, and the future ends with the broker's answer. Messages of
several topics are one command, and one future, for each topic.

Once the transaction is aborted, the broker delivers again what it has acknowledged. If an acknowledgement has failed,
its messages are negatively acknowledged. In order, all messages are delivered again anyhow.

A transaction that has ended already refuses the acknowledgement. No abort will follow, so the messages are redelivered
at once, or negatively acknowledged.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from pulsar_actors.client.acknowledge import (
    AcknowledgingHandle,
    AckTarget,
    ack_id_of,
    ack_target_in,
    as_sequence,
    when_all_done,
)
from pulsar_actors.client.consumer_interceptors import ConsumerInterceptors
from pulsar_actors.client.consumer_options import IN_ORDER
from pulsar_actors.client.consumer_state import ConsumerState
from pulsar_actors.client.transaction import refuse_unless_persistent
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.consumer_events import NegativeAcknowledge, RedeliverUnacknowledged
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.transactional_acks import TransactionalAck
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.consumer_actor import AcknowledgeIn, RunAfter
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.transaction_work import TransactionWork
from pulsar_actors.wire.message_id import MessageId


def acknowledge_in(
    work: TransactionWork,
    handle: AcknowledgingHandle,
    given: object,
    interceptors: ConsumerInterceptors | None,
    *,
    cumulative: bool,
) -> "Future[None]":
    """Acknowledge a message, or each of a list, or all up to one. The future ends with the broker's answer."""
    items = [given] if cumulative else as_sequence(given)
    if interceptors is None:
        return _acknowledge_all(work, [ack_target_in(handle, one) for one in items], cumulative=cumulative)
    ids = [ack_id_of(one) for one in items]
    try:
        done = _acknowledge_all(work, [ack_target_in(handle, one) for one in items], cumulative=cumulative)
    except Exception as error:
        interceptors.acknowledged(handle, ids, error, cumulative=cumulative)
        raise
    interceptors.acknowledged(handle, ids, None, cumulative=cumulative)
    return done


def _acknowledge_all(
    work: TransactionWork, targets: "Sequence[AckTarget | None]", *, cumulative: bool
) -> "Future[None]":
    """Acknowledge messages, those of each topic together. Messages of deleted topics have no target."""
    ids: dict[tuple[ConsumerState, Generation], list[MessageId]] = {}
    for target in targets:
        if target is not None:
            refuse_unless_persistent(target.owner.machine.topic)
            ids.setdefault((target.owner, target.generation), []).append(target.message_id)
    try:
        futures = [
            _acknowledge(work, owner, generation, tuple(found), cumulative=cumulative)
            for (owner, generation), found in ids.items()
        ]
    except PulsarException:
        for (owner, generation), found in ids.items():
            tell(owner.address, _redelivery(owner, generation, found))
        raise
    return futures[0] if len(futures) == 1 else when_all_done(futures)


def _acknowledge(
    work: TransactionWork,
    owner: ConsumerState,
    generation: Generation,
    message_ids: tuple[MessageId, ...],
    *,
    cumulative: bool,
) -> SlimFuture[None]:
    answered: SlimFuture[None] = SlimFuture()
    if _is_in_order(owner):
        work.rewinds[owner.address] = partial(_rewind, owner)  # before it begins: the transaction may end at any moment
    work.begin_as(answered)
    owner.link.pending_calls.track(answered)
    work.consumers[owner.address] = None
    if not _is_in_order(owner):
        answered.add_done_callback(partial(_redeliver_if_failed, owner, generation, message_ids))
    ack = TransactionalAck(generation, message_ids, cumulative, work.id, answered)
    topic, subscription = owner.machine.topic, owner.options.subscription_name
    conflict = work.claim(topic, subscription, cumulative=cumulative)
    if conflict is not None:
        owner.link.pending_calls.fail(answered, conflict)
        return answered
    registered = work.register_subscription(topic, subscription)
    registered.add_done_callback(partial(_send, work, owner, ack, answered))
    return answered


def _send(
    work: TransactionWork,
    owner: ConsumerState,
    ack: TransactionalAck,
    answered: SlimFuture[None],
    registered: "Future[None]",
) -> None:
    error = registered.exception()
    if isinstance(error, Exception):
        owner.link.pending_calls.fail(answered, error)
    else:
        tell(owner.address, AcknowledgeIn(work, ack))


def _redeliver_if_failed(
    owner: ConsumerState, generation: Generation, message_ids: tuple[MessageId, ...], answered: "Future[None]"
) -> None:
    """Have messages delivered again whose acknowledgement failed. The broker does so only with those that it has."""
    if answered.exception() is not None:
        tell(owner.address, _redelivery(owner, generation, message_ids))


def _redelivery(
    owner: ConsumerState, generation: Generation, message_ids: Sequence[MessageId]
) -> NegativeAcknowledge | RedeliverUnacknowledged:
    if _is_in_order(owner):
        return RedeliverUnacknowledged(generation)
    return NegativeAcknowledge(generation, tuple((each, 0) for each in message_ids))


def _is_in_order(owner: ConsumerState) -> bool:
    return owner.options.consumer_type in IN_ORDER


def _rewind(owner: ConsumerState) -> SlimFuture[None]:
    """Have all messages delivered again that are not acknowledged. The future ends when the queue is empty."""
    emptied: SlimFuture[None] = owner.link.pending_calls.track(SlimFuture())
    tell(owner.address, RedeliverUnacknowledged())
    tell(owner.address, RunAfter(0.0, lambda: owner.link.pending_calls.resolve(emptied, None)))
    return emptied
