"""An authority, another one, and what they vouch for: certificates take a while to make."""

import ssl

import pytest

from pulsar_actors.runtime.tls import client_context, server_context
from tests.support.certificates import Authority, Files


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "a stranger")


@pytest.fixture(scope="module")
def good(authority: Authority) -> Files:
    return authority.certify()


@pytest.fixture(scope="module")
def trusting(authority: Authority) -> ssl.SSLContext:
    return client_context(trust_certs_file=authority.file)


@pytest.fixture(scope="module")
def serving(good: Files) -> ssl.SSLContext:
    return server_context(*good)
