"""The outbox of a producer whose client has a memory limit.

A message takes its bytes at the client's gate, and then its place in the box. The two have a lock each, which are held
one after the other; so the steps belong together, whatever comes between them: Ctrl-C waits until both are done.
"""

from typing import Any

from pulsar_actors.exceptions import LimitReached, MemoryBufferIsFull
from pulsar_actors.machines.ledgers.batching import BatchLimits
from pulsar_actors.machines.ledgers.pending_sends import PendingSends
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.interrupts import PutOff
from pulsar_actors.runtime.memory_gate import MemoryGate
from pulsar_actors.runtime.outbox import Outbox
from pulsar_actors.runtime.outgoing import Report


class GatedOutbox(Outbox):
    """An outbox behind a gate."""

    __slots__ = ("_gate",)

    def __init__(
        self,
        gate: MemoryGate,
        pending: PendingSends[Any],
        limits: BatchLimits | None,
        report: Report,
        interleaving: Interleaving = THREADS,
    ) -> None:
        super().__init__(pending, limits, report, interleaving)
        self._gate = gate

    def put(self, payload: bytes, place: object) -> bool:
        """Leave a message, if the client has room for it, and this producer a place."""
        with PutOff():
            size = len(payload)
            if not self._gate.take(size):
                raise MemoryBufferIsFull(
                    "memory_limit_bytes are pending already: wait, or use block_if_queue_full=True"
                )
            try:
                return super().put(payload, place)
            except LimitReached:
                self._gate.free(size)
                raise

    def given_up(self, size: int) -> None:
        """Give back their bytes, which the producer has not counted yet."""
        self._gate.free(size)

    def has_room(self) -> bool:
        """Tell whether a message could be left now."""
        return self._gate.has_room() and super().has_room()

    def line_up(self, future: SlimFuture[None]) -> None:
        """Have a future end when there may be room, whoever makes it."""
        super().line_up(future)
        self._gate.wakes(self.waiting)
