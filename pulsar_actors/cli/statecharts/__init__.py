"""The drawings of the state charts: an SVG picture and a Mermaid source of each chart, and one page about all of them.

`drawings` makes all of them. The layout is computed here, so no drawing tool has to be installed, and a test can
compare the committed drawings with the charts.
"""

from types import ModuleType

from pulsar_actors.cli.statecharts.mermaid import mermaid_source
from pulsar_actors.cli.statecharts.page import markdown_page
from pulsar_actors.machines.chart import Chart
from pulsar_actors.statecharts.drawn_chart import drawn_charts
from pulsar_actors.statecharts.picture import draw_picture

__all__ = ["drawings"]


def drawings(charts: list[tuple[Chart, ModuleType]]) -> dict[str, bytes]:
    """Return the content of each file by the name of the file."""
    drawn = drawn_charts(charts)
    texts = {"README.md": markdown_page(drawn)}
    for chart in drawn:
        texts[f"{chart.name}.mmd"] = mermaid_source(chart)
        texts[f"{chart.name}.svg"] = str(draw_picture(chart))
    return {name: text.encode() for name, text in texts.items()}
