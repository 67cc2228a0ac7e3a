"""Make docs/live-page.png: `python tests/inspector/screenshot.py`. It needs Chromium, and the extra `browser`.

It shows a producer a moment after its connection was cut, while it waits.
"""

import time
from pathlib import Path

import pulsar_actors as pulsar
from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.cli.demo_watch import Flow
from tests.inspector.browser import open_browser

PICTURE = Path(__file__).parents[2] / "docs" / "live-page.png"
SECONDS = 20.0
"""So that the plots have something to show."""


def main() -> None:
    with (
        EmbeddedBroker() as broker,
        pulsar.Client(broker.service_url, initial_backoff_interval_ms=3000) as client,
        client.inspect(broker=broker) as page,
        open_browser(1500, 1300) as browser,
    ):
        flow = Flow(client, "orders", 100)
        browser.get(page.url)
        time.sleep(SECONDS)
        broker.cut_connections()
        time.sleep(1.5)
        browser.save_screenshot(str(PICTURE))
        flow.stop()


if __name__ == "__main__":
    main()
