"""The programs of `docs/asyncio.md` run, and print what they promise."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "asyncio.md").read_text(), re.DOTALL)
PRINTED = [
    "received 1000\n",
    "heard b'3.20'\napples b'3.20'\napples b'3.40'\nb'3.40' 1\n",
]


@pytest.mark.parametrize(("block", "printed"), list(zip(BLOCKS, PRINTED, strict=True)), ids=["gather", "listen"])
def test_a_program_of_the_page_runs(block: str, printed: str) -> None:
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", block]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603 - our own text
    faults = re.sub(r"Executing <.* took \d+\.\d+ seconds\n", "", done.stderr)  # development mode times callbacks
    assert (done.returncode, faults) == (0, "")
    assert sorted(done.stdout.splitlines()) == sorted(printed.splitlines())
