"""The picture of a state chart, as an SVG document of shapes and text that loads nothing and runs nothing.

`draw_picture` measures the texts, has the layout position the boxes and arrows, and adds the list below them. The
document is the `str` of the `Picture` that it returns.
"""

from collections.abc import Hashable
from enum import Enum
from html import escape
from itertools import groupby
from typing import Final, NamedTuple

from pulsar_actors.cli.statecharts.geometry import Font, Lines, Rectangle, Size, Word, split_words, wrap_words
from pulsar_actors.cli.statecharts.layout import BOX_GAP, Layout, Link, Route, lay_out
from pulsar_actors.cli.statecharts.outline import Outline, SharedStep, Step, moves, outline
from pulsar_actors.machines.chart import Chart

XMLNS: Final = "http://www.w3.org/2000/svg"
STYLE: Final = """\
text { font: 12px system-ui, -apple-system, "Segoe UI", Roboto, Helvetica, Arial, sans-serif; fill: #5b6470; }
.title { font-size: 20px; font-weight: 600; fill: #1c2530; }
.heading { font-size: 13px; font-weight: 600; fill: #1c2530; }
.name { font-size: 15px; font-weight: 700; fill: #1c2530; }
.event { font-weight: 600; fill: #1f5fa8; }
.guard { fill: #96590a; }
.dest { font-weight: 700; fill: #1c2530; }
.page { fill: #fbfbf9; }
.box { fill: #ffffff; stroke: #3c4856; stroke-width: 1.5; }
.inner, .rule { fill: none; stroke: #3c4856; stroke-width: 1; }
.rule { stroke: #d4d8dd; }
.label { fill: #fbfbf9; }
.line { fill: none; stroke: #7c8794; stroke-width: 1.5; }
.tip, .start { fill: #3c4856; }
"""


PLAIN: Final = Font("")
NAME: Final = Font("name", 15, bold=True)
TITLE: Final = Font("title", 20, bold=True)
HEADING: Final = Font("heading", 13, bold=True)
EVENT: Final = Font("event", bold=True)
GUARD: Final = Font("guard")
DEST: Final = Font("dest", bold=True)

MARGIN: Final = 28
PADDING: Final = 12
TITLE_HEIGHT: Final = 58
BOX_TEXT: Final = 220
LABEL_TEXT: Final = 170
LIST_TEXT: Final = 330
STEP_GAP: Final = 5
DOT: Final = 7
START: Final = "start"
LEGEND: Final = (
    *split_words("event", EVENT),
    *split_words("[if this holds]", GUARD),
    *split_words("/ what is done. A double frame: the end.", PLAIN),
)


class Canvas:
    """The SVG document under construction; a later element covers an earlier one."""

    def __init__(self, size: Size, title: str, description: str) -> None:
        width, height = size
        self._parts = [
            f'<svg xmlns="{XMLNS}" role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f"<style>\n{STYLE}</style>",
        ]
        self.rectangle("page", Rectangle(0, 0, *size))

    def rectangle(self, kind: str, area: Rectangle, radius: int = 0) -> None:
        """Draw a rectangle."""
        x, y, width, height = area
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>')

    def circle(self, kind: str, x: int, y: int, radius: int) -> None:
        """Draw a circle."""
        self._parts.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}"/>')

    def path(self, kind: str, commands: str) -> None:
        """Draw a path, given by SVG's path commands."""
        self._parts.append(f'<path class="{kind}" d="{commands}"/>')

    def text(self, lines: Lines, x: int, y: int, *, centred: bool = False) -> None:
        """Write lines: `x` is their left end or their middle, `y` the upper edge of the first one."""
        anchor = ' text-anchor="middle"' if centred else ""
        for line, step in zip(lines.lines, lines.steps, strict=True):
            y += step
            self._parts.append(f'<text x="{x}" y="{y - 4}"{anchor}>{_spans(line)}</text>')

    def __str__(self) -> str:
        """Return the document."""
        return "\n".join([*self._parts, "</svg>", ""])


