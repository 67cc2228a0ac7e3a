from itertools import product
from types import ModuleType

import pytest

from pulsar_actors.cli.statecharts.command import all_charts
from pulsar_actors.machines.chart import Chart, trigger_name
from pulsar_actors.statecharts.drawn_chart import DrawnChart, draw_whole, drawn_charts
from pulsar_actors.statecharts.outline import Arrow, SharedSteps, Step, outline

DRAWN = [pytest.param(chart, id=chart.name) for chart in drawn_charts(all_charts())]


def test_ways_between_states_are_arrows(kettle: tuple[Chart, ModuleType]) -> None:
    cold, heating, boiling, broken = kettle[0].states
    assert outline(draw_whole(*kettle)).arrows == (
        Arrow(cold, heating, (Step(("switch_on",), None, "close_the_circuit"),)),
        Arrow(heating, boiling, (Step(("thermostat_read",), "is_hot", "sing_a_little_song"),)),
        Arrow(boiling, heating, (Step(("thermostat_read",), "is_cool", None),)),
        Arrow((cold, heating, boiling), broken, (Step(("dropped",), None, "apologise"),)),
    )


def test_what_a_state_does_without_leaving_is_inside_it(kettle: tuple[Chart, ModuleType]) -> None:
    cold, heating, boiling, broken = kettle[0].states
    assert outline(draw_whole(*kettle)).inside == {
        cold: (),
        heating: (Step(("thermostat_read",), None, "show_the_temperature"),),
        boiling: (Step(("thermostat_read",), None, "keep_singing"),),
        broken: (),
    }


def test_what_several_states_do_alike_without_leaving_them_is_said_once(kettle: tuple[Chart, ModuleType]) -> None:
    assert outline(draw_whole(*kettle)).shared == (
        SharedSteps(kettle[0].states, None, (Step(("tapped",), None, "ring"),)),
    )


def test_the_shared_rows_and_the_others_are_together_the_charts_that_run() -> None:
    drawn = {chart.name: chart for chart in drawn_charts(all_charts())}
    shared = drawn["connection_handler"]
    for chart, _ in all_charts():
        own = drawn[chart.name]
        if chart.name not in {"consumer", "producer"}:
            assert own.rows == chart.rows
            continue
        creating = {"SUBSCRIBING": "CREATING", "QUEUED": "CREATING"}
        for state, trigger in product(chart.states, chart.triggers):
            rows = [row for row in own.rows if row.trigger is trigger and state in row.sources]
            name = creating.get(state.name, state.name)
            common = [
                row for row in shared.rows if row.trigger is trigger and name in {one.name for one in row.sources}
            ]
            actions = {(row.guard, row.does) for row in (*rows, *common)}
            running = {(row.guard, row.does) for row in chart.rows_for(state, trigger)}
            assert running <= actions, (state, trigger)
            assert actions == running or rows, (state, trigger)


@pytest.mark.parametrize("chart", DRAWN)
def test_an_arrow_leads_to_every_state_and_on_from_every_one_that_is_not_final(chart: DrawnChart) -> None:
    shown = outline(chart)
    states = set(shown.states) - chart.continued
    assert states - {chart.initial} <= {arrow.dest for arrow in shown.arrows}
    assert states - chart.final <= {arrow.source for arrow in shown.arrows}


@pytest.mark.parametrize("chart", DRAWN)
def test_every_row_is_once_in_the_picture_for_each_of_its_states(chart: DrawnChart) -> None:
    shown = outline(chart)
    drawn = [SharedSteps((state,), None, steps) for state, steps in shown.inside.items()]
    for source, dest, steps in shown.arrows:
        drawn.append(SharedSteps(source if isinstance(source, tuple) else (source,), dest, steps))
    moves = [
        (source, dest, event, step.guard, step.does)
        for sources, dest, steps in (*drawn, *shown.shared)
        for source, step in product(sources, steps)
        for event in step.events
    ]
    assert sorted(map(str, moves)) == sorted(
        str((source, None if row.dest is source else row.dest, trigger_name(row.trigger), row.guard, row.does))
        for row in chart.rows
        for source in row.sources
        if row.does or row.guard or row.dest not in {None, source}
    )
