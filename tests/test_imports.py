"""The house has floors, and imports only go down: this file reads every import of the package and says which do not.

Imports are read from the source, not by running it, so that one inside a function or under TYPE_CHECKING counts too:
it ties two modules together just as well.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.sources import reads_sources

PACKAGE = "pulsar_actors"
ROOT = Path(__file__).resolve().parents[1]

UNDER_CLIENT = {
    *("compiling", "exceptions", "named_tuple", "result", "version", "wire", "machines", "machines.trackers"),
    *("runtime", "statecharts", "inspector"),
}

# Each floor, and the floors below it that it may import. A folder or module of the package that is not here is a fault.
BELOW: dict[str, set[str]] = {
    "compiling": set(),
    "free_threading": set(),
    "crc32c": set(),
    "named_tuple": set(),
    "result": set(),
    "exceptions": {"result"},
    "wire": {"compiling", "crc32c", "exceptions", "named_tuple"},
    "machines.trackers": {"compiling", "exceptions", "named_tuple", "wire"},
    "machines": {"compiling", "exceptions", "named_tuple", "wire", "machines.trackers"},
    "runtime": {"compiling", "exceptions", "named_tuple", "wire", "machines", "machines.trackers"},
    "statecharts": {"named_tuple", "machines"},
    "inspector": {"exceptions", "named_tuple", "machines", "runtime", "statecharts"},
    "client": UNDER_CLIENT,
    "simulation": {"exceptions", "named_tuple", "wire", "machines", "machines.trackers", "runtime"},
    "broker": {
        "exceptions",
        "named_tuple",
        "wire",
        "machines",
        "machines.trackers",
        "runtime",
        "inspector",
    },  # never the client: it serves any
    "asyncio": UNDER_CLIENT | {"client"},
    "spark": UNDER_CLIENT | {"client", "schema"},
    "cli": UNDER_CLIENT | {"client", "schema", "broker", "spark", "simulation"},
    "__main__": {"cli", "version"},
    "schema": UNDER_CLIENT | {"client"},
    "prometheus": UNDER_CLIENT | {"client"},
    "otel": UNDER_CLIENT | {"client"},
    "testing": UNDER_CLIENT | {"client", "asyncio", "broker", "simulation"},
    "tableview": {"client"},
    "functions": set(),
    "version": set(),
    "__init__": {"client", "exceptions", "free_threading", "functions", "schema", "tableview", "version"},
}

# Modules that few may import, and who: charts run in one module, and are drawn in another;
# named tuples are made faster than those of `typing`.
DOORS = {
    "typing.NamedTuple": {f"{PACKAGE}.named_tuple"},
    "transitions": {f"{PACKAGE}.machines.running_chart", f"{PACKAGE}.cli.statecharts.mermaid"},
    "pykka": {f"{PACKAGE}.runtime.actor"},
    "h11": {f"{PACKAGE}.broker.web.http"},
}

# What the floors without I/O, threads, clocks and chance cannot have: bytes, the time and dice are handed to them.
PURE_FLOORS = {"wire", "machines", "machines.trackers"}
OUTSIDE_WORLD = {
    *("socket", "ssl", "select", "selectors", "asyncio", "urllib.request", "http", "subprocess"),
    *("threading", "_thread", "concurrent", "multiprocessing", "queue"),
    *("time", "sched", "random", "secrets", "uuid"),
    *("logging", "importlib"),
}


class Import(NamedTuple):
    """One imported name: of ours, the module it is in; of others, as written."""

    importer: str
    target: str
    line: int

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


def modules_of(root: Path) -> dict[str, Path]:
    """Every module of the package below the root by its dotted name. A folder has the name of its `__init__`."""
    files = {path.relative_to(root).with_suffix("").parts: path for path in sorted((root / PACKAGE).rglob("*.py"))}
    return {".".join(parts[:-1] if parts[-1] == "__init__" else parts): path for parts, path in files.items()}


def imports_of(module: str, path: Path, modules: Iterable[str]) -> Iterator[Import]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            source = source_of(node, module, is_folder=path.name == "__init__.py")
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield Import(module, source if of_ours(source) and inner not in modules else inner, node.lineno)


def source_of(node: ast.ImportFrom, module: str, *, is_folder: bool) -> str:
    """What stands after `from`, with the dots of a relative import resolved."""
    if node.level == 0:
        return node.module or ""
    parts = module.split(".")
    folder = parts[: len(parts) - node.level + is_folder]
    return ".".join([*folder, *([node.module] if node.module else [])])


def read(root: Path) -> list[Import]:
    modules = modules_of(root)
    return [found for module, path in modules.items() for found in imports_of(module, path, modules)]


def of_ours(name: str) -> bool:
    return within(name, PACKAGE)


def within(name: str, outer: str) -> bool:
    return f"{name}.".startswith(f"{outer}.")


def floor_of(module: str) -> str:
    """Tell where a module stands: a folder within a folder may be a floor of its own."""
    parts = module.split(".")[1:]
    inner = ".".join(parts[:2])
    return inner if inner in BELOW else ".".join(parts[:1]) or "__init__"


def modules_on_no_floor(root: Path) -> list[str]:
    return [f"{module} is on no floor" for module in modules_of(root) if floor_of(module) not in BELOW]


def upward_imports(root: Path) -> list[str]:
    return [
        f"{found}, which is not below it"
        for found in read(root)
        if of_ours(found.target)
        and (floor := floor_of(found.importer)) != floor_of(found.target)
        and floor_of(found.target) not in BELOW.get(floor, set())
    ]


def imports_past_the_door(root: Path) -> list[str]:
    return [
        f"{found}, which only {' and '.join(sorted(doors))} may"
        for found in read(root)
        for guarded, doors in DOORS.items()
        if within(found.target, guarded) and found.importer not in doors
    ]


def imports_of_the_outside_world(root: Path) -> list[str]:
    return [
        f"{found}, which is no pure function"
        for found in read(root)
        if floor_of(found.importer) in PURE_FLOORS and any(within(found.target, name) for name in OUTSIDE_WORLD)
    ]


def cycles(root: Path) -> list[str]:
    """One cycle, if there are any: the next one shows when it is gone."""
    graph: dict[str, set[str]] = {module: set() for module in modules_of(root)}
    for found in read(root):
        if of_ours(found.target):
            graph[found.importer].add(found.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [" imported by ".join(error.args[1])]
    return []


RULES: list[Callable[[Path], list[str]]] = [
    modules_on_no_floor,
    upward_imports,
    imports_past_the_door,
    imports_of_the_outside_world,
    cycles,
]


def plant(root: Path, files: dict[str, str]) -> Path:
    """A small package with these files, and the empty `__init__` files that it needs."""
    for name, text in files.items():
        path = root / PACKAGE / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text)
    (root / PACKAGE / "__init__.py").touch()
    return root


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_every_rule(rule: Callable[[Path], list[str]]) -> None:
    assert rule(ROOT) == []


@reads_sources
def test_the_package_is_really_read() -> None:
    found = {(one.importer, one.target) for one in read(ROOT)}
    assert (f"{PACKAGE}.wire.errors", f"{PACKAGE}.exceptions") in found
    assert {importer for importer, target in found if within(target, "transitions")} == DOORS["transitions"]


@pytest.mark.parametrize(
    "text",
    [
        "import pulsar_actors.machines.b",
        "import pulsar_actors.machines.b as b",
        "from pulsar_actors.machines.b import value",
        "from pulsar_actors.machines import b",
        "from pulsar_actors import machines",
        "from ..machines import b",
        "from ..machines.b import value",
        "from .. import machines",
        "def late():\n    from pulsar_actors.machines import b",
        "class Outer:\n    import pulsar_actors.machines.b",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pulsar_actors.machines.b import value",
        "try:\n    import pulsar_actors.machines\nexcept ImportError:\n    pass",
        "import pulsar_actors",
    ],
)
def test_an_upward_import_is_found_in_whatever_form_it_takes(text: str, tmp_path: Path) -> None:
    planted = plant(tmp_path, {"wire/a.py": text, "machines/b.py": "value = 1"})
    (fault,) = upward_imports(planted)
    assert fault.startswith("pulsar_actors.wire.a:")


@pytest.mark.parametrize(
    ("importer", "target"),
    [
        *(
            ("exceptions.py", "wire"),
            ("wire/a.py", "machines"),
            ("machines/trackers/a.py", "machines"),
            ("machines/a.py", "runtime"),
            ("runtime/a.py", "client"),
        ),
        *(("client/a.py", "broker"), ("broker/a.py", "client"), ("client/a.py", "spark"), ("client/a.py", "cli")),
        *(("spark/a.py", "broker"), ("spark/a.py", "cli"), ("__init__.py", "cli"), ("cli/a.py", "__main__")),
    ],
)
def test_every_floor_is_kept_from_those_above_and_beside_it(importer: str, target: str, tmp_path: Path) -> None:
    planted = plant(tmp_path, {f"{target}.py": "", "a.py": ""})
    (planted / PACKAGE / importer).parent.mkdir(parents=True, exist_ok=True)
    (planted / PACKAGE / importer).write_text(f"import pulsar_actors.{target}")
    assert len(upward_imports(planted)) == 1


def test_an_import_from_a_package_init_counts_its_own_folder_as_one_dot(tmp_path: Path) -> None:
    planted = plant(tmp_path, {"wire/a.py": "", "machines/b.py": ""})
    (planted / PACKAGE / "wire" / "__init__.py").write_text("from . import a\nfrom ..machines import b")
    (fault,) = upward_imports(planted)
    assert fault == "pulsar_actors.wire:2 imports pulsar_actors.machines.b, which is not below it"


DOWNWARD = "from pulsar_actors.wire import b\nfrom .c import d\nfrom pulsar_actors import exceptions\nimport zlib"


@pytest.mark.parametrize(
    "files",
    [
        {"machines/a.py": DOWNWARD, "machines/c.py": "d = 1", "wire/b.py": "", "exceptions.py": ""},
        {"machines/running_chart.py": "import transitions"},
        {"wire/a.py": "import timeit\nfrom urllib import parse\nfrom .time import x", "wire/time.py": "x = 1"},
        {"runtime/a.py": "import socket, threading, time"},
    ],
    ids=["downward and within a floor", "through its door", "only resembling the outside world", "on an upper floor"],
)
def test_other_imports_are_no_fault(files: dict[str, str], tmp_path: Path) -> None:
    planted = plant(tmp_path, files)
    assert [fault for rule in RULES for fault in rule(planted)] == []


def test_a_module_that_no_floor_is_named_for_is_found(tmp_path: Path) -> None:
    planted = plant(tmp_path, {"attic/a.py": ""})
    assert modules_on_no_floor(planted) == [
        "pulsar_actors.attic is on no floor",
        "pulsar_actors.attic.a is on no floor",
    ]


@pytest.mark.parametrize(
    "text", ["import transitions", "from transitions.core import Machine", "import transitions.core", "import pykka"]
)
@pytest.mark.parametrize("name", ["machines/producer.py", "wire/chart.py", "cli/a.py"])
def test_transitions_past_its_door_is_found(name: str, text: str, tmp_path: Path) -> None:
    assert len(imports_past_the_door(plant(tmp_path, {name: text}))) == 1


@pytest.mark.parametrize("floor", sorted(PURE_FLOORS))
@pytest.mark.parametrize("name", sorted(OUTSIDE_WORLD))
def test_the_outside_world_in_a_pure_floor_is_found(name: str, floor: str, tmp_path: Path) -> None:
    folder = floor.replace(".", "/")
    planted = plant(
        tmp_path, {f"{folder}/a.py": f"import {name}", f"{folder}/b.py": f"def f():\n    from {name} import x"}
    )
    assert len(imports_of_the_outside_world(planted)) == len(["a", "b"])


@pytest.mark.parametrize(
    "files",
    [
        {"wire/a.py": "from pulsar_actors.wire import b", "wire/b.py": "from pulsar_actors.wire.a import x"},
        {"wire/a.py": "from . import b", "wire/b.py": "from . import c", "wire/c.py": "def f():\n    from . import a"},
        {"wire/a.py": "import pulsar_actors.wire.a"},
    ],
)
def test_a_cycle_is_found(files: dict[str, str], tmp_path: Path) -> None:
    (cycle,) = cycles(plant(tmp_path, files))
    assert "pulsar_actors.wire.a" in cycle.split(" imported by ")
