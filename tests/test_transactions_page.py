"""The program of docs/transactions.md."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "transactions.md"
(PROGRAM,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_program_prints_what_it_is_about() -> None:
    lines: list[str] = []
    names: dict[str, Any] = {"print": lambda *words: lines.append(" ".join(map(str, words))), "__name__": "page"}
    exec(compile(PROGRAM, str(PAGE), "exec"), names)  # noqa: S102 - our own text
    assert lines == ["TransactionState.COMMITTED 10 b'bill for order 0'"]
