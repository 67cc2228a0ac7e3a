"""The memory limit of a client, where the threads of its callers and its I/O threads meet.

Callers take before they leave a message in their producer's outbox; whatever ends the message gives back, on the
producer's thread, through the quota that its ledger counts its bytes with. Who found no room waits in the line of its
own producer. The gate knows these lines, for it may be another producer that makes room: who waits adds the line and
*then* looks, and who gives back does so and *then* wakes.

A client without a limit has no gate, and pays nothing for it.
"""

from pulsar_actors.machines.ledgers.memory_limit import MemoryLimit
from pulsar_actors.machines.ledgers.send_quota import SendQuota
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.waiting_line import WaitingLine


class MemoryGate:
    """One client's."""

    __slots__ = ("_ledger", "_lines", "_lock")

    def __init__(self, limit: int, interleaving: Interleaving = THREADS) -> None:
        self._ledger = MemoryLimit(limit)
        self._lines: dict[int, WaitingLine] = {}
        self._lock = interleaving.lock()

    @property
    def used(self) -> int:
        """How many bytes are on their way."""
        return self._ledger.used

    def has_room(self) -> bool:
        """Tell whether a message may be taken now."""
        return self._ledger.has_room

    def take(self, size: int) -> bool:
        """Take so many bytes, if there is room."""
        with self._lock:
            return self._ledger.take(size)

    def free(self, size: int) -> None:
        """Give back, and wake those who wait if there was no room before."""
        with self._lock:
            has_room_again = self._ledger.free(size)
        if has_room_again:
            self._wake_all()

    def wakes(self, line: WaitingLine) -> None:
        """Have those who wait in a line woken when there is room, once."""
        self._lines[id(line)] = line

    def _wake_all(self) -> None:
        while self._lines:
            try:
                _, line = self._lines.popitem()
            except KeyError:  # another thread was faster
                return
            line.wake_all()


class GatedQuota(SendQuota):
    """The bytes of one producer, without a limit of their own: what it frees, it gives back to its client."""

    __slots__ = ("_gate",)

    def __init__(self, gate: MemoryGate) -> None:
        super().__init__(0)
        self._gate = gate

    def free(self, amount: int) -> None:
        """Give back."""
        super().free(amount)
        self._gate.free(amount)
