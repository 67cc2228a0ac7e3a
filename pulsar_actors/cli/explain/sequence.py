"""The sequence diagram of a history, as an SVG document that loads nothing and runs nothing.

Each actor has a lifeline; all lookups share one. The program and the broker have lifelines, too, for the events that
come from them. A change of state is a box on the lifeline of its actor, with an arrow from whoever has caused it
(`origins.py`). There is no arrow if a timer or the actor itself was the cause, or if it cannot be told which of several
connections was.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pulsar_actors.cli.explain.origins import ORIGINS, Origin
from pulsar_actors.runtime.state_changes import StateChange
from pulsar_actors.statecharts.geometry import Font, Rectangle, Size, Word, split_words, wrap_words
from pulsar_actors.statecharts.picture import STYLE, Canvas

PROGRAM: Final = "program"
BROKER: Final = "broker"
CLIENT: Final = "client"
LOOKUPS: Final = "lookups"

PLAIN: Final = Font("")
STATE: Final = Font("dest", bold=True)
EVENT: Final = Font("event", bold=True)
ERROR: Final = Font("error", bold=True)
HEADING: Final = Font("heading", 13, bold=True)

MARGIN: Final = 20
TIMES: Final = 110
"""The width of the column with the times."""
COLUMN: Final = 250
HEAD: Final = 64
ROW: Final = 52
BOX_HEIGHT: Final = 22
BOX_PADDING: Final = 10
PAUSE: Final = 1.0
"""A longer time in seconds between two changes is shown by a gap."""
GAP: Final = 26

_STYLE: Final = f"{STYLE}.error {{ font-weight: 600; fill: #b3261e; }}\n.lifeline {{ stroke: #c3c9d0; fill: none; }}\n"


def draw_sequence(history: Sequence[StateChange]) -> str:
    """Draw the changes of a history, which has at least one."""
    columns = {name: TIMES + MARGIN + COLUMN // 2 + at * COLUMN for at, name in enumerate(lifelines(history))}
    tops = _tops(history)
    size = Size(TIMES + 2 * MARGIN + COLUMN * len(columns), tops[-1] + ROW + MARGIN)
    canvas = Canvas(size, "A history", "The changes of state of actors, from the top to the bottom.", _STYLE)
    for name, x in columns.items():
        lines = wrap_words([split_words(name, HEADING)], COLUMN - 20)
        canvas.text(lines, x, MARGIN, centred=True)
        canvas.path("lifeline", f"M{x} {MARGIN + HEAD} V{size.height - MARGIN}")
    for at, (change, top) in enumerate(zip(history, tops, strict=True)):
        before = history[at - 1] if at else None
        _draw_time(canvas, change, before, history[0].time, top)
        _draw_change(canvas, change, columns, top)
    return str(canvas)


def lifelines(history: Iterable[StateChange]) -> list[str]:
    """Return the names of the lifelines, from the left to the right: from the program to the broker."""
    actors = dict.fromkeys(lifeline_of(change) for change in history)
    causes = {origin for change in history if (origin := ORIGINS.get(change.event)) is not None}
    inner = [name for name in actors if not _is_connection(name) and name not in (LOOKUPS, CLIENT)]
    return [
        *([PROGRAM] if Origin.PROGRAM in causes else []),
        *inner,
        *(name for name in (CLIENT, LOOKUPS) if name in actors),
        *(name for name in actors if _is_connection(name)),
        *([BROKER] if Origin.BROKER in causes else []),
    ]


def lifeline_of(change: StateChange) -> str:
    """Return the name of the lifeline on which a change is drawn."""
    return LOOKUPS if change.actor.startswith("lookup ") else change.actor


def cause_of(change: StateChange, names: Iterable[str]) -> str | None:
    """Return the lifeline from which the arrow to a change comes, or None if it has none."""
    connections = [name for name in names if _is_connection(name)]
    causes: Mapping[Origin | None, str | None] = {
        Origin.PROGRAM: PROGRAM,
        Origin.BROKER: BROKER,
        Origin.LOOKUP: LOOKUPS,
        Origin.CLIENT: CLIENT,
        Origin.CONNECTION: connections[0] if len(connections) == 1 else None,
    }
    cause = causes.get(ORIGINS.get(change.event))
    return None if cause is None or cause not in names or cause == lifeline_of(change) else cause


def _is_connection(name: str) -> bool:
    return name.startswith("connection to ")


def _tops(history: Sequence[StateChange]) -> list[int]:
    tops: list[int] = []
    y = MARGIN + HEAD
    for at, change in enumerate(history):
        if at and change.time - history[at - 1].time > PAUSE:
            y += GAP
        tops.append(y)
        y += ROW
    return tops


def _draw_time(canvas: Canvas, change: StateChange, before: StateChange | None, start: float, top: int) -> None:
    if before is not None and change.time - before.time > PAUSE:
        pause = wrap_words([split_words(f"{change.time - before.time:.1f} s later", PLAIN)], TIMES)
        canvas.text(pause, MARGIN, top - GAP // 2)
    elapsed = wrap_words([split_words(f"+{change.time - start:.3f} s", PLAIN)], TIMES)
    canvas.text(elapsed, MARGIN, top + ROW - BOX_HEIGHT - 12)


def _draw_change(canvas: Canvas, change: StateChange, columns: Mapping[str, int], top: int) -> None:
    x = columns[lifeline_of(change)]
    middle = top + ROW - BOX_HEIGHT // 2 - 8
    state = wrap_words([[*_part(change), *split_words(change.dest, STATE)]], COLUMN)
    width = state.size.width + 2 * BOX_PADDING
    label = wrap_words([_label(change)], 2 * COLUMN)
    label_width = label.size.width
    cause = cause_of(change, columns)
    if cause is None:
        label_left = x - label_width // 2
    else:
        start, right = columns[cause], columns[cause] > x
        end = x + width // 2 if right else x - width // 2
        canvas.path("line", f"M{start} {middle} H{end}")
        back = 7 if right else -7
        canvas.path("tip", f"M{end} {middle} l{back} -4 v8 z")
        label_left = end + 12 if right else end - 12 - label_width
    canvas.rectangle("label", Rectangle(label_left - 2, top + 4, label_width + 4, 16))
    canvas.text(label, label_left, top + 4)
    canvas.rectangle("box", Rectangle(x - width // 2, middle - BOX_HEIGHT // 2, width, BOX_HEIGHT), 8)
    canvas.text(state, x, middle - 8, centred=True)


def _part(change: StateChange) -> list[Word]:
    """Name the chart of a part, since the state alone would be taken for that of the whole."""
    whole = change.actor.startswith(change.chart) or lifeline_of(change) == LOOKUPS
    return [] if whole else split_words(change.chart, PLAIN)


def _label(change: StateChange) -> list[Word]:
    error = split_words(f"({change.error})", ERROR) if change.error else []
    return [*split_words(change.event, EVENT), *error]
