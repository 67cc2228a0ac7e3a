import json
import operator
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pulsar
import pulsar.asyncio
import pytest

from pulsar_actors.__main__ import main
from pulsar_actors.cli.check_imports import DIFFERENT, PAGE, uses_in, verdict_on
from tests.docs.pages import ROOT
from tests.support.surface import surface_of


def names(program: str) -> list[tuple[str, int]]:
    return [(use.name, use.line) for use in uses_in(dedent(program))]


@pytest.mark.parametrize(
    ("program", "found"),
    [
        ("import pulsar\npulsar.Client('x')", [("Client", 2)]),
        ("import pulsar as p\np.ConsumerType.Shared", [("ConsumerType.Shared", 2)]),
        ("from pulsar import Client as C, Timeout\nC('x')", [("Client", 1), ("Timeout", 1)]),
        ("from pulsar.schema import *\nAvroSchema\nother", [("schema.*", 1), ("schema.AvroSchema", 2)]),
        ("from pulsar import *\nClient('x')", [("*", 1), ("Client", 2)]),
        ("import _pulsar\n_pulsar.Result", [("_pulsar", 1), ("_pulsar.Result", 2)]),
        ("from _pulsar import Result as R\nR.Ok", [("_pulsar.Result", 1), ("_pulsar.Result.Ok", 2)]),
        ("import pulsar.schema\npulsar.schema.Record", [("schema", 1), ("schema.Record", 2)]),
        ("import pulsar.schema as s\ns.Record", [("schema", 1), ("schema.Record", 2)]),
        ("from pulsar import schema\nclass A(schema.Record): pass", [("schema", 1), ("schema.Record", 2)]),
        ("import pulsar\ntry: pass\nexcept pulsar.Timeout: pass\npulsar.Timeout", [("Timeout", 3)]),
        ("import pulsar\npulsar.Client('x').create_producer('t')", [("Client", 2)]),
        ("import pulsar\nprint(pulsar)", []),
        ("import pulsar_actors as pulsar\npulsar.Client", []),
        ("from . import pulsar\npulsar.Client", []),
        ("import pulsarlike\npulsarlike.Client", []),
        ("pulsar.Client", []),
    ],
)
def test_names_are_found_that_are_reached_by_an_import(program: str, found: list[tuple[str, int]]) -> None:
    assert names(program) == found


def test_whatever_is_missing_in_the_table_of_differences_is_missing_and_nothing_else() -> None:
    official = surface_of("pulsar")
    ours = surface_of("pulsar_actors", official)
    reached = {name for name in official if is_reached(name)}
    assert len(reached) > 200
    assert {name for name in reached if verdict_on(name)[1]} == {name for name in reached if name not in ours}


def is_reached(name: str) -> bool:
    """Return whether a program reaches the name from `pulsar`, without any object of its own."""
    try:
        operator.attrgetter(name)(pulsar)
    except AttributeError:
        return False
    return "._" not in name


def test_each_difference_is_of_a_name_that_is_here() -> None:
    assert {name: verdict_on(name) for name in DIFFERENT} == {name: (DIFFERENT[name], False) for name in DIFFERENT}


def test_a_member_differs_as_its_class_does() -> None:
    assert verdict_on("MessageId.earliest") == (DIFFERENT["MessageId"], False)
    assert verdict_on("ConsumerType.Shared") == ("", False)


def test_the_objects_of_the_compiled_client_are_missing() -> None:
    said, is_missing = verdict_on("_pulsar.Result")
    assert is_missing
    assert "C++" in said


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("exceptions.Timeout", "Timeout"),
        ("exceptions.PulsarException.error", "PulsarException"),
        ("tableview.TableView", "TableView"),
        ("schema.schema_avro.AvroSchema", "schema.AvroSchema"),
    ],
)
def test_a_name_differs_as_the_other_name_of_the_same_object_does(name: str, key: str) -> None:
    assert verdict_on(name) == (DIFFERENT[key], False)


@pytest.mark.parametrize(("name", "is_missing"), [("*", False), ("schema.*", False), ("nonsense.*", True)])
def test_an_import_of_all_names_is_told(name: str, *, is_missing: bool) -> None:
    said, found = verdict_on(name)
    assert said
    assert found is is_missing


def test_the_page_that_is_named_is_one_of_the_site() -> None:
    assert f"- {PAGE}: official-client.md" in (ROOT / "mkdocs.yml").read_text()


