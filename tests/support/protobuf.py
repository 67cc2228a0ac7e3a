"""Classes of protobuf messages, made from .proto files while a test runs."""

import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from shutil import which
from typing import Any

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

FOLDER = Path(__file__).parents[1] / "schema" / "protobuf"


def protoc(folder: Path, *options: str) -> bytes:
    """Run the compiler on all files of a folder; return what it prints."""
    compiler = which("protoc", path=str(Path(sys.executable).parent))
    assert compiler is not None, "protoc is not in this environment: pip install 'pulsar-actors[test]'"
    files = sorted(path.name for path in folder.glob("*.proto"))
    return subprocess.run([compiler, f"-I{folder}", *options, *files], check=True, capture_output=True).stdout  # noqa: S603 -- our own files


@cache
def compiled(folder: Path) -> Callable[[str], Any]:
    """Compile a folder; return a function that finds the class of a message by its full name."""
    files = FileDescriptorSet.FromString(protoc(folder, "--include_imports", "--descriptor_set_out=/dev/stdout"))
    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)  # type: ignore[no-untyped-call]
    return lambda name: GetMessageClass(pool.FindMessageTypeByName(name))  # type: ignore[no-untyped-call]
