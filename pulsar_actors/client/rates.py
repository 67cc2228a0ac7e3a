"""The rates of producers and consumers: messages and bytes per second.

Rates cost nothing per message: they are calculated on request, from two totals at different times. `RateMeter` keeps
the earlier total for at least a second, so that two requests in quick succession return similar rates, and not the
noise of the milliseconds between them.
"""

from pulsar_actors.named_tuple import NamedTuple

__all__ = ["RateMeter", "Rates"]

_SPAN = 1.0
"""The shortest time in seconds that rates are calculated over, once it has passed."""


class Rates(NamedTuple):
    """Messages and bytes per second in the last seconds."""

    messages: float = 0.0
    size: float = 0.0
    """Bytes of payload."""


class _Sample(NamedTuple):
    at: float
    messages: int
    size: int


class RateMeter:
    """The rates of one producer or consumer, from totals that are sampled on request. Times are monotonic seconds."""

    __slots__ = ("_earlier", "_later")

    def __init__(self, now: float) -> None:
        self._earlier = self._later = _Sample(now, 0, 0)

    def rates(self, messages: int, size: int, now: float) -> Rates:
        """Return the rates since an earlier sample, and note the current totals."""
        if now - self._later.at >= _SPAN:
            self._earlier, self._later = self._later, _Sample(now, messages, size)
        at, messages_then, size_then = self._earlier
        seconds = now - at
        if seconds <= 0:
            return Rates()
        return Rates((messages - messages_then) / seconds, (size - size_then) / seconds)
