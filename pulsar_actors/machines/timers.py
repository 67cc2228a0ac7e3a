"""Timers that can be stopped without being found again.

A timer is an event that the loop hands back after a delay. It carries a generation; starting a timer of the same kind
again, or stopping it, moves the generation on, and whatever the loop still hands back of an older one is stale.

    class PingDue(NamedTuple):
        generation: int

    effects = [timers.start(PingDue, 30.0)]
"""

from typing import Any, NamedTuple


class StartTimer(NamedTuple):
    """Effect: hand the event back after so many seconds."""

    event: Any
    delay: float


class Timers:
    """The generation of each kind of timer of one machine."""

    __slots__ = ("_generations",)

    def __init__(self) -> None:
        self._generations: dict[type, int] = {}

    def start(self, kind: type, delay: float) -> StartTimer:
        """Start a timer; one of the same kind that still runs is stale from now on."""
        self.stop(kind)
        return StartTimer(kind(self._generations[kind]), delay)

    def stop(self, kind: type) -> None:
        """Make a timer stale. The loop may still hand it back."""
        self._generations[kind] = self._generations.get(kind, 0) + 1

    def is_stale(self, event: Any) -> bool:  # noqa: ANN401 - any event, a timer or not
        """Tell whether it is a timer that was stopped, or started again, after this event was made."""
        generation = self._generations.get(event.__class__)
        return generation is not None and generation != event.generation
