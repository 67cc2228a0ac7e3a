"""`check-imports`: which names of the official client a program uses, and which are missing or differ here.

The program is read and not run. A name counts if it is reached through an import of `pulsar`: `pulsar.Client`, or `C`
after `from pulsar import Client as C`. What a program does with an object, such as a method of a consumer, cannot be
seen so; the page of differences lists all of it.
"""

import ast
import sys
import tokenize
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from pulsar_actors.cli.command import Command
from pulsar_actors.named_tuple import NamedTuple

OFFICIAL: Final = "pulsar"
OURS: Final = "pulsar_actors"
PAGE: Final = "docs/official-client.md"

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
            if alias.name.partition(".")[0] == OFFICIAL:
                name = alias.name if alias.asname else OFFICIAL
                self._bound[alias.asname or OFFICIAL] = name
                self._note(alias.name, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or module.partition(".")[0] != OFFICIAL:
            return
        for alias in node.names:
            name = module if alias.name == "*" else f"{module}.{alias.name}"
            self._bound[alias.asname or alias.name] = name
            self._note(name, node)

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
    parts = name.split(".")
    if "_pulsar" in parts:
        return _INSIDE, True
    found: object = import_module(OURS)
    for at, part in enumerate(parts):
        found = _member(found, part)
        if found is None:
            return f"{'.'.join(parts[: at + 1])} is missing", True
    return next((DIFFERENT[key] for key in _enclosing(parts) if key in DIFFERENT), ""), False


def _enclosing(parts: list[str]) -> Iterator[str]:
    for end in range(len(parts), 0, -1):
        yield ".".join(parts[:end])


def _member(owner: object, name: str) -> object:
    if not hasattr(owner, name) and isinstance(owner, ModuleType):
        try:
            return import_module(f"{owner.__name__}.{name}")
        except ImportError:
            return None
    return getattr(owner, name, None)


def run(arguments: Namespace) -> int:
    """Read the files; the exit status is 1 if a name is missing here, or a file cannot be read."""
    names, missing, different, unread = set[str](), set[str](), set[str](), False
    for path in _files(arguments.paths):
        try:
            with tokenize.open(path) as file:
                uses = uses_in(file.read())
        except (OSError, SyntaxError, ValueError) as fault:
            print(f"{path}: {fault}", file=sys.stderr)
            unread = True
            continue
        for use in uses:
            said, is_missing = verdict_on(use.name)
            names.add(use.name)
            (missing if is_missing else different if said else set[str]()).add(use.name)
            if said:
                print(f"{path}:{use.line}: {OFFICIAL}.{use.name}: {said}")
    same = len(names) - len(missing) - len(different)
    print(f"names of the official client: {same} the same, {len(different)} different, {len(missing)} missing")
    if different or missing:
        print(f"{PAGE} lists all differences")
    return int(bool(missing) or unread)


def _files(paths: list[Path]) -> Iterator[Path]:
    """Return the files, and the programs in the folders."""
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.py"))
        else:
            yield path


def configure(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="a program, or a folder of programs")


CHECK_IMPORTS: Final = Command(
    name="check-imports",
    summary="Say which names of the official client programs use, and which of them are missing or differ here.",
    configure=configure,
    run=run,
)
