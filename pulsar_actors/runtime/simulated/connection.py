"""A connection: two ends, and a pipe in each direction.

A pipe keeps the order of its bytes and nothing else. What is sent travels as a piece with a delay of its own, but never
past one that left before. Pieces that arrive together are read together, and what arrives may be cut anywhere, for a
stream has no seams. Only so much may be on its way; beyond that `send` takes a part, or nothing.

An end that closes lets what it has sent arrive, and then the peer hears of it. A connection that is cut loses what is
on its way from some byte on, in each direction from another one, and each end hears of it in its own time; until then
it sends into nothing.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pulsar_actors.runtime.loop import Buffer, Loop, Owner, Transport
from pulsar_actors.runtime.simulated.agenda import Agenda, Lane
from pulsar_actors.runtime.simulated.dice import Dice
from pulsar_actors.runtime.simulated.errors import Misuse
from pulsar_actors.runtime.simulated.history import History
from pulsar_actors.runtime.simulated.weather import Weather

CLOSED_BY_PEER = "the peer closed the connection"
RESET = "the connection was reset"

_CRUMB = 8
"""A piece may be cut within so many bytes: in the sizes that a frame begins with."""


@dataclass(slots=True)
class Setting:
    """What all connections share. The weather may change."""

    agenda: Agenda
    history: History
    dice: Dice
    weather: Weather
    disturb: "Callable[[End], object] | None" = field(default=None)
    """Called with whoever sends, for each piece that is about to leave."""

    def delay(self) -> float:
        """Draw how long something takes to arrive."""
        return self.weather.latency * self.dice.chance()

    def window(self) -> int:
        """Draw how much may be on its way: small windows as often as large ones."""
        size, largest = self.weather.smallest_window, self.weather.largest_window
        while size < largest and self.dice.chance() < 0.75:  # noqa: PLR2004 - three doublings, on average
            size *= 2
        return min(size, largest)


class End(Transport):
    """One end of a connection, as its owner has it. `host` is the name by which faults find it."""

    __slots__ = (
        *("closed", "host", "incoming", "is_open", "lane", "loop", "name"),
        *("outgoing", "owner", "setting", "wants_room"),
    )

    incoming: "Pipe"
    outgoing: "Pipe"

    def __init__(self, setting: Setting, host: str, name: str) -> None:
        self.setting = setting
        self.host = host
        self.name = name
        self.loop: Loop | None = None
        self.lane = Lane(name)
        self.owner: Owner | None = None
        self.is_open = False
        self.closed = False
        self.wants_room = False

    @property
    def peer(self) -> "End":
        """Give the other end."""
        return self.outgoing.reader

    def settle(self, loop: Loop) -> None:
        """Belong to a loop."""
        self.loop = self.lane.loop = loop

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Let as much leave as there is room for."""
        self._check()
        if not self.is_open or self.closed:
            return 0
        data = _first(buffers, self.outgoing.room)
        if data:
            if self.setting.disturb is not None:
                self.setting.disturb(self)
            self.outgoing.send(data)
        return len(data)

    def await_room(self) -> None:
        """Ask to be told; where there is room already, that is as soon as others had their turn."""
        self._check()
        self.wants_room = True
        self.find_room()

    def close(self) -> None:
        """Let the peer hear of it after what was sent."""
        self._check()
        self.shut(CLOSED_BY_PEER)

    def shut(self, reason: str) -> None:
        """End it, whether by its owner or with its loop."""
        if self.closed:
            return
        self.closed = True
        self.owner = None
        self.setting.agenda.close(self.lane)
        self.outgoing.finish(reason)

    def open(self, owner: Owner) -> None:
        """Begin to tell the owner what arrives."""
        self.owner = owner
        self.is_open = True
        self.find_room()
        self.incoming.start()

    def lose(self, reason: str) -> None:
        """Tell the owner that this was all."""
        owner = self.owner
        assert owner is not None  # noqa: S101 - an end without one is closed, and so is its lane
        self.shut(CLOSED_BY_PEER)
        owner.lost(reason)

    def find_room(self) -> None:
        """Let the owner be told if it waits for room and there is some."""
        if self.wants_room and self.is_open and self.outgoing.room:
            self.wants_room = False
            self.setting.agenda.add(self.lane, self._tell_room, None)

    def _tell_room(self, _: None) -> None:
        assert self.owner is not None  # noqa: S101 - the same
        self.owner.writable()

    def _check(self) -> None:
        if self.setting.agenda.here is not self.loop:
            raise Misuse(f"{self.name} was used outside of its loop")


