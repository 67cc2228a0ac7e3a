import re
from pathlib import Path

import pytest

README = Path(__file__).resolve().parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def run(example: str, capsys: pytest.CaptureFixture[str]) -> str:
    exec(compile(example, str(README), "exec"), {})  # noqa: S102 - our own text
    return capsys.readouterr().out


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == len(["the wire", "a machine"])


def test_the_example_of_the_wire_gives_back_what_went_in(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(EXAMPLES[0], capsys) == "producer_id: 1\nsequence_id: 0\n\n[b'one', b'two', b'three']\n"


def test_the_example_of_a_machine_shows_a_lookup_that_asks(capsys: pytest.CaptureFixture[str]) -> None:
    *_, last = run(EXAMPLES[1], capsys).splitlines()
    assert last.endswith("timeout=30.0)] -> ASKING")
