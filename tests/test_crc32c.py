import subprocess
import sys
from importlib.machinery import PathFinder

import crc32c as package
import pytest

from pulsar_actors import crc32c

CHECK = (b"123456789", 0xE3069283)
"""The check value of CRC-32C in the catalogue of CRC algorithms."""


def test_it_is_the_function_of_the_package() -> None:
    data, checksum = CHECK
    assert crc32c.crc32c(data) == package.crc32c(data) == checksum


def test_a_package_without_that_module_is_loaded_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PathFinder, "find_spec", lambda *_: None)
    assert crc32c._load_extension() is package


def test_without_the_package_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crc32c, "find_spec", lambda _: None)
    monkeypatch.setitem(sys.modules, "crc32c", None)
    with pytest.raises(ImportError, match="crc32c"):
        crc32c._load_extension()


@pytest.mark.parametrize("order", ["pulsar_actors, crc32c", "crc32c, pulsar_actors"])
def test_a_program_may_use_the_package_too(order: str) -> None:
    program = f"import {order}; print(crc32c.crc32c({CHECK[0]!r}), pulsar_actors.crc32c.crc32c({CHECK[0]!r}))"
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - our own words
    assert told.stdout.split() == [str(CHECK[1])] * 2
