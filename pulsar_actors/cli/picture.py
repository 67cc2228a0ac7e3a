"""The picture of a chart: measured, placed and drawn."""

from collections.abc import Hashable
from enum import Enum
from typing import Final, NamedTuple

from pulsar_actors.cli.layout import BOX_GAP, Layout, Link, Route, lay_out
from pulsar_actors.cli.lettering import Face, Lines, Word, words, wrap
from pulsar_actors.cli.outline import Outline, Shared, Step, moves, outline
from pulsar_actors.cli.places import Rectangle, Size
from pulsar_actors.cli.svg import Canvas
from pulsar_actors.machines.chart import Chart

PLAIN: Final = Face("")
NAME: Final = Face("name", 15, bold=True)
TITLE: Final = Face("title", 20, bold=True)
HEADING: Final = Face("heading", 13, bold=True)
EVENT: Final = Face("event", bold=True)
GUARD: Final = Face("guard")
DEST: Final = Face("dest", bold=True)

MARGIN: Final = 28
PADDING: Final = 12
TITLE_HEIGHT: Final = 58
BOX_TEXT: Final = 220
LABEL_TEXT: Final = 170
LIST_TEXT: Final = 330
BETWEEN: Final = 5
DOT: Final = 7
START: Final = "start"
KEY: Final = (
    *words("event", EVENT),
    *words("[if this holds]", GUARD),
    *words("/ what is done. A double frame: the end.", PLAIN),
)


class _Box(NamedTuple):
    """What is written in the box of a state."""

    name: Lines
    sentence: Lines
    inside: Lines

    @property
    def rule(self) -> int:
        """How far below the upper edge the line is under which the state's own steps are."""
        return PADDING + self.name.size.height + self.sentence.size.height + 9

    @property
    def size(self) -> Size:
        text = max(part.size.width for part in self)
        inside = 3 + self.inside.size.height if self.inside.lines else -9
        return Size(text + 2 * PADDING, self.rule + inside + PADDING)


class _Entry(NamedTuple):
    """A place in the list below the picture."""

    place: Rectangle
    text: Lines


