"""A small chart that shows everything a picture can show, and fixtures of it."""

from enum import Enum, unique
from types import ModuleType
from typing import NamedTuple

import pytest

from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Event, Row
from pulsar_actors.machines.state_machine import StateMachine


@unique
class Kettle(Enum):
    COLD = "Filled & waiting, but <not> switched on."
    HEATING = "The water gets warmer."
    BOILING = "It sings."
    BROKEN = "It will never boil again."


class SwitchOn(NamedTuple):
    """Somebody wants tea."""


class ThermostatRead(NamedTuple):
    """The water has a temperature."""


class Dropped(NamedTuple):
    """It fell."""


class Tapped(NamedTuple):
    """Somebody taps at it."""


COLD, HEATING, BOILING, BROKEN = Kettle

ROWS = (
    Row(SwitchOn, COLD, HEATING, None, "close_the_circuit"),
    Row(SwitchOn, (HEATING, BOILING, BROKEN), INTERNAL),
    Row(ThermostatRead, HEATING, BOILING, "is_hot", "sing_a_little_song"),
    Row(ThermostatRead, HEATING, INTERNAL, None, "show_the_temperature"),
    Row(ThermostatRead, BOILING, HEATING, "is_cool"),
    Row(ThermostatRead, BOILING, BOILING, None, "keep_singing"),
    Row(ThermostatRead, (COLD, BROKEN), INTERNAL),
    Row(Dropped, (COLD, HEATING, BOILING), BROKEN, None, "apologise"),
    Row(Dropped, BROKEN, INTERNAL),
    Row(Tapped, (COLD, HEATING, BOILING, BROKEN), INTERNAL, None, "ring"),
)


def kettle_chart(*more: Row) -> Chart:
    return Chart("kettle", states=Kettle, initial=COLD, final=[BROKEN], ours=[SwitchOn], rows=(*more, *ROWS))


def kettle_module(chart: Chart) -> ModuleType:
    class Pot(StateMachine, chart=chart):
        """What the rows say."""

        def is_hot(self, event: ThermostatRead, now: float) -> bool:
            """Hold at a hundred degrees,
            or nearly.

            The rest depends on how high the kitchen is.
            """
            return bool(event or now)

        is_cool = is_hot

        def close_the_circuit(self, event: Event, now: float) -> Effects:
            """Let it begin."""
            return [event, now]

        sing_a_little_song = show_the_temperature = keep_singing = apologise = ring = wonder = close_the_circuit

    module = ModuleType("kettle", "It boils water.\n\nNothing else.")
    vars(module)["Pot"] = Pot
    return module


@pytest.fixture
def kettle() -> tuple[Chart, ModuleType]:
    chart = kettle_chart()
    return chart, kettle_module(chart)


@pytest.fixture
def altered_kettle() -> tuple[Chart, ModuleType]:
    chart = kettle_chart(Row(ThermostatRead, COLD, HEATING, "is_hot", "wonder"))
    return chart, kettle_module(chart)
