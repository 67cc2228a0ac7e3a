"""The code of `docs/telemetry.md` runs from top to bottom, and its table has what is measured."""

import re
from pathlib import Path
from typing import Any

from pulsar_actors.otel.metrics import COUNTERS, GAUGES

PAGE = Path(__file__).resolve().parents[1] / "docs" / "telemetry.md"
TEXT = PAGE.read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_code_of_the_page_runs() -> None:
    printed: list[Any] = []
    names: dict[str, Any] = {"__name__": "page", "print": printed.append}
    for block in BLOCKS:
        exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102 - our own text
    keys, is_there, samples = printed
    assert list(keys) == ["traceparent"]
    assert is_there is True
    assert samples == 1


def test_the_table_names_each_metric() -> None:
    table = TEXT[TEXT.index("| name, below") : TEXT.index("Those of producers and consumers")]
    named: set[str] = set()
    for row in table.strip().splitlines()[2:]:
        first, *others = re.findall(r"`([^`]*)`", row.split("|")[1])
        stem = first.rpartition(".")[0]  # which a suffix such as `.size` follows
        named |= {first, *(f"{stem}{one}" if one.startswith(".") else one for one in others)}
    read = {one.name for table in (COUNTERS, GAUGES) for several in table.values() for one in several}
    assert read <= named
