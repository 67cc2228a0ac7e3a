from typing import Any

from consumer_bench import Subscriber, incoming, ready

from pulsar_actors.exceptions import ConnectionLost, InvalidArgument
from pulsar_actors.machines.binding_events import Detached, RetryDue
from pulsar_actors.machines.consumer_events import (
    Acked,
    Acknowledge,
    AcknowledgeUpTo,
    AcksDue,
    AskToAck,
    DeadLetterFailed,
    DeadLetterSent,
    HandedOut,
    HandOver,
    Refuse,
    Seek,
    SeekAnswered,
    Spoiled,
    SweepDue,
    Tell,
)
from pulsar_actors.machines.ledgers.start_position import StartPosition
from pulsar_actors.wire.message_id import LATEST, MessageId
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck, CommandFlow, CommandRedeliverUnacknowledgedMessages

Fault = CommandAck.ValidationError


def chunk(entry: int, chunk_id: int, **options: Any) -> Any:
    return incoming(entry, uuid="u", chunk_id=chunk_id, num_chunks_from_msg=2, total_chunk_msg_size=14, **options)


def asked_for(driven: Subscriber) -> list[int]:
    commands = driven.said(CommandRedeliverUnacknowledgedMessages)
    return [one.entryId for command in commands for one in command.message_ids]


def test_each_kind_of_fault_is_refused_in_a_command_of_its_own_at_once() -> None:
    driven = ready()
    bad_chunks = [chunk(entry, 0, broken=True) for entry in (0, 1)]
    driven.receive(*bad_chunks, incoming(2, batch=0))
    said = [([one.entryId for one in ack.message_id], ack.validation_error) for ack in driven.said(CommandAck)]
    assert said == [([0, 1], Fault.ChecksumMismatch), ([2], Fault.BatchDeSerializeError)]


def test_acknowledging_or_refusing_a_chunked_message_covers_every_chunk() -> None:
    driven = ready(ack_timeout=10.0)
    driven.receive(chunk(0, 0), chunk(1, 1))
    (handed,) = driven.did(HandOver)
    (one,) = handed.entries
    driven.tell(HandedOut(driven.generation, 1, (one.message_id,)))
    driven.tell(Refuse(driven.generation, ((one.message_id, 0),)))
    driven.fire(SweepDue)
    assert asked_for(driven) == [0, 1]
    driven.tell(Acknowledge(driven.generation, (one.message_id,)))
    driven.fire(AcksDue)
    (ack,) = driven.said(CommandAck)
    assert [chunk.entryId for chunk in ack.message_id] == [0, 1]


def test_chunks_whose_message_is_never_finished_are_acknowledged_in_the_end() -> None:
    driven = ready()
    driven.receive(chunk(0, 0))
    assert driven.timers[SweepDue].delay == 60.0
    driven.fire(SweepDue)
    driven.fire(AcksDue)
    assert [ack.message_id[0].entryId for ack in driven.said(CommandAck)] == [0]


def test_a_stray_chunk_is_asked_for_again() -> None:
    driven = ready()
    driven.receive(chunk(1, 1))
    assert asked_for(driven) == [1]


def test_a_stray_chunk_in_order_brings_everything_again() -> None:
    driven = ready(ordered=True)
    driven.receive(chunk(1, 1))
    (command,) = driven.said(CommandRedeliverUnacknowledgedMessages)
    assert (len(command.message_ids), command.consumer_epoch) == (0, 1)


def test_an_entry_found_corrupt_after_a_seek_is_left_alone() -> None:
    driven = ready()
    before = driven.generation
    driven.receive(incoming(0))
    driven.tell(Seek("seek", MessageId(1, 0)))
    driven.tell(SeekAnswered(driven.attempt))
    assert driven.tell(Spoiled(before, (1, 0), 1, Fault.ChecksumMismatch)) == []


def test_answers_about_dead_letters_mean_little_to_a_consumer_that_has_no_policy() -> None:
    driven = ready()
    driven.tell(DeadLetterFailed(MessageId(1, 0)))
    assert asked_for(driven) == [0]
    driven.tell(DeadLetterSent(driven.generation, MessageId(1, 0)))
    driven.fire(AcksDue)
    assert driven.said(CommandAck)


