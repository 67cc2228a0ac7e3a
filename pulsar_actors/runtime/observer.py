"""Told what a client's counters do not hold: how long requests take, and what becomes of connections.

A client has an observer only with telemetry. It is called on the loops, where it must neither block nor raise.
"""

from collections.abc import Iterable, Sequence

from pulsar_actors.named_tuple import NamedTuple


class LookupEnded(NamedTuple):
    """A lookup, with its retries. `kind` is "topic", "metadata", "schema" or "list-topics"."""

    kind: str
    is_over_http: bool
    seconds: float
    failed: bool


class ClientObserver:
    """Does nothing with all that it is told."""

    def connection_opened(self) -> None:
        """Note that a broker has accepted a connection."""

    def connection_closed(self) -> None:
        """Note that such a connection has ended."""

    def connection_failed(self, *, at_tcp: bool) -> None:
        """Note that a connection ended before a broker accepted it: at TCP, or in the handshake."""

    def lookup_ended(self, lookup: LookupEnded) -> None:
        """Note the end of a lookup."""

    def batches_answered(self, topic: str, seconds: Sequence[float], *, failed: bool) -> None:
        """Note the times from writing batches, or messages that are not batched, to the broker's answer."""


class BatchTimes:
    """When the pending batches of a producer, or messages that are not batched, were written. Used on its loop only."""

    __slots__ = ("_observer", "_topic", "_written_at")

    def __init__(self, observer: ClientObserver, topic: str) -> None:
        self._observer = observer
        self._topic = topic
        self._written_at: dict[int, float] = {}  # by the identity of batches, which are alive until they are answered

    def note_written(self, batches: Iterable[object], now: float) -> None:
        """Note the time of writing; of a batch that is written again, the later one."""
        self._written_at.update((id(batch), now) for batch in batches)

    def note_answered(self, batches: Iterable[object], now: float, *, failed: bool) -> None:
        """Tell the observer. A batch that was never written is left out."""
        times = [self._written_at.pop(id(batch), None) for batch in batches]
        self._observer.batches_answered(self._topic, [now - at for at in times if at is not None], failed=failed)
