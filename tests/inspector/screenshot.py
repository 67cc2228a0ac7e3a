"""Make the pictures of pages in docs: `python tests/inspector/screenshot.py`.

It needs Chromium, and the extra `browser`. The page of a client shows a producer a moment after its connection was cut,
while it waits. The page of a history shows such a producer, and how it went on.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import pulsar_actors as pulsar
from pulsar_actors.__main__ import main as run_command
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.cli.demo_watch import Flow
from tests.inspector.browser import open_browser

DOCS = Path(__file__).parents[2] / "docs"
SECONDS = 20.0
"""So that the plots have something to show."""


def main() -> None:
    with open_browser(1500, 1300) as browser, EmbeddedBroker() as broker:
        picture_of_pages(browser, broker)
        picture_of_a_history(browser, broker)


def picture_of_pages(browser: Any, broker: EmbeddedBroker) -> None:
    with (
        pulsar.Client(broker.service_url, initial_backoff_interval_ms=3000) as client,
        client.inspect(broker=broker) as page,
        broker.inspect() as page_of_broker,
    ):
        flow = Flow(client, "orders", 100)
        for url, name, cut in ((page_of_broker.url, "broker-page.png", False), (page.url, "live-page.png", True)):
            browser.get(url)
            time.sleep(SECONDS)
            if cut:
                broker.cut_connections()
                time.sleep(1.5)
            browser.save_screenshot(str(DOCS / name))
        flow.stop()


def picture_of_a_history(browser: Any, broker: EmbeddedBroker) -> None:
    with pulsar.Client(broker.service_url) as client, tempfile.TemporaryDirectory() as folder:
        producer = client.create_producer("orders")
        broker.faults.on("send").close_connection()
        producer.send(b"3 apples")
        history, page = Path(folder) / "history.json", Path(folder) / "history.html"
        client.history().save(str(history))
        run_command(["explain", str(history), "--output", str(page)])
        browser.get(page.as_uri())
        browser.save_screenshot(str(DOCS / "explained-history.png"))


if __name__ == "__main__":
    main()
