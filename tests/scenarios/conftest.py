"""Says in the end how much was played."""

from collections import Counter

import pytest

from tests.scenarios.fired_rows import IS_COUNTED, report
from tests.scenarios.scene import FACTOR, PART, PLAYED
from tests.support.certificates import Authority


def pytest_configure(config: pytest.Config) -> None:
    """Play a fifth of each scenario's seeds unless all are asked for: they take minutes."""
    if not config.getoption("long"):
        PART[0] = 0.2


@pytest.fixture(scope="session")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> list[Authority]:
    """Make the one that is trusted, and another."""
    folder = tmp_path_factory.mktemp("authorities")
    return [Authority(folder, name) for name in ("trusted", "another")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not PLAYED:
        return
    seeds, seconds = sum(each.seeds for each in PLAYED), sum(each.seconds for each in PLAYED)
    faults = sum((each.faults for each in PLAYED), Counter())
    say = terminalreporter.write_line
    terminalreporter.section("simulation")
    for each in PLAYED:
        say(f"{each.test}: {each.seeds} seeds in {each.seconds:.1f} s, {sum(each.faults.values()):,} faults")
    say(
        f"{seeds:,} seeds in {seconds:.1f} s: {60 * seeds / seconds:,.0f} a minute; {FACTOR}=10 plays ten times as many"
    )
    say(
        f"{sum(each.steps for each in PLAYED):,} steps in {sum(each.virtual_seconds for each in PLAYED):,.0f} virtual s"
    )
    if IS_COUNTED:
        for line in report():
            say(line)
    say(f"{sum(faults.values()):,} faults: " + ", ".join(f"{times:,} {name}" for name, times in faults.most_common()))
