"""The code of `docs/encryption.md` runs from top to bottom, and prints what its readers expect."""

import re
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[1] / "docs" / "encryption.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


def test_the_code_of_the_page_runs() -> None:
    printed: list[tuple[Any, ...]] = []
    names: dict[str, Any] = {"__name__": "page", "print": lambda *words: printed.append(words)}
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own text
    assert printed == [(b"3 apples",), (True,), (b"2 pears", "customer-7")]
    reader = names["VaultKeyReader"]({"k/public": b"public", "k/private": b"private"})
    assert reader.get_public_key("k", {}).key == b"public"
    assert reader.get_private_key("k", {"version": "7"}) == b"private"
