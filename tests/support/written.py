"""The methods of public classes as they are written: a compiled one has no annotations, its source has them."""

import inspect
from collections.abc import Callable
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pulsar_actors

ROOT = Path(pulsar_actors.__file__).parents[1]


def as_written(owner: type, name: str) -> Callable[..., Any]:
    """Return a method as Python reads it from its source. It is for looking at, not for calling."""
    defines = next((kind for kind in owner.__mro__ if name in vars(kind)), owner)
    function: Callable[..., Any] = getattr(owner, name)
    if defines.__module__.startswith("pulsar_actors.") and not inspect.isfunction(function):
        function = getattr(getattr(_pure(defines.__module__), defines.__name__), name)
    return function


@cache
def _pure(module: str) -> ModuleType:
    """Run the source of a compiled module, without a place among the imported ones."""
    spec = spec_from_file_location(module, ROOT / f"{module.replace('.', '/')}.py")
    assert spec is not None
    assert spec.loader is not None
    pure = module_from_spec(spec)
    spec.loader.exec_module(pure)
    return pure
