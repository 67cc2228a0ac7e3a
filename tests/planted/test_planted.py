"""The lines into which bugs are planted are still there, and one that is planted is caught."""

from collections import Counter
from pathlib import Path

import pytest

import pulsar_actors
from tests.planted.__main__ import catch
from tests.planted.bugs import BUGS, Bug
from tests.support.sources import reads_sources

PACKAGE = Path(pulsar_actors.__file__).parent


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_the_line_of_a_bug_is_there_once(bug: Bug) -> None:
    assert (PACKAGE / bug.file).read_text().count(bug.text) == 1
    assert bug.text != bug.instead


def test_there_are_many_bugs_and_each_has_a_name_of_its_own() -> None:
    assert len(BUGS) >= 60
    assert max(Counter(bug.name for bug in BUGS).values()) == 1


@reads_sources
def test_a_bug_that_is_planted_is_caught() -> None:
    assert 0 < catch(BUGS[0], 100).seeds <= 100
