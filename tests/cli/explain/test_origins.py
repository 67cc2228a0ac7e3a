from pulsar_actors.cli.explain.origins import ORIGINS, Origin
from pulsar_actors.cli.statecharts.command import all_charts
from pulsar_actors.machines.chart import trigger_name

NOT_OF_A_CLIENT = {"broker_session", "spark_progress", "spark_span"}
"""Charts that no actor of a client runs, so their changes are in no history."""

OF_CLIENTS = [chart for chart, _ in all_charts() if chart.name not in NOT_OF_A_CLIENT]


def test_every_event_that_changes_a_state_has_an_origin_and_no_other_has() -> None:
    changing = {trigger_name(row.trigger) for chart in OF_CLIENTS for row in chart.rows if row.dest is not None}
    assert set(ORIGINS) == changing


def test_what_a_timer_brings_comes_from_it() -> None:
    triggers = {row.trigger for chart in OF_CLIENTS for row in chart.rows if row.trigger not in chart.inner}
    timers = {trigger_name(kind) for kind in triggers if getattr(kind, "_fields", ()) == ("generation",)}
    assert {ORIGINS[name] for name in timers & set(ORIGINS)} == {Origin.TIME}


def test_what_a_part_gets_from_its_machine_comes_from_itself() -> None:
    inner = {trigger_name(trigger) for chart in OF_CLIENTS for trigger in chart.inner}
    assert {ORIGINS[name] for name in inner & set(ORIGINS)} == {Origin.ITSELF}