def cell(source: str, kind: str = "code") -> dict[str, object]:
    return {"cell_type": kind, "source": source.splitlines(keepends=True)}


def notebook(*cells: dict[str, object], language: str = "python") -> str:
    return json.dumps({"metadata": {"language_info": {"name": language}}, "cells": cells})


def test_the_cells_of_a_notebook_are_read_without_their_magics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "# import pulsar"
    magics = "%pip install pulsar-client\nfiles = !ls\nif files:\n    %time\npulsar?\nimport pulsar\n"
    cells = cell(text, "markdown"), cell(magics), cell("%%bash\nif [ 1 ]; then"), cell("%%time\n\npulsar.Nope")
    (tmp_path / "n.ipynb").write_text(notebook(*cells))
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "n.ipynb").write_text("no notebook")
    assert main(["check-imports", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.out.splitlines()[:2] == [
        f"{tmp_path}/n.ipynb: cell 4, line 3: pulsar.Nope: Nope is missing",
        "names of the official client: 0 the same, 0 different, 1 missing",
    ]
    assert said.err == ""


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"cells": [7]}', notebook(cell("x"), language="R"), notebook(cell("import ("))]
)
def test_what_is_no_notebook_of_python_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    (tmp_path / "n.ipynb").write_text(content)
    assert main(["check-imports", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"{tmp_path}/n.ipynb: not read: ")
    assert said.out == ""


def test_without_any_use_of_pulsar_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, program = tmp_path / "empty", tmp_path / "p.py"
    empty.mkdir()
    program.write_text("import sys\n")
    assert main(["check-imports", str(empty), str(program), str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{empty}: there is no program in it: no file that ends with .py or .ipynb",
        f"{program}: no use of pulsar",
        f"{tmp_path}: no use of pulsar in any program",
    ]


def test_it_says_each_difference_with_its_place_and_a_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "b.py").write_text("import pulsar\npulsar.InitialPosition.Latest\npulsar.Nonsense.x\n")
    (tmp_path / "a.py").write_text("from pulsar import Client\n")
    assert main(["check-imports", str(tmp_path)]) == 1
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"{tmp_path}/a.py:1: pulsar.Client: {DIFFERENT['Client']}",
        f"{tmp_path}/inner/b.py:3: pulsar.Nonsense.x: Nonsense is missing",
        "names of the official client: 1 the same, 1 different, 1 missing",
        "the page 'Coming from the official client' of the documentation lists all differences",
    ]


def test_a_program_that_needs_no_change_has_the_status_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "p.py"
    program.write_text("import pulsar\npulsar.ConsumerType.Shared\n")
    assert main(["check-imports", str(program)]) == 0
    assert capsys.readouterr().out == "names of the official client: 1 the same, 0 different, 0 missing\n"


@pytest.mark.parametrize("content", [b"import (", b"\xff\xfe\x00", b"x = '\0'"])
def test_what_is_no_program_is_an_error_of_one_line_and_the_others_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    (tmp_path / "a.py").write_bytes(content)
    (tmp_path / "b.py").write_text("from pulsar import Timeout\n")
    assert main(["check-imports", str(tmp_path), str(tmp_path / "none.py")]) == 1
    said = capsys.readouterr()
    assert [line.partition(": ")[0] for line in said.err.splitlines()] == [
        f"{tmp_path}/{name}.py" for name in ("a", "none")
    ]
    assert "pulsar.Timeout" in said.out


def test_no_program_is_run(tmp_path: Path) -> None:
    program = tmp_path / "p.py"
    program.write_text("import sys\nsys.modules['it was run'] = sys\nimport pulsar\npulsar.Client\n")
    main(["check-imports", str(program)])
    assert "it was run" not in sys.modules


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_who_reads_the_output_may_go_away(tmp_path: Path, unbuffered: str) -> None:
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    (tmp_path / "p.py").write_text("import pulsar\npulsar.Client\n")
    command, pipe = [sys.executable, "-m", "pulsar_actors", "check-imports", str(tmp_path)], subprocess.PIPE
    with subprocess.Popen(command, text=True, stdout=pipe, stderr=pipe, env=environment) as running:  # noqa: S603
        assert running.stdout is not None
        running.stdout.close()
        assert running.wait(60) == 141
        assert running.stderr is not None
        assert running.stderr.read() == ""
