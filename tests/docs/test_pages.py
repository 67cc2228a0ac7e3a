"""Every program on every page runs, from top to bottom, and prints what the page says."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Block, blocks, pages

pytest_plugins = ["pytester"]

ELSEWHERE = {"docs/spark.md"}
"""Pages that other tests run: `tests/spark/test_docs.py`."""

EXPECTED_ERRORS = re.compile(r"(INFO|WARNING):pulsar_actors|Executing <.* took")
"""The log of a page about logging, and what asyncio says of slow steps in development mode."""

PROGRAMS = {
    page.relative_to(ROOT).as_posix(): [block for block in blocks(page, "python") if not block.title]
    for page in pages()
}
NAMES = sorted(name for name, programs in PROGRAMS.items() if programs and name not in ELSEWHERE)
FILES = [block for page in pages() for block in blocks(page, "python") if block.title]

END = "=== end of the block ==="

SESSION = f"""
import json, sys
names = {{"__name__": "page"}}
with open(sys.argv[1]) as file:
    blocks = json.load(file)
for block in blocks:
    exec(compile(block, "page", "exec"), names)
    print({END!r}, flush=True)
"""


def run(programs: list[Block], folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run the programs in one session, in a process of its own, where warnings are errors."""
    (folder / "blocks.json").write_text(json.dumps([block.code for block in programs]))
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", SESSION, "blocks.json"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)  # noqa: S603 - our own text


@pytest.mark.parametrize("name", NAMES)
def test_the_programs_of_a_page_print_what_it_says(name: str, tmp_path: Path) -> None:
    done = run(PROGRAMS[name], tmp_path)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stderr.splitlines() if not EXPECTED_ERRORS.match(line)] == []
    printed = done.stdout.split(END + "\n")[:-1]
    expected = [block.prints for block in PROGRAMS[name]]
    assert [_without_numbers(text) for text in printed] == [_without_numbers(text) for text in expected]


def _without_numbers(text: str) -> str:
    """Leave out what is another in each run: times, ports, and the secret in the address of a page."""
    text = re.sub(r"127\.0\.0\.1:\d+(/[-\w]+/)?", "HOST", text)
    return re.sub(r"\d+-\d\d-\d\d \d\d:\d\d:\d\d\.\d+Z", "TIME", text)


def test_a_page_whose_program_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```python\nprint(x + 1)\n```\n\n```text\n2\n```\n\n```sh\nls\n```\n")
    programs = blocks(page, "python")
    assert [block.prints for block in programs] == ["", "2\n"]
    assert run(programs, tmp_path).stdout == f"{END}\n2\n{END}\n"
    assert run([Block("python", "", "raise ValueError", "")], tmp_path).returncode == 1


@pytest.mark.parametrize("block", FILES, ids=lambda block: block.title)
def test_a_file_of_a_page_is_a_test_that_passes(block: Block, pytester: pytest.Pytester) -> None:
    pytester.path.joinpath(block.title).write_text(block.code)
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_most_pages_have_programs() -> None:
    assert {"README.md", "docs/index.md", "docs/testing.md", "docs/exactly-once.md"} <= set(NAMES)
    assert [block.title for block in FILES] == ["test_orders.py"]
