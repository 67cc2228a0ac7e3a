"""A small chart that shows everything a picture can show."""

from enum import Enum, unique
from types import ModuleType
from typing import NamedTuple

import pytest

from pulsar_actors.machines.chart import INTERNAL, Chart, Row


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


@pytest.fixture
def kettle() -> tuple[Chart, ModuleType]:
    return kettle_chart(), ModuleType("kettle", "It boils water.\n\nNothing else.")


@pytest.fixture
def altered_kettle() -> tuple[Chart, ModuleType]:
    row = Row(ThermostatRead, COLD, HEATING, "is_hot", "wonder")
    return kettle_chart(row), ModuleType("kettle", "It boils water.\n\nNothing else.")
