"""Messages sent and received at once, by two threads, with every connection cut when half of them were sent.

The sender batches, as a program does that has much to send, and keeps no more than some steps ahead of the receiver,
which judges each message and acknowledges it: so both are busy for as long as it takes. Both go on through the cut as
if nothing had happened: they do nothing about it, for that is the client's business. What is counted here is what a
user's program would see.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from pulsar_actors.cli.cuttable import CuttableEngine
from pulsar_actors.cli.verification import Contents, Verification
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import InitialPosition, Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import Timeout

PATIENCE: Final = 30.0
"""Seconds without any message, after which those that are missing count as lost."""

_LOOK_UP_MS = 200
_PENDING = 10_000
_STEP = 1000
_STEPS_AHEAD = 20


class Traffic:
    """One run. `finished` is set when all is received and acknowledged, or something is wrong: `fault` says what."""

    def __init__(self, client: Client, engine: CuttableEngine, topic: str, count: int, size: int) -> None:
        self.count = count
        self.contents = Contents(size)
        self.verification = Verification(self.contents)
        self.consumer = client.subscribe(topic, "demo", initial_position=InitialPosition.Earliest)
        self.producer = client.create_producer(
            topic,
            batching_enabled=True,
            batching_max_messages=max(1, min(_STEP, count // 20)),
            max_pending_messages=_PENDING,
            block_if_queue_full=True,
        )
        self.sent = 0
        self.acknowledged = 0
        """Messages that the broker has said it stored."""
        self.received = 0
        """Messages that have come, those that came twice included."""
        self.connections_cut = 0
        self.pending_at_cut = 0
        self.outage: float | None = None
        """Seconds from the cut to the first message that the broker acknowledged after it."""
        self.longest_wait = 0.0
        """Seconds from one message that came to the next."""
        self.seconds_sending = self.seconds_receiving = 0.0
        """Until the last was acknowledged, and until the last has come; 0 if it did not."""
        self.fault: str | None = None
        self.finished = threading.Event()
        self._engine = engine
        self._half = count // 2
        self._steps = threading.Semaphore(_STEPS_AHEAD)
        self._cut_at: float | None = None
        self._began = time.monotonic()
        self._threads = [
            threading.Thread(target=self._guarded, args=(work,), name=f"demo-{name}", daemon=True)
            for name, work in (("sender", self._send), ("receiver", self._receive))
        ]

    def start(self) -> None:
        """Begin to send and to receive."""
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float) -> bool:
        """Send and receive no more, and tell whether that was so in time."""
        self.finished.set()
        self._steps.release()
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - whatever it is, whoever waits is told
            self._fail(f"{type(error).__name__}: {error}")

    def _send(self) -> None:
        for number in range(self.count):
            if number % _STEP == 0:
                self._steps.acquire()
            if self.finished.is_set():
                return
            self.producer.send_async(self.contents.of(number), self._stored)
            self.sent = number + 1
            if self.sent == self._half:
                self._engine.loop.post(self._cut, None)
        self.producer.flush()

    def _stored(self, result: Result, _: MessageId) -> None:
        """Count a message that the broker has; on the loop."""
        if result is not Result.Ok:
            self._fail(f"a message could not be sent: {result}")
            return
        self.acknowledged += 1
        if self._cut_at is not None and self.outage is None and self._engine.loop.has_opened:
            self.outage = time.monotonic() - self._cut_at
        if self.acknowledged == self.count:
            self.seconds_sending = time.monotonic() - self._began
            self._finish_if_done()

    def _cut(self, _: None) -> None:
        """Cut the connections; on the loop."""
        self.pending_at_cut = self.sent - self.acknowledged
        self._cut_at = time.monotonic()
        self.connections_cut = self._engine.loop.cut()

    def _receive(self) -> None:
        verification, consumer = self.verification, self.consumer
        last = time.monotonic()
        while verification.due < self.count and not self.finished.is_set():
            try:
                message = consumer.receive(_LOOK_UP_MS)
            except Timeout:
                if time.monotonic() - last > PATIENCE:
                    self._fail(f"nothing has come for {PATIENCE:g} s; message {verification.due:,} is due")
                continue
            now = time.monotonic()
            self.longest_wait, last = max(self.longest_wait, now - last), now
            self.received += 1
            verification.take(message.data(), message.message_id())
            if verification.fault is not None:
                self._fail(verification.fault)
            consumer.acknowledge(message)
            if self.received % _STEP == 0:
                self._steps.release()
        if verification.due == self.count:
            self.seconds_receiving = time.monotonic() - self._began
            self._finish_if_done()

    def _finish_if_done(self) -> None:
        if self.acknowledged == self.count == self.verification.due:
            self.finished.set()

    def _fail(self, fault: str) -> None:
        if self.fault is None and not self.finished.is_set():
            self.fault = fault
        self.finished.set()
