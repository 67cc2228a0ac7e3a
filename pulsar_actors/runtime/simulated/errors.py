"""How a run of the simulation can fail.

    SimulationFailed
    ├── Deadlock       somebody waits, and nothing is left that could happen
    ├── OutOfTime      what was waited for has not come within the virtual time it was given
    ├── Livelock       so many steps without any time passing that it will hardly end
    ├── Unresponsive   a caller keeps its turn: it waits for something real, or runs in a circle
    ├── Misuse         the world was asked for what has no meaning, such as waiting on a loop
    ├── TasksFailed    tasks or callers raised, and nobody expected it
    └── SeedFailed     any of these, or an assertion, in one seed of many

None of them is of the package's own tree of errors: code under test has no business catching them.
"""

import traceback
from collections.abc import Sequence
from typing import NamedTuple


class Failure(NamedTuple):
    """Something raised: when, where, and what."""

    time: float
    place: str
    error: BaseException

    def __str__(self) -> str:
        """Tell all of it, with the traceback."""
        trace = "".join(traceback.format_exception(self.error))
        return f"at {self.time:.6f} s, {self.place}:\n{trace}"


class SimulationFailed(Exception):
    """The root: the run has not gone as it must."""


class Deadlock(SimulationFailed):
    """Somebody waits, and nothing will ever happen."""


class OutOfTime(SimulationFailed):
    """The virtual time is over."""


class Livelock(SimulationFailed):
    """Steps without end, and the clock stands still."""


class Unresponsive(SimulationFailed):
    """A caller has its turn and does not come back from it."""


class Misuse(SimulationFailed):
    """The world was used in a way that has no meaning."""


class TasksFailed(SimulationFailed):
    """Tasks or callers raised what nobody expected: all of it is in the text."""

    def __init__(self, failures: Sequence[Failure]) -> None:
        super().__init__(failures)
        self.failures = failures

    def __str__(self) -> str:
        """Tell every failure with its traceback, the first one first: it is often why there are others."""
        return "\n".join([f"{len(self.failures)} failed:", *map(str, self.failures)])


class SeedFailed(SimulationFailed):
    """One seed of many has failed."""


class Abandoned(BaseException):
    """Ends the thread of a caller that is still in the middle of something when the world ends."""
