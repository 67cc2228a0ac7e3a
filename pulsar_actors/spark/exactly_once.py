"""Exactly-once writing: all rows of a batch are sent in one transaction, which the driver commits.

The driver opens a transaction for each batch. Its id goes to the tasks, which join it and send their rows. Readers see
nothing of them. When all tasks have ended, the driver sends a marker in the same transaction, and commits it.

**A batch that runs again.** Spark runs a batch again if the driver has died before Spark noted its end. The process of
the dead driver that commits may still live, and commit now. So before a driver commits, it writes to the topic of
attempts that it is going to. Then it reads everything before that, and aborts each other transaction of the job. Then
it looks for the marker of the batch in the control topic. Of two processes, one comes first in the topic of attempts:
the second aborts the first one's transaction, or finds its marker. If there is a marker, the batch is written, and the
new transaction is aborted. So it is if there is the marker of a later batch: a process that was taken for dead may come
back when others have gone on.

A message TTL may delete the marker while no driver runs, and so may an expiry of subscriptions, or an administrator.
Then nobody knows if the batch is written. If a job has no marker at all, a warning says so for any batch but the first.
It is no error: a query may have written in another way before, and inside `foreachBatch` not each batch is written.

**A task that runs again.** Its predecessor may have sent a part of the rows, and a transaction is aborted as a whole or
not at all. So a task writes to the topic of attempts that it begins, before its first row. It does so with a producer
whose name stands for its part of the batch, and which only one process can have. A second task for the same part, be it
another try or a speculative one, waits until the first is gone, and then fails: the batch is aborted with all that was
sent, and Spark runs it again when the query restarts. That the first has sent all rows would not help. It cannot know:
if the rows cannot be computed to their end, they end for the task as if there were no more. But Spark knows, and stops
a speculative task that still waits. With `idempotent=true`, tasks can be repeated, as the broker drops what is stored
(see `idempotence.py`).

A task that finds no rows does not begin. So another may have begun with its part, and what that has sent is no part of
the batch. The driver notices it when it commits: it reads which parts have begun, and aborts the batch if Spark counts
another task for one of them. Tasks that begin after that are refused.

**A batch that fails.** Spark stops the other tasks, but does not wait for them. A topic that has had no message of a
transaction keeps nothing of its abort. So it would accept the first message of such a task afterwards, and hide what
comes behind it until a later transaction ends. So before a driver aborts, it writes to the topic of attempts that it is
going to. A task that begins after that is refused. For those that began before, the driver waits, until it can have the
producers that stand for their parts. Tasks that can be repeated have no such producers, and are not waited for.

Spark lets another process abort a batch of a stream, which gets to know the transaction from tasks that have ended. If
none has, it looks for it in the topic of attempts: there the driver writes that it has opened it, for which stream. A
stream is known by its checkpoint there, because its id is known to tasks only.
"""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from datetime import timedelta
from hashlib import sha256
from typing import Final
from zlib import crc32

from pulsar_actors.client.client import Client
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.shared_transaction import SharedTransaction, join_transaction, open_shared_transaction
from pulsar_actors.client.transaction import Transaction, TransactionState
from pulsar_actors.exceptions import (
    InvalidConfiguration,
    InvalidTxnStatusError,
    NotAllowedError,
    OutcomeUnknown,
    PulsarException,
    TransactionNotFound,
)
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.log import LOG
from pulsar_actors.spark.client_pool import refusal_about
from pulsar_actors.spark.cluster_access import ClusterAccess
from pulsar_actors.spark.control_topic import (
    ABORTING,
    ATTEMPTS_SUFFIX,
    BEGAN,
    COMMITTING,
    CONTROL_SUFFIX,
    LOOKING,
    OPENED,
    WRITTEN,
    ControlLog,
    ControlTopic,
    Record,
)
from pulsar_actors.spark.running_task import RunningTask
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId

__all__ = ["BatchTransaction", "ExactlyOnce", "Written"]

DEFAULT_TIMEOUT: Final = 600.0
"""Seconds. A batch takes no longer, and readers wait no longer for a driver that has died and does not come back."""

COMMIT_TRIES: Final = 5
"""Times that a commit without an answer is repeated. Each waits for the operation timeout."""

TASKS_END_WITHIN: Final = 10.0
"""Seconds that a driver waits for tasks of a batch that it aborts. Spark kills one that does not stop within two."""

_BEGUN_BEFORE: Final = (
    "another task has begun to send part {} of this batch, and may have stored some of it in the transaction: so the "
    "batch is aborted as a whole, and nothing of it is visible. It is written when the query or the job runs again. If "
    "rows repeat in order and the topic has deduplication, idempotent=true lets tasks be repeated instead"
)

_NO_MARKERS: Final = (
    "batch %d of %s is the first with a marker in %s, or those of earlier batches are lost; then rows may be written "
    "twice. A message TTL and an expiry of subscriptions delete markers: see 'Exactly once' in docs/spark.md"
)

