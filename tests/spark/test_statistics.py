"""What a broker tells its administrators: of whom it is asked, and with whose credentials."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from ports import free_ports
from subjects import Broker
from traffic import Traffic
from web_server import Asked, Said, WebServer, web_server

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.spark.cluster import Cluster
from pulsar_actors.spark.ledgers import Ledger, Ledgers
from pulsar_actors.spark.statistics import Statistics
from pulsar_actors.wire.topic_name import TopicName

TOPIC = TopicName.parse("persistent://public/default/t")
PATH = "/admin/v2/persistent/public/default/t"
INTERNAL = {
    "ledgers": [{"ledgerId": 3, "entries": 10, "size": 1000}, {"ledgerId": 5, "entries": 0, "size": 0}],
    "currentLedgerEntries": 2,
    "currentLedgerSize": 50,
    "entriesAddedCounter": 12,
}
FOUND = Ledgers([Ledger(3, 10, 1000), Ledger(5, 2, 50)], 3.0)
TOKEN = {
    "pulsar.client.authpluginclassname": "org.apache.pulsar.client.impl.auth.AuthenticationToken",
    "pulsar.client.authparams": "token:t0ps3cret",
}


def tell(asked: Asked) -> Said:
    """Answer as a broker does."""
    answers = {f"{PATH}/internalStats": INTERNAL, f"{PATH}/stats": {"msgInCounter": 36}}
    return Said(body=json.dumps(answers[asked.path]).encode())


@pytest.fixture
def make_server() -> Iterator[Callable[[], WebServer]]:
    with ExitStack() as running:

        def make() -> WebServer:
            server = running.enter_context(web_server())
            server.answer = tell
            return server

        yield make


def ask(*urls: str) -> Ledgers:
    url = ",".join([urls[0], *(url.removeprefix("http://") for url in urls[1:])])
    cluster = Cluster.of({"service.url": "pulsar://127.0.0.1:1", "admin.url": url, **TOKEN})
    with closing(Statistics(cluster)) as statistics:
        return statistics.ledgers(TOPIC)


def test_the_ledgers_of_a_topic_are_those_that_its_broker_has(broker: Broker, traffic: Traffic, topic: str) -> None:
    ids = traffic.send(topic, ["a"] * 10, per_batch=5)
    broker.admin.unload(topic)
    traffic.send(topic, ["b"] * 6)
    cluster = Cluster.of({"service.url": broker.service_url, "admin.url": broker.admin.web_url})
    with closing(Statistics(cluster)) as statistics:
        first, *_, last = statistics.ledgers(TopicName.parse(topic)).ledgers
    assert (first.ledger_id, first.entries) == (ids[0].ledger_id(), 2)
    assert (last.ledger_id > first.ledger_id, last.entries) == (True, 6)
    assert first.size > 10


def test_the_ledger_that_is_being_written_is_counted_as_far_as_it_is(make_server: Callable[[], WebServer]) -> None:
    server = make_server()
    assert ask(server.url) == FOUND
    assert [(asked.path, asked.headers["authorization"]) for asked in server.asked] == [
        (f"{PATH}/internalStats", "Bearer t0ps3cret"),
        (f"{PATH}/stats", "Bearer t0ps3cret"),
    ]


def test_the_next_host_is_asked_if_one_does_not_answer(make_server: Callable[[], WebServer]) -> None:
    assert ask(f"http://127.0.0.1:{free_ports(1)[0]}", make_server().url) == FOUND


def test_who_is_asked_next_gets_no_credentials_unless_admin_url_names_it(make_server: Callable[[], WebServer]) -> None:
    first, second = make_server(), make_server()
    first.answer = lambda asked: Said(307, headers=(("Location", f"{second.url}{asked.path}"),))
    assert ask(first.url) == FOUND
    assert all("authorization" in asked.headers for asked in first.asked)
    assert not any("authorization" in asked.headers for asked in second.asked)
    second.asked.clear()
    assert ask(first.url, second.url) == FOUND
    assert all("authorization" in asked.headers for asked in second.asked)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Said(404), r"admin\.url answers 404 to the question for the internalStats of persistent://.*/t$"),
        (Said(401), r"answers 401 .*; credentials go to the hosts that admin\.url names, and it can name several"),
        (Said(body=b"<html>"), r"none of Pulsar's: is it the brokers' web server\? \(JSONDecodeError"),
        (Said(body=b"{}"), r"none of Pulsar's: is it the brokers' web server\? \(KeyError: 'ledgers'\)"),
        (
            Said(302, headers=(("Location", "/elsewhere"),)),
            r"cannot be had at admin\.url: admin\.url redirects again and again",
        ),
    ],
)
def test_what_cannot_be_had_is_said_with_the_reason(
    make_server: Callable[[], WebServer], answer: Said, message: str
) -> None:
    server = make_server()
    server.answer = lambda _: answer
    with pytest.raises(PulsarException, match=message) as raised:
        ask(server.url)
    assert "t0ps3cret" not in str(raised.value)


def test_hosts_that_do_not_answer_are_said(make_server: Callable[[], WebServer]) -> None:
    (port,) = free_ports(1)
    with pytest.raises(PulsarException, match=f"cannot be had at admin.url: .*127.0.0.1:{port}"):
        ask(f"http://127.0.0.1:{port}")
