"""Where the examples find a broker: at the `--service-url` they are given, or in memory, started for the occasion."""

import secrets
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager

from pulsar_actors.broker import EmbeddedBroker


@contextmanager
def service_url(description: str | None) -> Iterator[str]:
    """Read the command line; a broker that is started here ends with the block."""
    parser = ArgumentParser(description=description)
    parser.add_argument("--service-url", help="a broker of yours (default: one in memory)")
    given = parser.parse_args().service_url
    if given:
        yield given
    else:
        with EmbeddedBroker() as broker:
            yield broker.service_url


def fresh(name: str) -> str:
    """Give a topic's name that nobody has used, so that an example can run again on the same broker."""
    return f"{name}-{secrets.token_hex(4)}"
