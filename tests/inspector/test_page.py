"""The page in a real browser, headless Chromium: what a user sees, and what a click does."""

from collections.abc import Iterator
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from tests.inspector.browser import open_browser
from tests.support.life import until

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with open_browser(1500, 1000) as browser:
        yield browser


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@pytest.fixture
def client(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    with pulsar.Client(broker.service_url) as client:
        yield client


@pytest.fixture
def page(browser: Any, broker: EmbeddedBroker, client: pulsar.Client) -> Iterator[Any]:
    """The page of the client, open in the browser. It must never have logged an error."""
    browser.get("about:blank")
    browser.get_log("browser")  # what a page before this one has logged when its server was closed
    with client.inspect(broker=broker) as inspector:
        browser.get(inspector.url)
        yield browser
        assert browser.get_log("browser") == []
        browser.get("about:blank")


def texts(page: Any, selector: str) -> list[str]:
    """Read all texts at once: the page may replace what it shows between two steps."""
    script = "return [...document.querySelectorAll(arguments[0])].map((one) => one.innerText)"
    found: list[str] = page.execute_script(script, selector)
    return found


def lit(page: Any) -> list[str]:
    script = "return [...document.querySelectorAll('[data-state].lit')].map((one) => one.dataset.state)"
    found: list[str] = page.execute_script(script)
    return found


def click(page: Any, selector: str, start: str) -> None:
    script = (
        "[...document.querySelectorAll(arguments[0])].find((one) => one.innerText.startsWith(arguments[1])).click()"
    )
    page.execute_script(script, selector, start)


def card(page: Any, start: str) -> str:
    found = [text for text in texts(page, "#actors button") if text.startswith(start)]
    return found[0] if found else ""


def test_a_producer_is_shown_with_its_chart_and_its_state_lit(page: Any, client: pulsar.Client) -> None:
    until(lambda: texts(page, "#title") == ["A client of pulsar_actors"])
    producer = client.create_producer("t")
    until(lambda: "READY" in card(page, "producer"))
    click(page, "#actors button", "producer")
    until(lambda: lit(page) == ["READY", "READY"], "its own chart and that of the shared rows")
    assert texts(page, "#chosen") == ["producer 1 on persistent://public/default/t"]
    assert texts(page, "#charts h3") == ["connection_handler: READY", "producer: READY"]
    producer.close()
    until(lambda: not card(page, "producer"))


def test_what_is_lit_follows_the_machine(page: Any, client: pulsar.Client, broker: EmbeddedBroker) -> None:
    producer = client.create_producer("t")
    until(lambda: "READY" in card(page, "producer"))
    click(page, "#actors button", "producer")
    until(lambda: "READY" in lit(page))
    stalled = broker.faults.on("producer").stall()
    broker.cut_connections()
    stalled.wait()
    until(lambda: "CREATING" in lit(page) and "READY" not in lit(page))
    stalled.release()
    until(lambda: "READY" in lit(page) and "CREATING" not in lit(page))
    assert producer.stats().reconnects == 1


def test_numbers_and_plots_follow_the_messages(page: Any, client: pulsar.Client) -> None:
    producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
    until(lambda: card(page, "consumer"))
    for _ in range(12):
        producer.send(b"x")
    until(lambda: "12 sent" in card(page, "producer"))
    until(lambda: "12 queued" in card(page, "consumer"))
    until(lambda: heights(page, "producer", "rate") > 1, "a rate that is not always the same")
    consumer.acknowledge(consumer.receive(10_000))
    until(lambda: "1 received" in card(page, "consumer") and "11 queued" in card(page, "consumer"))


def heights(page: Any, start: str, line: str) -> int:
    """Count the different heights of a plotted line."""
    script = """
        const cards = [...document.querySelectorAll("#actors button")];
        const card = cards.find((one) => one.innerText.startsWith(arguments[0]));
        return card.querySelector(`polyline.${arguments[1]}`).getAttribute("points");
    """
    points: str = page.execute_script(script, start, line)
    return len({point.partition(",")[2] for point in points.split()})


def test_a_fault_is_clicked_and_the_failure_is_listed(page: Any, client: pulsar.Client) -> None:
    producer = client.create_producer("t")
    until(lambda: card(page, "producer"))
    click(page, "#actors button", "producer")
    until(lambda: texts(page, "#changes li"))
    click(page, "#fault-buttons button", "cut all connections")
    until(lambda: any("ConnectionLost" in text for text in texts(page, "#changes .failed")))
    until(lambda: "1 reconnects" in card(page, "producer"))
    assert producer.is_connected()


def test_names_are_shown_as_they_are_and_run_nothing(page: Any, client: pulsar.Client) -> None:
    name = "<img src=x onerror=alert(1)>"
    consumer = client.subscribe("t", name, consumer_name=name)
    producer = client.create_producer(f"public/default/{name}".replace("/default/<", "/default/<"))
    until(lambda: name in card(page, "producer"))
    assert page.execute_script("return document.querySelectorAll('#actors img, main img').length") == 0
    assert consumer.is_connected()
    assert producer.is_connected()


def test_the_page_says_when_the_program_has_ended(browser: Any, client: pulsar.Client, broker: EmbeddedBroker) -> None:
    with client.inspect(broker=broker) as inspector:
        browser.get(inspector.url)
        until(lambda: card(browser, "client"))
        assert texts(browser, "#reach") == [""]
    until(lambda: texts(browser, "#reach") == ["not reachable: has the program ended?"])


def test_the_broker_has_a_page_of_its_own(browser: Any, client: pulsar.Client, broker: EmbeddedBroker) -> None:
    producer = client.create_producer("t")
    producer.send(b"x")
    with broker.inspect() as inspector:
        browser.get(inspector.url)
        until(lambda: "1 messages in" in card(browser, "persistent://public/default/t"))
        until(lambda: lit(browser) == ["ACCEPTED"])
        click(browser, "#fault-buttons button", "cut all connections")
        until(lambda: producer.stats().reconnects == 1)


def test_no_request_leaves_the_machine(browser: Any, client: pulsar.Client) -> None:
    with client.inspect() as inspector:
        browser.get(inspector.url)
        until(lambda: lit(browser) == ["OPEN"])
        loaded: list[str] = browser.execute_script(
            "return performance.getEntriesByType('resource').map((one) => one.name)"
        )
    assert loaded
    assert all(name.startswith((inspector.url, "data:")) for name in loaded)
