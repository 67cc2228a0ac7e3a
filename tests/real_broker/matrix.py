"""What one client does with what the other did, as a table: the outcomes of `test_interop*.py`, a row for each
test.

`PULSAR_TEST_MATRIX=1 python -m pytest tests/real_broker/test_interop*.py` prints it when all have run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.support.subjects import BROKERS

DIRECTIONS = ("ours \u2192 official", "official \u2192 ours")
COLUMNS = [f"{direction}, {broker}" for direction in DIRECTIONS for broker in BROKERS]


class Cell(NamedTuple):
    """Where the outcome of one test belongs: its row, and its columns."""

    feature: str
    columns: Sequence[str]


def cell_of(name: str, parameters: dict[str, object]) -> Cell:
    """Place a test by its name and its parameters; one that has no direction is about both."""
    from_to = parameters.get("from_to")
    sender = parameters.get("sender")
    if isinstance(from_to, tuple):
        directions: Sequence[str] = [f"{from_to[0]} \u2192 {from_to[1]}"]
    elif sender is not None:  # the other client reads it, and so does the sender's own
        directions = [one for one in DIRECTIONS if one.startswith(f"{sender} ")]
    else:
        directions = DIRECTIONS
    brokers = [str(parameters["broker"])] if "broker" in parameters else list(BROKERS)
    feature = name.removeprefix("test_").replace("_", " ")
    return Cell(feature, [f"{direction}, {broker}" for direction in directions for broker in brokers])


def table(outcomes: Iterable[tuple[Cell, bool]]) -> str:
    """Draw it, in Markdown: how many of the cases of each feature passed, in the order in which the tests stand."""
    tallies: dict[str, dict[str, Counter[bool]]] = defaultdict(lambda: defaultdict(Counter))
    for cell, passed in outcomes:
        for column in cell.columns:
            tallies[cell.feature][column][passed] += 1
    lines = [f"| feature | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    for feature in sorted(tallies):
        cells = [_words(tallies[feature][column]) for column in COLUMNS]
        lines.append(f"| {feature} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _words(tally: Counter[bool]) -> str:
    if not tally:
        return "\u2013"
    return f"{tally[True]}" if not tally[False] else f"{tally[True]} of {tally.total()}"
