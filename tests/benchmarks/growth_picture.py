"""The growth of cost as a picture: a panel for each quantity, a line for each client, both scales logarithmic."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from tests.benchmarks.measured import Line
from tests.benchmarks.ratio_picture import COLOURS, LABELS

ALL: Final = {"ours": "#2a8c4a", **COLOURS}
NAMES: Final = {"ours": "this client", **LABELS}
WIDTH, HEIGHT, LEFT, TOP, APART = 300, 170, 64, 60, 90


class Grown(NamedTuple):
    """The measurements of one curve: the values of the quantity that grows, and a line for each."""

    name: str
    points: list[tuple[int, Line]]


def growth_picture(curves: Sequence[Grown]) -> str:
    """Return the SVG document, with two panels in a row."""
    rows = -(-len(curves) // 2)
    size = f'width="{2 * (LEFT + WIDTH) + APART}" height="{TOP + rows * (HEIGHT + APART)}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="12" y="20" font-size="14">Messages sent in a second, by what grows</text>',
    ]
    for place, (client, colour) in enumerate(ALL.items()):
        x = LEFT + 190 * place
        parts.append(f'<rect x="{x}" y="32" width="12" height="3" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="39">{NAMES[client]}</text>')
    for number, curve in enumerate(curves):
        x = LEFT + (number % 2) * (WIDTH + APART)
        parts.append(f'<g transform="translate({x},{TOP + (number // 2) * (HEIGHT + APART)})">')
        parts += _panel(curve)
        parts.append("</g>")
    return "\n".join([*parts, "</svg>\n"])


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
    across = _Scale.over([x for x, _ in curve.points], WIDTH)
    up = _Scale.over([median for line in medians for _, median in line], HEIGHT)
    parts = [f'<text x="{WIDTH / 2}" y="{HEIGHT + 34}" text-anchor="middle">{curve.name}</text>']
    for power in up.marks():
        y = HEIGHT - up.at(10.0**power)
        parts.append(f'<line x1="0" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="-6" y="{y + 4:.1f}" text-anchor="end" fill="#666">{_short(power)}</text>')
    for power in across.marks():
        x = across.at(10.0**power)
        parts.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{HEIGHT}" stroke="#eee"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT + 16}" text-anchor="middle" fill="#666">{_short(power)}</text>')
    for colour, line in zip(ALL.values(), medians, strict=True):
        places = [(across.at(x), HEIGHT - up.at(median)) for x, median in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places]
    return parts
