"""The picture of a measurement: messages a second, and latencies, over the time of the run. An SVG document.

A point is an interval of the report. There may be many more than pixels, so each pixel shows the slowest rate and the
longest latency of its intervals: what a picture leaves out must not be what one looks for.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from pulsar_actors.named_tuple import NamedTuple

WIDTH: Final = 720
"""The width of a panel, in pixels."""
HEIGHT: Final = 200
LEFT: Final = 84
TOP: Final = 56
BETWEEN: Final = 64
RIGHT: Final = 24
MARKS: Final = 5
"""The most lines across a panel."""

COLOURS: Final = {"rate": "#2a8c4a", "p50": "#2f6db3", "p99": "#c2632d", "max": "#8a8f98"}


class PlotPoint(NamedTuple):
    """An interval that ended at this time. Times are in seconds since the start; latencies are in seconds, too."""

    at: float
    rate: float
    p50: float
    p99: float
    longest: float
    is_warm: bool


def draw_plot(title: str, points: Sequence[PlotPoint]) -> str:
    """Return the picture of a run."""
    shown = thinned(points, WIDTH)
    end = shown[-1].at if shown else 1.0
    rates = _Panel(TOP, end, _top_of(point.rate for point in shown))
    latencies = _Panel(TOP + HEIGHT + BETWEEN, end, _top_of(point.longest * 1e3 for point in shown))
    parts = [
        f'<text x="{LEFT}" y="24" font-size="15" font-weight="600">{escape(title)}</text>',
        *rates.frame("messages a second"),
        *_warm_up(shown, rates, latencies),
        rates.curve(COLOURS["rate"], [(point.at, point.rate) for point in shown]),
        *latencies.frame("latency, ms"),
        *(
            latencies.curve(COLOURS[name], [(point.at, values[name] * 1e3) for point, values in _latencies(shown)])
            for name in ("max", "p99", "p50")
        ),
        *_legend(latencies.top - 10),
        *latencies.seconds(),
    ]
    width, height = LEFT + WIDTH + RIGHT, latencies.top + HEIGHT + 40
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    font = 'font-family="sans-serif" font-size="12" fill="#333"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" {size} {font}>',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def thinned(points: Sequence[PlotPoint], most: int) -> list[PlotPoint]:
    """Return at most so many points: the worst of each group of neighbours."""
    size = -(-len(points) // most) or 1
    return [_worst(points[at : at + size]) for at in range(0, len(points), size)]


class PlotPoints:
    """The points of a run, which may take days: when there are more than a picture shows, neighbours become one."""

    def __init__(self) -> None:
        self._points: list[PlotPoint] = []
        self._group: list[PlotPoint] = []  # the worst of the intervals that are no point yet
        self._grouped = 0
        self._size = 1  # the intervals of a point

    def add(self, point: PlotPoint) -> None:
        """Add the next interval."""
        self._group = [_worst([*self._group, point])]
        self._grouped += 1
        if self._grouped == self._size:
            self._points += self._group
            self._group, self._grouped = [], 0
        if len(self._points) >= 2 * WIDTH:
            self._points, self._size = thinned(self._points, WIDTH), 2 * self._size

    def all(self) -> list[PlotPoint]:
        """Return the points, at most so many that two stand in each column of pixels."""
        return [*self._points, *self._group]


def _worst(group: Sequence[PlotPoint]) -> PlotPoint:
    return PlotPoint(
        group[-1].at,
        min(point.rate for point in group),
        max(point.p50 for point in group),
        max(point.p99 for point in group),
        max(point.longest for point in group),
        all(point.is_warm for point in group),
    )


def _latencies(points: Iterable[PlotPoint]) -> list[tuple[PlotPoint, dict[str, float]]]:
    return [(point, {"p50": point.p50, "p99": point.p99, "max": point.longest}) for point in points]


def _top_of(values: Iterable[float]) -> float:
    """Return a round number that no value exceeds: 1, 2 or 5 times a power of ten."""
    largest = max(values, default=0.0)
    if not largest > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    return next(power * step for step in (1, 2, 5, 10) if power * step >= largest)


class _Panel:
    """A panel: time from the left to the right, from 0 to `end`, and a quantity from 0 at the bottom to `largest`."""

    def __init__(self, top: int, end: float, largest: float) -> None:
        self.top = top
        self.end = end
        self._largest = largest

    def x(self, at: float) -> float:
        """Return the column of a time."""
        return LEFT + WIDTH * at / self.end

    def _y(self, value: float) -> float:
        return self.top + HEIGHT * (1 - value / self._largest)

    def frame(self, name: str) -> list[str]:
        """Draw the lines across, with their values."""
        parts = [f'<text x="{LEFT}" y="{self.top - 10}">{name}</text>']
        for mark in range(MARKS + 1):
            value = self._largest * mark / MARKS
            y = self._y(value)
            parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#e3e5e8"/>')
            parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_number(value)}</text>')
        return parts

    def seconds(self) -> list[str]:
        """Write round times below the panel."""
        step = _top_of([self.end / MARKS])
        times = (step * mark for mark in range(int(self.end / step + 1e-9) + 1))
        y = self.top + HEIGHT + 20
        return [f'<text x="{self.x(at):.1f}" y="{y}" text-anchor="middle">{_number(at)} s</text>' for at in times]

    def curve(self, colour: str, values: Sequence[tuple[float, float]]) -> str:
        """Draw a curve; of a single value, a dot."""
        places = [f"{self.x(at):.1f},{self._y(value):.1f}" for at, value in values]
        if len(places) == 1:
            x, y = places[0].split(",")
            return f'<circle cx="{x}" cy="{y}" r="3" fill="{colour}"/>'
        return f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour}" stroke-width="1.5"/>'


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"  # noqa: PLR2004 - from there on, whole numbers will do


def _warm_up(points: Sequence[PlotPoint], *panels: _Panel) -> list[str]:
    """Shade the warm-up."""
    until = max((point.at for point in points if not point.is_warm), default=0.0)
    return [
        f'<rect x="{LEFT}" y="{panel.top}" width="{panel.x(until) - LEFT:.1f}" height="{HEIGHT}" fill="#f3f1ea"/>'
        for panel in panels
        if until
    ]


def _legend(y: int) -> list[str]:
    return [
        f'<text x="{LEFT + WIDTH - 150 + 56 * at}" y="{y}" fill="{COLOURS[name]}" font-weight="600">{name}</text>'
        for at, name in enumerate(("p50", "p99", "max"))
    ]
