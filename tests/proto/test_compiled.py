import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WIRE = ROOT / "pulsar_actors" / "wire"

ROUND_TRIP = """
from pulsar_actors.wire.PulsarApi_pb2 import BaseCommand, CommandPing, MessageIdData

command = BaseCommand(type=BaseCommand.PING, ping=CommandPing())
assert command.SerializeToString() == bytes.fromhex("0812920100")
assert BaseCommand.FromString(bytes.fromhex("0812920100")) == command
assert MessageIdData(ledgerId=1, entryId=2).batch_index == -1
print("round trip")
"""


@pytest.mark.parametrize("name", ["PulsarApi_pb2.py", "PulsarApi_pb2.pyi"])
def test_the_committed_code_is_what_the_proto_file_compiles_to(name: str, tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "proto" / "compile.py"))["compile_into"](tmp_path)
    assert (tmp_path / name).read_bytes() == (WIRE / name).read_bytes(), "run: python proto/compile.py"


def test_the_generated_code_asks_for_no_protobuf_release() -> None:
    assert "runtime_version" not in (WIRE / "PulsarApi_pb2.py").read_text()


def test_the_installed_protobuf_loads_the_generated_code_without_a_warning() -> None:
    command = [sys.executable, "-W", "error", "-c", ROUND_TRIP]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own text
    assert (run.returncode, run.stdout, run.stderr) == (0, "round trip\n", "")
