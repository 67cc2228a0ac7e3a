"""The interpreters under which both Python clients are measured, and the environments in which they run.

An interpreter needs the dependencies of this client, and `pulsar-client`. One that is found on the machine gets them in
an environment in `~/.cache/pulsar_actors`, which stays there; one that the user names must have them.

This client is measured from the checkout, and also as it is installed in an environment, if it is compiled there.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import requires
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.benchmarks.client_process import Worker, WorkerEnded

VERSIONS: Final = ("3.10", "3.11", "3.12", "3.13", "3.14")
CACHE: Final = Path.home() / ".cache" / "pulsar_actors"
BESIDE: Final = ("pulsar-client", "fastavro")
"""What the clients need beside this client's dependencies: the official client, and Avro for both."""


class Build(NamedTuple):
    """This client under one interpreter: pure from the checkout, or compiled as it is installed there."""

    python: str
    """The path of the interpreter."""
    version: str
    compiled: bool = False
    system: bool = False
    """Is the interpreter the system's own? Such builds are often optimised, and others often are not."""

    @property
    def name(self) -> str:
        """Return what tells it from other builds."""
        return f"{self.version}, compiled" if self.compiled else self.version


def builds(pythons: Sequence[str]) -> list[Build]:
    """Return the builds of this client for some interpreters; of two with the same name, the first counts."""
    known: dict[str, Build] = {}
    for python in pythons:
        for installed in (False, True):
            told = _description(python, installed=installed)
            if told is not None:
                build = Build(python, told["python"], told["compiled"], told["system"])
                known.setdefault(build.name, build)
            elif not installed:
                raise SystemExit(f"{python} cannot import pulsar_actors and all it needs from this checkout")
    return list(known.values())


def _description(python: str, *, installed: bool) -> dict[str, Any] | None:
    try:
        with Worker("ours", python, installed=installed, quiet=installed) as worker:
            return worker.ask(do="describe")
    except WorkerEnded:
        return None


def found() -> Iterator[str]:
    """Yield the interpreter that runs this, and one of each other version that is on this machine."""
    yield sys.executable
    for version in VERSIONS:
        if version == f"{sys.version_info.major}.{sys.version_info.minor}":
            continue
        for candidate in _candidates(version):
            if _runs(candidate):
                prepared = _environment(candidate, version)
                if prepared is not None:
                    yield prepared
                break


def _candidates(version: str) -> Iterator[Path]:
    """Yield paths that may be an interpreter; pyenv's shims are on PATH also for versions that are switched off."""
    for folder in os.get_exec_path():
        yield Path(folder) / f"python{version}"
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted((root / "versions").glob(f"{version}.*/bin/python3"), reverse=True)


def _runs(candidate: Path) -> bool:
    try:
        return not subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode  # noqa: S603 - found
    except OSError:
        return False


def _environment(python: Path, version: str) -> str | None:
    """Return the interpreter of an environment with all that clients need; say so if that cannot be installed."""
    needs = [need for need in requires("pulsar-actors") or () if "extra ==" not in need]
    folder = CACHE / f"measured-{version}"
    inside = folder / "bin" / "python"
    try:
        if not inside.exists():
            subprocess.run([python, "-m", "venv", folder], check=True)  # noqa: S603 - our own words
        install = [str(inside), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs, *BESIDE]
        subprocess.run(install, check=True)  # noqa: S603 - our own words
    except subprocess.CalledProcessError as failed:
        print(f"Python {version} is left out: {failed}", file=sys.stderr)
        return None
    return str(inside)
