import subprocess
import sys
from pathlib import Path

import pytest

from pulsar_actors.simulation.explore import VARIABLE, explore
from pulsar_actors.simulation.scheduler import SeedFailed
from pulsar_actors.simulation.world import World

SUITE = """
from pulsar_actors.simulation.explore import explore

def scenario(world):
    loop = world.loop("a")
    loop.post(lambda _: None, None)
    world.run()
    with open("seen", "a") as seen:
        seen.write(f"{world.seed} ")
    assert world.seed != 3, "three is not to be borne"

def test_any_seed_will_do():
    explore(5, scenario)
"""


def run(tmp_path: Path, command: str) -> str:
    done = subprocess.run(  # noqa: S602 - it is a command for a shell
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    return done.stdout + done.stderr


def test_the_command_of_a_failing_seed_runs_it_alone(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    (tmp_path / "pytest.ini").touch()
    output = run(tmp_path, f"{sys.executable} -m pytest -q test_suite.py")
    assert "seed 3 fails, after 3 that passed: AssertionError: three is not to be borne" in output
    assert (tmp_path / "seen").read_text() == "0 1 2 3 "
    command = f"{VARIABLE}=3 python -m pytest test_suite.py::test_any_seed_will_do"
    assert f"alone: {command}" in output
    (tmp_path / "seen").unlink()
    output = run(tmp_path, command.replace("python", sys.executable))
    assert "seed 3 fails, after 0 that passed" in output
    assert (tmp_path / "seen").read_text() == "3 "


def fail_after_many_steps(world: World) -> None:
    loop = world.loop("a")
    for _ in range(100):
        loop.post(lambda _: None, None)
    world.run()
    pytest.fail("in the end")


@pytest.fixture(autouse=True)
def no_seed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


def test_a_failure_shows_how_the_history_ended_and_a_seed_alone_shows_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SeedFailed, match="its last 60 of 100 steps") as failure:
        explore(1, fail_after_many_steps)
    assert str(failure.value).count("<lambda>") == 60
    monkeypatch.setenv(VARIABLE, "12")
    with pytest.raises(SeedFailed, match="seed 12 fails") as failure:
        explore(1, fail_after_many_steps)
    assert str(failure.value).count("<lambda>") == 100


def test_outside_of_pytest_the_command_is_the_programs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.setattr(sys, "orig_argv", ["python", "my script.py"])
    with pytest.raises(SeedFailed, match=f"alone: {VARIABLE}=0 python 'my script.py'"):
        explore(1, fail_after_many_steps)


def test_seeds_can_be_named_and_what_they_came_to_is_added_up() -> None:
    seen: list[int] = []

    def scenario(world: World) -> None:
        seen.append(world.seed)
        world.after(2.0, lambda: None)
        world.faults.partition("nowhere", 1.0)
        world.run()

    explored = explore([3, 1, 4], scenario)
    assert seen == [3, 1, 4]
    assert (explored.seeds, explored.steps, explored.virtual_seconds, explored.faults.total()) == (3, 3, 6.0, 3)


def test_a_seed_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "x17")
    with pytest.raises(ValueError, match=f"{VARIABLE} is the number of a seed, not 'x17'"):
        explore(1, fail_after_many_steps)


def test_an_interrupt_ends_it_as_it_is() -> None:
    def scenario(world: World) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        explore(1, scenario)
