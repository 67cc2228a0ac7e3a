"""The signatures of public calls, with annotations. A compiled function has none, but the source beside it has."""

import inspect
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pulsar_actors

ROOT = Path(pulsar_actors.__file__).parents[1]


def signature(owner: type, name: str) -> inspect.Signature:
    """Return the signature of a method, as its source has it."""
    defines = next((kind for kind in owner.__mro__ if name in vars(kind)), owner)
    function = getattr(owner, name)
    if defines.__module__.startswith("pulsar_actors.") and not inspect.isfunction(function):
        function = getattr(getattr(_pure(defines.__module__), defines.__name__), name)
    return inspect.signature(function)


@cache
def _pure(module: str) -> ModuleType:
    """Run the source of a compiled module, without a place among the imported ones."""
    spec = spec_from_file_location(module, ROOT / f"{module.replace('.', '/')}.py")
    assert spec is not None
    assert spec.loader is not None
    pure = module_from_spec(spec)
    spec.loader.exec_module(pure)
    return pure
