import copy
import os
import pickle
import runpy
import subprocess
import sys
from pathlib import Path
from shutil import which

import pytest
from google.protobuf.message import Message

from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandLookupTopicResponse,
    CommandSubscribe,
    KeyValue,
    MessageIdData,
    MessageMetadata,
)
from tests.support.sources import reads_sources

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

BESIDE_ANOTHER = """
from importlib import import_module
from sys import argv

modules = {name: import_module(name) for name in argv[1:]}
ours, theirs = modules["pulsar_actors.wire.PulsarApi_pb2"], modules["PulsarApi_pb2"]
command = ours.BaseCommand(type=ours.BaseCommand.LOOKUP, lookupTopic=ours.CommandLookupTopic(topic="t", request_id=1))
assert theirs.BaseCommand.FromString(command.SerializeToString()).lookupTopic.topic == "t"
print("side by side")
"""

MESSAGES = [
    CommandSubscribe(
        topic="t",
        subscription="s",
        subType=CommandSubscribe.Shared,
        consumer_id=2**64 - 1,
        request_id=1,
        start_message_id=MessageIdData(ledgerId=1, entryId=2),
    ),
    MessageMetadata(
        producer_name="p",
        sequence_id=0,
        publish_time=1,
        properties=[KeyValue(key="k", value="v")],
        schema_version=b"\0",
    ),
    CommandLookupTopicResponse(brokerServiceUrl="pulsar://b"),  # without its required request_id
]


@reads_sources
@pytest.mark.parametrize("name", ["PulsarApi_pb2.py", "PulsarApi_pb2.pyi"])
def test_the_committed_code_is_what_the_proto_file_compiles_to(name: str, tmp_path: Path) -> None:
    runpy.run_path(str(ROOT / "proto" / "compile.py"))["compile_into"](tmp_path)
    assert (tmp_path / "pulsar_actors" / "wire" / name).read_bytes() == (WIRE / name).read_bytes(), (
        "run: python proto/compile.py"
    )


@reads_sources
def test_the_generated_code_asks_for_no_protobuf_release() -> None:
    assert "runtime_version" not in (WIRE / "PulsarApi_pb2.py").read_text()


def test_the_installed_protobuf_loads_the_generated_code_without_a_warning() -> None:
    command = [sys.executable, "-W", "error", "-c", ROUND_TRIP]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own text
    assert (run.returncode, run.stdout, run.stderr) == (0, "round trip\n", "")


def test_the_generated_code_can_be_imported_beside_that_of_another_package(tmp_path: Path) -> None:
    ours = (ROOT / "proto" / "PulsarApi.proto").read_text()
    theirs = ours.replace("package pulsar_actors.wire;", "package pulsar.proto;")
    assert theirs != ours
    (tmp_path / "PulsarApi.proto").write_text(theirs)
    protoc = which("protoc", path=str(Path(sys.executable).parent))
    assert protoc is not None
    subprocess.run([protoc, f"-I{tmp_path}", f"--python_out={tmp_path}", "PulsarApi.proto"], check=True)  # noqa: S603 - our own file
    names = ["PulsarApi_pb2", "pulsar_actors.wire.PulsarApi_pb2"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for order in (names, names[::-1]):
        command = [sys.executable, "-W", "error", "-c", BESIDE_ANOTHER, *order]
        run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own text
        assert (run.returncode, run.stdout, run.stderr) == (0, "side by side\n", "")


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.DESCRIPTOR.name)
def test_a_message_survives_pickling_and_copying(message: Message) -> None:
    pickled = [pickle.dumps(message, protocol) for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)]
    copies = [pickle.loads(data) for data in pickled]  # noqa: S301 - our own pickles
    for twin in (*copies, copy.deepcopy(message), copy.copy(message)):
        assert type(twin) is type(message)
        assert twin == message
        assert twin is not message
