"""Measurements of a contest: medians, spreads, and ratios between clients; and how they are drawn.

A ratio above 1 means that this client is better: more messages a second, or less time. There is a table in Markdown, a
picture of the ratios with a bar for each, and one of growth with a line for each client.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

OURS: Final = "ours"
HIGHER_IS_BETTER: Final = {"msg/s"}


class Line(NamedTuple):
    """One line of the table: the values of each client, one for each alternation, and its CPU time for a message.

    `targets` are the ratios to the official client and the Java client that are wanted, None where none is. `mebibytes`
    is what each process had at the end of a turn, as far as that is asked.
    """

    name: str
    unit: str
    values: dict[str, list[float]]
    cpu_microseconds: dict[str, list[float]]
    targets: tuple[float | None, float | None] = (None, None)
    mebibytes: Mapping[str, list[float]] = MappingProxyType({})

    def median(self, client: str) -> float | None:
        """Return a client's median, if it was measured."""
        return statistics.median(self.values[client]) if self.values.get(client) else None

    def spread(self, client: str) -> tuple[float, float]:
        """Return the least and the greatest value."""
        return min(self.values[client]), max(self.values[client])

    def cpu(self, client: str) -> float | None:
        """Return the median of the CPU time, if it was measured."""
        return statistics.median(self.cpu_microseconds[client]) if self.cpu_microseconds.get(client) else None

    def ratio(self, to: str) -> float | None:
        """Return how many times as good this client is as another one, by the medians."""
        ours, other = self.median(OURS), self.median(to)
        if ours is None or other is None:
            return None
        return ours / other if self.unit in HIGHER_IS_BETTER else other / ours


def percentile(times: Sequence[float], percent: float) -> float:
    """Return the time that so many of a hundred do not exceed."""
    return sorted(times)[min(len(times) - 1, int(len(times) * percent / 100))]


TABLE_HEAD = (
    "| | ours | official | Java | ours ÷ official | ours ÷ Java | CPU µs: ours | official | Java |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)


def table(lines: Iterable[Line]) -> str:
    """Return the table."""
    return TABLE_HEAD + "".join(f"| {' | '.join(_cells(line))} |\n" for line in lines)


def _cells(line: Line) -> Sequence[str]:
    values = [_value(line, client) for client in ("ours", "official", "java")]
    ratios = [_ratio(line, client, target) for client, target in zip(("official", "java"), line.targets, strict=True)]
    cpu = [_number(line.cpu(client)) for client in ("ours", "official", "java")]
    return [f"{line.name}, {line.unit}", *values, *ratios, *cpu]


def _value(line: Line, client: str) -> str:
    if line.median(client) is None:
        return ""
    low, high = line.spread(client)
    return f"{_number(line.median(client))} ({_number(low)} to {_number(high)})"


def _ratio(line: Line, client: str, target: float | None) -> str:
    ratio = line.ratio(client)
    if ratio is None:
        return ""
    wanted = "" if target is None else f" of {target:g}"
    return f"**{ratio:.2f}**{wanted}"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


COLOURS: Final = {"official": "#2f6db3", "java": "#c2632d"}
LABELS: Final = {"ours": "this client", "official": "official Python client", "java": "Java client"}
LEFT, WIDTH, ROW, TOP = 310, 520, 30, 56
REACH: Final = 64.0
"""The largest ratio that has a place; larger ones end there, and say what they are."""


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
    """Return the SVG document."""
    shown = [line for line in lines if any(line.ratio(client) is not None for client in COLOURS)]
    height = TOP + ROW * len(shown) + 30
    parts = [_mark(power, height) for power in range(-2, 7)]
    for row, line in enumerate(shown):
        parts += _bars(line, TOP + ROW * row)
    title = "How many times as good as another client ours is (1: equal)"
    return _document(LEFT + WIDTH + 90, height, title, COLOURS, parts)


def _x(ratio: float) -> float:
    """Return the position of a ratio: a quarter is at the left, `REACH` at the right."""
    share = (math.log2(min(max(ratio, 0.25), REACH)) + 2) / (math.log2(REACH) + 2)
    return LEFT + WIDTH * share


def _mark(power: int, height: int) -> str:
    x, ratio = _x(2.0**power), 2.0**power
    colour = "#333" if power == 0 else "#ddd"
    return (
        f'<line x1="{x:.1f}" y1="{TOP - 6}" x2="{x:.1f}" y2="{height - 24}" stroke="{colour}"/>'
        f'<text x="{x:.1f}" y="{height - 10}" text-anchor="middle" fill="#666">{ratio:g}</text>'
    )


def _bars(line: Line, y: float) -> list[str]:
    parts = [f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{escape(line.name)}</text>']
    measured = [(client, ratio) for client in COLOURS if (ratio := line.ratio(client)) is not None]
    for place, (client, ratio) in enumerate(measured):
        one, other = sorted((_x(1.0), _x(ratio)))
        top = y + 4 + 11 * place
        parts.append(
            f'<rect x="{one:.1f}" y="{top}" width="{max(1.0, other - one):.1f}" height="9" fill="{COLOURS[client]}"/>'
        )
        parts.append(f'<text x="{max(other, _x(1.0)) + 5:.1f}" y="{top + 8}" font-size="10">{ratio:.2f}</text>')
    return parts


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
