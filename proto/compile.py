"""Compile PulsarApi.proto into pulsar_actors/wire: `python proto/compile.py`.

The compiler is pinned to protoc 25: its code carries no runtime version check, so protobuf 5, 6 and 7 all load it.
A newer compiler would tie users to the protobuf release it came with.

The compiler sees the file where its code will be, as pulsar_actors/wire/PulsarApi.proto. From that path it derives the
name of the module, by which pickle finds the classes, and the name of the file in the descriptor pool, which all
packages of a process share.
"""

import subprocess
import sys
from pathlib import Path
from shutil import which

PROTO = Path(__file__).resolve().parent
WIRE = "pulsar_actors/wire"


def compile_into(root: Path) -> None:
    """Write PulsarApi_pb2.py and its type stub into pulsar_actors/wire below the root."""
    tools = str(Path(sys.executable).parent)
    protoc, stubs = which("protoc", path=tools), which("protoc-gen-mypy", path=tools)
    if protoc is None or stubs is None:
        sys.exit("protoc and protoc-gen-mypy are not in this environment: pip install 'pulsar-actors[test]'")
    command = [protoc, f"-I{WIRE}={PROTO}", f"--plugin={stubs}", f"--python_out={root}", f"--mypy_out=quiet:{root}"]
    subprocess.run([*command, f"{WIRE}/PulsarApi.proto"], check=True)  # noqa: S603 - a compiler we pinned, our own file


if __name__ == "__main__":
    compile_into(PROTO.parent)