def _spans(line: tuple[Word, ...]) -> str:
    runs = [
        (name, " ".join(word.text for word in same)) for name, same in groupby(line, key=lambda word: word.font.name)
    ]
    return " ".join(
        f'<tspan class="{name}">{escape(text, quote=False)}</tspan>' if name else escape(text, quote=False)
        for name, text in runs
    )


class _Box(NamedTuple):
    """The texts in the box of a state."""

    name: Lines
    sentence: Lines
    inside: Lines

    @property
    def rule(self) -> int:
        """The distance from the upper edge to the line above the steps inside the state."""
        return PADDING + self.name.size.height + self.sentence.size.height + 9

    @property
    def size(self) -> Size:
        text = max(part.size.width for part in self)
        inside = 3 + self.inside.size.height if self.inside.lines else -9
        return Size(text + 2 * PADDING, self.rule + inside + PADDING)


class _ListEntry(NamedTuple):
    """An entry of the list below the boxes."""

    area: Rectangle
    text: Lines


class Picture(NamedTuple):
    """The content of the picture with all positions."""

    outline: Outline
    boxes: dict[Enum, _Box]
    labels: tuple[Lines, ...]
    layout: Layout
    entries: tuple[_ListEntry, ...]

    @property
    def size(self) -> Size:
        """The size of the document."""
        right = max([self.layout.size.width, *(entry.area.right for entry in self.entries)])
        bottom = max([self.layout.size.height, *(entry.area.bottom for entry in self.entries)])
        return Size(right + 2 * MARGIN, bottom + 2 * MARGIN + TITLE_HEIGHT)

    def __str__(self) -> str:
        """Return the SVG document."""
        chart = self.outline.chart
        states = ", ".join(state.name for state in chart.states)
        canvas = Canvas(self.size, f"State chart: {chart.name}", f"States: {states}.")
        canvas.text(wrap_words([split_words(chart.name, TITLE)], 900), MARGIN, MARGIN)
        canvas.text(wrap_words([LEGEND], 900), MARGIN, MARGIN + 24)
        for route in self.layout.routes:
            _draw_line(canvas, route)
        for route, label in zip(self.layout.routes[1:], self.labels, strict=True):
            area = _on_canvas(route.label)
            canvas.rectangle("label", area)
            canvas.text(label, area.x + area.width // 2, area.y + 3, centred=True)
        start = _on_canvas(self.layout.boxes[START])
        canvas.circle("start", start.x + DOT, start.y + DOT, DOT)
        for state, box in self.boxes.items():
            _draw_box(canvas, _on_canvas(self.layout.boxes[state]), box, final=state in chart.final)
        for entry in self.entries:
            area = _on_canvas(entry.area)
            canvas.text(entry.text, area.x, area.y)
        return str(canvas)


def draw_picture(chart: Chart) -> Picture:
    """Measure and position everything that the picture of a chart shows."""
    shown = outline(chart)
    boxes = {state: _box(state, shown) for state in chart.states}
    labels = tuple(wrap_words(map(_phrase, arrow.steps), LABEL_TEXT, STEP_GAP) for arrow in shown.arrows)
    links = [Link(START, chart.initial, Size(0, 0))]
    links += [
        Link(arrow.source, arrow.dest, Size(label.size.width + 8, label.size.height + 6))
        for arrow, label in zip(shown.arrows, labels, strict=True)
    ]
    sizes: dict[Hashable, Size] = {START: Size(2 * DOT, 2 * DOT), **{state: box.size for state, box in boxes.items()}}
    layout = lay_out(sizes, links, moves(chart))
    return Picture(shown, boxes, labels, layout, _list_entries(shown, layout.size))


def _box(state: Enum, shown: Outline) -> _Box:
    return _Box(
        name=wrap_words([split_words(state.name, NAME)], BOX_TEXT),
        sentence=wrap_words([split_words(str(state.value), PLAIN)], BOX_TEXT),
        inside=wrap_words(map(_phrase, shown.inside[state]), BOX_TEXT, 2),
    )


def _phrase(step: Step) -> list[Word]:
    events = [split_words(_with_spaces(event), EVENT) for event in step.events]
    for event in events[:-1]:
        event[-1] = event[-1]._replace(text=event[-1].text + ",")
    phrase = [word for event in events for word in event]
    if step.guard:
        phrase += split_words(f"[{_with_spaces(step.guard)}]", GUARD)
    if step.does:
        first, *rest = split_words(_with_spaces(step.does), PLAIN)
        phrase += [first._replace(text=f"/ {first.text}"), *rest]
    return phrase


def _with_spaces(name: str) -> str:
    return name.replace("_", " ")


def _list_entries(shown: Outline, above: Size) -> tuple[_ListEntry, ...]:
    """List the shared steps below the boxes: first those to another state, then the others."""
    columns = max(1, (above.width + BOX_GAP) // (LIST_TEXT + BOX_GAP))
    entries: list[_ListEntry] = []
    top = above.height + 30
    for title, chosen in (
        ("From several states", [one for one in shown.shared if one.dest is not None]),
        ("In several states, without leaving them", [one for one in shown.shared if one.dest is None]),
    ):
        if not chosen:
            continue
        heading = wrap_words([split_words(title, HEADING)], LIST_TEXT)
        entries.append(_ListEntry(Rectangle(0, top, *heading.size), heading))
        top += heading.size.height + 8
        texts = [_shared_text(one, shown.chart) for one in chosen]
        for row in range(0, len(texts), columns):
            line = texts[row : row + columns]
            for column, text in enumerate(line):
                entries.append(_ListEntry(Rectangle(column * (LIST_TEXT + BOX_GAP), top, *text.size), text))
            top += max(text.size.height for text in line) + 10
        top += 12
    return tuple(entries)


def _shared_text(one: SharedStep, chart: Chart) -> Lines:
    what = _phrase(one.step)
    if one.dest is not None:
        what += [*split_words("→", PLAIN), *split_words(one.dest.name, DEST)]
    return wrap_words([what, split_words(_states_text(one, chart), PLAIN)], LIST_TEXT)


def _states_text(one: SharedStep, chart: Chart) -> str:
    """Name the states; or the others, if they are fewer."""
    rest = [state.name for state in chart.states if state not in one.sources and state is not one.dest]
    if not rest:
        return "from every other state" if one.dest else "in every state"
    preposition = "from" if one.dest else "in"
    if len(rest) < len(one.sources):
        return f"{preposition} every {'other ' if one.dest else ''}state but {', '.join(rest)}"
    return f"{preposition} {', '.join(state.name for state in one.sources)}"


def _on_canvas(area: Rectangle) -> Rectangle:
    return area._replace(x=area.x + MARGIN, y=area.y + MARGIN + TITLE_HEIGHT)


def _draw_box(canvas: Canvas, area: Rectangle, box: _Box, *, final: bool) -> None:
    canvas.rectangle("box", area, 9)
    if final:
        canvas.rectangle("inner", Rectangle(area.x + 4, area.y + 4, area.width - 8, area.height - 8), 6)
    middle = area.x + area.width // 2
    canvas.text(box.name, middle, area.y + PADDING, centred=True)
    canvas.text(box.sentence, middle, area.y + PADDING + box.name.size.height + 3, centred=True)
    if box.inside.lines:
        y = area.y + box.rule
        canvas.path("rule", f"M {area.x} {y} H {area.right}")
        canvas.text(box.inside, area.x + PADDING, y + 3)


def _draw_line(canvas: Canvas, route: Route) -> None:
    points = [(x + MARGIN, y + MARGIN + TITLE_HEIGHT) for x, y in route.points]
    (x, y), *rest = points
    commands = [f"M {x} {y}"]
    for index, (to_x, to_y) in enumerate(rest):
        if index % 2 and to_x != x:
            half = (y + to_y) // 2
            commands.append(f"C {x} {half} {to_x} {half} {to_x} {to_y}")
        else:
            commands.append(f"L {to_x} {to_y}")
        x, y = to_x, to_y
    canvas.path("line", " ".join(commands))
    back = 9 if points[0][1] > y else -9
    canvas.path("tip", f"M {x} {y} L {x - 5} {y + back} L {x + 5} {y + back} Z")
