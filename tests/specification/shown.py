"""Which tests say that they show something of the specification, and on which broker each of them runs.

Tests are read, not run: a mark counts where it stands above a test, above a class of tests, or in a module's
`pytestmark`.
"""

import ast
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
ON_BOTH = TESTS / "real_broker"
WITHOUT = tuple(TESTS / name for name in ("wire", "machines", "proto"))
ONLY_ON_APACHE = frozenset({"crashed", "crashing", "guarded_apache", "java", "real_broker"})
"""Fixtures of `tests/real_broker` that are an Apache Pulsar, whatever `broker` would be."""


class Where(Enum):
    """What a test runs on."""

    APACHE = "Apache Pulsar"
    EMBEDDED = "the embedded broker"
    NOTHING = "no broker"


class Shown(NamedTuple):
    """One test that shows one thing; a setting without a name is the section itself."""

    section: str
    setting: str
    path: str
    test: str
    where: tuple[Where, ...]


def all_shown(tests: Path = TESTS) -> list[Shown]:
    """Read every test there is."""
    return [shown for path in sorted(tests.rglob("test_*.py")) for shown in shown_in(path, tests)]


def shown_in(path: Path, tests: Path = TESTS) -> Iterator[Shown]:
    """Read the tests of one file."""
    text = path.read_text()
    if "shows(" not in text:
        return
    tree = ast.parse(text)
    for test, marks in _tests(tree.body, _of_module(tree)):
        where = _where(path, test, marks)
        for mark in marks:
            if _is(mark, "shows"):
                section, *settings = (str(ast.literal_eval(name)) for name in mark.args)
                for setting in settings or [""]:
                    yield Shown(section, setting, path.relative_to(tests.parent).as_posix(), test.name, where)


def _of_module(tree: ast.Module) -> list[ast.Call]:
    values = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "pytestmark" for t in node.targets)
    ]
    return [
        mark
        for value in values
        for mark in (value.elts if isinstance(value, ast.List) else [value])
        if isinstance(mark, ast.Call)
    ]


def _tests(body: list[ast.stmt], outer: list[ast.Call]) -> Iterator[tuple[ast.FunctionDef, list[ast.Call]]]:
    for node in body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
            marks = [*outer, *(mark for mark in node.decorator_list if isinstance(mark, ast.Call))]
            if isinstance(node, ast.ClassDef):
                yield from _tests(node.body, marks)
            elif node.name.startswith("test_"):
                yield node, marks


def _where(path: Path, test: ast.FunctionDef, marks: list[ast.Call]) -> tuple[Where, ...]:
    if any(folder in path.parents for folder in WITHOUT):
        return (Where.NOTHING,)
    if ON_BOTH not in path.parents:
        return (Where.EMBEDDED,)
    if ONLY_ON_APACHE & {argument.arg for argument in test.args.args}:
        return (Where.APACHE,)
    for mark in marks:
        if _is(mark, "parametrize") and ast.literal_eval(mark.args[0]) == "broker":
            chosen = ast.literal_eval(mark.args[1])
            return tuple(
                where for where, name in ((Where.APACHE, "apache"), (Where.EMBEDDED, "embedded")) if name in chosen
            )
    return (Where.APACHE, Where.EMBEDDED)


def _is(mark: ast.Call, name: str) -> bool:
    return isinstance(mark.func, ast.Attribute) and mark.func.attr == name
