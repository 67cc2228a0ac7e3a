"""A mark for tests that read the package's sources. A wheel is tested beside the documents, and without them."""

from pathlib import Path

import pytest

__all__ = ["reads_sources"]

_PACKAGE = Path(__file__).parents[2] / "pulsar_actors"

reads_sources = pytest.mark.skipif(not _PACKAGE.is_dir(), reason="the sources are not here, but a wheel")
