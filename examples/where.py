"""The broker of the examples: the one at `--service-url`, or one in memory."""

import secrets
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

from pulsar_actors.broker import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens


@contextmanager
def addresses(description: str | None, tokens: Tokens | None = None) -> Iterator[tuple[str, str]]:
    """Read the command line, and yield the service URL and the web URL.

    A broker that is started here ends with the block.

    With tokens, a broker that is started here accepts only clients with one of them.
    """
    parser = ArgumentParser(description=description)
    parser.add_argument("--service-url", help="a broker of yours (default: one in memory)")
    parser.add_argument("--web-url", default="http://localhost:8080", help="the same broker's, for its administration")
    given = parser.parse_args()
    if given.service_url:
        yield given.service_url, given.web_url
    else:
        with EmbeddedBroker(tokens=tokens) as broker:
            yield broker.service_url, broker.web_url


@contextmanager
def service_url(description: str | None) -> Iterator[str]:
    """Read the command line, and yield the service URL."""
    with addresses(description) as (url, _):
        yield url


def make_partitioned(web_url: str, topic: str, partitions: int) -> None:
    """Create a partitioned topic over HTTP, as an administrator does. A client cannot."""
    question = f"{web_url}/admin/v2/persistent/public/default/{topic}/partitions"
    headers = {"Content-Type": "application/json"}
    urlopen(Request(question, str(partitions).encode(), headers, method="PUT"), timeout=30).close()  # noqa: S310 - the user's own address


def fresh(name: str) -> str:
    """Return a topic name that is not in use, so that an example can run again on the same broker."""
    return f"{name}-{secrets.token_hex(4)}"
