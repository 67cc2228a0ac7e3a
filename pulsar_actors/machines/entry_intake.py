"""What becomes of each entry that a broker delivers.

Most are handed over as they are. Some the user must not see: sent before the last redelivery of everything, corrupt,
acknowledged already with the acknowledgement still held here, before the start position, one chunk of many, tried too
often. A chunk that is of no use yet is set aside, to come again after a rest. All of them used permits, one for each
message but those that the broker masked, and what is not handed over gives its permits back.

An entry is opened here only as far as its metadata. Its payload is verified, inflated and split by the thread that
uses it, chunks apart: they are put together here, and so verified here.

The number of messages in a batch is what a producer wrote, and nobody has checked it. It is compared with the bytes
that are there before a set of that size is made. The broker deducted that number all the same, so that many permits are
given back.

An entry whose id is below 0, which stands for none, is refused as corrupt: handed over it could be neither acknowledged
nor asked for again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pulsar_actors.machines.ledgers import ack_set, dead_letters
from pulsar_actors.machines.ledgers.ack_groups import AckGroups
from pulsar_actors.machines.ledgers.chunks import Chunk, ChunkAssembly, Whole
from pulsar_actors.machines.ledgers.dead_letters import DeadLetters
from pulsar_actors.machines.ledgers.entry_key import EntryKey, is_real
from pulsar_actors.machines.ledgers.redelivery import Redelivery
from pulsar_actors.machines.ledgers.start_position import StartPosition
from pulsar_actors.machines.left_out import Unfinished, Unreadable
from pulsar_actors.wire.batch import is_batch
from pulsar_actors.wire.compression import NONE
from pulsar_actors.wire.entries import Entry, open_entry
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, CommandMessage, MessageMetadata
from pulsar_actors.wire.strings import readable

ValidationError = CommandAck.ValidationError


class Incoming(NamedTuple):
    """A MESSAGE command and the bytes of its entry."""

    command: CommandMessage
    entry: memoryview


class Delivery(NamedTuple):
    """An entry to hand over.

    Of a batch, `wanted` is the set of messages to hand out; otherwise it is 1. Of a chunked message, `payload` is all
    of it, and `entry` that of its last chunk.
    """

    message_id: MessageId
    entry: Entry
    payload: bytes | memoryview
    wanted: int
    redelivery_count: int

    @property
    def messages(self) -> int:
        """How many messages there are to hand out, and places that they take."""
        return self.wanted.bit_count()


@dataclass(slots=True)
class Intake:
    """What came of the entries of one read; `arrived` and `returned` count permits, `passed` is the last entry."""

    arrived: int = 0
    returned: int = 0
    deliver: list[Delivery] = field(default_factory=list[Delivery])
    dead: list[Delivery] = field(default_factory=list[Delivery])
    acknowledge: list[MessageId] = field(default_factory=list[MessageId])
    corrupt: list[Unreadable] = field(default_factory=list[Unreadable])
    unfinished: list[Unfinished] = field(default_factory=list[Unfinished])
    passed: EntryKey | None = None

    def refuse(self, entry: EntryKey, fault: "ValidationError.ValueType", permits: int) -> None:
        """Note an entry that is corrupt."""
        self.arrived += permits
        self.returned += permits
        self.corrupt.append(Unreadable(entry, fault))


class EntryIntake:
    """The door of one consumer, and the ledgers it asks. `now` is monotonic seconds, `now_ms` wall-clock ms."""

    __slots__ = ("_ack_groups", "_chunks", "_dead_letters", "_redelivery", "_start", "leaves_out_acknowledged")

    def __init__(
        self,
        *,
        redelivery: Redelivery,
        ack_groups: AckGroups,
        start: StartPosition,
        chunks: ChunkAssembly,
        dead: DeadLetters[Delivery] | None,
    ) -> None:
        self._redelivery = redelivery
        self._ack_groups = ack_groups
        self._start = start
        self._chunks = chunks
        self._dead_letters = dead
        # Not so for a reader: it acknowledges by itself and goes on behind what it has opened. It meets that again only
        # if it was sent back, and then wants it again.
        self.leaves_out_acknowledged = True

    def take(self, messages: Sequence[Incoming], now: float, now_ms: int) -> Intake:
        """Judge the entries of one read, in their order."""
        intake = Intake()
        for message in messages:
            self._take_one(message, intake, now, now_ms)
        return intake

    def _take_one(self, message: Incoming, intake: Intake, now: float, now_ms: int) -> None:
        command = message.command
        message_id = MessageId.entry_of(command.message_id)
        epoch = command.consumer_epoch if command.HasField("consumer_epoch") else None
        is_stale = self._redelivery.is_stale(epoch)
        if not is_stale:
            intake.passed = message_id.position
        try:
            entry = open_entry(message.entry)
        except EntryError as error:
            intake.refuse(message_id.position, error.validation_error, 1)
            return
        fault = self._fault(message_id, entry)
        if fault is not None:
            intake.refuse(message_id.position, fault, _deducted(command, entry.metadata))
            return
        size = entry.metadata.num_messages_in_batch
        sent = ack_set.delivered(command.ack_set, size) if is_batch(entry.metadata) else 1
        delivery = Delivery(message_id, entry, entry.payload, sent, command.redelivery_count)
        intake.arrived += delivery.messages
        if is_stale or (self.leaves_out_acknowledged and self._ack_groups.is_acknowledged(message_id)):
            intake.returned += delivery.messages
            return
        self._start.met(message_id.position)
        if entry.metadata.num_chunks_from_msg > 1:
            self._take_chunk(delivery, intake, now, now_ms)
        else:
            self._take_whole(delivery, intake)

    def _fault(self, message_id: MessageId, entry: Entry) -> "ValidationError.ValueType | None":
        """Tell what is wrong with an entry, as far as its id and its metadata show."""
        if not is_real(message_id.position):
            return ValidationError.ChecksumMismatch
        is_chunk = entry.metadata.num_chunks_from_msg > 1
        if is_batch(entry.metadata) and (is_chunk or not self._is_possible_batch(entry)):
            return ValidationError.BatchDeSerializeError
        return None

    def _is_possible_batch(self, entry: Entry) -> bool:
        """Tell whether so many messages can be in the entry. An empty payload inflates to nothing, whatever it says."""
        metadata, room = entry.metadata, len(entry.payload)
        if room and metadata.compression != NONE:
            room = metadata.uncompressed_size
        return 0 < metadata.num_messages_in_batch <= min(ack_set.largest_batch(room), self._ack_groups.largest_batch)

    def _take_whole(self, delivery: Delivery, intake: Intake) -> None:
        """Leave out what was acknowledged already, or comes before the start."""
        sent = wanted = delivery.wanted
        if is_batch(delivery.entry.metadata):
            wanted = self._wanted_of_batch(delivery, intake)
        elif self._start.is_before(delivery.message_id.position):
            wanted = 0
        intake.returned += (sent ^ wanted).bit_count()
        if wanted:
            self._hand_over(delivery if wanted == sent else delivery._replace(wanted=wanted), intake)

    def _wanted_of_batch(self, delivery: Delivery, intake: Intake) -> int:
        entry, sent, size = delivery.message_id.position, delivery.wanted, delivery.entry.metadata.num_messages_in_batch
        left = self._ack_groups.left_of(entry, sent) if self.leaves_out_acknowledged else sent
        if not left:  # the broker knows of some, only we of the others: nobody else can tell that this is all
            intake.acknowledge.append(delivery.message_id)
        elif sent < ack_set.full(size):
            self._ack_groups.delivered(entry, left)
        first = self._start.first_wanted(entry, size)
        return ack_set.without_up_to(left, first - 1) if first else left

    def _take_chunk(self, delivery: Delivery, intake: Intake, now: float, now_ms: int) -> None:
        try:
            delivery.entry.verify()
        except EntryError as fault:
            intake.returned += 1
            intake.corrupt.append(Unreadable(delivery.message_id.position, fault.validation_error))
            return
        self._redelivery.came(delivery.message_id.position)
        chunk = _chunk(delivery, now_ms)
        outcome = self._chunks.add(chunk, now)
        for one in outcome.later:
            self._redelivery.set_aside(one.position, delivery.redelivery_count, now)
        intake.returned += outcome.permits
        intake.acknowledge += outcome.acknowledge
        wrong_size = ValidationError.UncompressedSizeCorruption
        intake.corrupt += [Unreadable(one.position, wrong_size) for one in outcome.corrupt]
        if outcome.whole is not None:
            self._take_put_together(delivery, outcome.whole, intake)
        elif chunk.chunk_id + 1 == chunk.num_chunks and not outcome.corrupt:
            published = delivery.entry.metadata.publish_time
            intake.unfinished.append(Unfinished(chunk.message_id.position, chunk.uuid, published))

    def _take_put_together(self, last: Delivery, whole: Whole, intake: Intake) -> None:
        """Leave out what a reader has opened, and met again because another message began before it."""
        if self._start.is_before(whole.message_id.position):
            intake.returned += last.messages
        else:
            self._hand_over(last._replace(message_id=whole.message_id, payload=whole.payload), intake)

    def _hand_over(self, delivery: Delivery, intake: Intake) -> None:
        """Deliver, unless it was tried too often."""
        verdict = dead_letters.Verdict.DELIVER
        if self._dead_letters is not None:
            entry, count = delivery.message_id.position, delivery.redelivery_count
            verdict = self._dead_letters.arrived(entry, count, (delivery,))
        if verdict in (dead_letters.Verdict.DELIVER, dead_letters.Verdict.LAST_TRY):
            intake.deliver.append(delivery)
            return
        intake.returned += delivery.messages
        if verdict is dead_letters.Verdict.DEAD:
            intake.dead.append(delivery)


def _deducted(command: CommandMessage, metadata: MessageMetadata) -> int:
    """Count the permits that the broker took for an entry, which goes by what the entry says of itself."""
    declared = max(1, metadata.num_messages_in_batch)
    if not (command.ack_set and is_batch(metadata)):
        return declared
    return ack_set.delivered(command.ack_set, declared).bit_count()


def _chunk(delivery: Delivery, now_ms: int) -> Chunk:
    metadata = readable(delivery.entry.metadata)
    return Chunk(
        delivery.message_id,
        metadata.uuid,
        metadata.chunk_id,
        metadata.num_chunks_from_msg,
        metadata.total_chunk_msg_size,
        bytes(delivery.payload),
        (now_ms - metadata.publish_time) / 1000,
    )
