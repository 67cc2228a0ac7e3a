"""What the other tests of this folder stand on: a broker that is fetched once, started, and never left behind."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.real_broker.exchange import until
from tests.support import jars, standalone
from tests.support.admin import Admin, AdminError
from tests.support.jars import Unavailable
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


def test_two_who_find_no_jars_fetch_them_once(tmp_path: Path, programs: Path) -> None:
    calls = tmp_path / "calls"
    put(programs / "mvn", f"echo called >> {calls}; sleep 0.2; mkdir {tmp_path}/cache/partial")
    threads = [threading.Thread(target=jars.jars, args=(tmp_path / "cache",), daemon=True) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert calls.read_text() == "called\n"
    assert (tmp_path / "cache" / "lib").is_dir()


def test_what_a_fetch_that_was_broken_off_left_is_not_taken_for_the_jars(tmp_path: Path, programs: Path) -> None:
    put(programs / "mvn", f"mkdir {tmp_path}/cache/partial")
    (tmp_path / "cache" / "partial").mkdir(parents=True)
    (tmp_path / "cache" / "partial" / "half.jar").touch()
    assert list(jars.jars(tmp_path / "cache").iterdir()) == []


def test_maven_that_fails_is_quoted(tmp_path: Path, programs: Path) -> None:
    put(programs / "mvn", "echo repository is down; exit 1")
    with pytest.raises(Unavailable, match="repository is down"):
        jars.jars(tmp_path / "cache")
    assert not (tmp_path / "cache" / "lib").exists()


def test_a_program_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="mvn"):
        jars.jars(tmp_path / "cache")


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


class Answers(BaseHTTPRequestHandler):
    """Says what it was asked."""

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        status = 409 if "taken" in self.path else 200
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps([self.path, body.decode()]).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[Admin]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Admin(f"http://127.0.0.1:{server.server_port}")
        server.shutdown()


def test_an_admin_call_is_made_with_its_body(answering: Admin) -> None:
    asked = answering.json("PUT", "persistent/public/default/t/partitions", 3)
    assert asked == ["/admin/v2/persistent/public/default/t/partitions", "3"]


def test_an_admin_call_that_is_refused_says_why(answering: Admin) -> None:
    with pytest.raises(AdminError, match=r"409 .*taken") as refused:
        answering.create("persistent://public/default/taken")
    assert refused.value.status == 409


def test_a_broker_that_does_not_listen_is_not_ready() -> None:
    assert Admin("http://127.0.0.1:1").is_ready() is False


def test_a_broker_that_was_killed_starts_again_on_its_data(crashing: Standalone) -> None:
    topic = "persistent://public/default/kept"
    crashing.admin.create_partitioned(topic, 2)
    crashing.kill()
    assert crashing.admin.is_ready() is False
    crashing.start()
    assert crashing.admin.json("GET", "persistent/public/default/kept/partitions")["partitions"] == 2
