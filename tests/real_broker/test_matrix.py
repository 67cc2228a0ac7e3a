"""The table of what the clients can do with one another."""

from tests.real_broker.matrix import COLUMNS, cell_of, table


def test_a_test_with_a_direction_has_one_column_and_one_without_has_those_of_both() -> None:
    there = cell_of("test_a_thing", {"from_to": ("ours", "official"), "broker": "apache"})
    assert there == ("a thing", ["ours \u2192 official, apache"])
    assert cell_of("test_fields", {"sender": "official", "broker": "embedded"}).columns == [
        "official \u2192 ours, embedded"
    ]
    assert cell_of("test_both", {"broker": "apache"}).columns == [
        "ours \u2192 official, apache",
        "official \u2192 ours, apache",
    ]


def test_cases_are_counted_and_failures_are_seen() -> None:
    cell = cell_of("test_a_thing", {"sender": "ours", "broker": "apache"})
    drawn = table([(cell, True), (cell, False), (cell_of("test_b", {"from_to": ("official", "ours")}), True)])
    assert drawn.splitlines() == [
        f"| feature | {' | '.join(COLUMNS)} |",
        "|---|---|---|---|---|",
        "| a thing | 1 of 2 | \u2013 | \u2013 | \u2013 |",
        "| b | \u2013 | \u2013 | 1 | 1 |",
    ]
