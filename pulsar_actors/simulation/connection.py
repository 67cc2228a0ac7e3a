"""A connection: two ends, a pipe in each direction, and the conditions of the network.

A pipe guarantees only the order of its bytes. Each piece that is sent has its own delay, but never overtakes an earlier
one. Pieces that arrive together are read together, and arriving bytes may be split anywhere, because a stream has no
boundaries. A window limits the bytes in flight; beyond it `send` takes only a part, or nothing.

The bytes that an end sends before it closes arrive, and then the peer is told. A connection that is cut loses the bytes
in flight from some byte on, a different one in each direction. Each end is told at a different time; until then the
bytes that it sends are lost.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from pulsar_actors.runtime.loop import Buffer, Loop, Transport, TransportOwner
from pulsar_actors.simulation.scheduler import Dice, History, Misuse, Scheduler, TaskQueue


class NetworkFault(Enum):
    """A fault of the network. The value is the name of its probability in `NetworkConditions`.

    Faults of connects are drawn once for each connect, all others once for each piece that is sent.
    """

    REFUSE = "refuse"
    """A connect is refused, though there is a listener."""
    IGNORE = "ignore"
    """A connect is never answered."""
    CUT = "cut"
    """A connection ends, and the bytes in flight are lost from some byte on."""
    STALL = "stall"
    """Nothing arrives in one direction for a while."""
    DEAFEN = "deafen"
    """Nothing arrives in one direction ever again."""
    SPIKE = "spike"
    """One piece, and all after it, take very long."""
    PARTITION = "partition"
    """No bytes from or to a host arrive for a while; none are lost."""


@dataclass(frozen=True, slots=True)
class NetworkConditions:
    """The speed and reliability of a network. Times are in seconds, sizes in bytes, faults are probabilities."""

    latency: float = 0.002
    """The longest delay of a piece."""
    smallest_window: int = 4 * 1024
    largest_window: int = 256 * 1024
    """The most bytes in flight in one direction are drawn for each direction, between these two."""
    fragments: float = 0.2
    """The probability that a piece that arrives is cut in two; pieces that arrive together are joined."""
    blocking_latency: float = 0.02
    """The longest time that blocking work takes."""
    yields: float = 0.5
    """The probability that another step runs first at a checkpoint."""
    outage: float = 10.0
    """The longest duration of a stall, a spike or a partition."""
    refuse: float = 0.0
    ignore: float = 0.0
    cut: float = 0.0
    stall: float = 0.0
    deafen: float = 0.0
    spike: float = 0.0
    partition: float = 0.0

    def __post_init__(self) -> None:
        """Check the values."""
        for name in ("fragments", "yields", *(fault.value for fault in NetworkFault)):
            if not 0.0 <= (probability := getattr(self, name)) <= 1.0:
                raise ValueError(f"{name} is a probability from 0 to 1, not {probability!r}")
        for name in ("latency", "blocking_latency", "outage"):
            if not 0.0 <= (seconds := getattr(self, name)) < float("inf"):
                raise ValueError(f"{name} is a time in seconds, not {seconds!r}")
        if not 1 <= self.smallest_window <= self.largest_window:
            sizes = f"{self.smallest_window!r} and {self.largest_window!r}"
            raise ValueError(f"smallest_window and largest_window are at least 1 byte, in that order, not {sizes}")

    def without_faults(self) -> "NetworkConditions":
        """Return the same network without faults."""
        return replace(self, refuse=0.0, ignore=0.0, cut=0.0, stall=0.0, deafen=0.0, spike=0.0, partition=0.0)


CALM = NetworkConditions()
ROUGH = NetworkConditions(refuse=0.1, ignore=0.05, cut=0.01, stall=0.01, deafen=0.002, spike=0.02, partition=0.002)


CLOSED_BY_PEER = "the peer closed the connection"
RESET = "the connection was reset"

_SMALL_FRAGMENT = 8
"""Half of the splits are within so many bytes, in the size fields at the start of a frame."""


@dataclass(slots=True)
class NetworkContext:
    """The parts that all connections share. The conditions may change."""

    scheduler: Scheduler
    history: History
    dice: Dice
    conditions: NetworkConditions
    before_send: "Callable[[ConnectionEnd], object] | None" = field(default=None)
    """Called with the sending end for each piece that is about to be sent."""

    def delay(self) -> float:
        """Draw the delay of a piece."""
        return self.conditions.latency * self.dice.chance()

    def window(self) -> int:
        """Draw the size of a window; small sizes are as probable as large ones."""
        size, largest = self.conditions.smallest_window, self.conditions.largest_window
        while size < largest and self.dice.chance() < 0.75:  # noqa: PLR2004 - three doublings, on average
            size *= 2
        return min(size, largest)


class ConnectionEnd(Transport):
    """One end of a connection, the transport of its owner. `host` is the name that faults use."""

    __slots__ = (
        *("closed", "host", "incoming", "is_open", "queue", "loop", "name"),
        *("outgoing", "owner", "context", "wants_room"),
    )

    incoming: "Pipe"
    outgoing: "Pipe"

    def __init__(self, context: NetworkContext, host: str, name: str) -> None:
        self.context = context
        self.host = host
        self.name = name
        self.loop: Loop | None = None
        self.queue = TaskQueue(name)
        self.owner: TransportOwner | None = None
        self.is_open = False
        self.closed = False
        self.wants_room = False

    @property
    def peer(self) -> "ConnectionEnd":
        """The other end."""
        return self.outgoing.reader

    def settle(self, loop: Loop) -> None:
        """Assign the end to a loop."""
        self.loop = self.queue.loop = loop

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Send as many bytes as fit the window."""
        self._check()
        if not self.is_open or self.closed:
            return 0
        data = _first(buffers, self.outgoing.room)
        if data:
            if self.context.before_send is not None:
                self.context.before_send(self)
            self.outgoing.send(data)
        return len(data)

    def await_room(self) -> None:
        """Request a call of `writable`. If there is room already, the call is a later step."""
        self._check()
        self.wants_room = True
        self.notify_room()

    def close(self) -> None:
        """Close; the peer is told after the last bytes."""
        self._check()
        self.shut(CLOSED_BY_PEER)

    def shut(self, reason: str) -> None:
        """Close, for the owner or with its loop."""
        if self.closed:
            return
        self.closed = True
        self.owner = None
        self.context.scheduler.close(self.queue)
        self.outgoing.finish(reason)

    def open(self, owner: TransportOwner) -> None:
        """Connect the owner, and begin to deliver."""
        self.owner = owner
        self.is_open = True
        self.notify_room()
        self.incoming.start()

    def lose(self, reason: str) -> None:
        """Close, and tell the owner."""
        owner = self.owner
        assert owner is not None  # noqa: S101 - an end without one is closed, and so is its queue
        self.shut(CLOSED_BY_PEER)
        owner.lost(reason)

    def notify_room(self) -> None:
        """Schedule a call of `writable` if the owner waits for it and there is room."""
        if self.wants_room and self.is_open and self.outgoing.room:
            self.wants_room = False
            self.context.scheduler.add(self.queue, self._tell_room, None)

    def _tell_room(self, _: None) -> None:
        assert self.owner is not None  # noqa: S101 - the same
        self.owner.writable()

    def _check(self) -> None:
        if self.context.scheduler.here is not self.loop:
            raise Misuse(f"{self.name} was used outside of its loop")


