"""Who is tested against whom, by the names that pytest shows.

Both clients go through the same tests, and so do both brokers. The official ones are there to keep the tests honest:
where all four pairs agree, the test says something about Pulsar and not about us.
"""

import contextlib
import importlib
import logging
import os
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from tests.support.admin import Admin

CLIENTS = {"official": "pulsar", "ours": "pulsar_actors"}
BROKERS = {"apache": "real_broker", "embedded": "embedded_broker"}  # and the fixtures that start them
GUARDED = {"apache": "guarded_apache", "embedded": "guarded_embedded"}  # likewise, for those that want credentials

OPERATION_SECONDS = 20  # of each client: long enough for a busy machine, short enough to wait for
USERS_URL = os.environ.get("PULSAR_TEST_URL")
USERS_ADMIN_URL = os.environ.get("PULSAR_TEST_ADMIN_URL", "http://127.0.0.1:8080")


class Broker(NamedTuple):
    """What a test may know of a broker."""

    service_url: str
    admin: Admin


def client_module(name: str) -> Any:
    """The module that a program would import as `pulsar`."""
    return importlib.import_module(CLIENTS[name])


@contextlib.contextmanager
def opened_clients() -> Generator[Callable[..., Any], None, None]:
    """Give a function that makes clients, and close them at the end. What ours say is shown if a test fails.

    The official client's close fails when one of its consumers is just coming back after an unload: it closes a
    consumer that the broker does not know yet. So it does when a producer has lost its broker.
    """
    loggers = {name: logging.getLogger(f"client under test: {name}") for name in CLIENTS.values()}
    loggers["pulsar"].setLevel(logging.CRITICAL + 1)  # its core would call into Python from threads of its own
    loggers["pulsar_actors"].setLevel(logging.INFO)
    opened: list[tuple[Any, Any]] = []

    def connect_to(module: Any, service_url: str, **options: Any) -> Any:
        usual = {"logger": loggers[module.__name__], "operation_timeout_seconds": OPERATION_SECONDS}
        client = module.Client(service_url, **{**usual, **options})
        opened.append((module, client))
        return client

    try:
        yield connect_to
    finally:
        for module, client in reversed(opened):
            with contextlib.suppress(module.AlreadyClosed, module.BrokerMetadataError, module.NotConnected):
                client.close()
