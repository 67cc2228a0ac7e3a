"""A producer's actor with everybody around it played by a test."""

from collections.abc import Sequence
from typing import Any, cast

from binding_bench import BindingBench
from loop_in_hand import actor_of

from pulsar_actors.machines.ledgers.backoff import Backoff
from pulsar_actors.machines.ledgers.batching import BatchLimits
from pulsar_actors.machines.ledgers.pending_sends import PendingSends
from pulsar_actors.machines.ledgers.send_quota import SendQuota
from pulsar_actors.machines.ledgers.sequence_ids import SequenceIds
from pulsar_actors.machines.producer import Producer, ProducerSettings
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.members import Member
from pulsar_actors.runtime.outbox import Outbox
from pulsar_actors.runtime.outgoing import Alone, Ended, Said, SentTo
from pulsar_actors.runtime.packing import Packed
from pulsar_actors.runtime.producer_actor import MessagesLeft, ProducerActor
from pulsar_actors.runtime.publication import Manner
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

MANNER = Manner(CompressionType.NONE, 30.0, by_key=False, in_chunks=False)


class ProducerBench(BindingBench):
    """One producer: `limits` are those of its batches, and `told` is what its senders were told."""

    kind = "producer"

    def __init__(
        self,
        limits: BatchLimits | None = None,
        manner: Manner = MANNER,
        places: int = 0,
        interleaving: Interleaving = THREADS,
    ) -> None:
        super().__init__()
        self.told: list[tuple[bytes, SentTo | Exception]] = []
        pending: PendingSends[Any] = PendingSends(SendQuota(places), SendQuota(0))
        command = CommandProducer(topic="persistent://public/default/t", producer_id=7, request_id=0)
        settings = ProducerSettings(command, Packed.is_intact)
        self.machine = Producer(settings, pending, SequenceIds(None), Backoff(self.loop.chance))
        self.outbox = Outbox(pending, limits, self._report, interleaving)
        self.actor = ProducerActor.start(self.loop, self.place, self.ties, self.machine, self.outbox, manner)
        self.loop.run()

    def _report(self, ended: Sequence[Ended]) -> None:
        self.told += [(cast("bytes", reply), outcome) for replies, outcome in ended for reply in replies]

    def member(self) -> Member:
        return Member("producer", 7, self.actor, self.number)

    def success(self, **more: Any) -> CommandProducerSuccess:
        return CommandProducerSuccess(**{"request_id": 1, "producer_name": "the producer", **more})

    def create(self) -> None:
        self.reply(self.attach(), self.success())

    def put(self, payload: bytes = b"payload", alone: Alone | None = None, **said: Any) -> None:
        """Leave a message as a caller does, who wants its payload back."""
        place: object = payload
        if said or alone:
            place = Said.of(SingleMessageMetadata(payload_size=len(payload), **said), alone, payload)
        if self.outbox.put(payload, place):
            tell(self.actor, MessagesLeft())

    def send(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.put(payload)
        self.loop.run()

    def written(self) -> list[tuple[CommandSend, Entry]]:
        """What the broker gets, once the socket takes it."""
        found: list[Any] = []
        for shipped in self.to_connection():
            data = b"".join(buffer for parcel in getattr(shipped, "parcels", ()) for buffer in parcel.buffers())
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
