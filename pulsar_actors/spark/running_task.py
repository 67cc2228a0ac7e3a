"""The task that this worker runs, and what it is a part of."""

from pyspark import TaskContext

from pulsar_actors.exceptions import InternalError
from pulsar_actors.named_tuple import NamedTuple

__all__ = ["RunningTask"]

_QUERY_PROPERTY = "sql.streaming.queryId"
_BATCH_PROPERTY = "streaming.sql.batchId"


class RunningTask(NamedTuple):
    """The data partition of the task, and the streaming query and the batch that it belongs to, if there is one."""

    partition: int
    query: str | None
    batch: int | None

    @classmethod
    def current(cls) -> "RunningTask":
        """Return the task of this thread."""
        context = TaskContext.get()
        if context is None:
            raise InternalError("no task of Spark's is being run")
        batch = context.getLocalProperty(_BATCH_PROPERTY)
        query = None if batch is None else context.getLocalProperty(_QUERY_PROPERTY)
        return cls(context.partitionId(), query, None if batch is None else int(batch))
