"""The clients and brokers under test, by the names that pytest shows.

Both clients run the same tests, and so do both brokers. The official ones show that a test is right: if it passes for
all four pairs, it proves something about Pulsar.
"""

import contextlib
import importlib
import logging
import os
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from tests.support.admin import Admin

CLIENTS = {"official": "pulsar", "ours": "pulsar_actors"}
BROKERS = {"apache": "real_broker", "embedded": "embedded_broker"}  # with the fixtures that start them
GUARDED = {"apache": "guarded_apache", "embedded": "guarded_embedded"}  # the same for brokers that require credentials

OPERATION_SECONDS = 20  # long enough for a busy machine
OPEN_CLIENTS: list[tuple[Any, Any]] = []
"""Those of the present test, each with its module; the last one is closed first."""
USERS_URL = os.environ.get("PULSAR_TEST_URL")
USERS_ADMIN_URL = os.environ.get("PULSAR_TEST_ADMIN_URL", "http://127.0.0.1:8080")


class Broker(NamedTuple):
    """A broker as tests see it."""

    service_url: str
    admin: Admin


def client_module(name: str) -> Any:
    """Return the module that a program would import as `pulsar`."""
    return importlib.import_module(CLIENTS[name])


@contextlib.contextmanager
def opened_clients() -> Generator[Callable[..., Any], None, None]:
    """Yield a function that creates clients, and close them at the end.

    The log of our clients is shown if a test fails.

    The official client's `close` fails while one of its consumers subscribes again after an unload, because it closes a
    consumer that the broker does not know yet. It also fails if a producer has lost its broker.
    """
    loggers = {name: logging.getLogger(f"client under test: {name}") for name in CLIENTS.values()}
    loggers["pulsar"].setLevel(logging.CRITICAL + 1)  # its C++ threads would call into Python
    loggers["pulsar_actors"].setLevel(logging.INFO)
    open_before = len(OPEN_CLIENTS)

    def connect_to(module: Any, service_url: str, **options: Any) -> Any:
        usual = {"logger": loggers[module.__name__], "operation_timeout_seconds": OPERATION_SECONDS}
        client = module.Client(service_url, **{**usual, **options})
        OPEN_CLIENTS.append((module, client))
        return client

    try:
        yield connect_to
    finally:
        while len(OPEN_CLIENTS) > open_before:
            module, client = OPEN_CLIENTS.pop()
            with contextlib.suppress(module.AlreadyClosed, module.BrokerMetadataError, module.NotConnected):
                client.close()


def what_our_clients_know() -> str:
    """Return the statistics and the histories of the clients that are open."""
    ours = [client for module, client in OPEN_CLIENTS if module.__name__ == "pulsar_actors"]
    return "\n".join(str(each) for client in ours for each in (client.stats(), *client.history()))
