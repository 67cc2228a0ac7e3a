"""The schemas of topics by version: each is asked for once, by the thread that needs it first.

A message has the version of the schema that it was written with. The schema is asked for when a program asks for the
value of the message, not when the message arrives: so only that caller waits, and no loop and no other message does.
Callers that need the same version meanwhile wait for the same answer. A failure is not kept: each of these callers gets
the error, and the next one asks again.

Callers that must not wait, such as an event loop, `request` a schema before they need it. If that fails, `get` raises
the error, instead of asking again and waiting, until a later request is answered.

All partitions of a topic share its schemas, so a broker is asked by the name of the partitioned topic.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.future import SlimFuture, copy_error
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.wire.PulsarApi_pb2 import CommandGetSchema, CommandGetSchemaResponse
from pulsar_actors.wire.topic_name import TopicName

__all__ = ["MAX_SCHEMAS", "SchemaVersions", "StoredSchema"]

MAX_SCHEMAS: Final = 100_000

Answer: TypeAlias = SlimFuture[Any]
"""The future of a CommandGetSchemaResponse."""


class StoredSchema(NamedTuple):
    """A schema of a topic, as its brokers keep it."""

    type: int
    data: bytes
    properties: dict[str, str]
    version: bytes


class SchemaVersions:
    """The schemas that one client knows. Any thread may use it, but none of its loops may wait for a schema.

    `ask` sends a request and returns a future of its answer; `wait` waits for one, with the words for its errors.
    `limit` is the most schemas to keep: beyond it those that were asked for first are dropped.
    """

    __slots__ = ("_ask", "_failures", "_known", "_limit", "_lock", "_pending", "_wait")

    def __init__(
        self,
        ask: Callable[[CommandGetSchema], Answer],
        wait: Callable[[Answer, str], CommandGetSchemaResponse],
        interleaving: Interleaving = THREADS,
        limit: int = MAX_SCHEMAS,
    ) -> None:
        self._ask = ask
        self._wait = wait
        self._limit = limit
        self._known: dict[tuple[str, bytes], StoredSchema] = {}
        self._failures: dict[tuple[str, bytes], Exception] = {}  # of callers that must not wait
        self._pending: dict[tuple[str, bytes], Answer] = {}
        self._lock = interleaving.lock()

    def get(self, topic: str, version: bytes) -> StoredSchema:
        """Return the schema of a topic, or of a partition's topic, in this version."""
        known = self._known.get((topic, version))
        if known is not None:
            return known
        failure = self._failures.get((topic, version))
        if failure is not None:
            raise copy_error(failure)
        base = str(TopicName.parse(topic).base)
        stored = _stored(self._wait(self._answer(base, version), _what(base)))
        self._keep((topic, version), stored)
        return stored

    def knows(self, topic: str, version: bytes) -> bool:
        """Return whether `get` returns this schema without waiting."""
        return (topic, version) in self._known

    def request(self, topic: str, version: bytes) -> Answer:
        """Ask for a schema, for callers that must not wait. When the future is done, `get` returns it or raises."""
        answer = self._answer(str(TopicName.parse(topic).base), version)
        answer.add_done_callback(lambda done: self._note((topic, version), done))
        return answer

    def latest(self, topic: str) -> StoredSchema:
        """Return the newest schema of a topic. It is asked for each time. Raise TopicNotFound if there is none."""
        base = str(TopicName.parse(topic).base)
        return _stored(self._wait(self._ask(CommandGetSchema(request_id=0, topic=base)), _what(base)))

    def _answer(self, base: str, version: bytes) -> Answer:
        """Return the future of an answer: of a request that is on its way, or of a new one."""
        key = base, version
        with self._lock:
            pending = self._pending.get(key)
            if pending is not None:
                return pending
            answer = self._pending[key] = self._ask(CommandGetSchema(request_id=0, topic=base, schema_version=version))
        answer.add_done_callback(lambda _: self._forget(key))
        return answer

    def _forget(self, key: tuple[str, bytes]) -> None:
        with self._lock:
            self._pending.pop(key, None)

    def _note(self, key: tuple[str, bytes], answer: "Future[CommandGetSchemaResponse]") -> None:
        failure = answer.exception()
        if failure is None:
            self._keep(key, _stored(answer.result()))
        elif isinstance(failure, Exception):
            with self._lock:
                self._failures[key] = failure
                _drop_first(self._failures, self._limit)

    def _keep(self, key: tuple[str, bytes], stored: StoredSchema) -> None:
        with self._lock:
            self._known[key] = stored
            _drop_first(self._known, self._limit)
            self._failures.pop(key, None)


def _drop_first(kept: dict[tuple[str, bytes], Any], limit: int) -> None:
    while len(kept) > limit:
        del kept[next(iter(kept))]


def _what(topic: str) -> str:
    return f"asking for the schema of {topic}"


def _stored(answer: CommandGetSchemaResponse) -> StoredSchema:
    schema = answer.schema
    properties = {pair.key: pair.value for pair in schema.properties}
    return StoredSchema(schema.type, schema.schema_data, properties, answer.schema_version)
