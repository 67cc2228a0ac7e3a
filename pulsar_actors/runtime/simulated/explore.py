"""One scenario under many seeds.

    def test_every_send_ends_once():
        explore(300, scenario, ROUGH)

Where a seed fails, the error names it, shows how it ended, and gives the one command that runs it alone:

    PULSAR_SIMULATION_SEED=17 python -m pytest 'tests/simulation/test_sending.py::test_every_send_ends_once'

With that variable every `explore` runs this seed and no other, and an error then has the whole history.
"""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from pulsar_actors.runtime.simulated.errors import SeedFailed
from pulsar_actors.runtime.simulated.weather import CALM, Fault, Weather
from pulsar_actors.runtime.simulated.world import World

VARIABLE = "PULSAR_SIMULATION_SEED"

_LINES = 60
"""Of a history, where it is not asked for."""


class Explored(NamedTuple):
    """What all seeds together came to."""

    seeds: int
    steps: int
    virtual_seconds: float
    faults: Counter[Fault]


def explore(seeds: int | Iterable[int], scenario: Callable[[World], object], weather: Weather = CALM) -> Explored:
    """Run the scenario in a world of each seed, the first so many or the given ones."""
    alone = _seed_alone()
    steps, virtual_seconds, faults = 0, 0.0, Counter[Fault]()
    passed = 0
    for seed in [alone] if alone is not None else range(seeds) if isinstance(seeds, int) else seeds:
        world = World(seed, weather)
        try:
            with world:
                scenario(world)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a failure of pytest is no Exception
            raise SeedFailed(_report(world, error, passed, None if alone is not None else _LINES)) from error
        passed += 1
        steps += world.steps
        virtual_seconds += world.now
        faults += world.faults_injected
    return Explored(passed, steps, virtual_seconds, faults)


def _seed_alone() -> int | None:
    """Read the one seed that is to run, if one is named."""
    text = os.environ.get(VARIABLE, "")
    try:
        return int(text) if text else None
    except ValueError:
        raise ValueError(f"{VARIABLE} is the number of a seed, not {text!r}") from None


def _report(world: World, error: BaseException, passed: int, most_lines: int | None) -> str:
    lines = world.history.lines(most_lines)
    what = str(error).partition("\n")[0]
    return "\n".join(
        [
            f"seed {world.seed} fails, after {passed} that passed: {type(error).__name__}: {what}",
            f"alone: {VARIABLE}={world.seed} {_command()}",
            f"its last {len(lines)} of {len(world.history)} steps:",
            *lines,
        ]
    )


def _command() -> str:
    """Give the command that runs this test, or else this program, again."""
    test, _, _ = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")
    return f"python -m pytest {shlex.quote(test)}" if test else shlex.join(sys.orig_argv)