class Picture(NamedTuple):
    """Everything with its place; `str` draws it."""

    outline: Outline
    boxes: dict[Enum, _Box]
    labels: tuple[Lines, ...]
    layout: Layout
    entries: tuple[_Entry, ...]

    @property
    def size(self) -> Size:
        """Of the canvas."""
        right = max([self.layout.size.width, *(entry.place.right for entry in self.entries)])
        bottom = max([self.layout.size.height, *(entry.place.bottom for entry in self.entries)])
        return Size(right + 2 * MARGIN, bottom + 2 * MARGIN + TITLE_HEIGHT)

    def __str__(self) -> str:
        """Give the SVG document."""
        chart = self.outline.chart
        states = ", ".join(state.name for state in chart.states)
        canvas = Canvas(self.size, f"State chart: {chart.name}", f"States: {states}.")
        canvas.text(wrap([words(chart.name, TITLE)], 900), MARGIN, MARGIN)
        canvas.text(wrap([KEY], 900), MARGIN, MARGIN + 24)
        for route in self.layout.routes:
            _draw_line(canvas, route)
        for route, label in zip(self.layout.routes[1:], self.labels, strict=True):
            place = _moved(route.label)
            canvas.rectangle("label", place)
            canvas.text(label, place.x + place.width // 2, place.y + 3, centred=True)
        start = _moved(self.layout.boxes[START])
        canvas.circle("start", start.x + DOT, start.y + DOT, DOT)
        for state, box in self.boxes.items():
            _draw_box(canvas, _moved(self.layout.boxes[state]), box, final=state in chart.final)
        for entry in self.entries:
            place = _moved(entry.place)
            canvas.text(entry.text, place.x, place.y)
        return str(canvas)


def picture(chart: Chart) -> Picture:
    """Measure and place everything that the picture of a chart shows."""
    shown = outline(chart)
    boxes = {state: _box(state, shown) for state in chart.states}
    labels = tuple(wrap(map(_phrase, arrow.steps), LABEL_TEXT, BETWEEN) for arrow in shown.arrows)
    links = [Link(START, chart.initial, Size(0, 0))]
    links += [
        Link(arrow.source, arrow.dest, Size(label.size.width + 8, label.size.height + 6))
        for arrow, label in zip(shown.arrows, labels, strict=True)
    ]
    sizes: dict[Hashable, Size] = {START: Size(2 * DOT, 2 * DOT), **{state: box.size for state, box in boxes.items()}}
    layout = lay_out(sizes, links, moves(chart))
    return Picture(shown, boxes, labels, layout, _entries(shown, layout.size))


def _box(state: Enum, shown: Outline) -> _Box:
    return _Box(
        name=wrap([words(state.name, NAME)], BOX_TEXT),
        sentence=wrap([words(str(state.value), PLAIN)], BOX_TEXT),
        inside=wrap(map(_phrase, shown.inside[state]), BOX_TEXT, 2),
    )


def _phrase(step: Step) -> list[Word]:
    events = [words(_spoken(event), EVENT) for event in step.events]
    for event in events[:-1]:
        event[-1] = event[-1]._replace(text=event[-1].text + ",")
    phrase = [word for event in events for word in event]
    if step.guard:
        phrase += words(f"[{_spoken(step.guard)}]", GUARD)
    if step.does:
        first, *rest = words(_spoken(step.does), PLAIN)
        phrase += [first._replace(text=f"/ {first.text}"), *rest]
    return phrase


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _entries(shown: Outline, above: Size) -> tuple[_Entry, ...]:
    """List, below the arrows, what several states do alike: first what leads somewhere, then what does not."""
    columns = max(1, (above.width + BOX_GAP) // (LIST_TEXT + BOX_GAP))
    entries: list[_Entry] = []
    top = above.height + 30
    for title, chosen in (
        ("From several states", [one for one in shown.shared if one.dest is not None]),
        ("In several states, without leaving them", [one for one in shown.shared if one.dest is None]),
    ):
        if not chosen:
            continue
        heading = wrap([words(title, HEADING)], LIST_TEXT)
        entries.append(_Entry(Rectangle(0, top, *heading.size), heading))
        top += heading.size.height + 8
        texts = [_told(one, shown.chart) for one in chosen]
        for row in range(0, len(texts), columns):
            line = texts[row : row + columns]
            for column, text in enumerate(line):
                entries.append(_Entry(Rectangle(column * (LIST_TEXT + BOX_GAP), top, *text.size), text))
            top += max(text.size.height for text in line) + 10
        top += 12
    return tuple(entries)


def _told(one: Shared, chart: Chart) -> Lines:
    what = _phrase(one.step)
    if one.dest is not None:
        what += [*words("→", PLAIN), *words(one.dest.name, DEST)]
    return wrap([what, words(_where(one, chart), PLAIN)], LIST_TEXT)


def _where(one: Shared, chart: Chart) -> str:
    """Name the states, or those that are left out if they are fewer."""
    rest = [state.name for state in chart.states if state not in one.sources and state is not one.dest]
    if not rest:
        return "from every other state" if one.dest else "in every state"
    preposition = "from" if one.dest else "in"
    if len(rest) < len(one.sources):
        return f"{preposition} every {'other ' if one.dest else ''}state but {', '.join(rest)}"
    return f"{preposition} {', '.join(state.name for state in one.sources)}"


def _moved(place: Rectangle) -> Rectangle:
    return place._replace(x=place.x + MARGIN, y=place.y + MARGIN + TITLE_HEIGHT)


def _draw_box(canvas: Canvas, place: Rectangle, box: _Box, *, final: bool) -> None:
    canvas.rectangle("box", place, 9)
    if final:
        canvas.rectangle("inner", Rectangle(place.x + 4, place.y + 4, place.width - 8, place.height - 8), 6)
    middle = place.x + place.width // 2
    canvas.text(box.name, middle, place.y + PADDING, centred=True)
    canvas.text(box.sentence, middle, place.y + PADDING + box.name.size.height + 3, centred=True)
    if box.inside.lines:
        y = place.y + box.rule
        canvas.path("rule", f"M {place.x} {y} H {place.right}")
        canvas.text(box.inside, place.x + PADDING, y + 3)


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
