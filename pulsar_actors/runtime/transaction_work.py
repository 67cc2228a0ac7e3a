"""The work of one transaction: what has been sent and acknowledged in it, and where.

Callers, the actors of producers and consumers, and the coordinator's actor share it, on any thread. So it has a lock,
which is never held while code of others runs.

Each send and each acknowledgement *begins* here, which fails once the transaction is being ended, and *ends* here with
its outcome. Before END_TXN the coordinator's actor waits until all that has begun has ended. A partition or a
subscription is registered once, when it is first used; if that fails, the next use tries again.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import groupby
from typing import Any, Final

from google.protobuf.message import Message

from pulsar_actors.exceptions import PulsarException, SendManyFailed, TransactionConflict
from pulsar_actors.machines.transaction import TransactionMachine
from pulsar_actors.machines.transaction_events import (
    Abort,
    Commit,
    EndTransaction,
    ForgetTransaction,
    Leave,
    Register,
    Settled,
)
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.future import SlimFuture, copy_error
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.send_queue import MessageHeader, OutgoingMessages
from pulsar_actors.wire.transaction_id import TransactionId
from pulsar_actors.wire.transaction_requests import add_partition_request, add_subscription_request


class TransactionCall(NamedTuple):
    """To the coordinator's actor: an event for the transaction with this serial number.

    The actor has forgotten one that is over. A caller passes its machine, which still knows the outcome.
    """

    serial: int
    event: Register | Commit | Abort | Leave | Settled | ForgetTransaction | EndTransaction
    machine: TransactionMachine | None = None


_WAYS: Final = {False: "one by one", True: "cumulatively"}
"""The words for an acknowledgement that is not cumulative, and for one that is."""


class SubscriptionAcks:
    """A ledger of the acknowledgements of one client's open transactions, which refuses both kinds on one subscription.

    A broker takes both kinds at once, and loses some. While a transaction has a cumulative acknowledgement on a
    subscription, the end of each other is confirmed there and does nothing, and its own end leaves out what it has
    acknowledged one by one. So the second kind fails here, before its transaction has a part in the subscription.
    """

    __slots__ = ("_cumulative", "_lock")

    def __init__(self, interleaving: Interleaving = THREADS) -> None:
        self._cumulative: dict[tuple[str, str], dict[TransactionId, bool]] = {}  # by topic and subscription
        self._lock = interleaving.lock()

    def claim(
        self, topic: str, subscription: str, transaction: TransactionId, *, cumulative: bool
    ) -> TransactionConflict | None:
        """Note an acknowledgement until its transaction is over, or return why another one excludes it."""
        with self._lock:
            holders = self._cumulative.setdefault((topic, subscription), {})
            if holders.get(transaction) is cumulative:
                return None
            for holder, held in holders.items():
                if held or cumulative:
                    return _conflict(transaction, _WAYS[cumulative], holder, _WAYS[held], f"{subscription} of {topic}")
            holders[transaction] = cumulative
        return None

    def forget(self, transaction: TransactionId) -> None:
        """Forget a transaction that is over."""
        with self._lock:
            for holders in self._cumulative.values():
                holders.pop(transaction, None)
            self._cumulative = {key: holders for key, holders in self._cumulative.items() if holders}


def _conflict(
    transaction: TransactionId, way: str, holder: TransactionId, other_way: str, where: str
) -> TransactionConflict:
    what = f"the transaction {transaction} cannot acknowledge {way} on the subscription {where}"
    why = f"the transaction {holder}, which is open, has acknowledged there {other_way}"
    return TransactionConflict("TransactionConflict", f"{what}: {why}")


class TransactionWork:
    """The work of one transaction. `dropped` is the error of a transaction of which nothing may be sent any more."""

    __slots__ = (
        "_begun", "_coordinator", "_failure", "_is_over", "_lock", "_registrations", "_serial", "_subscription_acks",
        "_when_settled", "consumers", "dropped", "home", "id", "producers", "refusal", "rewinds",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - built whole
        self,
        transaction: TransactionId,
        coordinator: ActorRef,
        serial: int,
        interleaving: Interleaving = THREADS,
        home: int = 0,
        subscription_acks: SubscriptionAcks | None = None,
    ) -> None:
        self.id = transaction
        self._subscription_acks = subscription_acks or SubscriptionAcks(interleaving)
        self.home = home  # the number of its cluster
        self.refusal: PulsarException | None = None  # of further work
        self.dropped: PulsarException | None = None
        self.producers: dict[ActorRef, SlimFuture[None] | None] = {}  # with the registration that each waits for
        self.consumers: dict[ActorRef, None] = {}  # those that have acknowledged
        self.rewinds: dict[ActorRef, Callable[[], SlimFuture[None]]] = {}  # of those that begin again
        self._coordinator = coordinator
        self._serial = serial
        self._lock = interleaving.lock()
        self._begun = 0
        self._is_over = False
        self._failure: Exception | None = None
        self._registrations: dict[tuple[str, ...], SlimFuture[None]] = {}
        self._when_settled: Callable[[Exception | None], object] | None = None

    def __repr__(self) -> str:
        return f"<the work of transaction {self.id}>"

    def begin(self) -> None:
        """Begin a send or an acknowledgement. Raises the refusal, if the transaction takes no more."""
        with self._lock:
            if self.refusal is None:
                self._begun += 1
                return
        raise copy_error(self.refusal)

    def end(self, error: BaseException | None) -> None:
        """End a send or an acknowledgement that has begun."""
        failure = _without_frames(error) if isinstance(error, Exception) and self._failure is None else None
        with self._lock:
            self._begun -= 1
            if self._failure is None:
                self._failure = failure
            report = self._take_report()
        if report is not None:
            report(self._failure)

    def begin_as(self, future: "Future[Any]") -> None:
        """Begin a send or an acknowledgement that ends with this future."""
        self.begin()
        future.add_done_callback(lambda done: self.end(done.exception()))

    def claim(self, topic: str, subscription: str, *, cumulative: bool) -> TransactionConflict | None:
        """Note how messages of a subscription are acknowledged, or return why they cannot be."""
        conflict = self._subscription_acks.claim(topic, subscription, self.id, cumulative=cumulative)
        if self._is_over:  # since it has begun: nothing else would forget it
            self._subscription_acks.forget(self.id)
        return conflict

    def forget_claims(self) -> None:
        """Let other transactions acknowledge as they want: this one is over."""
        self._is_over = True
        self._subscription_acks.forget(self.id)

    def let_go(self) -> None:
        """Forget who has sent and acknowledged: all of that has ended, and the end may be repeated for long."""
        self.producers.clear()
        self.consumers.clear()

    def refuse(self, error: PulsarException) -> None:
        """Refuse further work, for this reason from now on."""
        with self._lock:
            self.refusal = error

    def when_settled(self, report: Callable[[Exception | None], object]) -> None:
        """Report the first failure, or None, when all that has begun has ended."""
        with self._lock:
            self._when_settled = report
            now = self._take_report()
        if now is not None:
            now(self._failure)

    def register_partition(self, topic: str) -> SlimFuture[None]:
        """Return a future that is done when messages may be sent to a topic, or to one partition."""
        return self._register((topic,), lambda: add_partition_request(self.id, topic))

    def register_subscription(self, topic: str, subscription: str) -> SlimFuture[None]:
        """Return a future that is done when messages of a subscription may be acknowledged."""
        return self._register((topic, subscription), lambda: add_subscription_request(self.id, topic, subscription))

    def _register(self, key: tuple[str, ...], command: Callable[[], Message]) -> SlimFuture[None]:
        with self._lock:
            known = self._registrations.get(key)
            if known is not None:
                return known
            future: SlimFuture[None] = SlimFuture()
            self._registrations[key] = future
        future.add_done_callback(lambda done: self._forget_if_failed(key, done))
        tell(self._coordinator, TransactionCall(self._serial, Register(future, command())))
        return future

    def _forget_if_failed(self, key: tuple[str, ...], done: "Future[None]") -> None:
        if done.exception() is not None:
            with self._lock:
                self._registrations.pop(key, None)

    def _take_report(self) -> Callable[[Exception | None], object] | None:
        report = self._when_settled
        if self._begun or report is None:
            return None
        self._when_settled = None
        return report


def _without_frames(error: Exception) -> Exception:
    """Copy a failure without any frames: the coordinator's actor keeps the work, and they the caller's client."""
    try:
        failure = copy_error(error)
    except Exception:  # noqa: BLE001 - a class of somebody else's, which says itself how it is copied
        return PulsarException(f"{type(error).__name__}: {error}")
    failure.__cause__ = None
    if isinstance(failure, SendManyFailed):
        distinct = {id(one): one for one in failure.errors.values()}  # many messages have the same
        copies = {number: _without_frames(one) for number, one in distinct.items()}
        failure.errors = {position: copies[id(one)] for position, one in failure.errors.items()}
    return failure


class TransactionRun(NamedTuple):
    """Messages of one transaction, or of none, that follow each other."""

    work: TransactionWork | None
    payloads: list[bytes]
    tags: list[object]


def runs_by_transaction(messages: OutgoingMessages) -> Iterator[TransactionRun]:
    """Divide messages into runs of one transaction, or of none: those that may be in one batch. In their order.

    Headers that only name the transaction are taken off, because messages without headers are packed faster.
    """
    start = 0
    for work, run in groupby(messages.tags, _work_in):
        tags = [
            tag.reply if type(tag) is MessageHeader and not tag.metadata and not tag.compressed else tag for tag in run
        ]
        stop = start + len(tags)
        yield TransactionRun(work, list(messages.payloads[start:stop]), tags)
        start = stop


def _work_in(tag: object) -> TransactionWork | None:
    work = tag.transaction if type(tag) is MessageHeader else None
    assert work is None or isinstance(work, TransactionWork)  # noqa: S101 - as `MessageHeader` says
    return work