_NOT_COUNTED: Final = (
    "this batch is not written: a task has begun to send part {}, and may have stored some of it in the transaction, "
    "but the task that Spark counts found no rows there. So the batch is aborted as a whole. It is written when the "
    "query or the job runs again"
)


class Written(NamedTuple):
    """What a task has sent: messages, and bytes."""

    messages: int
    size: int


class ExactlyOnce(NamedTuple):
    """The options of exactly-once writing."""

    control_topic: str
    timeout: timedelta
    """That of the transactions, and so the longest time for a batch."""
    stream: str | None
    """The hash of a stream's checkpointLocation, or else of its writerName; None without either.

    All writers of a stream have the same, in whatever process.
    """

    @classmethod
    def checked(
        cls, topic: TopicName | None, control: str | None, timeout_ms: int | None, stream: str | None
    ) -> "ExactlyOnce":
        """Check the options, and choose the control topic: one beside the topic."""
        if control is None:
            if topic is None:
                raise InvalidConfiguration(
                    "exactlyOnce=true needs a controlTopic, if topics are chosen row by row: a small topic for records "
                    "of what is written"
                )
            control = f"{topic}{CONTROL_SUFFIX}"
        name = TopicName.parse(control)
        for one in (topic, name):
            if one is not None and not one.is_persistent:
                raise InvalidConfiguration(f"exactlyOnce=true needs persistent topics, and {one} is not")
        if name == topic:
            raise InvalidConfiguration("controlTopic is a topic for records of what is written, not for the rows")
        seconds = DEFAULT_TIMEOUT if timeout_ms is None else timeout_ms / 1000
        return cls(str(name), timedelta(seconds=seconds), stream and sha256(stream.encode()).hexdigest())

    def open(self, cluster: ClusterAccess) -> "BatchTransaction":
        """Open the transaction of a batch. The driver does so when it sends the tasks to the workers."""
        with cluster.client() as client:
            control, attempts = self._topics(client)
            for topic in (control, attempts):
                topic.prepare()
            with (
                open_shared_transaction(client, self.timeout, crc32(control.topic.encode())) as transaction,
                attempts.part(None) as producer,
            ):
                opened = producer.send(Record(OPENED, self.stream or "", 0, transaction.txn_id).encode())
                return self._batch(transaction.txn_id, control, attempts, opened)

    def last_opened(self, cluster: ClusterAccess) -> "BatchTransaction | None":
        """Return the last transaction of the stream; None if that cannot be known, or if it is committed."""
        if self.stream is None:
            return None
        with cluster.client() as client:
            control, attempts = self._topics(client)
            with attempts.log() as log:
                found = log.last_opened(self.stream)
            if found is None:
                return None
            record, opened = found
            return self._batch(record.transaction, control, attempts, opened)

    def _batch(
        self, transaction: TransactionId, control: ControlTopic, attempts: ControlTopic, opened: MessageId
    ) -> "BatchTransaction":
        return BatchTransaction(transaction, self.timeout, control.topic, attempts.topic, opened)

    def _topics(self, client: Client) -> tuple[ControlTopic, ControlTopic]:
        """Return the control topic and that of attempts; of partitioned topics, the first partitions."""
        names = self.control_topic, f"{self.control_topic}{ATTEMPTS_SUFFIX}"
        control, attempts = (client.get_topic_partitions(name)[0] for name in names)
        seconds = self.timeout.total_seconds()
        return ControlTopic(client, control, seconds), ControlTopic(client, attempts, seconds)


