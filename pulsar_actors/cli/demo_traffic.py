"""The messages of the demo: two threads send and receive at the same time, and all connections are cut half-way.

The sender batches, and is at most a few steps ahead of the receiver, which verifies and acknowledges each message. So
both are busy for the whole run. Neither handles the cut: the client reconnects by itself. All counts are those that a
user's program would see.

`Verification` checks that each message comes unchanged and in order. A message has its number and padding that depends
only on the number, so a damaged, lost, repeated or misplaced message is noticed.

Pulsar delivers at least once, so a repeated message is no fault. Its message id shows the reason. A message with a
known id was *delivered again*, because its acknowledgement had not reached the broker. A message with a new id was
*stored again*, because its receipt had not reached the producer, which sent it once more; a broker with deduplication
stores it once.

`CuttableEngine` is the client's usual engine, whose transports can be cut, like by a network failure. A cut closes the
client's socket, and drops all bytes that were not sent or read yet.
"""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import InitialPosition, Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import Timeout
from pulsar_actors.runtime.loop import Buffer, Transport, TransportOwner
from pulsar_actors.runtime.thread_engine import ThreadEngine
from pulsar_actors.runtime.thread_loop import ThreadLoop

PATIENCE: Final = 30.0
"""Seconds without a message after which the missing ones count as lost."""

_POLL_MS = 200
_PENDING = 10_000
_STEP = 1000
_STEPS_AHEAD = 20


class Traffic:
    """One run. `finished` is set when all messages are received and acknowledged, or when there is a `fault`."""

    def __init__(self, client: Client, engine: "CuttableEngine", topic: str, count: int, size: int) -> None:
        self.count = count
        self.payloads = NumberedPayloads(size)
        self.verification = Verification(self.payloads)
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
        """Messages whose receipt has come."""
        self.received = 0
        """Messages received, repeated ones included."""
        self.connections_cut = 0
        self.pending_at_cut = 0
        self.outage: float | None = None
        """Seconds from the cut to the first receipt after it."""
        self.longest_wait = 0.0
        """Seconds from one received message to the next."""
        self.seconds_sending = self.seconds_receiving = 0.0
        """Until the last receipt, and until the last message was received; 0 if it did not come."""
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
        """Start both threads."""
        self._began = time.monotonic()
        for thread in self._threads:
            thread.start()

    def stop(self, timeout: float) -> bool:
        """Stop both threads, and return whether they ended in time."""
        self.finished.set()
        self._steps.release()
        for thread in self._threads:
            thread.join(timeout)
        return not any(thread.is_alive() for thread in self._threads)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the run fails with it, whatever it is
            self._fail(f"{type(error).__name__}: {error}")

    def _send(self) -> None:
        for number in range(self.count):
            if number % _STEP == 0:
                self._steps.acquire()
            if self.finished.is_set():
                return
            self.producer.send_async(self.payloads.of(number), self._stored)
            self.sent = number + 1
            if self.sent == self._half:
                self._engine.loop.post(self._cut, None)
        self.producer.flush()

    def _stored(self, result: Result, _: MessageId) -> None:
        """Count a message that was stored; runs on the event loop."""
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
        """Cut the connections; runs on the event loop."""
        self.pending_at_cut = self.sent - self.acknowledged
        self._cut_at = time.monotonic()
        self.connections_cut = self._engine.loop.cut()

    def _receive(self) -> None:
        verification, consumer = self.verification, self.consumer
        last = time.monotonic()
        while verification.due < self.count and not self.finished.is_set():
            try:
                message = consumer.receive(_POLL_MS)
            except Timeout:
                if time.monotonic() - last > PATIENCE:
                    self._fail(f"nothing has come for {PATIENCE:g} s; message {verification.due:,} is due")
                continue
            now = time.monotonic()
            self.longest_wait, last = max(self.longest_wait, now - last), now
            self.received += 1
            verification.check(message.data(), message.message_id())
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


MIN_SIZE = 8
"""The least bytes of a payload: those of its number."""

_FILLINGS = 251
_ALL_BYTES = bytes(range(256))


