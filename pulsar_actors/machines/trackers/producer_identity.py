"""The identity of a producer at brokers, and the sequence ids of its messages.

Every PRODUCER carries a higher epoch than the one before, so a broker can tell a reconnected producer from its earlier
registration. A name that a broker chose is used again, and still marked as not chosen by the user. The topic epoch,
which fences producers that lost an exclusive topic, is sent back as it came.
"""

from typing import Final

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseProducer,
    CommandProducer,
    CommandProducerSuccess,
    ProducerAccessMode,
)

PROBE_IDS: Final = 2**62
"""The lowest producer id of probes: producers count theirs from 1."""

OLDEST_EPOCH: Final = 2**63
"""The least topic epoch, as brokers read it: a negative number, below that of a topic that has none yet."""


class ProducerIdentity:
    """The name, schema version and epochs of one producer. `chosen` carries what the user chose."""

    __slots__ = ("_chosen", "_epoch", "_topic_epoch", "name", "schema_version")

    def __init__(self, chosen: CommandProducer) -> None:
        self._chosen = chosen
        self._epoch = 0
        self._topic_epoch: int | None = None
        self.name = chosen.producer_name
        self.schema_version = b""

    def next_request(self) -> CommandProducer:
        """Write the PRODUCER command for the next connection."""
        command = CommandProducer()
        command.CopyFrom(self._chosen)
        command.user_provided_producer_name = self._chosen.HasField("producer_name")
        if self.name:
            command.producer_name = self.name
        if self._topic_epoch is not None:
            command.topic_epoch = self._topic_epoch
        command.epoch = self._epoch
        self._epoch += 1
        return command

    def probe(self) -> CommandProducer:
        """Write a PRODUCER command that brokers refuse: as the topic is taken, or else as its epoch is outdated.

        Its id is not that of any producer. So nothing is registered, and the producer that waits keeps its place.
        """
        command = CommandProducer()
        command.CopyFrom(self._chosen)
        command.producer_id += PROBE_IDS
        command.producer_access_mode = ProducerAccessMode.Exclusive
        command.topic_epoch = OLDEST_EPOCH
        command.ClearField("initial_subscription_name")
        return command

    def close_request(self) -> CommandCloseProducer:
        """Write the CLOSE_PRODUCER command, the same on every connection."""
        return CommandCloseProducer(producer_id=self._chosen.producer_id)

    def adopt(self, answer: CommandProducerSuccess) -> None:
        """Adopt the name, schema version and topic epoch that the broker answers."""
        self.name = answer.producer_name
        self.schema_version = answer.schema_version
        if answer.HasField("topic_epoch"):
            self._topic_epoch = answer.topic_epoch


HIGHEST_SEQUENCE_ID = 2**63 - 1
NOTHING_PUBLISHED = -1


def _check_sequence_id(sequence_id: int) -> int:
    if not 0 <= sequence_id <= HIGHEST_SEQUENCE_ID:
        raise InvalidArgument(f"a sequence id is a number from 0 to 2^63-1, got {sequence_id}")
    return sequence_id


class SequenceIds:
    """The sequence ids of one producer on one topic partition. `initial` is the last id that counts as used.

    A broker that removes duplicates drops every id that is not above the highest one it has stored for a producer's
    name, so ids only go up. A user may choose the initial id, or the id of single messages; 0 is an id like any other.
    Without an initial id, a producer continues after what the broker has stored under its name, but only when it is
    created for the first time: after a reconnect the broker knows less than the producer, whose messages are still on
    their way.
    """

    __slots__ = ("_adopts", "_next", "last_published")

    def __init__(self, initial: int | None = None) -> None:
        self._adopts = initial is None
        self.last_published = NOTHING_PUBLISHED if initial is None else _check_sequence_id(initial)
        self._next = self.last_published + 1

    def created(self, last_sequence_id: int) -> None:
        """Note the highest id that the broker has stored, from PRODUCER_SUCCESS; only the first time counts."""
        if self._adopts and last_sequence_id >= self._next:
            self.last_published = last_sequence_id
            self._next = last_sequence_id + 1
        self._adopts = False

    def take(self, count: int = 1) -> int:
        """Take `count` ids in a row and return the first."""
        first = self._next
        _check_sequence_id(first + count - 1)
        self._next = first + count
        return first

    def take_given(self, sequence_id: int) -> int:
        """Take an id that the user chose; other ids go on above it."""
        self._next = max(self._next, _check_sequence_id(sequence_id) + 1)
        return sequence_id

    def published(self, sequence_id: int) -> None:
        """Note the highest id of a batch that the broker has stored."""
        if sequence_id > self.last_published:  # noqa: PLR1730 - `max` takes twice as long, and this is done for each message
            self.last_published = sequence_id
