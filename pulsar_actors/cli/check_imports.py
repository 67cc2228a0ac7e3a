"""`check-imports`: which names of the official client a program uses, and which are missing or differ here.

The program is read and not run; of a notebook, its cells of Python. A name counts if it is reached through an import of
`pulsar`: `pulsar.Client`, or `C` after `from pulsar import Client as C`. What a program does with an object, such as a
method of a consumer, cannot be seen so; the page of differences lists all of it.
"""

import ast
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from pulsar_actors.cli.command import Command
from pulsar_actors.cli.programs import CHECKPOINTS, NOTEBOOK, PROGRAM, Program, read_program
from pulsar_actors.named_tuple import NamedTuple

OFFICIAL: Final = "pulsar"
OURS: Final = "pulsar_actors"
INNER: Final = "_pulsar"
"""The C++ client, which is a module of its own beside `pulsar`."""

PAGE: Final = "Coming from the official client"

DIFFERENT: Final[Mapping[str, str]] = {
    "Client": "certificates must be for the host: tls_validate_hostname is on by default",
    "AuthenticationAthenz": "requests are signed, and a refusal of the token service raises",
    "AuthenticationOauth2": "parameters are checked at once, and a challenge fetches a new token",
    "ConsumerDeadLetterPolicy": "letters have the properties of the Java client's",
    "CryptoKeyReader": "it goes with encryption_key, and neither goes alone; takes the extra `encryption`",
    "MessageId": "there is one class of them: ids hash, pickle and compare with any value",
    "TableView": "it reads like a dict, decrypts, and is complete when it has what its topic had",
    "PulsarException": "the errors form a tree; those of asyncio are among them",
    "Timeout": "its text says what was asked, and the last failure",
    "ConnectError": "an unknown host is tried again until the operation timeout",
    "AlreadyClosed": "a second close() does nothing",
    "asyncio.Client": "a cancelled receive() loses no message, and errors are those of the other client",
    "asyncio.PulsarException": "it is PulsarException itself",
    "schema.AvroSchema": "takes the extra `avro`",
}
"""The difference of a name that is in both clients."""

_ALL: Final = "what it brings and is missing here cannot be seen: import names one by one, or import pulsar"
_INSIDE: Final = "is an object of the C++ client, which is not here: everything public has a name of its own"


class Use(NamedTuple):
    """A name of the official client, without `pulsar.`, and the line where it is used."""

    name: str
    line: int


