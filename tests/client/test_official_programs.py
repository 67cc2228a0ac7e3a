"""Programs of users of the official client tell the same with this one, but for what is listed."""

from pathlib import Path

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.support.programs_run import ACCEPTED, told_by_official, told_by_ours
from tests.support.told import Raised, Told, differing
from tests.support.user_programs import PROGRAMS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_tells_the_same_with_both_clients_but_for_what_is_listed(name: str, broker: EmbeddedBroker) -> None:
    found = differing(told_by_official(name, broker.service_url), told_by_ours(name, broker.service_url))
    assert found.keys() == ACCEPTED.get(name, {}).keys(), found


def test_the_documentation_says_what_differs() -> None:
    pages = "".join((DOCS / name).read_text() for name in ("official-client.md", "schemas.md"))
    assert ACCEPTED.keys() <= PROGRAMS.keys()
    assert [words for labels in ACCEPTED.values() for words in labels.values() if words not in pages] == []


class Wrong(ValueError):
    pass


def test_an_error_is_alike_if_each_handler_of_the_official_one_catches_it() -> None:
    assert Raised(Wrong()).is_caught_like(Raised(ValueError()))
    assert not Raised(ValueError()).is_caught_like(Raised(Wrong()))
    assert not Raised(Wrong()).is_caught_like(Raised(TypeError()))


def test_every_other_difference_counts() -> None:
    theirs, ours = Told("a"), Told("b")
    theirs("value", 1)
    ours("value", 1.0)
    theirs("topic", "a")
    ours("topic", "b")
    theirs("only there")
    theirs.outcome("error", int, "x")
    ours.outcome("error", int, "5")
    assert differing(theirs, ours).keys() == {"value", "only there", "error"}