class BatchTransaction(NamedTuple):
    """The transaction of a batch, as tasks and the driver get to know it."""

    id: TransactionId
    timeout: timedelta
    control_topic: str
    attempts_topic: str
    opened_after: MessageId
    """The record of the attempts that the transaction is open: it comes before those of its tasks."""

    def join(self, client: Client) -> SharedTransaction:
        """Take part in it."""
        return join_transaction(client, self.id, self.timeout)

    def control(self, client: Client) -> ControlTopic:
        """Return the control topic."""
        return ControlTopic(client, self.control_topic, self.timeout.total_seconds())

    def attempts(self, client: Client) -> ControlTopic:
        """Return the topic of attempts."""
        return ControlTopic(client, self.attempts_topic, self.timeout.total_seconds())

    def send_part(
        self,
        client: Client,
        task: RunningTask,
        job: str,
        send: Callable[[Transaction], Written],
        *,
        may_repeat: bool,
    ) -> Written:
        """Have a task send its part of the batch. Unless that may be repeated, only one task for a part may do so."""
        record = Record(BEGAN, job, task.batch or 0, self.id, task.partition)
        attempts = self.attempts(client)
        with attempts.part(None if may_repeat else self._name_of(task.partition)) as producer:
            own = producer.send(record.encode())
            if not may_repeat:
                earlier = list(attempts.between(self.opened_after, own))
                if record in earlier:
                    raise PulsarException(_BEGUN_BEFORE.format(task.partition))
                ending = [it for it in earlier if it.transaction == self.id and it.kind in {ABORTING, COMMITTING}]
                if ending:
                    how = "committed" if ending[0].kind == COMMITTING else "aborted"
                    raise PulsarException(f"part {task.partition} of this batch is not sent: the batch is being {how}")
            with self.join(client) as transaction:
                return send(transaction)

    def abort(self, cluster: ClusterAccess) -> None:
        """Abort it, because the batch has failed, when its tasks have ended."""
        with cluster.client() as client:
            self._abort(client)

    def commit(
        self, cluster: ClusterAccess, job: str, batch: int, parts: AbstractSet[int], *, may_repeat: bool
    ) -> bool:
        """Commit it, and return True; or abort it and return False, because the batch is written already.

        `parts` are those that the tasks which Spark counts have sent. If others have begun, the batch is aborted.
        """
        with cluster.client() as client, self.attempts(client).log() as attempts, self.control(client).log() as control:
            known = list(attempts.records_before(attempts.add(Record(COMMITTING, job, batch, self.id))))
            begun = {record.part for record in known if record.kind == BEGAN and record.transaction == self.id}
            if not begun <= parts:
                self._abort(client)
                raise PulsarException(_NOT_COUNTED.format(min(begun - parts)))
            self._abort_others(client, {record.transaction for record in known if record.job == job})
            commit = _Commit(control, self, Record(WRITTEN, job, batch, self.id), may_repeat=may_repeat)
            with self.join(client) as transaction:
                marker = commit.commit_or_abort(transaction)
            attempts.forget_attempts(job)
            control.forget_markers(job, batch, None if may_repeat else marker)
        return marker is not None

    def _name_of(self, part: int) -> str:
        return f"{self.id}-{part}"

    def _abort(self, client: Client) -> None:
        try:
            self._wait_for_tasks(client)
        except PulsarException as error:
            LOG.warning("the transaction %s is aborted, although tasks may still send: %s", self.id, error)
        self.join(client).abort()

    def _wait_for_tasks(self, client: Client) -> None:
        """Have no more tasks begin, and wait for those that have begun."""
        attempts = ControlTopic(client, self.attempts_topic, TASKS_END_WITHIN)
        with attempts.part(None) as producer:
            own = producer.send(Record(ABORTING, "", 0, self.id).encode())
        for record in list(attempts.between(self.opened_after, own)):
            if record.kind == BEGAN and record.transaction == self.id:
                with attempts.part(self._name_of(record.part)):
                    pass  # it is free: the task has ended

    def _abort_others(self, client: Client, of_job: set[TransactionId]) -> None:
        """Abort the other transactions of the job, whose drivers are dead or come second."""
        for transaction in of_job - {self.id}:
            join_transaction(client, transaction, self.timeout).abort()


class _Commit:
    """The commit of a batch, with its marker. Other transactions of the job have ended, or will not succeed."""

    def __init__(self, control: ControlLog, batch: BatchTransaction, marker: Record, *, may_repeat: bool) -> None:
        self._control = control
        self._batch = batch
        self._marker = marker
        self._may_repeat = may_repeat

    def commit_or_abort(self, transaction: Transaction) -> MessageId | None:
        """Commit, and return the id of the marker. If the batch is written already, abort, and return None."""
        marker, written = self._marker, self._last_written()
        if written is None and self._may_repeat and marker.batch:
            LOG.warning(_NO_MARKERS, marker.batch, marker.job, self._batch.control_topic)
        if self._is_written(written):
            transaction.abort()
            return None
        try:
            return self._commit(transaction)
        except (TransactionNotFound, InvalidTxnStatusError, NotAllowedError) as refusal:
            what = f"batch {self._marker.batch} of {self._marker.job} is not written, because its transaction ended"
            limit = f"its timeout is {self._batch.timeout.total_seconds():g} s, see transactionTimeoutMs"
            raise refusal_about(f"{what} before that; {limit}", refusal) from refusal

    def _is_written(self, last: int | None) -> bool:
        """Return whether the batch has a marker, or has a later one: only that of the last batch is kept."""
        return last is not None and last >= self._marker.batch

    def _last_written(self) -> int | None:
        """Return the last batch of the job that has a marker; None if there is no marker, or nobody will look for it.

        If none is kept, that of the job's first batch is to come, or it was kept no longer, and may still be stored.
        """
        own = self._control.add(self._marker._replace(kind=LOOKING))
        last = self._last_of(self._control.records_before(own))
        return self._last_of(self._control.stored_before(own)) if last is None and self._may_repeat else last

    def _last_of(self, records: Iterable[Record]) -> int | None:
        job = self._marker.job
        return max((it.batch for it in records if it.kind == WRITTEN and it.job == job), default=None)

    def _commit(self, transaction: Transaction) -> MessageId:
        """Send the marker, commit, and return its id. If the outcome stays unknown, the marker tells it."""
        marker = self._control.add(self._marker, transaction)
        unknown = OutcomeUnknown("")
        for _ in range(COMMIT_TRIES):
            try:
                transaction.commit()
            except OutcomeUnknown as error:
                unknown = error
                if transaction.state is not TransactionState.COMMITTING:
                    break
            else:
                return marker
        if not self._is_written(self._last_written()):
            raise unknown
        return marker
