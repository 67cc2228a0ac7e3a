"""Every public name, argument, default, enum value and exception of the official package, compared with this one's.

`docs/official-client.md` lists the differences with their reasons. It is the table of this test: a difference that it
does not list is a fault, and a difference in it that is none is one, too.
"""

import re
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from pulsar_actors.version import compiled
from tests.support.surface import Difference, differences, surface_of

PAGE = Path(__file__).parents[2] / "docs" / "official-client.md"
LIST = "## Names and signatures"


def listed(page: str) -> list[tuple[Difference, str]]:
    """The differences of a page, each with the paragraph before it, which is the reason."""
    reason = how_of_all = ""
    found = list[tuple[Difference, str]]()
    for block in re.split(r"\n\n+", page.partition(LIST)[2].partition("\n## ")[0].strip()):
        if block.startswith("### "):
            reason, how_of_all = "", block.removeprefix("### ").lower()
        elif not block.startswith("- "):
            reason = block
        else:
            for item in re.split(r"^- ", block, flags=re.MULTILINE)[1:]:
                names, _, how = " ".join(item.split()).partition("`: ")
                found += [(Difference(name, how or how_of_all), reason) for name in names.strip("`").split("`, `")]
            reason = ""
    return found


@pytest.fixture(scope="module")
def found() -> set[Difference]:
    official = surface_of("pulsar")
    return differences(official, surface_of("pulsar_actors", official))


@pytest.mark.skipif(compiled, reason="it is read from the code of functions, and is that of the sources")
def test_every_difference_is_listed_and_what_is_listed_is_one(found: set[Difference]) -> None:
    in_page = {difference for difference, _ in listed(PAGE.read_text())}
    assert sorted(found - in_page) == [], "differences that the page does not list"
    assert sorted(in_page - found) == [], "what the page lists, and is no difference"


def test_each_difference_has_a_reason_and_is_listed_once() -> None:
    in_page = listed(PAGE.read_text())
    assert [difference for difference, reason in in_page if not reason] == []
    assert len(in_page) == len({difference for difference, _ in in_page})


def test_a_list_without_a_paragraph_before_it_has_no_reason() -> None:
    lines = "### Only here\n\nBecause.\n\n- `f(a,\n  b)`, `c`\n- `d`: 1 instead of 2\n\n- `e`\n\n## Next\n\n- `g`"
    assert listed(f"{LIST}\n\n{lines}") == [
        (Difference("f(a, b)", "only here"), "Because."),
        (Difference("c", "only here"), "Because."),
        (Difference("d", "1 instead of 2"), "Because."),
        (Difference("e", "only here"), ""),
    ]


def test_what_programs_use_most_is_among_what_is_compared() -> None:
    official = surface_of("pulsar")
    assert {
        *("Client(service_url)", "Client.subscribe(topic)", "Consumer.seek()", "Message.value()", "len(TableView)"),
        *("MessageId.earliest", "MessageId < …", "Result.Ok", "Timeout", "issubclass(Timeout, PulsarException)"),
        *("schema.Record.schema()", "schema.Array.array_type", "schema.CustomEnum(enum_type)", "exceptions.Timeout"),
        *("functions.function", "Context.publish(topic_name)", "tableview.TableView", "ConsoleLogger.log_level"),
        *("asyncio.Client.close()", "asyncio.Consumer.receive()", "ConsumerDeadLetterPolicy.max_redeliver_count"),
    } <= official.keys()


# What the comparison notices: two packages of one module each.

SAME = """
from enum import IntEnum

class Error(Exception):
    pass

class Colour(IntEnum):
    RED = 1

class Base:
    limit = 5
    def __init__(self, url, size=3):
        self.url = url
    def close(self, wait=False): ...
    @property
    def name(self) -> str: ...
    @staticmethod
    def make(text): ...
    def __eq__(self, other): ...
    def __len__(self): ...

class Mark:
    pass

class Sub(Base, Mark):
    pass

def helper(one, *, two=2): ...
"""
CHANGES = [
    ("size=3", "size=4", {("Base(size)", "default 4 instead of default 3")}),
    ("size=3", "size", {("Base(size)", "required instead of default 3")}),
    (
        "url, size=3",
        "size, url",
        {
            ("Base(size)", "argument 1, required instead of argument 2, default 3"),
            ("Base(url)", "argument 2 instead of argument 1"),
        },
    ),
    ("url, size=3", "url, *, size=3", {("Base(size)", "keyword-only argument instead of argument 2")}),
    ("wait=False", "now=False", {("Base.close(wait)", "missing here"), ("Base.close(now)", "only here")}),
    ("def close(self, wait=False)", "def end(self)", {("Base.close()", "missing here"), ("Base.end()", "only here")}),
    ("@property", "", {("Base.name", "missing here"), ("Base.name()", "only here")}),
    (
        "@staticmethod",
        "@classmethod",
        {("Base.make()", "a class method instead of a static method"), ("Base.make(text)", "missing here")},
    ),
    ("self.url", "self.uri", {("Base.url", "missing here"), ("Base.uri", "only here")}),
    ("limit = 5", "limit = 'x'", {("Base.limit", "a str instead of a int")}),
    ("RED = 1", "RED = 2", {("Colour.RED", "2 instead of 1")}),
    ("RED = 1", "RED = 1\n    BLUE = 2", {("Colour.BLUE", "only here")}),
    (
        "RED = 1",
        "RED = 1\n    def __bool__(self): return False",
        {("Colour.RED", "false in a condition instead of true in a condition")},
    ),
    ("Error(Exception)", "Error(ValueError)", {("issubclass(Error, ValueError)", "only here")}),
    ("Sub(Base, Mark)", "Sub(Base)", {("issubclass(Sub, Mark)", "missing here")}),
    ("def __eq__", "def _eq", {("Base == …", "missing here"), ("hash(Base)", "only here")}),
    ("def __len__", "def __iter__", {("len(Base)", "missing here"), ("iter(Base)", "only here")}),
    ("two=2", "two=3", {("helper(two)", "default 3 instead of default 2")}),
    ("def helper", "def helped", {("helper()", "missing here"), ("helped()", "only here")}),
    ("-> str", "-> int", set()),
    ("class Error(Exception):\n    pass", "Error = OSError", {("Error", "missing here")}),
]
numbers = count()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        del sys.modules[name]


def compared(folder: Path, there: str, here: str) -> set[Difference]:
    names = [f"compared_{next(numbers)}" for _ in (there, here)]
    for name, source in zip(names, (there, here), strict=True):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("")
        (folder / name / "part.py").write_text(source)
    official = surface_of(names[0])
    return {
        Difference(one.name.replace("part.", ""), one.how)
        for one in differences(official, surface_of(names[1], official))
    }


def test_two_packages_that_are_alike_differ_in_nothing(packages: Path) -> None:
    assert compared(packages, SAME, SAME) == set()


@pytest.mark.parametrize(("old", "new", "expected"), CHANGES, ids=[f"{old} → {new}" for old, new, _ in CHANGES])
def test_a_change_is_noticed(packages: Path, old: str, new: str, expected: set[tuple[str, str]]) -> None:
    assert old in SAME
    assert compared(packages, SAME, SAME.replace(old, new)) == expected
