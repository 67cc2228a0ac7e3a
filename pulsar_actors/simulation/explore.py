"""One scenario under many seeds.

    def test_every_send_ends_once():
        explore(300, scenario, ROUGH)

If a seed fails, the error names it, shows the last steps, and gives the command that runs it alone:

    PULSAR_SIMULATION_SEED=17 python -m pytest 'tests/scenarios/test_sending.py::test_every_send_ends_once'

With this variable every `explore` runs only this seed, and the error has the whole history.
"""

import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.simulation.connection import CALM, NetworkConditions, NetworkFault
from pulsar_actors.simulation.scheduler import SeedFailed
from pulsar_actors.simulation.world import World

VARIABLE = "PULSAR_SIMULATION_SEED"

_LINES = 60
"""The number of lines of the history in an error, without the variable."""


class Exploration(NamedTuple):
    """The totals of all seeds."""

    seeds: int
    steps: int
    virtual_seconds: float
    faults: Counter[NetworkFault]


def explore(
    seeds: int | Iterable[int], scenario: Callable[[World], object], conditions: NetworkConditions = CALM
) -> Exploration:
    """Run the scenario for each seed, in a new world. An int is the number of seeds."""
    alone = _seed_alone()
    steps, virtual_seconds, faults = 0, 0.0, Counter[NetworkFault]()
    passed = 0
    for seed in [alone] if alone is not None else range(seeds) if isinstance(seeds, int) else seeds:
        world = World(seed, conditions)
        try:
            with world:
                scenario(world)
        except (KeyboardInterrupt, SystemExit, GeneratorExit):
            raise
        except BaseException as error:  # a failure of pytest is not an Exception
            raise SeedFailed(_report(world, error, passed, None if alone is not None else _LINES)) from error
        passed += 1
        steps += world.steps
        virtual_seconds += world.now
        faults += world.faults_injected
    return Exploration(passed, steps, virtual_seconds, faults)


def _seed_alone() -> int | None:
    """Return the only seed to run, if the variable names one."""
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
    """Return the command that runs this test again, or else this program."""
    test, _, _ = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")
    return f"python -m pytest {shlex.quote(test)}" if test else shlex.join(sys.orig_argv)
