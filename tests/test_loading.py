"""What the import of the package loads, and what waits until it is needed: a program that only sends starts sooner."""

import subprocess
import sys
from typing import Final

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker

ON_DEMAND: Final = {
    "consumers": "pulsar_actors.client.consumer",
    "their machine": "pulsar_actors.machines.consumer",
    "sets": "pulsar_actors.machines.multi_topics",
    "failover": "pulsar_actors.machines.auto_cluster_failover",
    "the clusters of a client": "pulsar_actors.client.service_info",
    "credentials": "pulsar_actors.client.credentials",
    "OAuth2": "pulsar_actors.client.oauth2",
    "the console and files as loggers": "pulsar_actors.client.logger_options",
    "statistics": "pulsar_actors.client.stats",
    "records": "pulsar_actors.schema.definition",
    "Avro": "fastavro",
    "TLS": "ssl",
    "classes that write their own methods": "dataclasses",
    "what is installed": "importlib.metadata",
    "JSON": "json",
    "URLs": "urllib.parse",
    "HTTP": "urllib3",
    "HTTP of the broker": "h11",
    "certificates": "certifi",
    "LZ4": "lz4",
    "ZSTD and snappy": "cramjam",
    "the simulated world": "pulsar_actors.simulation",
    "the broker": "pulsar_actors.broker",
    "the command line": "pulsar_actors.cli",
}
PROBE: Final = "import sys, pykka; before = {*sys.modules}; import pulsar_actors; print(*{*sys.modules} - before)"
"""Older releases of pykka load half of the standard library."""


@pytest.fixture(scope="module")
def loaded() -> list[str]:
    """The modules that the import of the package adds to a fresh interpreter."""
    told = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - our own words
    return told.stdout.split()


@pytest.mark.parametrize("what", ON_DEMAND)
def test_it_is_not_loaded_before_it_is_needed(what: str, loaded: list[str]) -> None:
    assert "pulsar_actors.client.producer" in loaded
    assert ON_DEMAND[what] not in loaded


def test_what_is_not_loaded_yet_is_listed_and_found_like_anything_else() -> None:
    assert set(pulsar.__all__) <= set(dir(pulsar))
    assert all(
        getattr(pulsar, name).__name__ == name for name in ("Consumer", "FileLogger", "MessageBatch", "ServiceInfo")
    )


def test_a_first_message_loads_no_codec_of_international_names() -> None:
    with EmbeddedBroker() as broker:
        url = broker.service_url
        first = f"pulsar_actors.Client({url!r}).create_producer('t').send(b'')"
        program = f"import sys, pulsar_actors; {first}; print(*sys.modules)"
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - our own words
    assert not {"encodings.idna", "stringprep", "unicodedata"} & set(told.stdout.split())