class Pipe:
    """One direction: what `writer` sends, on its way to `reader`."""

    __slots__ = (
        "_flight",
        "_last_due",
        "_on_its_way",
        "_under_way",
        "_window",
        "ended",
        "reader",
        "setting",
        "stalled",
        "writer",
    )

    def __init__(self, setting: Setting, writer: End, reader: End) -> None:
        self.setting = setting
        self.writer = writer
        self.reader = reader
        writer.outgoing = reader.incoming = self
        self.stalled = 0.0
        """Until when nothing arrives."""
        self.ended = False
        """No more is sent: the last piece says why."""
        self._flight: deque[tuple[float, bytes, str]] = deque()  # when due, and the bytes, or else why it ends
        self._last_due = 0.0
        self._on_its_way = 0
        self._under_way = False  # the arrival of the first piece is on the agenda
        self._window = setting.window()

    @property
    def room(self) -> int:
        """Count the bytes that may leave now."""
        return self._window - self._on_its_way

    def send(self, data: bytes) -> None:
        """Let it leave. After a cut it goes nowhere, which its sender cannot know yet."""
        self._on_its_way += len(data)
        self.setting.history.add(self.setting.agenda.now, self.writer.name, f"sends {len(data)}")
        if not self.ended:
            self._append(data, "")

    def finish(self, reason: str) -> None:
        """Let this be all; the reader hears of it when it has heard the rest."""
        if not self.ended:
            self.ended = True
            self._append(b"", reason)

    def cut(self) -> int:
        """Lose what is on its way from some byte on, and end; tell how many bytes were lost."""
        data = b"".join(piece for _, piece, _ in self._flight)
        kept = self.setting.dice.below(len(data) + 1)
        self._flight.clear()
        self.ended = True
        if kept:
            self._append(data[:kept], "")
        if self.stalled == math.inf:
            self.stalled = 0.0
        self._append(b"", RESET)
        return len(data) - kept

    def delay(self, seconds: float) -> None:
        """Let the next piece, and so all after it, arrive that much later."""
        self._last_due = max(self._last_due, self.setting.agenda.now) + seconds

    def stall(self, until: float) -> None:
        """Let nothing arrive before then."""
        self.stalled = max(self.stalled, until)

    def start(self) -> None:
        """See to it that what is on its way arrives."""
        if not self._flight or self._under_way or self.reader.closed:
            return
        due = max(self._flight[0][0], self.stalled)
        if due < math.inf:
            self._under_way = True
            self.setting.agenda.at(due, self.reader.lane, self._arrive, None)

    def _append(self, data: bytes, reason: str) -> None:
        setting = self.setting
        due = self._last_due = max(setting.agenda.now + setting.delay(), self._last_due)
        self._flight.append((due, data, reason))
        self.start()

    def _arrive(self, _: None) -> None:
        """Read what has come by now."""
        self._under_way = False
        now = self.setting.agenda.now
        if not self.reader.is_open:  # when it is, this starts again
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
        """Join the pieces that are due, and cut off what shall come a little later."""
        flight = self._flight
        pieces: list[bytes] = []
        while flight and flight[0][0] <= now:
            if flight[0][2] and pieces:
                break
            _, piece, reason = flight.popleft()
            if reason:
                return b"", reason
            pieces.append(piece)
        data = b"".join(pieces)
        dice = self.setting.dice
        if len(data) > 1 and dice.happens(self.setting.weather.fragments):
            at = 1 + dice.below(min(len(data) - 1, _CRUMB) if dice.happens(0.5) else len(data) - 1)
            flight.appendleft((now, data[at:], ""))
            data = data[:at]
        return data, ""

    def _deliver(self, data: bytes) -> None:
        setting, owner = self.setting, self.reader.owner
        assert owner is not None  # noqa: S101 - the caller has looked
        self._on_its_way -= len(data)
        setting.history.add(setting.agenda.now, self.reader.name, f"receives {len(data)}")
        self.writer.find_room()
        owner.received(data)


def _first(buffers: Sequence[Buffer], most: int) -> bytes:
    """Copy so many bytes, and no more: what is to be sent may be far larger than a window."""
    pieces: list[memoryview] = []
    for buffer in buffers:
        if not most:
            break
        piece = memoryview(buffer).cast("B")[:most]
        most -= len(piece)
        pieces.append(piece)
    return b"".join(pieces)
