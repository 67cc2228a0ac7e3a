"""An SVG document: shapes and text, nothing that is fetched and nothing that runs."""

from html import escape
from itertools import groupby
from typing import Final

from pulsar_actors.cli.lettering import Lines, Word
from pulsar_actors.cli.places import Rectangle, Size

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


class Canvas:
    """Collects the elements of a picture, back to front."""

    def __init__(self, size: Size, title: str, description: str) -> None:
        width, height = size
        self._parts = [
            f'<svg xmlns="{XMLNS}" role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(description)}</desc>",
            f"<style>\n{STYLE}</style>",
        ]
        self.rectangle("page", Rectangle(0, 0, *size))

    def rectangle(self, kind: str, place: Rectangle, radius: int = 0) -> None:
        """Draw a box."""
        x, y, width, height = place
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="{radius}"/>')

    def circle(self, kind: str, x: int, y: int, radius: int) -> None:
        """Draw a dot."""
        self._parts.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="{radius}"/>')

    def path(self, kind: str, commands: str) -> None:
        """Draw what the commands say."""
        self._parts.append(f'<path class="{kind}" d="{commands}"/>')

    def text(self, lines: Lines, x: int, y: int, *, centred: bool = False) -> None:
        """Write lines: `x` is their left end or their middle, `y` the upper edge of the first."""
        anchor = ' text-anchor="middle"' if centred else ""
        for line, step in zip(lines.lines, lines.steps, strict=True):
            y += step
            self._parts.append(f'<text x="{x}" y="{y - 4}"{anchor}>{_spans(line)}</text>')

    def __str__(self) -> str:
        """Give the document."""
        return "\n".join([*self._parts, "</svg>", ""])


def _spans(line: tuple[Word, ...]) -> str:
    runs = [
        (name, " ".join(word.text for word in same)) for name, same in groupby(line, key=lambda word: word.face.name)
    ]
    return " ".join(
        f'<tspan class="{name}">{escape(text, quote=False)}</tspan>' if name else escape(text, quote=False)
        for name, text in runs
    )
