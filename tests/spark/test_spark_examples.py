"""The examples with Spark, run as a user runs them, but one after the other in one process: a JVM starts slowly."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
ONE_BY_ONE = """
import runpy, sys
names, sys.argv[1:] = sys.argv[1:], []
for name in names:
    print("running", name, flush=True)
    runpy.run_path(name, run_name="__main__")
"""


@pytest.fixture(scope="module")
def printed() -> dict[str, list[str]]:
    """Run the examples, each with a broker and a Spark of its own, and return the lines that each prints."""
    names = sorted(path.name for path in EXAMPLES.glob("spark_*.py"))
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(EXAMPLES)}
    done = subprocess.run(  # noqa: S603 - a fixed command
        [sys.executable, "-c", ONE_BY_ONE, *names],
        cwd=EXAMPLES, env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    blocks = [block.splitlines() for block in done.stdout.split("running ")[1:]]
    return {name: lines for name, *lines in blocks}


def test_a_pipeline_that_is_run_again_has_only_new_messages(printed: dict[str, list[str]]) -> None:
    assert printed["spark_pipeline.py"] == ["run 1: kitchen is at 26.5", "run 2: attic is at 31.0"]


def test_an_export_has_the_messages_between_two_times(printed: dict[str, list[str]]) -> None:
    assert printed["spark_export.py"] == ["DE: 43 pieces of fruit", "FR: 13 pieces of fruit"]


def test_rows_of_a_table_and_of_an_rdd_are_sent(printed: dict[str, list[str]]) -> None:
    assert printed["spark_rows.py"] == ["1000 squares; that of 31 is 961", "A ROSE IS A ROSE IS A ROSE"]


def test_the_walk_through_prints_what_its_comments_announce(printed: dict[str, list[str]]) -> None:
    lines = printed["spark_walk_through.py"]
    for row in ("|apple|   12|", "| pear|    3|", "| plum|   40|", "| pear|       3.0|", "|quince|    1|"):
        assert row in lines
    assert "tombstones: 1" in lines
    assert "read: 4" in lines
    assert any(line.startswith('next: {"subscription": "counting", "positions": {') for line in lines)


def test_every_example_with_spark_is_tested_here(printed: dict[str, list[str]]) -> None:
    text = Path(__file__).read_text()
    assert {name for name in printed if f'printed["{name}"]' not in text} == set()


def test_the_notebook_runs_and_shows_what_it_says() -> None:
    nbformat, nbclient = importlib.import_module("nbformat"), importlib.import_module("nbclient")
    notebook = nbformat.read(EXAMPLES / "temperatures.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    text = "".join(output.get("text", "") for output in outputs)
    assert "288 readings" in text
    assert len([output for output in outputs if "image/png" in output.get("data", {})]) == 2
    assert "attic" in next(output for output in outputs if output.output_type == "execute_result").data["text/plain"]
