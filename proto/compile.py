"""Compile PulsarApi.proto into pulsar_actors/wire: `python proto/compile.py`.

The compiler is pinned to protoc 25: its code carries no runtime version check, so protobuf 5, 6 and 7 all load it.
A newer compiler would tie users to the protobuf release it came with.
"""

import subprocess
import sys
from pathlib import Path
from shutil import which

PROTO = Path(__file__).resolve().parent
WIRE = PROTO.parent / "pulsar_actors" / "wire"


def compile_into(folder: Path) -> None:
    """Write PulsarApi_pb2.py and its type stub into the folder."""
    tools = str(Path(sys.executable).parent)
    protoc, stubs = which("protoc", path=tools), which("protoc-gen-mypy", path=tools)
    if protoc is None or stubs is None:
        sys.exit("protoc and protoc-gen-mypy are not in this environment: pip install 'pulsar-actors[test]'")
    command = [protoc, f"-I{PROTO}", f"--plugin={stubs}", f"--python_out={folder}", f"--mypy_out=quiet:{folder}"]
    subprocess.run([*command, "PulsarApi.proto"], check=True)  # noqa: S603 - a compiler we pinned, on our own file


if __name__ == "__main__":
    compile_into(WIRE)
