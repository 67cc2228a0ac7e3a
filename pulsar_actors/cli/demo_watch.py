"""`demo --watch`: messages flow steadily until Ctrl-C, and a page in your browser shows the state machines at work.

The broker is an embedded one in this process, so that its faults can be clicked on the page. Every message is verified
as in the other demo. No fault makes the client lose one.
"""

import secrets
import threading
from argparse import Namespace
from contextlib import ExitStack
from typing import Final

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.model.settings import Settings
from pulsar_actors.cli.demo_traffic import NumberedPayloads, Verification
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import InitialPosition, Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import AlreadyClosed, PulsarException, Timeout

PERIOD: Final = 0.05
PER_PERIOD: Final = 10
_POLL_MS = 200
_PENDING = 1000
_JOIN_SECONDS = 10.0


def watch(arguments: Namespace) -> int:
    """Show it until Ctrl-C. The exit status is 1 if a message was lost or damaged, otherwise 0."""
    with ExitStack() as stack:
        broker = None
        if not arguments.service_url:
            broker = stack.enter_context(EmbeddedBroker(settings=Settings(deduplication=True)))
        client = stack.enter_context(Client(arguments.service_url or broker.service_url))  # type: ignore[union-attr]
        page = stack.enter_context(client.inspect(broker=broker))
        flow = Flow(client, f"demo-{secrets.token_hex(4)}", arguments.size)
        print(f"open         {page.url}")
        print("ready; Ctrl-C ends it", flush=True)
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            flow.stop()
        print("\n".join(flow.summary()))
        return 0 if flow.verification.fault is None else 1


class Flow:
    """A thread that sends, and one that receives and verifies."""

    def __init__(self, client: Client, topic: str, size: int) -> None:
        self._payloads = NumberedPayloads(size)
        self.verification = Verification(self._payloads)
        self.sent = 0
        self.stored = 0
        self._consumer = client.subscribe(topic, "demo", initial_position=InitialPosition.Earliest)
        self._producer = client.create_producer(
            topic, send_timeout_millis=0, max_pending_messages=_PENDING, block_if_queue_full=True, batching_enabled=True
        )
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=work, name=f"demo-{name}", daemon=True)
            for name, work in (("sender", self._send), ("receiver", self._receive))
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End both threads. What is on its way then is not received any more."""
        self._ends.set()
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    def summary(self) -> list[str]:
        """Return what has happened, as lines of text."""
        verification = self.verification
        again = verification.delivered_again + verification.stored_again
        lines = [
            f"sent         {self.sent:,} messages, of which {self.stored:,} are stored",
            f"received     {verification.due:,}, and {again:,} again",
        ]
        if verification.fault is None:
            lines.append("verified     each is what was sent, in order, and none is missing")
        else:
            lines.append(f"failed       {verification.fault}")
        return lines

    def _send(self) -> None:
        while not self._ends.wait(PERIOD):
            for _ in range(PER_PERIOD):
                try:
                    self._producer.send_async(self._payloads.of(self.sent), self._answered)
                except AlreadyClosed:
                    return
                self.sent += 1

    def _answered(self, result: Result, _: MessageId) -> None:
        self.stored += result is Result.Ok

    def _receive(self) -> None:
        while not self._ends.is_set():
            try:
                message = self._consumer.receive(_POLL_MS)
                self.verification.check(message.data(), message.message_id())
                self._consumer.acknowledge(message)
            except Timeout:
                continue
            except PulsarException:
                return
