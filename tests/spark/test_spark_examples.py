"""The examples with Spark, run as a user runs them, each with a broker and a Spark of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def run(name: str) -> list[str]:
    """Run an example, and return the lines that it prints."""
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(  # noqa: S603 - a fixed command
        [sys.executable, name], cwd=EXAMPLES, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_pipeline_that_is_run_again_has_only_new_messages() -> None:
    assert run("spark_pipeline.py") == ["run 1: kitchen is at 26.5", "run 2: attic is at 31.0"]


def test_an_export_has_the_messages_between_two_times() -> None:
    assert run("spark_export.py") == ["DE: 43 pieces of fruit", "FR: 13 pieces of fruit"]


def test_rows_of_a_table_and_of_an_rdd_are_sent() -> None:
    assert run("spark_rows.py") == ["1000 squares; that of 31 is 961", "A ROSE IS A ROSE IS A ROSE"]


def test_the_walk_through_prints_what_its_comments_announce() -> None:
    printed = run("spark_walk_through.py")
    for row in ("|apple|   12|", "| pear|    3|", "| plum|   40|", "| pear|       3.0|", "|quince|    1|"):
        assert row in printed
    assert "tombstones: 1" in printed
    assert "read: 4" in printed
    assert any(line.startswith('next: {"subscription": "counting", "positions": {') for line in printed)


def test_every_example_with_spark_is_run_here() -> None:
    text = Path(__file__).read_text()
    assert {path.name for path in EXAMPLES.glob("spark_*.py") if f'run("{path.name}")' not in text} == set()
