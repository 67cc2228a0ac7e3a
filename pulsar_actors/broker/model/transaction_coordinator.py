"""The transaction coordinators of a cluster: they open transactions, and end them.

A coordinator learns from the client which topics and subscriptions have a part in a transaction. To end the
transaction, it logs its decision first, and then tells all of them. When they have done it, END_TXN is answered, and
the transaction forgotten. So an end that is asked for again is accepted until then, and after that there is no such
transaction. Several may be under way at once, each on its own. The first to take a step takes it for all; the others
are refused at that step, because the status is not what they expect.

A transaction that is open for longer than its timeout is aborted. So is one whose timeout is absent or very short.

Each coordinator belongs to a partition of a system topic, and a broker that serves the partition runs the coordinator
from the first TC_CLIENT_CONNECT until the partition is unloaded. The transactions stay: their log is durable. After a
restart of the broker it runs at once if it has any: what was decided is done, and what is open has its timeout. What
was under way when it was unloaded is refused, as the coordinator is not there.
"""

from collections.abc import Callable, Iterator
from enum import Enum, unique
from typing import Final

from pulsar_actors.broker.model.interfaces import Clock, Refusal
from pulsar_actors.broker.model.storage import IN_MEMORY, State, TopicStorage
from pulsar_actors.broker.model.topic import Topic
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import ServerError
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId
from pulsar_actors.wire.transaction_requests import ASSIGNMENT_TOPIC

SHORTEST_TIMEOUT_MS: Final = 100
"""A transaction with a shorter timeout is aborted at once."""

_COORDINATOR: Final = "transaction coordinator"
_TRANSACTION: Final = "transaction"
_MS: Final = 1000.0


@unique
class TransactionStatus(Enum):
    """The status of a transaction, which its coordinator forgets when it is done everywhere."""

    OPEN = "Topics and subscriptions may be added."
    COMMITTING = "The commit is decided, and not done everywhere."
    ABORTING = "The abort is decided, and not done everywhere."
    COMMITTED = "The commit is done everywhere."
    ABORTED = "The abort is done everywhere."


OUTCOMES: Final = {
    TransactionStatus.COMMITTING: TransactionStatus.COMMITTED,
    TransactionStatus.ABORTING: TransactionStatus.ABORTED,
}
"""The status after each decision."""


class Transaction:
    """One transaction of a coordinator. `subscriptions` are pairs of the names of a topic and a subscription."""

    __slots__ = ("id", "opened_ms", "record", "status", "subscriptions", "timeout_ms", "topics")

    def __init__(self, transaction_id: TransactionId, opened_ms: int, timeout_ms: int, storage: TopicStorage) -> None:
        self.id = transaction_id
        self.opened_ms = opened_ms
        self.timeout_ms = timeout_ms
        self.status = TransactionStatus.OPEN
        self.topics: dict[str, None] = {}
        self.subscriptions: dict[tuple[str, str], None] = {}
        self.record = storage.record(_TRANSACTION, f"{transaction_id.most} {transaction_id.least}", self._state)

    def _state(self) -> State:
        times = {"opened_ms": self.opened_ms, "timeout_ms": self.timeout_ms}
        parts = {"topics": list(self.topics), "subscriptions": list(self.subscriptions)}
        return {**times, "status": self.status.name, **parts}


def _tell_nobody(_: Refusal | None) -> None:
    """Do nothing: nobody waits for this end."""


class Ending(NamedTuple):
    """One way of a transaction to its end, which a client, a timeout or the coordinator has begun.

    `run` is that of the coordinator. `when_ended` is called at its end, with a refusal if another one was faster.
    """

    transaction: Transaction
    decision: TransactionStatus
    run: int
    when_ended: Callable[[Refusal | None], None]


