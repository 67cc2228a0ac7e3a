import subprocess
import sys
from types import ModuleType

from pulsar_actors.cli.statecharts.mermaid import mermaid_source
from pulsar_actors.machines.chart import Chart
from pulsar_actors.statecharts.drawn_chart import draw_whole


def test_the_diagram_shows_what_changes_state_or_has_an_effect_and_nothing_else(
    kettle: tuple[Chart, ModuleType],
) -> None:
    drawn = mermaid_source(draw_whole(*kettle))
    for shown in (
        "COLD --> HEATING: switch_on / close_the_circuit",
        "HEATING --> BOILING: thermostat_read [is_hot] / sing_a_little_song",
        "BOILING --> BROKEN: dropped / apologise",
    ):
        assert shown in drawn
    assert "HEATING --> HEATING: switch_on" not in drawn
    assert drawn.count("switch_on") == 1


def test_a_program_that_imports_the_client_does_not_load_what_draws() -> None:
    asked = "import sys, pulsar_actors; print(sorted({'asyncio', 'transitions.extensions'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, timeout=60, check=True)  # noqa: S603 - our own words
    assert done.stdout == "[]\n"
