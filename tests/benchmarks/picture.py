"""The pictures: a bar for each ratio, from the worst round to the best, and curves of growth, one for each client."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from tests.benchmarks.measured import Line, Spread

COLOURS: Final = {"official": "#2f6db3", "java": "#c2632d"}
LABELS: Final = {"ours": "this client", "official": "official Python client", "java": "Java client"}
LEFT, WIDTH, ROW, TOP = 410, 540, 30, 56
LOWEST, REACH = 1 / 16, 64.0
"""The ratios that have a place. Others are drawn at its ends, and the numbers say what they are."""


def _document(width: float, height: float, title: str, colours: Mapping[str, str], parts: Sequence[str]) -> str:
    """Return an SVG document with a legend of the clients."""
    size = f'width="{width}" height="{height}"'
    legend = [
        f'<rect x="{12 + 190 * place}" y="32" width="12" height="12" fill="{colour}"/>'
        f'<text x="{30 + 190 * place}" y="43">{LABELS[client]}</text>'
        for place, (client, colour) in enumerate(colours.items())
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
            '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="12" y="20" font-size="14">{title}</text>',
            *legend,
            *parts,
            "</svg>\n",
        ]
    )


def picture(lines: Sequence[Line]) -> str:
    """Return the SVG document of ratios."""
    shown = [line for line in lines if any(line.ratio(client) is not None for client in COLOURS)]
    height = TOP + ROW * len(shown) + 30
    parts = [_mark(power, height) for power in range(-4, 7)]
    for row, line in enumerate(shown):
        parts += _bars(line, TOP + ROW * row)
    title = "How many times as good as another client this one is (1: equal): from the worst round to the best"
    return _document(LEFT + WIDTH + 90, height, title, COLOURS, parts)


def _x(ratio: float) -> float:
    """Return the position of a ratio: `LOWEST` is at the left, `REACH` at the right, and doublings are equally long."""
    within = min(max(ratio, LOWEST), REACH)
    return LEFT + WIDTH * math.log2(within / LOWEST) / math.log2(REACH / LOWEST)


def _mark(power: int, height: int) -> str:
    x, ratio = _x(2.0**power), 2.0**power
    colour = "#333" if power == 0 else "#ddd"
    return (
        f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 24}" stroke="{colour}"/>'
        f'<text x="{x:.1f}" y="{height - 10}" text-anchor="middle" fill="#666">{ratio:g}</text>'
    )


def _bars(line: Line, y: float) -> list[str]:
    name = f"{line.name} ({line.build})" if line.build else line.name
    parts = [f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(name)}</text>']
    measured = [(client, ratio) for client in COLOURS if (ratio := line.ratio(client)) is not None]
    for place, (client, ratio) in enumerate(measured):
        parts += _bar(ratio, y + 4 + 11 * place, COLOURS[client])
    return parts


def _bar(ratio: Spread, top: float, colour: str) -> list[str]:
    """Draw a ratio: a bar between its ends, both with their numbers, a notch at the median, and a stem to equality."""
    worst, median, best = _x(ratio.least), _x(ratio.median), _x(ratio.most)
    width, y = max(2.0, best - worst), top + 8
    stem = f'y1="{top + 4.5}" x2="{median:.1f}" y2="{top + 4.5}" stroke="{colour}" stroke-opacity="0.4"'
    return [
        f'<line x1="{_x(1.0):.1f}" {stem}/>',
        f'<rect x="{worst:.1f}" y="{top}" width="{width:.1f}" height="9" fill="{colour}"/>',
        f'<rect x="{median - 1:.1f}" y="{top}" width="2" height="9" fill="black"/>',
        f'<text x="{worst - 4:.1f}" y="{y}" font-size="10" text-anchor="end">{ratio.least:.2f}</text>',
        f'<text x="{worst + width + 4:.1f}" y="{y}" font-size="10">{ratio.most:.2f}</text>',
    ]


ALL: Final = {"ours": "#2a8c4a", **COLOURS}
ACROSS, UP, APART = 300, 170, 90


class Grown(NamedTuple):
    """The measurements of one curve: the values of the quantity that grows, and a line for each."""

    name: str
    points: list[tuple[int, Line]]


def growth_picture(curves: Sequence[Grown]) -> str:
    """Return the SVG document, with two panels in a row."""
    left, top, parts = 64, 60, list[str]()
    for number, curve in enumerate(curves):
        x = left + (number % 2) * (ACROSS + APART)
        parts.append(f'<g transform="translate({x},{top + (number // 2) * (UP + APART)})">')
        parts += _panel(curve)
        parts.append("</g>")
    width, height = 2 * (left + ACROSS) + APART, top + -(-len(curves) // 2) * (UP + APART)
    return _document(width, height, "Messages sent in a second, by what grows", ALL, parts)


class _Scale(NamedTuple):
    """A logarithmic scale between two powers of ten, so many pixels long."""

    low: int
    high: int
    pixels: int

    @classmethod
    def over(cls, values: Sequence[float], pixels: int) -> "_Scale":
        low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        return cls(low, max(high, low + 1), pixels)

    def at(self, value: float) -> float:
        return (math.log10(value) - self.low) / (self.high - self.low) * self.pixels

    def marks(self) -> range:
        return range(self.low, self.high + 1)


def _short(power: int) -> str:
    """Return a short text for a power of ten."""
    return f"{10 ** (power % 3)}{('', 'k', 'M')[power // 3]}" if 0 <= power < 9 else f"1e{power}"


def _panel(curve: Grown) -> list[str]:
    medians = [
        [(x, median) for x, line in curve.points if (median := line.median(client)) is not None] for client in ALL
    ]
    across = _Scale.over([x for x, _ in curve.points], ACROSS)
    up = _Scale.over([median for line in medians for _, median in line], UP)
    parts = [f'<text x="{ACROSS / 2}" y="{UP + 34}" text-anchor="middle">{curve.name}</text>']
    for power in up.marks():
        y = UP - up.at(10.0**power)
        parts.append(f'<line x1="0" y1="{y:.1f}" x2="{ACROSS}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="-6" y="{y + 4:.1f}" text-anchor="end" fill="#666">{_short(power)}</text>')
    for power in across.marks():
        x = across.at(10.0**power)
        parts.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{UP}" stroke="#eee"/>')
        parts.append(f'<text x="{x:.1f}" y="{UP + 16}" text-anchor="middle" fill="#666">{_short(power)}</text>')
    for colour, line in zip(ALL.values(), medians, strict=True):
        places = [(across.at(x), UP - up.at(median)) for x, median in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places]
    return parts
