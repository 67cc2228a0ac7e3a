"""What a scenario holds while it drives the official client: a client through the tap, a ledger of what it sent.

The ledger knows each message by the id that the broker gave it. The capture looks a frame up there through the ids in
its command alone, so what a test expects of an entry comes from the script that sent it, never from a decoder.
"""

import importlib
import itertools
import logging
import tempfile
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from pulsar_actors.wire.PulsarApi_pb2 import MessageIdData
from tests.support.admin import Admin
from tests.support.ports import free_ports
from tests.support.standalone import Standalone
from tests.support.tap import Tap

pulsar: Any = importlib.import_module("pulsar")  # ships no types

Sent = dict[str, Any]
NOT_SENT_WITHIN_SECONDS = 20
DOORS = """
bindAddresses=tap:pulsar://127.0.0.1:{outer}
advertisedListeners=inner:{inner},tap:pulsar://127.0.0.1:{tap}
internalListenerName=inner
"""


class Broker(NamedTuple):
    outer: int  # the port a recorder forwards to
    admin: Admin


@contextmanager
def running_broker(tap: int, settings: str = "") -> Generator[Broker, None, None]:
    """Start a broker, with these lines added to its configuration, and stop it at the end.

    It has two doors: its own clients (of system topics and transactions) use one, and a client that comes in by the
    other is told by every lookup to come back to `tap`, the port where the recorder stands.
    """
    (outer,) = free_ports(1)
    with tempfile.TemporaryDirectory() as scratch:
        standalone = Standalone(Path(scratch))
        standalone.configure(DOORS.format(outer=outer, inner=standalone.service_url, tap=tap) + settings)
        standalone.start()
        try:
            yield Broker(outer, standalone.admin)
        finally:
            standalone.kill()


class Stage:
    def __init__(self, name: str, tap: Tap, broker: Broker) -> None:
        self.name = name
        self.tap = tap
        self.broker = broker
        self.sent: dict[tuple[int, int], list[tuple[int, Sent]]] = {}
        self.ids: list[dict[str, Any]] = []
        self._clients: list[Any] = []
        self._names = itertools.count()

    def step(self, label: str) -> None:
        self.tap.step = label

    def client(self, **options: Any) -> Any:
        silent = logging.getLogger("pulsar-vectors")
        silent.setLevel(logging.CRITICAL + 1)
        made = pulsar.Client(f"pulsar://127.0.0.1:{self.tap.port}", logger=silent, **options)
        self._clients.append(made)
        return made

    def close(self) -> None:
        while self._clients:
            self._clients.pop().close()

    def topic(self) -> str:
        return f"persistent://public/default/{self.name}-{next(self._names)}"

    def send(self, producer: Any, payload: bytes | None, **fields: Any) -> Any:
        """Send one message and wait for its receipt."""
        return self.send_all(producer, [{"payload": payload, **fields}])[0]

    def send_all(self, producer: Any, messages: list[Sent]) -> list[Any]:
        """Send messages together, flush, and wait for every receipt."""
        ids: list[Any] = [None] * len(messages)
        waiting = threading.Semaphore(0)

        def receipt_for(index: int) -> Callable[[Any, Any], None]:
            def receipt(result: Any, message_id: Any) -> None:
                ids[index] = message_id if result == pulsar.Result.Ok else None
                waiting.release()

            return receipt

        for index, message in enumerate(messages):
            options = {name: value for name, value in message.items() if name != "payload"}
            producer.send_async(message["payload"], receipt_for(index), **options)
        producer.flush()
        for _ in messages:
            if not waiting.acquire(timeout=NOT_SENT_WITHIN_SECONDS):
                raise TimeoutError(self.tap.step)
        for message, message_id in zip(messages, ids, strict=True):
            if message_id is not None:
                self._remember(message, message_id)
        return ids

    def note_id(self, message_id: Any) -> None:
        """Keep how the client serialises an id."""
        self.ids.append(
            {
                "ledger": message_id.ledger_id(),
                "entry": message_id.entry_id(),
                "partition": message_id.partition(),
                "batch_index": message_id.batch_index(),
                "serialised": message_id.serialize().hex(),
            }
        )

    def _remember(self, message: Sent, message_id: Any) -> None:
        self.note_id(message_id)
        last = MessageIdData.FromString(message_id.serialize())
        payload = message["payload"]
        kept = {**message, "payload": None if payload is None else payload.hex()}
        self.remember(last.ledgerId, last.entryId, last.batch_index, kept)

    def remember(self, ledger: int, entry: int, batch_index: int, message: Sent) -> None:
        """Note one message; of a chunked one, the entry is that of the last chunk."""
        self.sent.setdefault((ledger, entry), []).append((batch_index, message))

    def messages_of(self, ledger: int, entry: int) -> list[Sent]:
        """What one entry holds, in the order of its batch."""
        return [message for _, message in sorted(self.sent.get((ledger, entry), []), key=lambda each: each[0])]