def test_permits_that_come_back_at_once_are_granted_again() -> None:
    driven = ready()
    driven.receive(incoming(0, batch=0), incoming(1, batch=0))
    assert [tell.command for tell in driven.did(Tell)][-1] == CommandFlow(consumer_id=7, messagePermits=2)


def test_what_impossible_batches_cost_is_granted_in_numbers_that_a_broker_can_read() -> None:
    driven = ready()
    at_broker = 4
    for entries in (3, 2, 1):
        driven.receive(*(incoming(entry, 2**31 - 1, payload=b"payload") for entry in range(entries)))
        flows = [flow.messagePermits for flow in driven.said(CommandFlow)]
        assert all(0 < permits <= 2**31 - 1 for permits in flows)
        for change in (*[1 - 2**31] * entries, *flows):
            at_broker = (at_broker + change + 2**31) % 2**32 - 2**31  # as Java adds
        assert at_broker == 4
        assert len(driven.said(CommandAck)) == 1


def test_acknowledging_what_is_no_message_fails_that_call_and_no_other() -> None:
    driven = ready(receipts=True)
    nonsense, entry = MessageId(2**63, 0), MessageId(1, 0)
    calls = [
        (Acknowledge(driven.generation, (entry, nonsense), ("a", "b")), ("a", "b")),
        (AcknowledgeUpTo(driven.generation, nonsense, "c"), ("c",)),
    ]
    for call, tokens in calls:
        (acked,) = driven.tell(call)
        assert isinstance(acked, Acked)
        assert acked.tokens == tokens
        assert isinstance(acked.error, InvalidArgument)
    assert driven.tell(Acknowledge(driven.generation, (nonsense,))) == []
    assert driven.tell(AcknowledgeUpTo(driven.generation, nonsense)) == []
    driven.tell(Acknowledge(driven.generation, (entry,), ("d",)))
    driven.fire(AcksDue)
    (ack,) = driven.did(AskToAck)
    assert [one.entryId for one in ack.command.message_id] == [0]


def test_refusing_what_is_no_message_asks_for_nothing() -> None:
    driven = ready()
    nonsense = (MessageId(2**63, 0), MessageId(1, 3, first_chunk=MessageId(1, -5)))
    driven.tell(Refuse(driven.generation, tuple((one, 0) for one in nonsense)))
    driven.fire(SweepDue)
    assert asked_for(driven) == [3]


def test_an_entry_without_an_id_is_refused_and_the_consumer_goes_on() -> None:
    driven = ready()
    lost = incoming(2**64 - 1)
    driven.receive(lost, incoming(0))
    (ack,) = driven.said(CommandAck)
    assert (ack.message_id[0].entryId, ack.validation_error) == (2**64 - 1, Fault.ChecksumMismatch)
    (handed,) = driven.did(HandOver)
    assert [one.message_id.entry_id for one in handed.entries] == [0]


def test_messages_of_a_topic_that_is_not_stored_are_not_taken_for_each_other() -> None:
    driven = ready(stored=False)
    for _ in range(3):
        driven.receive(incoming(0))
        (handed,) = driven.did(HandOver)
        driven.tell(Acknowledge(driven.generation, (handed.entries[0].message_id,), ("token",)))
        assert driven.effects == [Acked(("token",), None)]


def test_a_cumulative_acknowledgement_on_a_topic_that_is_not_stored_ends_at_once() -> None:
    driven = ready(stored=False)
    driven.receive(incoming(0))
    assert driven.tell(AcknowledgeUpTo(driven.generation, MessageId(0, 0), "token")) == [Acked(("token",), None)]
    assert driven.tell(AcknowledgeUpTo(driven.generation, MessageId(0, 0))) == []


def test_a_reader_of_a_topic_that_is_not_stored_skips_nothing_after_a_reconnect() -> None:
    driven = ready(stored=False, start=StartPosition(LATEST, durable=False))
    driven.tell(Detached(driven.connection, ConnectionLost("reset")))
    driven.fire(RetryDue)
    driven.subscribe(opened=MessageId(0, 0))
    driven.receive(incoming(0))
    assert driven.did(HandOver)