class TransactionCoordinator:
    """One coordinator. `transactions` has those that are not forgotten, by number, in the order of their opening.

    `loaded_ms` is the time when it was loaded; None while no broker runs it. `log_takes` are the seconds from the
    request to write a decision or an outcome until it is written.
    """

    __slots__ = (
        "_clock",
        "_find_topic",
        "_number",
        "_record",
        "_run",
        "_storage",
        "last",
        "loaded_ms",
        "log_takes",
        "topic",
        "transactions",
    )

    def __init__(
        self, number: int, clock: Clock, find_topic: Callable[[TopicName], Topic | None], storage: TopicStorage
    ) -> None:
        self._number = number
        self._clock = clock
        self._find_topic = find_topic
        self.topic = ASSIGNMENT_TOPIC.partition(number)
        self.transactions: dict[int, Transaction] = {}
        self.last = -1  # the number of the last transaction
        self.loaded_ms: int | None = None
        self.log_takes = 0.0
        self._run = 0  # counts how often it was unloaded
        self._storage = storage
        self._record = storage.record(_COORDINATOR, str(number), lambda: self.last)
        if (stored := self._record.stored) is not None:
            self.last = stored
            self._restore()

    @property
    def low_water_mark(self) -> int:
        """A number: all transactions up to it are forgotten."""
        return next(iter(self.transactions), self.last + 1) - 1

    def load(self) -> None:
        """Run the coordinator, if it does not run. Transactions whose timeout has passed meanwhile are aborted."""
        if self.loaded_ms is None:
            self.loaded_ms = self._clock.wall_clock_ms()
            for transaction in self.transactions.values():
                if transaction.status is TransactionStatus.OPEN:
                    self._set_timer(transaction)
                else:
                    self._later(self._finish, self._ending(transaction, transaction.status))

    def unload(self) -> None:
        """Stop running the coordinator until a client connects to it again."""
        self.loaded_ms = None
        self._run += 1

    def begin(self, timeout_ms: int) -> TransactionId:
        """Open a transaction."""
        self.last += 1
        now_ms = self._clock.wall_clock_ms()
        transaction = Transaction(TransactionId(self._number, self.last), now_ms, timeout_ms, self._storage)
        self.transactions[self.last] = transaction
        transaction.record.changed()
        self._record.changed()
        if timeout_ms < SHORTEST_TIMEOUT_MS:
            self._decide(self._ending(transaction, TransactionStatus.ABORTING))
        else:
            self._set_timer(transaction)
        return transaction.id

    def find(self, transaction_id: TransactionId) -> Transaction:
        """Find a transaction; Refusal if it has ended."""
        found = self.transactions.get(transaction_id.least)
        if found is None:
            reason = f"The transaction with this txdID `{transaction_id}`not found "
            raise Refusal(ServerError.TransactionNotFound, reason)
        return found

    def add_topics(self, transaction_id: TransactionId, topics: list[str]) -> None:
        """Note that the transaction has messages in these topics."""
        transaction = self._find_open(transaction_id)
        transaction.topics.update(dict.fromkeys(topics))
        transaction.record.changed()

    def add_subscriptions(self, transaction_id: TransactionId, subscriptions: list[tuple[str, str]]) -> None:
        """Note that the transaction has acknowledgements on these subscriptions."""
        transaction = self._find_open(transaction_id)
        transaction.subscriptions.update(dict.fromkeys(subscriptions))
        transaction.record.changed()

    def end(self, transaction_id: TransactionId, *, commit: bool, when_ended: Callable[[Refusal | None], None]) -> None:
        """Commit or abort a transaction, and call a function when that is done everywhere, or refused; Refusal."""
        transaction = self.find(transaction_id)
        wanted = TransactionStatus.COMMITTING if commit else TransactionStatus.ABORTING
        if transaction.status not in {TransactionStatus.OPEN, wanted}:
            raise _wrong_status(transaction, wanted)
        step = self._decide if transaction.status is TransactionStatus.OPEN else self._finish
        self._later(step, self._ending(transaction, wanted, when_ended))

    def _find_open(self, transaction_id: TransactionId) -> Transaction:
        transaction = self.find(transaction_id)
        if transaction.status is not TransactionStatus.OPEN:
            raise _wrong_status(transaction, TransactionStatus.OPEN)
        return transaction

    def _set_timer(self, transaction: Transaction) -> None:
        left_ms = transaction.opened_ms + transaction.timeout_ms - self._clock.wall_clock_ms()
        self._clock.later(max(0, left_ms) / _MS, self._time_out, transaction.id.least)

    def _time_out(self, number: int) -> None:
        transaction = self.transactions.get(number)
        if transaction and transaction.status is TransactionStatus.OPEN and self.loaded_ms is not None:
            self._decide(self._ending(transaction, TransactionStatus.ABORTING))

    def _ending(
        self,
        transaction: Transaction,
        decision: TransactionStatus,
        when_ended: Callable[[Refusal | None], None] = _tell_nobody,
    ) -> Ending:
        return Ending(transaction, decision, self._run, when_ended)

    def _later(self, step: Callable[[Ending], None], ending: Ending) -> None:
        self._clock.later(self.log_takes, step, ending)

    def _may_go_on(self, ending: Ending, expected: TransactionStatus) -> bool:
        """Return whether the transaction has the expected status still. If not, refuse."""
        if ending.run != self._run:
            ending.when_ended(coordinator_not_found(self._number))
        elif ending.transaction.status is not expected:
            ending.when_ended(_wrong_status(ending.transaction, expected))
        else:
            return True
        return False

    def _decide(self, ending: Ending) -> None:
        if self._may_go_on(ending, TransactionStatus.OPEN):
            ending.transaction.status = ending.decision
            ending.transaction.record.changed()
            self._later(self._finish, ending)

    def _finish(self, ending: Ending) -> None:
        """End a transaction at its topics and subscriptions; those that were deleted do not matter."""
        if not self._may_go_on(ending, ending.decision):
            return
        transaction = ending.transaction
        commit, low_water_mark = ending.decision is TransactionStatus.COMMITTING, self.low_water_mark
        for name in transaction.topics:
            topic = self._find_topic(TopicName.parse(name))
            if topic is not None:
                topic.end_transaction(transaction.id, commit=commit, low_water_mark=low_water_mark)
        for name, subscription in transaction.subscriptions:
            topic = self._find_topic(TopicName.parse(name))
            if topic is not None and subscription in topic.subscriptions:
                topic.subscriptions[subscription].end_transaction(
                    transaction.id, commit=commit, low_water_mark=low_water_mark
                )
        del self.transactions[transaction.id.least]
        transaction.record.remove()
        transaction.status = OUTCOMES[ending.decision]
        ending.when_ended(None)

    def _restore(self) -> None:
        names = [tuple(map(int, name.split())) for name in self._storage.names(_TRANSACTION)]
        for number in sorted(least for most, least in names if most == self._number):
            transaction = Transaction(TransactionId(self._number, number), 0, 0, self._storage)
            stored = transaction.record.stored
            transaction.opened_ms, transaction.timeout_ms = stored["opened_ms"], stored["timeout_ms"]
            transaction.topics = dict.fromkeys(stored["topics"])
            transaction.subscriptions = dict.fromkeys((topic, name) for topic, name in stored["subscriptions"])
            transaction.status = TransactionStatus[stored["status"]]
            self.transactions[number] = transaction
        if self.transactions:
            self.load()


