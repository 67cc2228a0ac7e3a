import logging
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.wire.PulsarApi_pb2 import CommandSubscribe
from tests.support.session_bench import TOPIC, Bench, connect_command


def test_closing_the_broker_ends_every_connection_and_every_port() -> None:
    bench = Bench()
    callers = [bench.client(), bench.call()]
    bench.broker.close()
    assert all(caller.is_closed for caller in callers)
    assert bench.loop.open_ports == {}


def test_a_port_that_is_taken_is_named() -> None:
    bench = Bench()
    bench.loop.taken_ports.add(6650)
    with pytest.raises(OSError, match=r"cannot listen on port 6650 of 127\.0\.0\.1: Address already in use"):
        bench.start(bench.loop, port=6650)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[Any]:
    """What the broker has said at INFO, to its own logger."""
    with caplog.at_level(logging.INFO, "pulsar_actors.broker"):
        yield lambda: [line.getMessage() for line in caplog.records if line.name == "pulsar_actors.broker"]


def test_the_ports_are_named(lines: Any) -> None:
    node = Bench().node
    assert lines() == [f"the broker listens on {url}" for url in (node.service_url, node.web_url)]


def test_a_connection_is_named_when_it_is_accepted_and_when_it_ends_with_the_reason(lines: Any) -> None:
    bench = Bench()
    caller = bench.call()
    caller.say(connect_command(client_version="a client\nof this test"))
    caller.hang_up()
    accepted, ended = lines()[2:]
    connection = accepted.partition(" is accepted: ")[0]
    assert connection.startswith("connection 1 from ")
    assert accepted.endswith(r"is accepted: 'a client\nof this test'")
    assert ended.startswith(f"{connection} has ended: ")


def test_a_refused_command_is_named_with_the_code_and_the_reason(lines: Any) -> None:
    bench = Bench()
    bench.client().consume()
    busy = CommandSubscribe(topic=TOPIC, subscription="s", subType=CommandSubscribe.Shared, consumer_id=1, request_id=1)
    bench.client().say(busy)
    (refused,) = [line for line in lines() if "refused" in line]
    assert refused.startswith("a CommandSubscribe of connection 2 from ")
    assert "is refused with ConsumerBusy: " in refused


def test_a_client_that_is_turned_away_is_named_with_the_reason(lines: Any) -> None:
    Bench(tokens=Tokens(b"a secret of the tests")).call().say(connect_command())
    refused, ended = lines()[2:]
    assert "is refused with AuthenticationError: " in refused
    assert "wants a token" in refused
    assert ended.endswith("has ended: its credentials were refused")
