from types import ModuleType

from pulsar_actors.cli.statecharts.outline import Arrow, SharedStep, Step, moves, outline
from pulsar_actors.machines.chart import Chart


def test_ways_between_states_are_arrows(kettle: tuple[Chart, ModuleType]) -> None:
    cold, heating, boiling, _ = kettle[0].states
    assert outline(kettle[0]).arrows == (
        Arrow(cold, heating, (Step(("switch_on",), None, "close_the_circuit"),)),
        Arrow(heating, boiling, (Step(("thermostat_read",), "is_hot", "sing_a_little_song"),)),
        Arrow(boiling, heating, (Step(("thermostat_read",), "is_cool", None),)),
    )


def test_what_a_state_does_without_leaving_is_inside_it(kettle: tuple[Chart, ModuleType]) -> None:
    cold, heating, boiling, broken = kettle[0].states
    assert outline(kettle[0]).inside == {
        cold: (),
        heating: (Step(("thermostat_read",), None, "show_the_temperature"),),
        boiling: (Step(("thermostat_read",), None, "keep_singing"),),
        broken: (),
    }


def test_what_several_states_do_alike_is_said_once(kettle: tuple[Chart, ModuleType]) -> None:
    cold, heating, boiling, broken = kettle[0].states
    assert outline(kettle[0]).shared == (
        SharedStep(Step(("dropped",), None, "apologise"), (cold, heating, boiling), broken),
        SharedStep(Step(("tapped",), None, "ring"), (cold, heating, boiling, broken), None),
    )


def test_moves_are_all_pairs_that_a_row_joins(kettle: tuple[Chart, ModuleType]) -> None:
    assert [(source.name, dest.name) for source, dest in moves(kettle[0])] == [
        ("COLD", "HEATING"),
        ("HEATING", "BOILING"),
        ("BOILING", "HEATING"),
        ("COLD", "BROKEN"),
        ("HEATING", "BROKEN"),
        ("BOILING", "BROKEN"),
    ]
