"""The official client in the hands of a test: silent, closed in the end, and with waits that end."""

import contextlib
import importlib
import itertools
import logging
import threading
from collections.abc import Callable
from typing import Any

pulsar: Any = importlib.import_module("pulsar")  # ships no types

WAIT_MS = 10_000
NONE_MS = 300
"""How long a test waits for what is not to come."""

_SILENT = logging.getLogger("official-client")
_SILENT.setLevel(logging.CRITICAL + 1)
_NUMBERS = itertools.count()


class Official:
    """Makes clients and topics of their own."""

    def __init__(self, service_url: str) -> None:
        self.service_url = service_url
        self._clients: list[Any] = []

    def client(self, service_url: str = "", **options: Any) -> Any:
        made = pulsar.Client(
            service_url or self.service_url, logger=_SILENT, **{"operation_timeout_seconds": 10, **options}
        )
        self._clients.append(made)
        return made

    def close(self) -> None:
        while self._clients:
            with contextlib.suppress(pulsar.AlreadyClosed):  # as it says where a producer was fenced
                self._clients.pop().close()


def topic(namespace: str = "persistent://public/default") -> str:
    return f"{namespace}/official-{next(_NUMBERS)}"


def send_all(producer: Any, messages: list[dict[str, Any]]) -> list[Any]:
    """Send messages together, wait for every receipt, and give the ids in order."""
    ids: list[Any] = [None] * len(messages)
    waiting = threading.Semaphore(0)

    def receipt(index: int) -> Callable[[Any, Any], None]:
        def received(result: Any, message_id: Any) -> None:
            ids[index] = message_id if result == pulsar.Result.Ok else result
            waiting.release()

        return received

    for index, message in enumerate(messages):
        options = dict(message)
        producer.send_async(options.pop("content"), receipt(index), **options)
    producer.flush()
    for _ in messages:
        assert waiting.acquire(timeout=WAIT_MS / 1000)
    return ids


def contents(*texts: str) -> list[dict[str, Any]]:
    return [{"content": text.encode()} for text in texts]


def receive(consumer: Any, count: int) -> list[Any]:
    return [consumer.receive(WAIT_MS) for _ in range(count)]


def data(messages: list[Any]) -> list[bytes]:
    return [message.data() for message in messages]


def nothing_comes(consumer: Any) -> bool:
    try:
        consumer.receive(NONE_MS)
    except pulsar.Timeout:
        return True
    return False


def drain(consumer: Any, quiet_ms: int = NONE_MS) -> list[Any]:
    """Take what comes until nothing has come for a while."""
    got: list[Any] = []
    with contextlib.suppress(pulsar.Timeout):
        while True:
            got.append(consumer.receive(quiet_ms))
    return got
