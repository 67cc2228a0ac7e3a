"""What one task sends: all of it is stored when `finish` returns, or an error says what was not, and why.

Nobody is told of each message. A task needs to know no more than whether any failed, and a producer counts those: so
it costs nothing to be told. Two tasks that use one producer at the same time, which Spark's workers do not, would both
fail by what one of them has sent.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pulsar_actors.client.enums import ProducerAccessMode
from pulsar_actors.client.producing.producer import Producer, door_of, failures_of
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.spark.pool import Kept, Recipe

__all__ = ["USUAL", "Shipment"]

USUAL: Final[Mapping[str, Any]] = {
    "batching_enabled": True,
    "max_pending_messages": 10_000,
    "block_if_queue_full": True,
}
"""What a producer is made with that was told nothing else: a task sends many messages, and nobody waits for one."""


class Shipment:
    """That of one task, by a client that was lent to it."""

    def __init__(self, kept: Kept, arguments: Mapping[str, Any]) -> None:
        self._kept = kept
        self._recipe = Recipe({**USUAL, **arguments})
        shares = arguments.get("access_mode", ProducerAccessMode.Shared) is ProducerAccessMode.Shared
        self._is_alone = arguments.get("producer_name") is not None or not shares
        self._failed_before: dict[Producer, int] = {}
        self.messages = 0
        self.size = 0

    def leave(self, topic: str, payloads: Sequence[bytes], said: Sequence[object]) -> None:
        """Leave messages for a topic, with what is said of each, waiting for room where there is none.

        An error says that some have failed.
        """
        producer = self._kept.producer(topic, self._recipe)
        failed = failures_of(producer)
        if failed.number > self._failed_before.setdefault(producer, failed.number):
            self._raise(producer)
        leave = door_of(producer).leave
        for payload, one in zip(payloads, said, strict=True):
            leave(payload, one)
        self.messages += len(payloads)
        self.size += sum(map(len, payloads))

    def finish(self) -> None:
        """Wait until all of it is stored. Where only one producer may be, it is closed: another worker may be next."""
        for producer in self._failed_before:
            if producer.is_open:  # what had to give way to others was stored before it went
                producer.flush()
        for producer, before in self._failed_before.items():
            if failures_of(producer).number > before:
                self._raise(producer)
            if self._is_alone:
                producer.close()

    def _raise(self, producer: Producer) -> None:
        count, last = failures_of(producer)
        failed = count - self._failed_before[producer]
        raise PulsarException(
            f"{failed:,} of the messages that this task sent to {producer.topic()} were not stored; the last of them: "
            f"{last}"
        )
