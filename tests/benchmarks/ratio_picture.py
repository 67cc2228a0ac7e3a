"""The ratios as a picture: a bar for each line and each other client, on a logarithmic scale with 1 in the middle."""

import math
from collections.abc import Sequence
from typing import Final
from xml.sax.saxutils import escape

from tests.benchmarks.measured import Line

COLOURS: Final = {"official": "#2f6db3", "java": "#c2632d"}
LABELS: Final = {"official": "official Python client", "java": "Java client"}
LEFT, WIDTH, ROW, TOP = 310, 520, 30, 56
REACH: Final = 64.0
"""The largest ratio that has a place; larger ones end there, and say what they are."""


def picture(lines: Sequence[Line]) -> str:
    """Return the SVG document."""
    shown = [line for line in lines if any(line.ratio(client) is not None for client in COLOURS)]
    height = TOP + ROW * len(shown) + 30
    size = f'width="{LEFT + WIDTH + 90}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<text x="12" y="20" font-size="14">How many times as good as another client ours is (1: equal)</text>',
    ]
    for place, (client, colour) in enumerate(COLOURS.items()):
        x = LEFT + 190 * place
        parts.append(f'<rect x="{x}" y="30" width="12" height="12" fill="{colour}"/>')
        parts.append(f'<text x="{x + 18}" y="41">{LABELS[client]}</text>')
    parts += [_mark(power, height) for power in range(-2, 7)]
    for row, line in enumerate(shown):
        parts += _bars(line, TOP + ROW * row)
    return "\n".join([*parts, "</svg>\n"])


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
