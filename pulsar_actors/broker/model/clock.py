"""What the model needs of the world: the time, and to be called later. Every loop of the runtime has it."""

from collections.abc import Callable
from typing import Any, Protocol


class Clock(Protocol):
    """The part of a loop that the model sees."""

    def wall_clock_ms(self) -> int:
        """Read the calendar's clock, in milliseconds since 1970."""
        ...

    def later(self, delay: float, function: Callable[[Any], object], argument: Any) -> None:  # noqa: ANN401 - what the function takes
        """Call it after so many seconds. It cannot be taken back: whoever sets a timer recognises a stale one."""
        ...