class _Uses(ast.NodeVisitor):
    """Finds the names in a program."""

    def __init__(self) -> None:
        self.found: list[Use] = []
        self._bound: dict[str, str] = {}  # what the program calls it -> its whole name

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            if root in {OFFICIAL, INNER}:
                self._bound[alias.asname or root] = _from_pulsar(alias.name if alias.asname else root)
                self._note(_from_pulsar(alias.name), node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module.partition(".")[0] not in {OFFICIAL, INNER}:
            return
        module = _from_pulsar(module)
        for alias in node.names:
            if alias.name == "*":
                self._bound |= {name: f"{module}.{name}" for name in _public_names(module)}
            else:
                self._bound[alias.asname or alias.name] = f"{module}.{alias.name}"
            self._note(f"{module}.{alias.name}", node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        name = self._whole_name(node)
        if name is None:
            self.generic_visit(node)
        else:
            self._note(name, node)

    def visit_Name(self, node: ast.Name) -> None:
        if node.id in self._bound:
            self._note(self._bound[node.id], node)

    def _whole_name(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Attribute):
            before = self._whole_name(node.value)
            return None if before is None else f"{before}.{node.attr}"
        return self._bound.get(node.id) if isinstance(node, ast.Name) else None

    def _note(self, name: str, node: ast.stmt | ast.expr) -> None:
        _, _, within = name.partition(".")
        if within:
            self.found.append(Use(within, node.lineno))


def _from_pulsar(name: str) -> str:
    """Return the name that begins with `pulsar`: it has the C++ client as a member."""
    return name if name.partition(".")[0] == OFFICIAL else f"{OFFICIAL}.{name}"


def _public_names(module: str) -> list[str]:
    """Return what a module of this package has for `import *` of the official one."""
    ours = _found_here(tuple(module.split(".")[1:]))
    return [name for name in dir(ours) if not name.startswith("_")] if isinstance(ours, ModuleType) else []


def uses_in(program: str) -> list[Use]:
    """Return the names of the official client that a program uses, each where it is used first."""
    visitor = _Uses()
    visitor.visit(ast.parse(program))
    first: dict[str, Use] = {}
    for use in sorted(visitor.found, key=lambda each: each.line):
        first.setdefault(use.name, use)
    return list(first.values())


def verdict_on(name: str) -> tuple[str, bool]:
    """Return what there is to say of a name, nothing if it is the same here, and whether it is missing."""
    parts = tuple(name.split("."))
    if INNER in parts:
        return _INSIDE, True
    if parts[-1] == "*":
        return (_ALL, False) if _found_here(parts[:-1]) is not None else verdict_on(".".join(parts[:-1]))
    for end in range(1, len(parts) + 1):
        if _found_here(parts[:end]) is None:
            return f"{'.'.join(parts[:end])} is missing", True
    differences = (_difference_of(parts[:end]) for end in range(len(parts), 0, -1))
    return next(filter(None, differences), ""), False


def _difference_of(parts: tuple[str, ...]) -> str:
    """Return the difference of a name, or of the other name in the table for the same object."""
    name = ".".join(parts)
    return DIFFERENT[name] if name in DIFFERENT else _different_objects().get(id(_found_here(parts)), "")


@cache
def _different_objects() -> Mapping[int, str]:
    return {id(_found_here(tuple(name.split(".")))): DIFFERENT[name] for name in reversed(tuple(DIFFERENT))}


@cache
def _found_here(parts: tuple[str, ...]) -> object:
    """Return what this package has by a name, without `pulsar.`; None if there is nothing."""
    return _member(_found_here(parts[:-1]), parts[-1]) if parts else import_module(OURS)


def _member(owner: object, name: str) -> object:
    if not hasattr(owner, name) and isinstance(owner, ModuleType):
        try:
            return import_module(f"{owner.__name__}.{name}")
        except ImportError:
            return None
    return getattr(owner, name, None)


def run(arguments: Namespace) -> int:
    """Read the files; the exit status is 1 if a name is missing here, or a file cannot be read."""
    findings = Findings()
    for path in arguments.paths:
        findings.read(path)
    if findings.names:
        print(findings.total())
    if findings.different or findings.missing:
        print(f"the page {PAGE!r} of the documentation lists all differences")
    return int(bool(findings.missing) or findings.unread)


class Findings:
    """The names in all programs, and what became of them. Each that differs is told where it is found."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.missing: set[str] = set()
        self.different: set[str] = set()
        self.unread = False

    def read(self, path: Path) -> None:
        """Read a program, or all of a folder."""
        programs = list(_programs_in(path))
        if not programs:
            print(f"{path}: there is no program in it: no file that ends with {PROGRAM} or {NOTEBOOK}")
            return
        uses = [self._uses_of(program) for program in programs]
        if not any(uses) and None not in uses:
            print(f"{path}: no use of {OFFICIAL}{' in any program' if path.is_dir() else ''}")

    def total(self) -> str:
        """Return the sum."""
        same = len(self.names) - len(self.missing) - len(self.different)
        return (
            f"names of the official client: {same} the same, {len(self.different)} different, "
            f"{len(self.missing)} missing"
        )

    def _uses_of(self, path: Path) -> list[Use] | None:
        """Return the names in a program, None if it cannot be read."""
        try:
            program = read_program(path)
            uses = uses_in(program.text)
        except (OSError, SyntaxError, ValueError, RecursionError) as fault:
            print(f"{path}: not read: {fault}", file=sys.stderr)
            self.unread = True
            return None
        for use in uses:
            self._tell(use, program)
        return uses

    def _tell(self, use: Use, program: Program) -> None:
        said, is_missing = verdict_on(use.name)
        if said:
            name = use.name if use.name.partition(".")[0] == INNER else f"{OFFICIAL}.{use.name}"
            print(f"{program.place_of(use.line)}: {name}: {said}")
        if said is not _ALL:
            self.names.add(use.name)
            (self.missing if is_missing else self.different if said else set[str]()).add(use.name)


def _programs_in(path: Path) -> Iterator[Path]:
    """Return the path itself, or the programs in a folder."""
    if path.is_dir():
        found = (each for ending in (PROGRAM, NOTEBOOK) for each in path.rglob(f"*{ending}"))
        yield from sorted(each for each in found if CHECKPOINTS not in each.parts)
    else:
        yield path


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "paths", nargs="+", type=Path, metavar="FILE", help="a program, a notebook, or a folder of them"
    )


CHECK_IMPORTS: Final = Command(
    name="check-imports",
    summary="Say which names of the official client programs use, and which of them are missing or differ here.",
    configure=configure,
    run=run,
)
