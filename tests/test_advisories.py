"""No version that this package may be installed with has a known vulnerability that concerns it.

The table has the advisories on our dependencies that were published until 2026-11: the versions that are affected. A
new one is added here, and the bounds in pyproject.toml follow. Advisories on parts of a library that this package does
not use are in `NOT_USED`, with the part.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

PROJECT = (Path(__file__).parents[1] / "pyproject.toml").read_text()


class Advisory(NamedTuple):
    name: str
    affected: str
    """The versions, as a specifier."""
    last: str
    """The last of them."""
    about: str


ADVISORIES = (
    Advisory(
        "CVE-2025-4565", "protobuf>=5.26,<5.29.5", "5.29.4", "recursion without a limit in the pure Python parser"
    ),
    Advisory("CVE-2025-4565", "protobuf>=6.30,<6.31.1", "6.31.0", "the same"),
    Advisory("CVE-2023-43804", "urllib3>=2,<2.0.6", "2.0.5", "a Cookie header follows a redirect to another host"),
    Advisory("CVE-2023-45803", "urllib3>=2,<2.0.7", "2.0.6", "a body follows a redirect that changes the method"),
    Advisory("CVE-2024-37891", "urllib3>=2,<2.2.2", "2.2.1", "Proxy-Authorization follows a redirect"),
    Advisory("CVE-2025-50181", "urllib3>=2,<2.5.0", "2.4.0", "redirects cannot be switched off for a pool"),
    Advisory("CVE-2025-66418", "urllib3>=2,<2.6.0", "2.5.0", "any number of nested encodings of a body"),
    Advisory("CVE-2025-66471", "urllib3>=2,<2.6.0", "2.5.0", "a small body that inflates without a limit"),
    Advisory("CVE-2026-21441", "urllib3>=2,<2.6.3", "2.6.2", "the same, in the body of a redirect"),
    Advisory("CVE-2025-43859", "h11<0.16", "0.14.0", "anything passes for the line end behind a chunk"),
    Advisory("CVE-2023-50782", "cryptography<42.0.0", "41.0.7", "RSA decryption tells an attacker by its time"),
    Advisory("CVE-2024-26130", "cryptography<42.0.4", "42.0.3", "a PKCS#12 file may crash the process"),
    Advisory("CVE-2024-12797", "cryptography<44.0.1", "44.0.0", "the OpenSSL in its wheels"),
    Advisory("CVE-2023-47248", "pyarrow<14.0.1", "14.0.0", "code in a file of Arrow"),
)
NOT_USED = (Advisory("CVE-2026-0994", "protobuf<5.29.6", "5.29.5", "json_format, which nothing here imports"),)


def requirements() -> dict[str, SpecifierSet]:
    """The bounds of each dependency, with and without the extras."""
    found: dict[str, SpecifierSet] = {}
    for text in re.findall(
        r'^    "([a-z][a-z0-9_-]*[><=!~][^"]*)"|= \["([a-z][a-z0-9_-]*[><=!~][^"]*)"', PROJECT, re.MULTILINE
    ):
        requirement = Requirement(next(filter(None, text)))
        found.setdefault(requirement.name, requirement.specifier)
    return found


@pytest.mark.parametrize("advisory", ADVISORIES, ids=lambda advisory: f"{advisory.affected} {advisory.name}")
def test_an_affected_version_is_not_allowed(advisory: Advisory) -> None:
    affected = Requirement(advisory.affected)
    assert affected.specifier.contains(Version(advisory.last)), "the table contradicts itself"
    assert not requirements()[affected.name].contains(advisory.last), advisory.about


def test_what_an_allowed_version_is_affected_by_is_not_used() -> None:
    package = Path(__file__).parents[1] / "pulsar_actors"
    sources = "".join(path.read_text() for path in package.rglob("*.py"))
    assert NOT_USED
    assert "json_format" not in sources
