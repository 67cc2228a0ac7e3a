"""Idempotent writing: with the broker's deduplication, a repeated task stores nothing twice.

A broker that removes duplicates drops a message whose sequence id is not higher than the highest it has stored for the
producer's name. So a repeated task must have the same producer name, and give each row the same sequence id. The name
consists of that of the query or the job, and the number of the data partition. The ids consist of the number of the
batch and the index of the row in it, or come from a user's column with ascending numbers.

A repeated task must have the same rows in the same order. That holds for files and for topics that are read in order,
but not after a shuffle. No code can check it, so users have to declare it. If it is declared and does not hold, rows
are dropped as repeats, and lost.

Rows must also be in the same data partitions, and no task knows how many partitions there are. Rows in another
partition have another producer name, which may have stored higher numbers. If the rows of a job have numbers, the first
number of the partition is in the name. So rows in another partition than before are stored twice, and not lost. A
stream has the same names for all its batches, because brokers keep each name for hours.

A broker drops a batch as a whole, by its lowest id. So a repeated task must send the same batches. For example, rows 1
to 10 were stored as one batch, and the repeated task sends the rows 1 to 7 and 8 to 15. The broker drops the second
batch, because 8 is not higher than 10, and rows 11 to 15 are lost. Therefore batches are cut only by messages and
bytes, never by time, and rows without a key go to the topic's partitions by their number, not at random.
"""

from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from pulsar_actors.client.enums import BatchingType, HashingScheme
from pulsar_actors.client.message import Message
from pulsar_actors.client.partitioned_producer import key_hash_of
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.validation import LONGEST_MS
from pulsar_actors.exceptions import InvalidConfiguration, InvalidMessage
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.spark.admin_stats import AdminStats
from pulsar_actors.spark.client_pool import PRODUCER_DEFAULTS
from pulsar_actors.spark.cluster_access import ClusterAccess
from pulsar_actors.spark.running_task import RunningTask
from pulsar_actors.spark.topics import TopicChoice
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.transaction_id import TransactionId

__all__ = ["Idempotence", "RepeatableRouter", "RisingSequence", "require_deduplication"]


IDS_PER_BATCH: Final = 1 << 32
"""Ids for each batch of a stream: more than a task can have rows.

The first batch begins with this id, as an initial id of -1 would mean that there is none. A job that is no stream has
the ids of a first batch."""

MESSAGES_PER_TURN: Final = 1000
"""The number of consecutive rows without a key that go to the same partition of a topic."""

_CHOSEN_BY_IDEMPOTENCE: Final = (
    "producer_name",
    "initial_sequence_id",
    "batching_max_publish_delay_ms",
    "max_pending_messages_across_partitions",
    "message_routing_mode",
    "lazy_start_partitioned_producers",  # the first batch of a partition would be cut when its producer is there
)


class Idempotence(NamedTuple):
    """The option of idempotent writing: the sequence column, if there is one."""

    column: str | None

    @classmethod
    def checked(cls, column: str | None, *, repeats: bool, producer: Mapping[str, Any]) -> "Idempotence":
        """Check the options; refuse producer options that prevent idempotent writing."""
        for argument in _CHOSEN_BY_IDEMPOTENCE:
            if argument in producer:
                raise InvalidConfiguration(f"idempotent=true chooses {argument} itself: leave it out")
        if cls._may_never_fill(producer):
            raise InvalidConfiguration(
                "idempotent=true waits until batches are full: have maxPendingMessages be twice batchingMaxMessages at "
                "least"
            )
        if producer.get("batching_type") is BatchingType.KeyBased:
            raise InvalidConfiguration("idempotent=true does not go with batches by key: these are cut by chance")
        if column is None and not repeats:
            raise InvalidConfiguration(
                "idempotent writing takes rows that a retry repeats in the same order, which nobody can check: say "
                "that yours do, by rowsRepeatInOrder=true, or name a column whose numbers rise, by sequenceColumn"
            )
        return cls(column)

    @staticmethod
    def _may_never_fill(producer: Mapping[str, Any]) -> bool:
        """Return whether the queue may be full before a batch is: then both would wait for each other."""
        options = ProducerOptions(topic="any", **{**PRODUCER_DEFAULTS, **producer})
        return options.batching_enabled and 0 < options.max_pending_messages < 2 * options.batching_max_messages

    def arguments(
        self, task: RunningTask, job: str, producer: Mapping[str, Any], first: list[Any], within: TransactionId | None
    ) -> dict[str, Any]:
        """Return the arguments of a task's producer, which may send in a transaction.

        `first` has the number of the first row, if rows have numbers.
        """
        numbered = self._number_of_batch(task, within) * IDS_PER_BATCH - 1
        numbers = {} if self.column is not None else {"initial_sequence_id": numbered}
        parts = [
            job,
            *([] if within is None else [within.most]),
            task.partition,
            *(first if task.batch is None else []),
        ]
        return {
            **producer,
            **numbers,
            "producer_name": "-".join(map(str, parts)),
            "batching_max_publish_delay_ms": LONGEST_MS,
            "max_pending_messages_across_partitions": 0,  # a limit could leave no room for a full batch
            "message_router": RepeatableRouter(producer.get("hashing_scheme", HashingScheme.BoostHash)),
        }

    @staticmethod
    def _number_of_batch(task: RunningTask, within: TransactionId | None) -> int:
        """Return a number that rises with each batch, or with each transaction of a coordinator.

        A broker remembers the ids of an aborted transaction as well. The batch must have other ids in the next one.
        """
        return (task.batch or 0 if within is None else within.least) + 1


class RepeatableRouter:
    """Chooses the partitions of messages: by the key, as all producers do, or else in turn."""

    def __init__(self, scheme: HashingScheme) -> None:
        self._hash = key_hash_of(scheme)
        self._count = 0

    def __call__(self, message: Message, partitions: int) -> int:
        """Choose the partition of a message."""
        key = message.partition_key()
        if key:
            return self._hash(key) % partitions
        self._count += 1
        return (self._count - 1) // MESSAGES_PER_TURN % partitions


class RisingSequence:
    """Checks that the numbers of a sequence column rise: the broker would drop a row whose number does not."""

    def __init__(self) -> None:
        self._last = -1

    def check(self, numbers: list[Any]) -> None:
        """Refuse numbers that do not rise."""
        for number in numbers:
            if number is None or number <= self._last:
                raise InvalidMessage(
                    f"the numbers of sequenceColumn are to rise in each task, from 0 on, and {number} comes after "
                    f"{self._last}: sort the rows of each partition by them"
                )
            self._last = number


def require_deduplication(cluster: ClusterAccess, topic: TopicName | None) -> None:
    """Refuse a topic without deduplication. The broker is asked for each partition."""
    if topic is None:
        raise InvalidConfiguration(
            "idempotent=true needs the option topic: topics that are chosen row by row cannot be checked beforehand"
        )
    if cluster.admin_url is None:
        raise InvalidConfiguration(
            "idempotent=true needs admin.url, such as http://host:8080: it rests on the broker's deduplication, and "
            "whether that is on can only be asked there"
        )
    with cluster.client() as client:
        partitions = TopicChoice((topic,), None, waits=False).partitions(client)
    if not partitions:
        raise InvalidConfiguration(f"idempotent=true rests on deduplication, and there is no topic {topic}: make it")
    with closing(AdminStats(cluster)) as statistics:
        for partition in partitions:
            if not statistics.deduplicates(partition):
                raise InvalidConfiguration(
                    f"idempotent=true rests on deduplication, which {partition} has not: turn it on for the topic, its "
                    "namespace, or the broker"
                )
