"""The pages of the documentation, and the programs on them.

A block of Python may be followed by a block of text: what it prints. The blocks of a page share their names, as in one
session. A block with a title is a file, such as a test.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
_BLOCK: Final = re.compile(
    r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    language: str
    title: str
    code: str
    prints: str


def blocks(page: Path, language: str) -> list[Block]:
    """The blocks of a page in one language."""
    found = [Block(*(part or "" for part in match.groups())) for match in _BLOCK.finditer(page.read_text())]
    return [block for block in found if block.language == language]


def pages() -> list[Path]:
    """The README and all pages, with paths that begin at the root."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def shell(page: str, words: str) -> str:
    """The block of commands of a page that has these words in it."""
    (found,) = [block.code for block in blocks(ROOT / page, "sh") if words in block.code]
    return found