class Pipe:
    """One direction, from `writer` to `reader`."""

    __slots__ = (
        "_bytes_in_flight",
        "_in_flight",
        "_is_scheduled",
        "_last_due",
        "_window",
        "context",
        "ended",
        "reader",
        "stalled",
        "writer",
    )

    def __init__(self, context: NetworkContext, writer: ConnectionEnd, reader: ConnectionEnd) -> None:
        self.context = context
        self.writer = writer
        self.reader = reader
        writer.outgoing = reader.incoming = self
        self.stalled = 0.0
        """The time until which nothing arrives."""
        self.ended = False
        """True after the last piece, which has the reason of the end."""
        self._in_flight: deque[tuple[float, bytes, str]] = deque()  # the time, and bytes or the reason of the end
        self._last_due = 0.0
        self._bytes_in_flight = 0
        self._is_scheduled = False  # the arrival of the first piece
        self._window = context.window()

    @property
    def room(self) -> int:
        """The bytes that fit the window now."""
        return self._window - self._bytes_in_flight

    def send(self, data: bytes) -> None:
        """Send bytes. After a cut they are lost, which the sender does not know yet."""
        self._bytes_in_flight += len(data)
        self.context.history.add(self.context.scheduler.now, self.writer.name, f"sends {len(data)}")
        if not self.ended:
            self._append(data, "")

    def finish(self, reason: str) -> None:
        """End this direction; the reader is told after the last bytes."""
        if not self.ended:
            self.ended = True
            self._append(b"", reason)

    def cut(self) -> int:
        """Drop the bytes in flight from some byte on, and end; return how many were lost."""
        data = b"".join(piece for _, piece, _ in self._in_flight)
        kept = self.context.dice.below(len(data) + 1)
        self._in_flight.clear()
        self.ended = True
        if kept:
            self._append(data[:kept], "")
        if self.stalled == math.inf:
            self.stalled = 0.0
        self._append(b"", RESET)
        return len(data) - kept

    def delay(self, seconds: float) -> None:
        """Delay the next piece, and so all after it."""
        self._last_due = max(self._last_due, self.context.scheduler.now) + seconds

    def stall(self, until: float) -> None:
        """Let nothing arrive before then."""
        self.stalled = max(self.stalled, until)

    def start(self) -> None:
        """Schedule the arrival of the first piece."""
        if not self._in_flight or self._is_scheduled or self.reader.closed:
            return
        due = max(self._in_flight[0][0], self.stalled)
        if due < math.inf:
            self._is_scheduled = True
            self.context.scheduler.at(due, self.reader.queue, self._arrive, None)

    def _append(self, data: bytes, reason: str) -> None:
        context = self.context
        due = self._last_due = max(context.scheduler.now + context.delay(), self._last_due)
        self._in_flight.append((due, data, reason))
        self.start()

    def _arrive(self, _: None) -> None:
        """Deliver the pieces that are due."""
        self._is_scheduled = False
        now = self.context.scheduler.now
        if not self.reader.is_open:  # `open` starts this again
            return
        if self.stalled > now:
            self.start()
            return
        data, reason = self._collect(now)
        if data:
            self._deliver(data)
        elif reason:
            self.reader.lose(reason)
        self.start()

    def _collect(self, now: float) -> tuple[bytes, str]:
        """Join the pieces that are due, and leave a fragment for later at times."""
        flight = self._in_flight
        pieces: list[bytes] = []
        while flight and flight[0][0] <= now:
            if flight[0][2] and pieces:
                break
            _, piece, reason = flight.popleft()
            if reason:
                return b"", reason
            pieces.append(piece)
        data = b"".join(pieces)
        dice = self.context.dice
        if len(data) > 1 and dice.happens(self.context.conditions.fragments):
            at = 1 + dice.below(min(len(data) - 1, _SMALL_FRAGMENT) if dice.happens(0.5) else len(data) - 1)
            flight.appendleft((now, data[at:], ""))
            data = data[:at]
        return data, ""

    def _deliver(self, data: bytes) -> None:
        context, owner = self.context, self.reader.owner
        assert owner is not None  # noqa: S101 - the caller has looked
        self._bytes_in_flight -= len(data)
        context.history.add(context.scheduler.now, self.reader.name, f"receives {len(data)}")
        self.writer.notify_room()
        owner.received(data)


def _first(buffers: Sequence[Buffer], most: int) -> bytes:
    """Copy so many bytes and no more: the buffers may be far larger than a window."""
    pieces: list[memoryview] = []
    for buffer in buffers:
        if not most:
            break
        piece = memoryview(buffer).cast("B")[:most]
        most -= len(piece)
        pieces.append(piece)
    return b"".join(pieces)
