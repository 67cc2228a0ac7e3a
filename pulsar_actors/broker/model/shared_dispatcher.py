"""Shared: each entry goes to whoever's turn it is; what is to be delivered again goes first, the oldest before others.

A turn is up to twenty entries, so that a backlog does not cost a write to a socket for each.

The chunks of one message belong together: once a consumer has one of them it gets the others, turn or not, and even
without permits, of which it is then granted so many more by its own accounts.
"""

from collections.abc import Iterable
from heapq import heappop, heappush

from pulsar_actors.broker.model.clock import Clock
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.entry import StoredEntry
from pulsar_actors.broker.model.parcel import Parcel
from pulsar_actors.broker.model.spread_dispatcher import SpreadDispatcher
from pulsar_actors.broker.model.turns import Turns
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe

_TURN = 20


class SharedDispatcher(SpreadDispatcher):
    """The dispatcher of a Shared subscription."""

    __slots__ = ("_assembling", "_replay", "_turns")

    def __init__(self, cursor: Cursor, clock: Clock, most_unacked: int) -> None:
        turns = Turns()
        super().__init__(CommandSubscribe.SubType.Shared, turns, cursor, clock, most_unacked)
        self._turns = turns
        self._replay: list[int] = []  # a heap of offsets
        self._assembling: dict[str, Consumer] = {}  # by uuid, who gets the chunks of a message

    @property
    def replaying(self) -> int:
        """How many entries wait to be delivered again."""
        return len(self._replay)

    def detach(self, consumer: Consumer) -> None:
        """Let one go; the rest of its chunks goes where the first of them go now."""
        for uuid in [uuid for uuid, owner in self._assembling.items() if owner is consumer]:
            del self._assembling[uuid]
        super().detach(consumer)

    def flowed(self, consumer: Consumer) -> None:
        """Give out what the consumers can take."""
        del consumer
        self.dispatch()

    def dispatch(self) -> None:
        """Give out what the consumers can take."""
        now_ms = self._clock.wall_clock_ms()
        while self._has_more() and (consumer := self._turns.next()) is not None:
            parcel = Parcel(consumer)
            while len(parcel.deliveries) < _TURN and not parcel.full and consumer.available:
                entry = self._next()
                if entry is None:
                    break
                owner = consumer if entry.chunk_of is None else self._owner_of_chunk(entry, entry.chunk_of, consumer)
                if owner is consumer:
                    self._give(entry, parcel)
                else:
                    aside = Parcel(owner)
                    self._give(entry, aside)
                    aside.send(now_ms)
            parcel.send(now_ms)

    def _has_more(self) -> bool:
        return bool(self._replay) or (not self.throttled and self._cursor.read < self._cursor.log.end)

    def _next(self) -> StoredEntry | None:
        log = self._cursor.log
        while self._replay:
            offset = heappop(self._replay)
            if offset >= log.base and not self._cursor.is_done(offset):
                return log.entry(offset)
        return self._read()

    def _owner_of_chunk(self, entry: StoredEntry, uuid: str, consumer: Consumer) -> Consumer:
        owner = self._assembling.get(uuid, consumer)
        if entry.is_last_chunk:
            self._assembling.pop(uuid, None)
        else:
            self._assembling[uuid] = owner
        return owner

    def _landed(self, entry: StoredEntry) -> None:
        """Nothing depends on it."""

    def _again(self, entries: Iterable[StoredEntry]) -> None:
        for entry in entries:
            heappush(self._replay, entry.offset)

    def _forget(self) -> None:
        super()._forget()
        self._replay.clear()
        self._assembling.clear()