class TransactionCoordinators:
    """The coordinators of a cluster, by number; none if transactions are not enabled.

    There are not fewer than were stored: each of these may have open transactions, which only it can end.
    """

    __slots__ = ("_coordinators",)

    def __init__(
        self,
        count: int,
        clock: Clock,
        find_topic: Callable[[TopicName], Topic | None],
        storage: TopicStorage = IN_MEMORY,
    ) -> None:
        count = max(count, *(int(name) + 1 for name in storage.names(_COORDINATOR)), 0)
        self._coordinators = [TransactionCoordinator(number, clock, find_topic, storage) for number in range(count)]

    def __len__(self) -> int:
        return len(self._coordinators)

    def __iter__(self) -> Iterator[TransactionCoordinator]:
        return iter(self._coordinators)

    def find(self, number: int) -> TransactionCoordinator:
        """Find a coordinator; Refusal if there is none with this number."""
        if number >= len(self._coordinators):
            raise coordinator_not_found(number)
        return self._coordinators[number]

    def running(self, number: int) -> TransactionCoordinator:
        """Find a coordinator that a broker runs; Refusal."""
        coordinator = self.find(number)
        if coordinator.loaded_ms is None:
            raise coordinator_not_found(number)
        return coordinator

    def unload(self, prefix: str) -> None:
        """Unload those of the partitions whose names begin with a prefix."""
        for coordinator in self._coordinators:
            if str(coordinator.topic).startswith(prefix):
                coordinator.unload()


def coordinator_not_found(number: int) -> Refusal:
    """Return the refusal of a request for a coordinator that the broker does not run."""
    reason = f"Transaction coordinator with id {number} not found!"
    return Refusal(ServerError.TransactionCoordinatorNotFound, reason)


def _wrong_status(transaction: Transaction, wanted: TransactionStatus) -> Refusal:
    reason = (
        f"Expect Txn `{transaction.id}` to be in {wanted.name} status but it is in {transaction.status.name} status"
    )
    return Refusal(ServerError.InvalidTxnStatus, reason)
