"""The embedded broker in a process, with a relay before it: `python embedded.py PORT WEB_PORT RELAY_PORT`.

It ends when its standard input does.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings


def main(port: int, web_port: int, relay: int) -> None:
    with EmbeddedBroker(port=port, web_port=web_port, settings=Settings(deduplication=True)) as broker:
        broker.advertise("relay", f"pulsar://127.0.0.1:{relay}")
        sys.stdin.buffer.read()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
