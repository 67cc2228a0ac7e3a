"""Everything that the specification has is shown by a test, and the page that says by which is up to date."""

from pathlib import Path

import pytest

from tests.specification.outline import PARTS, Section
from tests.specification.shown import Shown, Where, all_shown, shown_in
from tests.specification.table import PAGE, page

SECTIONS = [section for part in PARTS for section in part.sections]
ENTRIES = [(section, setting) for section in SECTIONS for _, setting in section.entries]
NAMES = [f"{section.name}: {setting}" if setting else section.name for section, setting in ENTRIES]


@pytest.fixture(scope="module")
def tests() -> list[Shown]:
    return all_shown()


def places(tests: list[Shown], section: Section, setting: str) -> set[Where]:
    return {where for one in tests if (one.section, one.setting) == (section.name, setting) for where in one.where}


@pytest.mark.parametrize(("section", "setting"), ENTRIES, ids=NAMES)
def test_it_is_shown(tests: list[Shown], section: Section, setting: str) -> None:
    assert places(tests, section, setting), "no test says that it shows this: see tests/specification/outline.py"


@pytest.mark.parametrize(("section", "setting"), ENTRIES, ids=NAMES)
def test_it_is_shown_on_both_brokers_or_there_is_a_reason_why_not(
    tests: list[Shown], section: Section, setting: str
) -> None:
    where = places(tests, section, setting)

    assert (Where.APACHE in where) != (setting in section.alone), "on Apache Pulsar, or a reason why not, and not both"
    assert (Where.EMBEDDED in where) != (setting in section.embedded), "likewise on the embedded broker"


def test_whatever_tests_show_is_in_the_outline(tests: list[Shown]) -> None:
    known = {entry for section in SECTIONS for entry in ((section.name, ""), *section.entries)}

    assert {(one.section, one.setting) for one in tests} <= known


def test_no_name_stands_twice_in_the_outline() -> None:
    entries = [entry for section in SECTIONS for entry in section.entries]

    assert len(set(entries)) == len(entries)


def test_what_a_broker_cannot_show_is_in_the_outline() -> None:
    assert [s.name for s in SECTIONS if not {*s.alone, *s.embedded} <= {"", *s.settings}] == []


def test_the_page_is_up_to_date(tests: list[Shown]) -> None:
    assert PAGE.read_text() == page(tests), "write it anew: python tests/specification/table.py"


PLANTED = """
import pytest

pytestmark = pytest.mark.shows("Topic")

@pytest.mark.shows("Framing", "maximum frame size")
@pytest.mark.parametrize("broker", ["embedded"], indirect=True)
def test_one(broker): ...

class TestMore:
    @pytest.mark.shows("Keep alive")
    def test_two(self, crashing): ...

def helper(): ...
"""


def test_marks_are_found_above_tests_and_classes_and_for_a_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.specification.shown.ON_BOTH", tmp_path / "real_broker")
    planted = tmp_path / "real_broker" / "test_planted.py"
    planted.parent.mkdir()
    planted.write_text(PLANTED)

    found = {(one.section, one.setting, one.test, one.where) for one in shown_in(planted, tmp_path)}

    assert found == {
        ("Topic", "", "test_one", (Where.EMBEDDED,)),
        ("Framing", "maximum frame size", "test_one", (Where.EMBEDDED,)),
        ("Topic", "", "test_two", (Where.APACHE,)),
        ("Keep alive", "", "test_two", (Where.APACHE,)),
    }
