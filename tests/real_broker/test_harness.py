"""What the other tests of this folder stand on: a broker that is fetched once, started, and never left behind."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.real_broker.exchange import until
from tests.support import standalone
from tests.support.standalone import KEEPER, Standalone

HERE = Path(__file__).parent


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that comes first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def put(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # the latter if it ends between the opening and the reading
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_what_a_killed_process_had_started_is_killed_too() -> None:
    script = (
        "import subprocess, sys\n"
        f"keeper = subprocess.Popen([sys.executable, {str(KEEPER)!r}, sys.executable, '-c',\n"
        "    'import os, time; print(os.getpid(), flush=True); time.sleep(600)'], stdin=subprocess.PIPE)\n"
        "keeper.wait()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:  # noqa: S603 -- as above
        assert process.stdout is not None
        kept = int(process.stdout.readline())
        assert is_alive(kept)
        process.kill()
    until(lambda: not is_alive(kept))


def test_a_broker_that_dies_at_its_start_shows_the_end_of_its_log(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(programs / "java", "echo no such cluster >&2; exit 3")
    monkeypatch.setattr(standalone, "jars", lambda: tmp_path)
    with pytest.raises(RuntimeError, match="no such cluster"):
        Standalone(tmp_path).start()


def test_a_broker_that_is_not_ready_in_time_is_ended(
    tmp_path: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(programs / "java", f"echo $$ > {tmp_path}/pid; echo still thinking; exec sleep 600")
    monkeypatch.setattr(standalone, "jars", lambda: tmp_path)
    monkeypatch.setattr(standalone, "START_SECONDS", 1.0)
    with pytest.raises(RuntimeError, match="still thinking"):
        Standalone(tmp_path).start()
    assert not is_alive(int((tmp_path / "pid").read_text()))


@pytest.fixture
def without_java(tmp_path: Path) -> dict[str, str]:
    """The environment of a machine that has no Java."""
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "PULSAR_TEST_URL")}
    return {**kept, "PATH": str(tmp_path)}


def outcome_of_a_test(environment: dict[str, str], *options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "pytest", str(HERE / "test_producing.py"), "-k", "flush_with_nothing and apache"]
    done = subprocess.run(  # noqa: S603 -- our own words
        [*command, *options, "-p", "no:cacheprovider"],
        env=environment,
        cwd=HERE.parents[1],
        capture_output=True,
        check=False,
    )
    return done.returncode, done.stdout.decode()


@pytest.mark.parametrize("side_by_side", [(), ("-n", "1")], ids=["alone", "with another process"])
def test_a_real_broker_that_is_not_asked_for_is_left_out_and_a_line_says_so(
    without_java: dict[str, str], side_by_side: tuple[str, ...]
) -> None:
    status, output = outcome_of_a_test(without_java, *side_by_side)
    assert status == pytest.ExitCode.NO_TESTS_COLLECTED
    assert re.search(r"^left out: \d+ tests .* \(--real-broker runs them\)$", output, re.MULTILINE)


def test_a_real_broker_that_is_asked_for_and_cannot_be_had_is_a_failure(without_java: dict[str, str]) -> None:
    status, output = outcome_of_a_test(without_java, "--real-broker")
    assert status == pytest.ExitCode.TESTS_FAILED
    assert "no real broker: java is not on PATH" in output


def collected(*options: str) -> set[str]:
    """Return the tests of a file that a run with these options has."""
    command = [sys.executable, "-m", "pytest", str(HERE / "test_producing.py"), "--collect-only", "-q", *options]
    done = subprocess.run(  # noqa: S603 -- our own words
        [*command, "-p", "no:cacheprovider"], cwd=HERE.parents[1], capture_output=True, text=True, check=True
    )
    return {line for line in done.stdout.splitlines() if "::" in line}


def test_a_run_of_nothing_else_has_the_tests_that_its_options_add() -> None:
    usual, added = collected(), collected("--real-broker", "--nothing-else")
    assert usual
    assert added
    assert usual.isdisjoint(added)
    assert usual | added == collected("--real-broker")