class NumberedPayloads:
    """The payloads of messages of one size."""

    def __init__(self, size: int) -> None:
        self._fill = size - MIN_SIZE
        self._source = _ALL_BYTES * (self._fill // len(_ALL_BYTES) + 2)

    def of(self, number: int) -> bytes:
        """Return the payload of a message."""
        shift = number % _FILLINGS
        return number.to_bytes(MIN_SIZE, "big") + self._source[shift : shift + self._fill]


class Verification:
    """Verifies received messages. `fault` is the first error found, or None."""

    def __init__(self, payloads: NumberedPayloads) -> None:
        self._payloads = payloads
        self._last = MessageId.earliest
        self.due = 0
        """The number of the next message; as many have been received, repeated ones not counted."""
        self.delivered_again = 0
        self.stored_again = 0
        self.fault: str | None = None

    def check(self, payload: bytes, message_id: MessageId) -> None:
        """Verify a received message."""
        number = int.from_bytes(payload[:MIN_SIZE], "big")
        if payload != self._payloads.of(number):
            self._fail(f"message {message_id} is not what was sent: {len(payload):,} bytes that begin {payload[:16]!r}")
        elif number == self.due:
            self.due += 1
            self._last = message_id
        elif number > self.due:
            self._fail(f"message {number:,} came when {self.due:,} was due: those between are lost or late")
        elif message_id > self._last:
            self.stored_again += 1
            self._last = message_id
        else:
            self.delivered_again += 1

    def _fail(self, fault: str) -> None:
        if self.fault is None:
            self.fault = fault


class CuttableTransport(Transport):
    """A transport that can be cut. It passes all calls on between its owner and the real transport."""

    def __init__(self, owner: TransportOwner, loop: "CuttableLoop") -> None:
        self.transport: Transport | None = None
        self._owner = owner
        self._loop = loop
        loop.transports.add(self)

    def cut(self) -> None:
        """End the connection without a warning to either side."""
        self.close()
        self._owner.lost("the cable was cut")

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Pass the call on."""
        return 0 if self.transport is None else self.transport.send(buffers)

    def await_room(self) -> None:
        """Pass the call on."""
        if self.transport is not None:
            self.transport.await_room()

    def close(self) -> None:
        """Close the transport behind this one, once."""
        self._loop.transports.discard(self)
        if self.transport is not None:
            self.transport.close()
            self.transport = None

    def opened(self) -> None:
        """Pass the event on to the owner."""
        self._loop.has_opened = True
        self._owner.opened()

    def received(self, data: bytes) -> None:
        """Pass the event on to the owner."""
        self._owner.received(data)

    def writable(self) -> None:
        """Pass the event on to the owner."""
        self._owner.writable()

    def lost(self, reason: str) -> None:
        """Pass the event on to the owner."""
        self._loop.transports.discard(self)
        self._owner.lost(reason)


class CuttableLoop(ThreadLoop):
    """A loop that keeps its connections, to cut them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.transports: set[CuttableTransport] = set()
        self.has_opened = False
        """True if there has been a new connection since the last cut."""

    def connect(self, host: str, port: int, owner: TransportOwner, *, no_delay: bool = True) -> Transport:
        """Open a connection that can be cut."""
        transport = CuttableTransport(owner, self)
        transport.transport = super().connect(host, port, transport, no_delay=no_delay)
        return transport

    def cut(self) -> int:
        """Cut all connections, and return their number. Called on the loop only."""
        transports = list(self.transports)
        self.has_opened = False
        for transport in transports:
            transport.cut()
        return len(transports)


class CuttableEngine(ThreadEngine):
    """A thread engine with one loop, whose connections can be cut."""

    def __init__(self) -> None:
        super().__init__(io_threads=0, listener_threads=1)
        self.loop = CuttableLoop("pulsar-io-0")
        self.loops = [self.loop]
        self.loop.start()

    def stop(self, timeout: float) -> None:
        """Stop the loop as well."""
        self.loop.stop(0.0)
        super().stop(timeout)
        self.loop.stop(timeout)

    def forget_everything(self) -> None:
        """Release the inherited resources in a forked child, including the loop."""
        super().forget_everything()
        self.loop.forget_everything()
