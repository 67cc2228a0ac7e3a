"""The filter of incoming entries: for each one it decides if it is queued for the user.

Most entries are queued unchanged. These are not: entries that were sent before the last redelivery of everything,
corrupt ones, those that an unsent acknowledgement covers, those before the start position, single chunks, and those
that were redelivered too often. A chunk that cannot be used yet is set aside, and redelivered after a delay. Each entry
has used permits, one for each message that the broker's `ack_set` does not leave out. The permits of an entry that is
not queued are returned.

Only the metadata of an entry is read here. The thread that uses the entry verifies, decompresses and splits its
payload. Chunks are the exception: they are assembled here, and so verified here.

The number of messages in a batch is what its producer wrote, and no broker checks it. It is compared with the size of
the entry before a set of that size is made. The broker has deducted that many permits in any case, so that many are
returned.

An entry with an id below 0, which stands for no id, is refused as corrupt: it could neither be acknowledged nor be
redelivered.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from pulsar_actors.machines.trackers import ack_set, dead_letters
from pulsar_actors.machines.trackers.ack_grouping_tracker import AckGroupingTracker
from pulsar_actors.machines.trackers.chunked_messages import AssembledMessage, Chunk, ChunkedMessages
from pulsar_actors.machines.trackers.dead_letters import DeadLetters
from pulsar_actors.machines.trackers.entry_map import EntryKey, is_real
from pulsar_actors.machines.trackers.negative_acks_tracker import NegativeAcksTracker
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.batch import is_batch
from pulsar_actors.wire.compression import NONE
from pulsar_actors.wire.entries import Entry, parse_entry
from pulsar_actors.wire.errors import EntryError
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.protobuf import readable
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, CommandMessage, MessageMetadata


class CorruptEntry(NamedTuple):
    """An entry that is corrupt, and what is wrong with it."""

    entry: EntryKey
    fault: "CommandAck.ValidationError.ValueType"


class IncompleteChunks(NamedTuple):
    """The last chunk of a message that lacks others, for example because reading began after its first chunk.

    The publish time, in milliseconds since 1970, is the same for all chunks.
    """

    entry: EntryKey
    uuid: str
    publish_time: int


Skipped: TypeAlias = CorruptEntry | IncompleteChunks
"""An entry that a reader does not get. It is reported for programs that must not miss messages, such as Spark."""

ValidationError = CommandAck.ValidationError


IncomingEntry: TypeAlias = tuple[CommandMessage, bytes]
"""A MESSAGE command and the bytes of its entry."""


UNDECRYPTABLE: Final = object()
"""In place of a data key."""


class DeliveredEntry(NamedTuple):
    """An entry to queue for the user.

    `wanted` is the bit set of the messages of a batch to hand out, or 1 if the entry is no batch. For a chunked
    message, `entry` is its last chunk. `other_payload` replaces that of the entry: it is a whole chunked message, or
    what was decrypted.

    If chunks are encrypted, `parts` has the metadata and the payload of each, until they are decrypted. `data_key` is
    the data key of an entry that was decrypted and so verified, and UNDECRYPTABLE for an entry that is delivered as it
    was stored, because no key decrypts it.
    """

    message_id: MessageId
    entry: Entry
    wanted: int
    redelivery_count: int
    parts: tuple[tuple[MessageMetadata, bytes], ...] = ()
    data_key: object = None
    other_payload: bytes | None = None

    @property
    def payload(self) -> bytes:
        """The payload to open."""
        return self.entry.payload if self.other_payload is None else self.other_payload

    @property
    def messages(self) -> int:
        """The number of messages to hand out."""
        return self.wanted.bit_count()


_tuple: Any = tuple
_new_delivered_entry: Callable[
    [tuple[MessageId, Entry, int, int, tuple[tuple[MessageMetadata, bytes], ...], object, bytes | None]],
    DeliveredEntry,
] = partial(_tuple.__new__, DeliveredEntry)
"""Makes a DeliveredEntry from a tuple of all fields, in a third of the time."""


class IncomingOutcome:
    """The outcome of the entries of one read; `arrived` and `returned` count permits, `passed` is the last entry.

    `ends_chunks` is true if the last entry shows that a message in chunks will not be finished.
    """

    __slots__ = (
        "acknowledge", "arrived", "corrupt", "dead", "deliver", "ends_chunks", "has_chunks", "passed", "published",
        "returned", "unfinished",
    )  # fmt: skip

    def __init__(self) -> None:
        self.arrived = 0
        self.returned = 0
        self.deliver: list[DeliveredEntry] = []
        self.dead: list[DeliveredEntry] = []
        self.acknowledge: list[MessageId] = []
        self.corrupt: list[CorruptEntry] = []
        self.unfinished: list[IncompleteChunks] = []
        self.passed: EntryKey | None = None
        self.published: int | None = None
        self.has_chunks = False
        self.ends_chunks = False

    def refuse(self, entry: EntryKey, fault: "ValidationError.ValueType", permits: int) -> None:
        """Note an entry that is corrupt."""
        self.arrived += permits
        self.returned += permits
        self.corrupt.append(CorruptEntry(entry, fault))


class IncomingEntries:
    """Filters the entries of one consumer. `now` is monotonic seconds, `now_ms` wall-clock ms."""

    __slots__ = ("_ack_grouping", "_chunks", "_dead_letters", "_drops_acknowledged", "_negative_acks", "_start")

    def __init__(  # noqa: PLR0913 - the trackers that judge an entry
        self,
        *,
        negative_acks: NegativeAcksTracker,
        ack_grouping: AckGroupingTracker,
        start: StartMessageId,
        chunks: ChunkedMessages,
        dead_letters: DeadLetters[DeliveredEntry] | None,
        is_reader: bool,
    ) -> None:
        self._negative_acks = negative_acks
        self._ack_grouping = ack_grouping
        self._start = start
        self._chunks = chunks
        self._dead_letters = dead_letters
        # A reader acknowledges by itself, and resumes after the last opened entry. It gets acknowledged entries again
        # only after a seek back, and then must not drop them.
        self._drops_acknowledged = not is_reader

    def take(self, messages: Sequence[IncomingEntry], now: float, now_ms: int) -> IncomingOutcome:
        """Decide about the entries of one read, in order."""
        outcome = IncomingOutcome()
        for message in messages:
            self._take_one(message, outcome, now, now_ms)
        if self._negative_acks.next_due() is not None:
            for delivered in outcome.deliver:
                self._negative_acks.came(delivered.message_id.position)
        if outcome.published is not None:
            outcome.ends_chunks = self._chunks.note_entry((now_ms - outcome.published) / 1000, now)
        return outcome

    def _take_one(self, message: IncomingEntry, outcome: IncomingOutcome, now: float, now_ms: int) -> None:
        command, data = message
        message_id = MessageId.entry_of(command.message_id)
        position = message_id.position
        is_stale = command.HasField("consumer_epoch") and self._negative_acks.is_stale(command.consumer_epoch)
        if not is_stale:
            outcome.passed = position
        try:
            entry = parse_entry(data)
        except EntryError as error:
            outcome.refuse(position, error.validation_error, 1)
            return
        metadata = entry.metadata
        batched, chunked = is_batch(metadata), metadata.num_chunks_from_msg > 1
        if not is_real(position):
            outcome.refuse(position, ValidationError.ChecksumMismatch, _deducted(command, metadata))
            return
        if batched and (chunked or not self._is_possible_batch(entry)):
            outcome.refuse(position, ValidationError.BatchDeSerializeError, _deducted(command, metadata))
            return
        sent = ack_set.delivered(command.ack_set, metadata.num_messages_in_batch) if batched else 1
        messages = sent.bit_count()
        outcome.arrived += messages
        if is_stale or (
            self._drops_acknowledged
            and self._ack_grouping.is_acknowledged(position)
            and not (chunked and self._chunks.has_chunk(readable(metadata).uuid, position))
        ):
            outcome.returned += messages
            return
        outcome.published = metadata.publish_time
        self._start.note_arrival(position)
        delivery = _new_delivered_entry((message_id, entry, sent, command.redelivery_count, (), None, None))
        if chunked:
            self._take_chunk(delivery, outcome, now, now_ms)
        elif batched:
            self._take_batch(delivery, outcome)
        elif self._start.is_before(position):
            outcome.returned += 1
        else:
            self._deliver(delivery, outcome)

    def _is_possible_batch(self, entry: Entry) -> bool:
        """Return whether so many messages fit into the entry. An empty payload decompresses to no bytes."""
        metadata, room = entry.metadata, entry.payload_size
        if room and metadata.compression != NONE:
            room = metadata.uncompressed_size
        return 0 < metadata.num_messages_in_batch <= min(ack_set.largest_batch(room), self._ack_grouping.largest_batch)

    def _take_batch(self, delivery: DeliveredEntry, outcome: IncomingOutcome) -> None:
        """Queue the messages that were not acknowledged already and do not come before the start."""
        sent, wanted = delivery.wanted, self._wanted_of_batch(delivery, outcome)
        outcome.returned += (sent ^ wanted).bit_count()
        if wanted:
            self._deliver(delivery if wanted == sent else delivery._replace(wanted=wanted), outcome)

    def _wanted_of_batch(self, delivery: DeliveredEntry, outcome: IncomingOutcome) -> int:
        entry, sent, size = delivery.message_id.position, delivery.wanted, delivery.entry.metadata.num_messages_in_batch
        left = self._ack_grouping.unacknowledged_of(entry, sent) if self._drops_acknowledged else sent
        self._ack_grouping.note_delivery(entry, sent, size)
        if not left:  # the broker's and our acknowledgements together cover the batch
            outcome.acknowledge.append(delivery.message_id)
        first = self._start.first_wanted(entry, size)
        return ack_set.without_up_to(left, first - 1) if first else left

    def _take_chunk(self, delivery: DeliveredEntry, outcome: IncomingOutcome, now: float, now_ms: int) -> None:
        try:
            delivery.entry.verify()
        except EntryError as fault:
            outcome.returned += 1
            outcome.corrupt.append(CorruptEntry(delivery.message_id.position, fault.validation_error))
            return
        self._negative_acks.came(delivery.message_id.position)
        outcome.has_chunks = True
        chunk = _chunk(delivery, now_ms, self._negative_acks.set_aside_for(delivery.redelivery_count))
        added = self._chunks.add(chunk, now)
        for one in added.redeliver_later:
            self._negative_acks.set_aside_until(one.position, added.due)
        outcome.returned += added.permits
        outcome.acknowledge += added.acknowledge
        wrong_size = ValidationError.UncompressedSizeCorruption
        outcome.corrupt += [CorruptEntry(one.position, wrong_size) for one in added.corrupt]
        if added.assembled is not None:
            self._take_assembled(delivery, added.assembled, outcome)
        elif chunk.chunk_id + 1 == chunk.num_chunks and not added.corrupt:
            published = delivery.entry.metadata.publish_time
            outcome.unfinished.append(IncompleteChunks(chunk.message_id.position, chunk.uuid, published))

    def _take_assembled(self, last: DeliveredEntry, whole: AssembledMessage, outcome: IncomingOutcome) -> None:
        """Drop a message before the start, which comes because another one may have begun between its chunks."""
        if self._start.is_before(whole.message_id.position):
            self._chunks.take_chunks_of(whole.message_id)
            outcome.returned += last.messages
            return
        count = whole.redelivery_count
        if self._dead_letters is not None:  # a higher count may be of chunks alone, which nobody has seen together
            count = min(count, self._dead_letters.max_redeliver_count)
        delivery = last._replace(
            message_id=whole.message_id, other_payload=whole.payload, parts=whole.parts, redelivery_count=count
        )
        self._deliver(delivery, outcome)

    def _deliver(self, delivery: DeliveredEntry, outcome: IncomingOutcome) -> None:
        """Queue the entry, unless it was redelivered too often."""
        if self._dead_letters is None:
            outcome.deliver.append(delivery)
            return
        entry, count = delivery.message_id.position, delivery.redelivery_count
        verdict = self._dead_letters.arrived(entry, count, (delivery,))
        if verdict in (dead_letters.DeadLetterVerdict.DELIVER, dead_letters.DeadLetterVerdict.LAST_TRY):
            outcome.deliver.append(delivery)
            return
        outcome.returned += delivery.messages
        if verdict is dead_letters.DeadLetterVerdict.DEAD:
            outcome.dead.append(delivery)


def _deducted(command: CommandMessage, metadata: MessageMetadata) -> int:
    """Count the permits that the broker deducted, which relies on the metadata of the entry."""
    declared = max(1, metadata.num_messages_in_batch)
    if not (command.ack_set and is_batch(metadata)):
        return declared
    return ack_set.delivered(command.ack_set, declared).bit_count()


def _chunk(delivery: DeliveredEntry, now_ms: int, set_aside: float) -> Chunk:
    metadata = readable(delivery.entry.metadata)
    return Chunk(
        delivery.message_id,
        metadata.uuid,
        metadata.chunk_id,
        metadata.num_chunks_from_msg,
        metadata.total_chunk_msg_size,
        delivery.payload,
        (now_ms - metadata.publish_time) / 1000,
        delivery.entry.metadata,
        set_aside,
        delivery.redelivery_count,
    )
