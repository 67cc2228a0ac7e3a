import sys
from pathlib import Path

import pytest

from pulsar_actors import version
from tests.benchmarks import interpreters
from tests.benchmarks.interpreters import Build, builds, found

VERSION = ".".join(map(str, sys.version_info[:3]))
with_a_pure_checkout = pytest.mark.skipif(version.compiled, reason="what the other build is compared with is pure")


def script(path: Path, text: str) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def with_installed(folder: Path, compiled: str) -> str:
    """Make an interpreter with a package of our name, which is found only if nothing else is before it on the path."""
    package = folder / "installed" / "pulsar_actors"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "version.py").write_text(compiled)
    path = f"PYTHONPATH=${{PYTHONPATH:-{package.parent}}}"
    return str(script(folder / "python", f'{path} exec {sys.executable} "$@"'))


@with_a_pure_checkout
def test_a_compiled_client_that_is_installed_is_a_build_beside_the_pure_one_of_the_checkout(tmp_path: Path) -> None:
    python = with_installed(tmp_path, "compiled = True")
    assert [(build.name, build.python, build.compiled) for build in builds([python])] == [
        (VERSION, python, False),
        (f"{VERSION}, compiled", python, True),
    ]


@with_a_pure_checkout
@pytest.mark.parametrize("text", ["compiled = False", "", "raise ImportError"])
def test_another_client_that_is_installed_is_none(tmp_path: Path, text: str) -> None:
    assert [build.compiled for build in builds([with_installed(tmp_path, text)])] == [False]


@with_a_pure_checkout
def test_of_interpreters_with_one_version_the_first_counts(tmp_path: Path) -> None:
    compiled = with_installed(tmp_path, "compiled = True")
    assert [build.python for build in builds([sys.executable, compiled])] == [sys.executable, compiled]
    assert [build.python for build in builds([compiled, sys.executable])] == [compiled, compiled]


def test_an_interpreter_that_lacks_something_is_refused_by_name(tmp_path: Path) -> None:
    bare = str(script(tmp_path / "python", f'exec {sys.executable} -I -S "$@"'))
    with pytest.raises(SystemExit, match=bare):
        builds([bare])


def test_one_interpreter_of_each_version_is_found_and_those_that_do_not_run_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shims, programs, others = (tmp_path / name for name in ("shims", "programs", "pyenv"))
    pyenv = others / "versions" / "3.99.1" / "bin"
    for folder in (shims, programs, pyenv):
        folder.mkdir(parents=True)
    script(shims / "python3.98", "exit 127")
    script(shims / "python3.99", "exit 127")
    script(programs / "python3.98", "exit 0")
    script(pyenv / "python3", "exit 0")
    monkeypatch.setenv("PATH", f"{shims}:{programs}")
    monkeypatch.setenv("PYENV_ROOT", str(others))
    monkeypatch.setattr(interpreters, "VERSIONS", ("3.97", "3.98", "3.99"))
    monkeypatch.setattr(interpreters, "_environment", lambda python, _: str(python))
    assert list(found()) == [sys.executable, str(programs / "python3.98"), str(pyenv / "python3")]


def test_a_build_has_a_name_of_its_own() -> None:
    assert Build("p", "3.11.7").name != Build("p", "3.11.7", compiled=True).name
