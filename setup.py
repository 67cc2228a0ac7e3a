"""Builds the package: pure, or with `PULSAR_ACTORS_COMPILE=1` with modules that mypyc compiles.

The list of these modules, and the compiler, are in pyproject.toml, under `tool.pulsar_actors`. Without the variable no
compiler is needed, neither mypy nor one for C.

setuptools runs this file; pip imports it as the build backend, to learn which packages the build needs.
"""

import os
from typing import Any

from setuptools import setup
from setuptools.build_meta import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)
from setuptools.config.pyprojecttoml import load_file

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

COMPILES = os.environ.get("PULSAR_ACTORS_COMPILE") == "1"
DESCRIPTION = load_file("pyproject.toml")
OPTIONS = (
    "--config-file=",  # what our own type checks are stricter about is no concern here
    "--ignore-missing-imports",
    "--always-true=COMPILING",  # pulsar_actors/compiling.py
)


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:  # noqa: ANN401, ARG001 - pip's own
    """Return what a build needs: for mypyc also the dependencies, whose types it reads."""
    if not COMPILES:
        return []
    return [*DESCRIPTION["tool"]["pulsar_actors"]["compiler"], *DESCRIPTION["project"]["dependencies"]]


get_requires_for_build_editable = get_requires_for_build_wheel


def compiled_modules() -> list[Any]:
    """Return the modules to compile, as setuptools wants them."""
    if not COMPILES:
        return []
    from mypyc.build import mypycify  # noqa: PLC0415 - most builds have no mypyc

    paths = [f"{name.replace('.', '/')}.py" for name in DESCRIPTION["tool"]["pulsar_actors"]["compiled"]]
    level = os.environ.get("MYPYC_OPT_LEVEL", "3")  # tests of a build need no optimised one
    return mypycify([*OPTIONS, *paths], group_name="pulsar_actors", debug_level="0", opt_level=level)


if __name__ == "__main__":
    setup(ext_modules=compiled_modules())
