"""The curves of an endurance run, as SVG: memory, threads and descriptors over time, each from 0."""

from collections.abc import Sequence

from tests.endurance.gauges import Reading

WIDTH, HEIGHT, LEFT, GAP = 640, 120, 110, 46
CURVES = (("kilobytes", "memory, MB", 1024.0), ("threads", "threads", 1.0), ("descriptors", "descriptors", 1.0))


def picture(readings: Sequence[Reading]) -> str:
    """Draw the readings."""
    end = readings[-1].seconds or 1.0
    head = (
        '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12" '
        f'width="{LEFT + WIDTH + 60}" height="{len(CURVES) * (HEIGHT + GAP) + 20}">'
    )
    parts = [head, '<rect width="100%" height="100%" fill="white"/>']
    for index, (field, title, unit) in enumerate(CURVES):
        top = 20 + index * (HEIGHT + GAP)
        most = max(getattr(each, field) for each in readings) / unit
        scale = HEIGHT / (most * unit * 1.1)
        heights = [(each.seconds, getattr(each, field) * scale) for each in readings]
        points = " ".join(f"{LEFT + WIDTH * at / end:.1f},{top + HEIGHT - high:.1f}" for at, high in heights)
        bottom = top + HEIGHT
        parts += [
            f'<text x="10" y="{top + 12}">{title}</text>',
            f'<text x="{LEFT - 8}" y="{bottom - HEIGHT / 1.1 + 4:.0f}" text-anchor="end">{most:,.0f}</text>',
            f'<text x="{LEFT - 8}" y="{bottom}" text-anchor="end">0</text>',
            f'<path d="M{LEFT} {top}V{bottom}H{LEFT + WIDTH}" stroke="#999" fill="none"/>',
            f'<polyline points="{points}" stroke="#06c" stroke-width="1.5" fill="none"/>',
            f'<text x="{LEFT + WIDTH}" y="{bottom + 16}" text-anchor="end">{end / 60:,.0f} min</text>',
        ]
    return "\n".join([*parts, "</svg>", ""])
