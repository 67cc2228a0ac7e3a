"""The picture of a state chart, as an SVG document of shapes and text that loads nothing and runs nothing.

`draw_picture` measures the texts, has the layout position the boxes and arrows, and adds the list below them. The
document is the `str` of the `Picture` that it returns.
"""

from collections.abc import Hashable
from enum import Enum
from html import escape
from itertools import groupby, product
from typing import Final

from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.statecharts.drawn_chart import DrawnChart, moves_of
from pulsar_actors.statecharts.geometry import Font, Lines, Rectangle, Size, Word, split_words, wrap_words
from pulsar_actors.statecharts.layout import BOX_GAP, Layout, Link, Point, lay_out
from pulsar_actors.statecharts.outline import Arrow, Outline, SharedSteps, States, Step, outline

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
.sign { fill: #e9ecf0; }
.dashed { stroke-dasharray: 5 4; }
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
TITLE_HEIGHT: Final = 24
HEADER_GAP: Final = 22
LIST_GAP: Final = 30
BOX_TEXTS: Final = (210, 300)
LABEL_TEXTS: Final = (105, 180)
SIGN_TEXT: Final = 150
LIST_TEXT: Final = 330
LONG_LIST: Final = 3
"""A longer list has two columns at least."""
HEADER_TEXT: Final = 560
PAGE_WIDTH: Final = 900
"""Forges show a picture in about this width, and make a wider one smaller."""
STEP_GAP: Final = 5
BEND: Final = 8
DOT: Final = 7
START: Final = "start"
LEGEND: Final = (
    *split_words("event", EVENT),
    *split_words("[if this holds]", GUARD),
    *split_words("/ what is done.", PLAIN),
)
LEGEND_OF_THE_END: Final = split_words("A double frame: the end.", PLAIN)


class Canvas:
    """The SVG document under construction; a later element covers an earlier one."""

    def __init__(self, size: Size, title: str, description: str, style: str = STYLE) -> None:
        width, height = size
        self._parts = [
            f'<svg xmlns="{XMLNS}" role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f"<style>\n{style}</style>",
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

    def begin_state(self, name: str) -> None:
        """Begin the group of a state, by which a page can find what it lights."""
        self._parts.append(f'<g data-state="{escape(name)}">')

    def end_state(self) -> None:
        """End it."""
        self._parts.append("</g>")

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
    header: tuple[Lines, Lines]
    boxes: dict[Enum, _Box]
    signs: dict[Arrow, Lines]
    labels: tuple[Lines, ...]
    layout: Layout
    entries: tuple[_ListEntry, ...]

    @property
    def size(self) -> Size:
        """The size of the document."""
        areas = [entry.area for entry in self.entries]
        right = max([self.layout.size.width, *(part.size.width for part in self.header), *(one.right for one in areas)])
        bottom = max([self.layout.size.height, *(one.bottom for one in areas)])
        return Size(right + 2 * MARGIN, bottom + MARGIN + self.top)

    @property
    def top(self) -> int:
        """The height of the header, below which everything else is."""
        return MARGIN + TITLE_HEIGHT + self.header[1].size.height + HEADER_GAP

    @property
    def effort(self) -> float:
        """An estimate of how hard the picture is to read: its size on a page, arrows far to the side, and crossings."""
        width = max(self.size.width, PAGE_WIDTH)
        return self.size.height * width**2 / PAGE_WIDTH + 150 * self.layout.sideways + 20_000 * self.layout.crossings

    def __str__(self) -> str:
        """Return the SVG document."""
        chart = self.outline.chart
        states = ", ".join(state.name for state in self.boxes)
        canvas = Canvas(self.size, f"State chart: {chart.name}", f"States: {states}.")
        title, legend = self.header
        canvas.text(title, MARGIN, MARGIN)
        canvas.text(legend, MARGIN, MARGIN + TITLE_HEIGHT)
        places = {key: self._on_canvas(area) for key, area in self.layout.boxes.items()}
        unlabelled = len(self.layout.routes) - len(self.labels)
        dashed = [False] * unlabelled + [not arrow.steps for arrow in self.outline.arrows]
        for route, is_dashed in zip(self.layout.routes, dashed, strict=True):
            _draw_line(canvas, [(x + MARGIN, y + self.top) for x, y in route.points], dashed=is_dashed)
        for route, label in zip(self.layout.routes[unlabelled:], self.labels, strict=True):
            area = self._on_canvas(route.label)
            canvas.rectangle("label", area)
            canvas.text(label, area.x + area.width // 2, area.y + 3, centred=True)
        if START in places:
            canvas.circle("start", places[START].x + places[START].width // 2, places[START].y + DOT, DOT)
        for arrow, text in self.signs.items():
            canvas.rectangle("sign", places[arrow], 12)
            canvas.text(text, places[arrow].x + places[arrow].width // 2, places[arrow].y + 6, centred=True)
        for state, box in self.boxes.items():
            frame = "box dashed" if state in chart.continued else "box"
            canvas.begin_state(state.name)
            _draw_box(canvas, places[state], box, frame, final=state in chart.final)
            canvas.end_state()
        for entry in self.entries:
            area = self._on_canvas(entry.area)
            canvas.text(entry.text, area.x, area.y)
        return str(canvas)

    def _on_canvas(self, area: Rectangle) -> Rectangle:
        return area._replace(x=area.x + MARGIN, y=area.y + self.top)


def draw_picture(chart: DrawnChart) -> Picture:
    """Measure and position everything that the picture shows. Of several layouts, return the most readable one."""
    shown = outline(chart)
    pictures = [_draw_picture(shown, *ways) for ways in product(BOX_TEXTS, LABEL_TEXTS)]
    return min(pictures, key=lambda picture: picture.effort)


def _draw_picture(shown: Outline, box_text: int, label_text: int) -> Picture:
    chart = shown.chart
    boxes = {state: _box(state, shown, box_text) for state in shown.states}
    signs = {
        arrow: wrap_words([split_words(_states_text(arrow.source, arrow.dest, chart), PLAIN)], SIGN_TEXT)
        for arrow in shown.arrows
        if isinstance(arrow.source, tuple)
    }
    labels = tuple(
        wrap_words(map(_phrase, arrow.steps), label_text + 20 * len(arrow.steps), STEP_GAP) for arrow in shown.arrows
    )
    sizes: dict[Hashable, Size] = {arrow: _padded(text.size, 20, 15) for arrow, text in signs.items()}
    in_order = sorted(boxes, key=lambda state: state is not chart.initial)
    links: list[Link] = []
    if chart.initial in boxes:
        sizes[START] = Size(2 * DOT, 2 * DOT)
        links.append(Link(START, chart.initial, Size(0, 0)))
    sizes |= {state: boxes[state].size for state in in_order}
    links += [
        Link(arrow if arrow in signs else arrow.source, arrow.dest, _padded(label.size, 8, 6))
        for arrow, label in zip(shown.arrows, labels, strict=True)
    ]
    met = {state for arrow in shown.arrows for state in (arrow.source, arrow.dest)}
    pairs = [pair for pair in moves_of(chart.rows) if boxes.keys() >= set(pair)]
    pairs += [pair for pair in moves_of(chart.others) if boxes.keys() >= set(pair) and pair[1] not in met]
    pairs += [(chart.initial, state) for state in in_order[1:] if chart.initial in boxes]
    layout = lay_out(sizes, links, pairs)
    legend = [*LEGEND, *(LEGEND_OF_THE_END if chart.final else ())]
    header = (
        wrap_words([split_words(chart.name, TITLE)], HEADER_TEXT),
        wrap_words([legend, *([split_words(chart.note, PLAIN)] if chart.note else [])], HEADER_TEXT, STEP_GAP),
    )
    return Picture(shown, header, boxes, signs, labels, layout, _list_entries(shown, layout.size))


def _padded(size: Size, width: int, height: int) -> Size:
    return Size(size.width + width, size.height + height) if size.height else Size(0, 0)


def _box(state: Enum, shown: Outline, width: int) -> _Box:
    return _Box(
        name=wrap_words([split_words(state.name, NAME)], width),
        sentence=wrap_words([split_words(str(state.value), PLAIN)], width),
        inside=wrap_words(map(_phrase, shown.inside[state]), width, 2),
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
    columns = max(2 if len(shown.shared) > LONG_LIST else 1, (above.width + BOX_GAP) // (LIST_TEXT + BOX_GAP))
    entries: list[_ListEntry] = []
    top = above.height + LIST_GAP
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


def _shared_text(one: SharedSteps, chart: DrawnChart) -> Lines:
    where = split_words(_states_text(one.sources, one.dest, chart), PLAIN)
    if one.dest is not None:
        where += [*split_words("→", PLAIN), *split_words(one.dest.name, DEST)]
    return wrap_words([where, *map(_phrase, one.steps)], LIST_TEXT)


def _states_text(sources: States, dest: Enum | None, chart: DrawnChart) -> str:
    """Name the states, or the states that are left out, if these are fewer."""
    rest = [state.name for state in chart.states if state not in sources and state is not dest]
    if not rest:
        return "from every other state" if dest else "in every state"
    preposition = "from" if dest else "in"
    if len(rest) < len(sources):
        return f"{preposition} every {'other ' if dest else ''}state but {', '.join(rest)}"
    return f"{preposition} {', '.join(state.name for state in sources)}"


def _draw_box(canvas: Canvas, area: Rectangle, box: _Box, frame: str, *, final: bool) -> None:
    canvas.rectangle(frame, area, 9)
    if final:
        canvas.rectangle("inner", Rectangle(area.x + 4, area.y + 4, area.width - 8, area.height - 8), 6)
    middle = area.x + area.width // 2
    canvas.text(box.name, middle, area.y + PADDING, centred=True)
    canvas.text(box.sentence, middle, area.y + PADDING + box.name.size.height + 3, centred=True)
    if box.inside.lines:
        y = area.y + box.rule
        canvas.path("rule", f"M {area.x} {y} H {area.right}")
        canvas.text(box.inside, area.x + PADDING, y + 3)


def _draw_line(canvas: Canvas, points: list[Point], *, dashed: bool) -> None:
    """Draw an arrow with round corners. If it goes only a little to the side, its corners become one curve."""
    commands = ["M {} {}".format(*points[0])]
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        sideways = abs(before[0] - corner[0]) or abs(corner[0] - after[0])
        x, y = _towards(corner, before, min(BEND, sideways // 2))
        to_x, to_y = _towards(corner, after, min(BEND, sideways // 2))
        commands.append(f"L {x} {y} Q {corner[0]} {corner[1]} {to_x} {to_y}")
    x, y = points[-1]
    canvas.path("line dashed" if dashed else "line", " ".join([*commands, f"L {x} {y}"]))
    back = 9 if points[-2][1] > y else -9
    canvas.path("tip", f"M {x} {y} L {x - 5} {y + back} L {x + 5} {y + back} Z")


def _towards(corner: Point, other: Point, distance: int) -> Point:
    """Return the point at this distance from a corner on the way to another point, which is beside it or above it."""
    (x, y), (other_x, other_y) = corner, other
    if other_x != x:
        return (x + distance if other_x > x else x - distance, y)
    return (x, y + distance if other_y > y else y - distance)
