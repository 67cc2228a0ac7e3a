import dataclasses
from pathlib import Path

import pytest

from tests.benchmarks.measured import Line
from tests.benchmarks.page import DEFAULTS, FRESH, WARM, changes, page, table
from tests.benchmarks.results import Results, Warming

RATES = Line(
    "a contest",
    "msg/s",
    {"ours": [1000.0, 3000.0, 2000.0], "official": [100.0, 100.0, 100.0]},
    {"ours": [2.0, 4.0, 3.0], "official": [50.0, 60.0, 70.0]},
    "3.13.0, compiled",
)
TIMES = Line("sync, p50", "ms", {"ours": [2.0], "official": [1.0]}, {}, "3.13.0")


def results(**parts: list[Line]) -> Results:
    warming = Warming(12, settled=True, rates={"a contest": [1.0, 2.0]})
    return Results("2026-11-24", "a machine", ["3.13.0", "3.13.0, compiled"], 7, warming, parts, {"java": 512.0})


def test_the_table_has_cpu_first_and_medians_with_the_least_and_the_most() -> None:
    drawn = table([RATES]).splitlines()
    assert drawn[0].startswith("| | Python | CPU µs: ours | official | Java | msg/s: ours |".replace("| |", "|  |"))
    assert drawn[2] == (
        "| a contest | 3.13.0, compiled | 3 (2 to 4) | 60 (50 to 70) |  | 2,000 (1,000 to 3,000) | 100 (100 to 100) |  "
        "| 20.00 (10.00 to 30.00) |  |"
    )
    assert len({row.count("|") for row in drawn}) == 1


def test_what_takes_time_is_in_a_table_of_its_own_without_columns_that_are_empty() -> None:
    rates, times = table([RATES, TIMES, RATES]).split("\n\n")
    assert rates.count("a contest") == 2
    assert "CPU" not in times
    assert "| sync, p50 | 3.13.0 | 2 (2 to 2) | 1 (1 to 1) |  | 0.50 (0.50 to 0.50) |  |" in times


def test_a_contest_of_ours_alone_has_cells_for_the_others_that_are_empty() -> None:
    alone = RATES._replace(values={"ours": [5.0]}, cpu_microseconds={"ours": [1.0]})
    assert table([alone]).splitlines()[2].split(" | ")[3:] == ["", "", "5 (5 to 5)", "", "", "", " |"]


def test_the_page_says_how_the_broker_was_warmed_and_what_failed() -> None:
    told = page(results(**{FRESH: [RATES], WARM: [TIMES], DEFAULTS: []}))
    assert "until the official client's rates settled: after 12 rounds" in told
    assert "Not finished" not in told
    assert told.index("## A fresh broker") < told.index("a contest") < told.index("## A warm broker")
    unsettled = results()
    unsettled.warming = Warming(40, settled=False, rates={})
    unsettled.failures.append("java, a contest: it ended")
    assert "for 40 rounds. The official client's rates did not settle" in page(unsettled)
    assert "- java, a contest: it ended" in page(unsettled)


def test_results_that_were_saved_make_the_same_page(tmp_path: Path) -> None:
    before = results(**{FRESH: [RATES], WARM: [TIMES]})
    before.save(tmp_path / "results.json")
    after = Results.load(tmp_path / "results.json")
    assert page(after) == page(before)
    assert after.warming == before.warming
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]


def test_results_without_a_warm_broker_are_saved_too(tmp_path: Path) -> None:
    before = dataclasses.replace(results(), warming=None)
    before.save(tmp_path / "results.json")
    assert Results.load(tmp_path / "results.json") == before


def test_changes_are_those_of_lines_which_both_runs_have() -> None:
    faster = RATES._replace(cpu_microseconds={"ours": [1.5]})
    other = RATES._replace(build="3.10.1")
    rows = changes(results(**{WARM: [RATES]}), results(**{WARM: [faster, other], FRESH: [RATES]})).splitlines()
    (row,) = rows[2:]
    assert row.startswith("| warm: a contest | 3.13.0, compiled | 3 (2 to 4) | 1.5 (1.5 to 1.5) | 20.00 (10.00 to")
    assert len({each.count("|") for each in rows}) == 1


@pytest.mark.parametrize("word", ["wanted", "target", " of 30"])
def test_the_page_has_no_wishes(word: str) -> None:
    assert word not in page(results(**{WARM: [RATES]}))
