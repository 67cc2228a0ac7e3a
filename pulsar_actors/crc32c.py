"""The function of the package `crc32c`, without the modules that come with it.

`import crc32c` takes as long as a fifth of this package: it also loads a command line, and reads its own version from
the metadata of all installed packages. Its extension module has the function, and needs neither.
"""

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any

__all__ = ["crc32c"]


def _load_extension() -> Any:  # noqa: ANN401 - a module
    """Load the extension module alone; the package, if it has none of that name."""
    package = find_spec("crc32c")
    places = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("crc32c._crc32c", places)
    if places is None or spec is None or spec.loader is None:
        import crc32c as whole  # noqa: PLC0415

        return whole
    extension = module_from_spec(spec)
    spec.loader.exec_module(extension)
    return extension


if TYPE_CHECKING:
    from crc32c import crc32c
else:
    crc32c = _load_extension().crc32c
