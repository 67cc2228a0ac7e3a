"""What the tests do over and over with a client, and always within a deadline."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

SOON = 10_000  # milliseconds in which anything that will come has come
QUIET = 300  # milliseconds of silence after which a test believes that nothing more comes
POLL_SECONDS = 0.02
NEVER_BY_TIME: dict[str, Any] = {"batching_enabled": True, "batching_max_publish_delay_ms": 60_000}
LETTERS = [b"a", b"b", b"c", b"d", b"e"]

OPENINGS: dict[str, Callable[[Any, Any, Any], object]] = {
    "create_producer": lambda pulsar, client, topic: client.create_producer(topic),
    "subscribe": lambda pulsar, client, topic: client.subscribe(topic, "s"),
    "create_reader": lambda pulsar, client, topic: client.create_reader(topic, pulsar.MessageId.earliest),
    "get_topic_partitions": lambda pulsar, client, topic: client.get_topic_partitions(topic),
}
"""How a program may ask for a topic."""


def receive(consumer: Any, count: int) -> list[Any]:
    """Take so many messages."""
    return [consumer.receive(SOON) for _ in range(count)]


def contents(messages: Iterable[Any]) -> list[bytes]:
    return [each.data() for each in messages]


def drained(pulsar: Any, consumer: Any, quiet: int = QUIET) -> list[Any]:
    """Take and acknowledge what comes until nothing has come for a while."""
    found: list[Any] = []
    with contextlib.suppress(pulsar.Timeout):
        while True:
            found.append(consumer.receive(quiet))
            consumer.acknowledge(found[-1])
    return found


def rest(pulsar: Any, consumer: Any) -> list[bytes]:
    """Take what comes until nothing has come for a while. The first has more time: it may be far."""
    found = [consumer.receive(SOON).data()]
    with contextlib.suppress(pulsar.Timeout):
        while True:
            found.append(consumer.receive(QUIET).data())
    return found


def nothing_comes(pulsar: Any, consumer: Any) -> bool:
    try:
        consumer.receive(QUIET)
    except pulsar.Timeout:
        return True
    return False


def read_rest(reader: Any) -> list[bytes]:
    """Read as long as something is there to read."""
    found: list[bytes] = []
    while reader.has_message_available():
        found.append(reader.read_next(SOON).data())
    return found


def stored(pulsar: Any, client: Any, topic: str) -> list[bytes]:
    """All that a topic holds, in order."""
    return read_rest(client.create_reader(topic, pulsar.MessageId.earliest))


def acknowledged_all(consumer: Any, messages: Iterable[Any]) -> None:
    for each in messages:
        consumer.acknowledge(each)


class Side(NamedTuple):
    """One of two clients that have to do with each other, and its module."""

    pulsar: Any
    client: Any


class Outcomes:
    """What `send_async` said of each message, in the order in which it said so."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._told: list[tuple[Any, Any]] = []

    def __call__(self, result: Any, message_id: Any) -> None:
        with self._changed:
            self._told.append((result, message_id))
            self._changed.notify_all()

    def wait(self, count: int) -> list[tuple[Any, Any]]:
        """Wait until so many have been told."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._told) >= count, SOON / 1000), (
                f"{len(self._told)} of {count}"
            )
            return list(self._told)

    def results(self, count: int) -> list[Any]:
        return [result for result, _ in self.wait(count)]

    def ids(self, count: int) -> list[Any]:
        return [message_id for _, message_id in self.wait(count)]


def send_all(producer: Any, payloads: Iterable[bytes | None], **fields: Any) -> list[Any]:
    """Send together, so that batches form where they may; give the ids."""
    payloads = list(payloads)
    outcomes = Outcomes()
    for each in payloads:
        producer.send_async(each, outcomes, **fields)
    producer.flush()
    told = outcomes.wait(len(payloads))
    assert {int(result) for result, _ in told} <= {0}, told
    return [message_id for _, message_id in told]


def send_batch(pulsar: Any, client: Any, topic: str, payloads: list[bytes], **fields: Any) -> list[Any]:
    """Send as one batch, which nothing but its size closes."""
    producer = client.create_producer(topic, batching_max_messages=len(payloads), **NEVER_BY_TIME)
    return send_all(producer, payloads, **fields)


def letters_sent(pulsar: Any, client: Any, topic: str, *, batched: bool) -> list[Any]:
    """Send five messages, as one batch or one by one."""
    return send_batch(pulsar, client, topic, LETTERS) if batched else send_all(client.create_producer(topic), LETTERS)


def shared_out(modules: Sequence[Any], consumers: Sequence[Any], count: int) -> list[list[Any]]:
    """Receive so many messages with consumers of one subscription, each of its module; give the share of each."""
    found: list[list[Any]] = [[] for _ in consumers]
    while sum(map(len, found)) < count:
        for module, consumer, share in zip(modules, consumers, found, strict=True):
            with contextlib.suppress(module.Timeout):
                share.append(consumer.receive(50))
                consumer.acknowledge(share[-1])
    return found


def until(true: Callable[[], Any], seconds: float = SOON / 1000) -> Any:
    """Wait for something that nobody announces, and give it."""
    deadline = time.monotonic() + seconds
    while not (found := true()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(POLL_SECONDS)
    return found


def place(message_id: Any) -> tuple[int, int, int, int]:
    """An id as numbers: those of the official client cannot be hashed, and refuse to be compared with other things."""
    return (message_id.ledger_id(), message_id.entry_id(), message_id.partition(), message_id.batch_index())


class InThread:
    """A call that may block, in a thread of its own."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._given: Any = None
        self._raised: BaseException | None = None
        self.entered = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self._thread.start()
        assert self.entered.wait(SOON / 1000)

    def _run(self, call: Callable[[], Any]) -> None:
        self.entered.set()
        try:
            self._given = call()
        except BaseException as error:  # noqa: BLE001 -- it is raised again where the test waits
            self._raised = error

    def result(self) -> Any:
        self._thread.join(SOON / 1000)
        assert not self._thread.is_alive(), "it still blocks"
        if self._raised is not None:
            raise self._raised
        return self._given
