"""Statistics of the web server: which host is asked, with which credentials, and what they are used for."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.spark.admin_stats import AdminStats, Ledger, Ledgers
from pulsar_actors.spark.cluster_access import ClusterAccess
from pulsar_actors.wire.topic_name import TopicName
from pulsar_actors.wire.topic_position import TOPIC_START, TopicPosition
from tests.spark.traffic import Traffic
from tests.support.ports import free_ports
from tests.support.subjects import Broker
from tests.support.web_server import Asked, Said, WebServer, web_server

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
    cluster = ClusterAccess.parse({"service.url": "pulsar://127.0.0.1:1", "admin.url": url, **TOKEN})
    with closing(AdminStats(cluster)) as statistics:
        return statistics.ledgers(TOPIC)


def test_the_ledgers_of_a_topic_are_those_of_the_broker(broker: Broker, traffic: Traffic, topic: str) -> None:
    ids = traffic.send(topic, ["a"] * 10, per_batch=5)
    broker.admin.unload(topic)
    traffic.send(topic, ["b"] * 6)
    cluster = ClusterAccess.parse({"service.url": broker.service_url, "admin.url": broker.admin.web_url})
    with closing(AdminStats(cluster)) as statistics:
        first, *_, last = statistics.ledgers(TopicName.parse(topic)).ledgers
    assert (first.ledger_id, first.entries) == (ids[0].ledger_id(), 2)
    assert (last.ledger_id > first.ledger_id, last.entries) == (True, 6)
    assert first.size > 10


def test_the_ledger_that_is_being_written_counts_with_its_current_size(make_server: Callable[[], WebServer]) -> None:
    server = make_server()
    assert ask(server.url) == FOUND
    assert [(asked.path, asked.headers["authorization"]) for asked in server.asked] == [
        (f"{PATH}/internalStats", "Bearer t0ps3cret"),
        (f"{PATH}/stats", "Bearer t0ps3cret"),
    ]


def test_the_next_host_is_asked_if_the_first_does_not_answer(make_server: Callable[[], WebServer]) -> None:
    assert ask(f"http://127.0.0.1:{free_ports(1)[0]}", make_server().url) == FOUND


def test_a_redirect_gets_credentials_only_if_admin_url_names_its_host(make_server: Callable[[], WebServer]) -> None:
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
def test_statistics_that_are_not_available_are_an_error_with_the_reason(
    make_server: Callable[[], WebServer], answer: Said, message: str
) -> None:
    server = make_server()
    server.answer = lambda _: answer
    with pytest.raises(PulsarException, match=message) as raised:
        ask(server.url)
    assert "t0ps3cret" not in str(raised.value)


def test_hosts_that_do_not_answer_are_an_error(make_server: Callable[[], WebServer]) -> None:
    (port,) = free_ports(1)
    with pytest.raises(PulsarException, match=f"cannot be had at admin.url: .*127.0.0.1:{port}"):
        ask(f"http://127.0.0.1:{port}")


LEDGERS = Ledgers([Ledger(3, 10, 1000), Ledger(7, 0, 0), Ledger(8, 5, 5000), Ledger(9, 0, 0)], 2.0)
END = TopicPosition(9, 0)


def test_entries_are_counted_over_all_ledgers() -> None:
    assert LEDGERS.entries(TOPIC_START, END) == 15
    assert LEDGERS.entries(TopicPosition(3, 4), TopicPosition(8, 2)) == 8
    assert LEDGERS.entries(TopicPosition(3, 4, 2), TopicPosition(3, 4, 5)) == 1
    assert LEDGERS.entries(TopicPosition(3, 10), TopicPosition(8, 0)) == 0


def test_messages_and_bytes_are_estimated_by_the_entries() -> None:
    assert LEDGERS.messages(TOPIC_START, END) == 30
    assert LEDGERS.size(TopicPosition(3, 9), TopicPosition(8, 1)) == 100 + 1000


def test_a_limit_ends_after_so_many_bytes() -> None:
    assert LEDGERS.after_bytes(TOPIC_START, END, 2500) == TopicPosition(8, 1)


def test_a_limit_allows_at_least_one_entry() -> None:
    assert LEDGERS.after_bytes(TopicPosition(8, 0), END, 1) == TopicPosition(8, 1)


spans = st.lists(st.builds(Ledger, st.just(0), st.integers(0, 20), st.just(0)), min_size=1, max_size=6).map(
    lambda some: Ledgers([one._replace(ledger_id=number) for number, one in enumerate(some)], 1.0)
)


@given(spans, st.integers(1, 50), st.data())
def test_the_parts_of_a_span_meet_and_have_about_the_same_size(
    ledgers: Ledgers, parts: int, data: st.DataObject
) -> None:
    def position() -> TopicPosition:
        ledger = data.draw(st.sampled_from(ledgers.ledgers))
        return TopicPosition(ledger.ledger_id, data.draw(st.integers(0, ledger.entries)))

    start, end = sorted((position(), position()))
    cuts = ledgers.split(start, end, parts)
    if start == end:
        assert cuts == []
        return
    assert (cuts[0][0], cuts[-1][1]) == (start, end)
    assert all(one[1] == other[0] for one, other in pairwise(cuts))
    sizes = [ledgers.entries(*cut) for cut in cuts]
    assert sum(sizes) == ledgers.entries(start, end)
    assert len(cuts) <= parts
    assert max(sizes) - min(sizes) <= 1
