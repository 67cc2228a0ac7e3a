import pytest

from tests.support.session_bench import Bench, Caller, connect_command, port_of


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_closing_the_broker_ends_every_connection_and_every_port(bench: Bench) -> None:
    callers = [bench.client(), bench.call()]
    bench.broker.close()
    assert all(caller.is_closed for caller in callers)
    assert bench.loop.open_ports == {}


def test_a_port_that_is_taken_is_named(bench: Bench) -> None:
    bench.loop.taken_ports.add(6650)
    with pytest.raises(OSError, match=r"cannot listen on port 6650 of 127\.0\.0\.1: Address already in use"):
        bench.start(bench.loop, port=6650)


def test_addresses_name_the_port_that_was_had(bench: Bench) -> None:
    assert port_of(bench.node.service_url) in bench.loop.open_ports
    assert port_of(bench.node.web_url) in bench.loop.open_ports
    assert Caller(bench.loop, port_of(bench.node.service_url)).say(connect_command())
