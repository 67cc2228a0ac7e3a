"""Writing that a retry does not repeat: by the broker's deduplication.

A broker that removes duplicates drops what has a sequence id that is no higher than the highest it has stored for a
producer's name. So a task that is tried again has to come under the same name, and give each row the id that it had.
The name is that of the query, or of the job, and of the partition of its rows. The ids are the batch's number and the
row's place in it; or they stand in a column of the user's, which rises.

That a retry has the same rows in the same order is something that nobody can check: it holds for files and for topics
that are read in order, and not behind a shuffle. So users have to say it. If they say it and it is not so, then a row
that comes where another was is dropped as a repeat, and is lost.

That goes for how rows are cut into partitions too, and no task is told how many of these there are. Rows that come in
another partition than before come under the name of others, where higher numbers may have been stored. A job whose rows
have numbers has the first of each partition in its names: so what is cut elsewhere is stored twice rather than lost. A
stream has the same names for all its batches, as brokers keep each for hours.

A broker drops a batch as a whole, by its lowest id. If it began where one ended that was stored, and was cut elsewhere
the first time, it would take new rows with it. So batches are cut by messages and bytes alone here, and never by time;
and rows without a key go to the partitions of a topic in turn, by their number, and not by chance.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pyspark import TaskContext

from pulsar_actors.client.arguments import LONGEST_MS
from pulsar_actors.client.enums import BatchingType, HashingScheme
from pulsar_actors.client.message import Message
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.sets.message_router import key_hash_of
from pulsar_actors.exceptions import InternalError, InvalidConfiguration, InvalidMessage
from pulsar_actors.spark.shipment import USUAL

__all__ = ["Idempotence", "InTurn", "Rising"]

ROWS: Final = 1 << 32
"""Ids for each batch of a stream: more rows than a task can have. Batches begin with the second such number, as an id
before the first of all would mean that there is none; a job that is no stream has the ids of the first batch."""

IN_A_ROW: Final = 1000
"""Rows without a key that go to the same partition of a topic."""

_ITS_OWN: Final = (
    "producer_name",
    "initial_sequence_id",
    "batching_max_publish_delay_ms",
    "max_pending_messages_across_partitions",
    "message_routing_mode",
)

_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


class Idempotence(NamedTuple):
    """How it is to be done. `name` is that of the job; a stream has one by itself."""

    name: str | None
    column: str | None

    @classmethod
    def of(cls, name: str | None, column: str | None, *, repeats: bool, producer: Mapping[str, Any]) -> "Idempotence":
        """Make it of the options; refuse what would make it something else."""
        for argument in _ITS_OWN:
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
        return cls(name, column)

    @staticmethod
    def _may_never_fill(producer: Mapping[str, Any]) -> bool:
        """Tell whether a task could wait for room, and what it has left for a batch to be full."""
        options = ProducerOptions(topic="any", **{**USUAL, **producer})
        return options.batching_enabled and 0 < options.max_pending_messages < 2 * options.batching_max_messages

    def arguments(self, job: str, producer: Mapping[str, Any], first: list[Any], *, streams: bool) -> dict[str, Any]:
        """Give what the producer of a task is made with; `first` has the number of its first row, if rows have some."""
        context = TaskContext.get()
        if context is None:
            raise InternalError("no task of Spark's is being run")
        batch = context.getLocalProperty(_BATCH)
        query = context.getLocalProperty(_QUERY) if batch is not None else None
        if query is not None and self.name is None and not streams:
            raise InvalidConfiguration(
                "an idempotent write inside foreachBatch needs a writerName, another for each such write: by the name "
                "of the query alone, the broker would take what one writes for repeats of the other"
            )
        numbers = {} if self.column is not None else {"initial_sequence_id": (int(batch or 0) + 1) * ROWS - 1}
        parts = [self.name or query or job, context.partitionId(), *(first if batch is None else [])]
        return {
            **producer,
            **numbers,
            "producer_name": "-".join(map(str, parts)),
            "batching_max_publish_delay_ms": LONGEST_MS,
            "max_pending_messages_across_partitions": 0,  # or a batch might have no room to become full
            "message_router": InTurn(producer.get("hashing_scheme", HashingScheme.BoostHash)),
        }


class InTurn:
    """Chooses partitions: by the key, as all producers do, or else in turn."""

    def __init__(self, scheme: HashingScheme) -> None:
        self._hash = key_hash_of(scheme)
        self._count = 0

    def __call__(self, message: Message, partitions: int) -> int:
        """Choose one for a message."""
        key = message.partition_key()
        if key:
            return self._hash(key) % partitions
        self._count += 1
        return (self._count - 1) // IN_A_ROW % partitions


class Rising:
    """The numbers of a sequence column, which have to rise: the broker would drop a row whose number does not."""

    def __init__(self) -> None:
        self._last = -1

    def check(self, numbers: list[Any]) -> None:
        """Refuse numbers that do not."""
        for number in numbers:
            if number is None or number <= self._last:
                raise InvalidMessage(
                    f"the numbers of sequenceColumn are to rise in each task, from 0 on, and {number} comes after "
                    f"{self._last}: sort the rows of each partition by them"
                )
            self._last = number
