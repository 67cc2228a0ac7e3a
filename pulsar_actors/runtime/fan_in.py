"""One queue for the messages of several consumers, each of which has a queue of its own: a lane.

Callers take from one lane as they would from a single queue, by one `pop` for each message. When they
have taken what is opened there, they go on to the next lane that has something, so that no partition keeps another
waiting. The messages of one partition stay in order, and permits are each lane's own. What a lane gets before its
consumer is shown to callers waits there until then: nobody could acknowledge it.

Lanes that have something stand in a ring. Whoever adds to a lane puts it there, unless it is marked as standing there;
a caller who finds it empty takes it out, unmarks it, and *then* looks whether something has come meanwhile. So a lane
with messages never stays outside. No lock is held: a deque's changes are one step each for the interpreter, and while
one caller opens an entry, the others wait for it in the lane.

Those who wait, wait for all lanes, in one line. Lanes live on several loops: only that of the set serves futures.
"""

from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.hand_off import HandOff, Terms
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.interrupts import PutOff
from pulsar_actors.runtime.supply import Supply


class Lane(HandOff):
    """The queue of one consumer among several."""

    __slots__ = ("_fan_in", "is_admitted", "is_listed")

    def __init__(
        self, fan_in: "FanIn", terms: Terms, tell: Callable[[object], object], interleaving: Interleaving
    ) -> None:
        super().__init__(terms, tell, interleaving)
        self._fan_in = fan_in
        self.is_admitted = False
        self.is_listed = False

    def announce(self, messages: int) -> None:
        """Wake those who wait for any lane; before it is admitted, nobody does for this one."""
        if self.is_admitted:
            self._fan_in.list(self)
            self._fan_in.announce(messages)

    def announce_all(self) -> None:
        """Have them look whether this changes anything."""
        self._fan_in.announce_all()

    @property
    def over(self) -> Exception | None:
        """Never say so: others may have something."""
        return None


class FanIn(Supply):
    """The lanes of one set. `ask_to_serve` has `serve` called on the set's loop; `waits_on` when all topics end."""

    __slots__ = ("_ask_to_serve", "_current", "_ring", "_waits_on", "lanes")

    def __init__(
        self, ask_to_serve: Callable[[], object], interleaving: Interleaving = THREADS, *, waits_on: bool = False
    ) -> None:
        super().__init__(interleaving)
        self.lanes: dict[str, Lane] = {}  # by topic; callers see them come and go, one by one
        self._ask_to_serve = ask_to_serve
        self._waits_on = waits_on
        self._ring: deque[Lane] = deque()
        self._current: Lane | None = None

    # The actors' side.

    def admit(self, lanes: Mapping[str, Lane]) -> None:
        """Hand out what these lanes have and get, as well."""
        self.lanes.update(lanes)
        for lane in lanes.values():
            lane.is_admitted = True
            self.checkpoint()
            queued = lane.queued
            if queued:
                lane.announce(queued)

    def dismiss(self, topics: Collection[str]) -> None:
        """Do without the lanes of these, and have everybody look again: what is left may be at its end."""
        for topic in topics:
            lane = self.lanes.pop(topic, None)
            if lane is not None:
                lane.is_admitted = False
        if topics:
            self.announce_all()

    def list(self, lane: Lane) -> None:
        """Hear that a lane has something."""
        if not lane.is_listed:
            lane.is_listed = True
            self._ring.appendleft(lane)

    def announce(self, messages: int) -> None:
        """Wake as many callers as there are messages for, and have futures served if any wait."""
        self._waiting.wake(messages)
        self._serve_soon()

    def announce_all(self) -> None:
        """Have all callers look again, and futures served."""
        self._waiting.wake_all()
        self._serve_soon()

    def end(self, error: Exception) -> None:
        """Hand out nothing more."""
        if self.closed is None:
            self.closed = error
        self.checkpoint()
        self._waiting.wake_all()
        self.serve()

    def forget(self, error: Exception) -> None:
        """Hand out nothing, in a forked child."""
        self.closed = error
        self._ring.clear()
        self._current = None
        for lane in list(self.lanes.values()):
            lane.forget(error)

    # The callers' side.

    def take(self) -> Any:  # noqa: ANN401 - a message
        """Take the next message, or None if there is none now."""
        current = self._current
        try:
            return self._turn() if current is None else current.at_hand.pop()
        except IndexError:
            return self._turn()

    @property
    def queued(self) -> int:
        """Count the messages that are here."""
        return sum(lane.queued for lane in list(self.lanes.values()))

    @property
    def has_messages(self) -> bool:
        """Tell whether any are, without going through all lanes."""
        current = self._current
        has_left = current is not None and current.queued > 0
        return has_left or any(lane.queued for lane in tuple(self._ring)[::-1])

    @property
    def left_open(self) -> int:
        """Count those of them that are opened."""
        return sum(lane.left_open for lane in list(self.lanes.values()))

    @property
    def asks_by_itself(self) -> bool:
        """Say so: a queue without places is for a single topic."""
        return True

    def is_at_its_end(self) -> bool:
        """Tell whether all topics were terminated; a pattern may find others.

        Whoever waits asks this, so the lane that was the last to give a message is asked first.
        """
        current = self._current
        if self._waits_on or (current is not None and current.is_admitted and not current.ended):
            return False
        lanes = list(self.lanes.values())
        return bool(lanes) and all(lane.ended for lane in lanes)

    def is_due(self) -> bool:
        """Tell whether there is a message, or will be none."""
        return any(lane.is_due() for lane in tuple(self._ring)[::-1]) or self.over is not None

    def await_one(self) -> None:
        """Do nothing: brokers are asked already."""

    def give_up_one(self) -> None:
        """Do nothing, either."""

    def still_delivers(self, topic: str, generation: Generation) -> bool:
        """Ask the topic's lane, if there is one still."""
        lane = self.lanes.get(topic)
        return lane is not None and lane.still_delivers(topic, generation)

    # Behind both.

    def _turn(self) -> Any:  # noqa: ANN401 - a message
        """Go on to the next lane that has something."""
        with PutOff():
            while self._ring and self.closed is None:
                self._ring.rotate(1)
                self.checkpoint()
                try:
                    lane = self._ring[0]
                except IndexError:  # another caller has just found it empty
                    break
                message = lane.take()
                if message is not None:
                    self._current = lane
                    return message
                self._unlist(lane)
        return None

    def _unlist(self, lane: Lane) -> None:
        self.checkpoint()
        lane.is_listed = False
        self.checkpoint()
        with suppress(ValueError):  # another caller may have found it empty as well; it stands in front
            self._ring.remove(lane)
        self.checkpoint()
        if lane.queued:
            self.list(lane)

    def _serve_soon(self) -> None:
        if self._promises.line or self._promises.claimed is not None:
            self._ask_to_serve()
