"""The programs of docs/schemas.md, one after the other, in one session."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "schemas.md"
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
PRINTED = [
    "Order(item='apples', count=3, note=None)",
    "{'sensor': 'door', 'value': 7, 'unit': '%'}",
    "{'sensor': 'lamp', 'value': 8, 'unit': 'W'}",
    "AVRO ['sensor', 'value'] {'sensor': 'door', 'value': 7}",
    "KEY_VALUE [] ('aisle 5', {'item': 'pears', 'count': 9})",
]


def test_the_programs_print_what_they_are_about() -> None:
    lines: list[str] = []
    names: dict[str, Any] = {"print": lambda *words: lines.append(" ".join(map(str, words))), "__name__": "page"}
    for program in PROGRAMS:
        exec(compile(program, str(PAGE), "exec"), names)  # noqa: S102 - our own text
    assert lines == PRINTED
