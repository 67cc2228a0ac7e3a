"""What the import of the package loads, and what waits until it is needed: a program that only sends starts sooner."""

import os
import subprocess
import sys
from typing import Final

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from tests.support.life import run_program

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


def test_what_is_not_loaded_yet_comes_with_a_star_is_patched_and_pickled() -> None:
    program = """
        import pickle, sys
        import unittest.mock
        import pulsar_actors

        with unittest.mock.patch("pulsar_actors.Consumer", "another"):
            assert pulsar_actors.Consumer == "another"
        assert pulsar_actors.Consumer.__name__ == "Consumer"
        assert "pulsar_actors.client.service_info" not in sys.modules
        from pulsar_actors import *
        assert pickle.loads(pickle.dumps(ServiceInfo("pulsar://h"))) == pulsar_actors.ServiceInfo("pulsar://h")
    """
    ran = run_program(program)
    assert ran.code == 0, ran.err


def test_threads_may_make_the_first_clients_at_once() -> None:
    program = """
        import sys, threading
        import pulsar_actors

        barrier, done = threading.Barrier(8), []

        def use(number):
            barrier.wait()
            credentials = pulsar_actors.AuthenticationToken("secret")
            with pulsar_actors.Client(sys.argv[1], credentials, logger=pulsar_actors.ConsoleLogger()) as client:
                consumer = client.subscribe(f"t-{number}", "s")
                client.create_producer(f"t-{number}").send(b"x")
                consumer.acknowledge(consumer.receive(20_000))
                done.append(client.stats())

        threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        print(len(done))
    """
    with EmbeddedBroker() as broker:
        ran = run_program(program, broker.service_url)
    assert ran.out.splitlines()[-1] == "8", ran.err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_process_may_fork_between_the_import_and_the_first_client() -> None:
    program = """
        import os, sys
        import pulsar_actors

        def use():
            with pulsar_actors.Client(sys.argv[1]) as client:
                producer = client.create_producer("t")
                producer.send(b"x")
                assert len(client.stats().producers) == 1

        child = os.fork()
        use()
        if child == 0:
            os._exit(0)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    with EmbeddedBroker() as broker:
        ran = run_program(program, broker.service_url)
    assert ran.out.split() == ["0"], ran.err


def test_no_loop_imports_anything_for_a_first_message() -> None:
    """A child that is forked in the middle of it could never import it."""
    program = """
        import sys, threading
        import pulsar_actors

        def note(event, args):
            if event == "import" and "pulsar-io" in threading.current_thread().name:
                print(args[0])

        with pulsar_actors.Client(sys.argv[1]) as client:
            sys.addaudithook(note)
            consumer = client.subscribe("t", "s")
            producer = client.create_producer("t")
            producer.send_async(b"x", lambda result, message_id: None)
            producer.flush()
            consumer.acknowledge(consumer.receive(20_000))
    """
    with EmbeddedBroker() as broker:
        ran = run_program(program, broker.service_url)
    assert (ran.code, ran.out) == (0, ""), ran.err


def test_a_first_message_loads_no_codec_of_international_names() -> None:
    with EmbeddedBroker() as broker:
        url = broker.service_url
        first = f"pulsar_actors.Client({url!r}).create_producer('t').send(b'')"
        program = f"import sys, pulsar_actors; {first}; print(*sys.modules)"
        told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - our own words
    assert not {"encodings.idna", "stringprep", "unicodedata"} & set(told.stdout.split())
