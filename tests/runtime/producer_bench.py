"""A producer's actor with everybody around it played by a test."""

from collections.abc import Sequence
from typing import Any, cast

from pulsar_actors.machines.producer import ProducerMachine, ProducerSettings
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.machines.trackers.pending_messages import PendingMessages, SendQuota
from pulsar_actors.machines.trackers.producer_identity import SequenceIds
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.batch_builder import BatchBuilderSettings, PackedMessages
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.messages import HandlerRef
from pulsar_actors.runtime.producer_actor import MessagesEnqueued, ProducerActor
from pulsar_actors.runtime.send_queue import MessageHeader, SendOutcome, SendQueue, SentTo, UnbatchableOptions
from pulsar_actors.wire.commands import decode_command
from pulsar_actors.wire.entries import Entry, decode_entry
from pulsar_actors.wire.frames import FrameReader
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandProducer,
    CommandProducerSuccess,
    CommandSend,
    CommandSendReceipt,
    CompressionType,
    MessageIdData,
    SingleMessageMetadata,
)
from tests.runtime.binding_bench import BindingBench
from tests.support.manual_loop import actor_of

MANNER = BatchBuilderSettings(CompressionType.NONE, 30.0, by_key=False, in_chunks=False)


class ProducerBench(BindingBench):
    """One producer: `limits` are those of its batches, and `told` is what its senders were told."""

    kind = "producer"

    def __init__(
        self,
        limits: BatchLimits | None = None,
        batch_settings: BatchBuilderSettings = MANNER,
        places: int = 0,
        interleaving: Interleaving = THREADS,
    ) -> None:
        super().__init__()
        self.told: list[tuple[bytes, SentTo | Exception]] = []
        pending: PendingMessages[Any] = PendingMessages(SendQuota(places), SendQuota(0))
        command = CommandProducer(topic="persistent://public/default/t", producer_id=7, request_id=0)
        settings = ProducerSettings(command, PackedMessages.is_intact)
        self.machine = ProducerMachine(settings, pending, SequenceIds(None), Backoff(self.loop.chance))
        self.send_queue = SendQueue(pending, limits, self._report, interleaving)
        self.actor = ProducerActor.start(self.registration, self.link, self.machine, self.send_queue, batch_settings)
        self.loop.run()

    def _report(self, ended: Sequence[SendOutcome]) -> None:
        self.told += [(cast("bytes", reply), outcome) for replies, outcome in ended for reply in replies]

    def member(self) -> HandlerRef:
        return HandlerRef("producer", 7, self.actor, self.number)

    def success(self, **more: Any) -> CommandProducerSuccess:
        return CommandProducerSuccess(**{"request_id": 1, "producer_name": "the producer", **more})

    def create(self) -> None:
        self.reply(self.attach(), self.success())

    def put(self, payload: bytes = b"payload", alone: UnbatchableOptions | None = None, **said: Any) -> None:
        """Leave a message as a caller does, who wants its payload back."""
        tag: object = payload
        if said or alone:
            tag = MessageHeader.of(SingleMessageMetadata(payload_size=len(payload), **said), alone, payload)
        if self.send_queue.put(payload, tag):
            tell(self.actor, MessagesEnqueued())

    def send(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.put(payload)
        self.loop.run()

    def written(self) -> list[tuple[CommandSend, Entry]]:
        """What the broker gets, once the socket takes it."""
        found: list[Any] = []
        for shipped in self.to_connection():
            data = b"".join(buffer for outgoing in getattr(shipped, "frames", ()) for buffer in outgoing.buffers())
            frames = FrameReader().feed(data)
            found += [(decode_command(frame.command), decode_entry(frame.rest)) for frame in frames]
        return found

    def receipt(self, sequence_id: int, entry_id: int = 1) -> CommandSendReceipt:
        return CommandSendReceipt(
            producer_id=7, sequence_id=sequence_id, message_id=MessageIdData(ledgerId=1, entryId=entry_id)
        )

    @property
    def inside(self) -> Any:
        return actor_of(self.actor)
