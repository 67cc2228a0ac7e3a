import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import pulsar_actors
from pulsar_actors.__main__ import COMMANDS, main
from pulsar_actors.cli.perf import MEASUREMENTS

NAMES = [*(command.name for command in COMMANDS), *(f"perf {measurement.name}" for measurement in MEASUREMENTS)]

OF_SOMETHING = {"check-imports", "explain", "consume", "produce", *(name for name in NAMES if " " in name)}
"""Those with an argument that must be given."""


def test_without_a_command_it_says_which_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said = capsys.readouterr().out
    assert all(re.search(rf"^    {command.name}\b", said, re.MULTILINE) for command in COMMANDS)


def test_it_says_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert (ended.value.code, capsys.readouterr().out) == (0, f"pulsar_actors {pulsar_actors.__version__}\n")


@pytest.mark.parametrize("name", NAMES)
def test_each_command_has_a_help_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: python -m pulsar_actors {name} ")


@pytest.mark.parametrize("name", NAMES)
def test_an_argument_that_a_command_does_not_have_is_refused_with_its_usage(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*name.split(), *(["what"] if name in OF_SOMETHING else []), "--nonsense"])
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert said.startswith(f"usage: python -m pulsar_actors {name} ")
    assert said.endswith("unrecognized arguments: --nonsense\n")


def test_an_argument_of_no_command_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--nonsense"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("usage: python -m pulsar_actors [-h]")


def test_the_installed_script_is_the_same_program() -> None:
    (found,) = entry_points(group="console_scripts", name="pulsar-actors")
    script = Path(sys.executable).with_name("pulsar-actors")
    asked = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    assert asked.stdout == f"pulsar_actors {pulsar_actors.__version__}\n"
    usage = subprocess.run([script, "perf", "--help"], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603
    assert usage.stdout.startswith("usage: pulsar-actors perf ")
    assert found.value == "pulsar_actors.__main__:script"
