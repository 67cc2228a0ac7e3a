"""Writes `docs/specification.md`: for everything that the specification has, the tests that show it.

python tests/specification/table.py
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.specification.outline import PARTS, Section
from tests.specification.shown import TESTS, Shown, Where, all_shown

PAGE = TESTS.parent / "docs" / "specification.md"

HEAD = """\
# The specification, and what shows that it is kept

The sections, fields and settings of Pulsar's binary protocol and of its system overview, with the tests that show each
of them. `tests/specification` fails for a thing that no test shows on Apache Pulsar, or none on the embedded broker,
unless it says why not. Tests of `tests/real_broker` run on both, and wherever it can do the same for the official
client as well.

This page is written by `python tests/specification/table.py` from the marks of the tests.
"""

COLUMNS = "| section | setting | Apache Pulsar | embedded broker | without a broker |\n|---|---|---|---|---|"


def page(tests: Iterable[Shown]) -> str:
    """The whole page."""
    by_entry: dict[tuple[str, str], list[Shown]] = defaultdict(list)
    for one in tests:
        by_entry[one.section, one.setting].append(one)
    parts = [
        "\n".join([f"\n## {part.title}\n", COLUMNS, *(row for one in part.sections for row in _rows(one, by_entry))])
        for part in PARTS
    ]
    return HEAD + "\n".join(parts) + "\n"


def _rows(section: Section, by_entry: dict[tuple[str, str], list[Shown]]) -> Iterable[str]:
    """One row for the section as a whole, and one for each setting."""
    name = section.name
    for setting in ("", *section.settings):
        tests = by_entry.pop((section.name, setting), [])
        on = {where: _links([one for one in tests if where in one.where]) for where in Where}
        on[Where.APACHE] = on[Where.APACHE] or section.alone.get(setting, "")
        on[Where.EMBEDDED] = on[Where.EMBEDDED] or section.embedded.get(setting, "")
        yield "| " + " | ".join([name, setting, *(on[where] for where in Where)]) + " |"
        name = ""


def _links(tests: list[Shown]) -> str:
    unique = dict.fromkeys((one.path, one.test) for one in tests)
    return "<br>".join(f"[{_sentence(test)}](../{path})" for path, test in unique)


def _sentence(test: str) -> str:
    return test.removeprefix("test_").replace("_", " ")


def write(path: Path = PAGE) -> None:
    """Write it anew."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(page(all_shown()))


if __name__ == "__main__":
    write()
