from pulsar_actors.machines.ledgers.ack_command import AckGroup, corrupt
from pulsar_actors.machines.ledgers.entry_key import LAST_ID, is_real
from pulsar_actors.wire.PulsarApi_pb2 import CommandAck


def test_a_group_is_written_with_what_is_missing_of_each_entry() -> None:
    command = AckGroup((((7, 1), 0), ((7, 2), 0b110))).command(5)
    assert command.consumer_id == 5
    assert command.ack_type == CommandAck.AckType.Individual
    assert [(one.ledgerId, one.entryId, list(one.ack_set)) for one in command.message_id] == [(7, 1, []), (7, 2, [6])]
    assert not command.HasField("validation_error")


def test_a_cumulative_group_before_the_first_entry_travels_unsigned() -> None:
    command = AckGroup((((7, -1), 0),), cumulative=True).command(5)
    assert command.ack_type == CommandAck.AckType.Cumulative
    assert command.message_id[0].entryId == 2**64 - 1
    assert not command.HasField("request_id")


def test_a_corrupt_entry_is_acknowledged_with_its_reason() -> None:
    error = CommandAck.ValidationError.DecompressionError
    command = corrupt([(7, 1)], error).command(5)
    assert command.validation_error == error
    assert command.ack_type == CommandAck.AckType.Individual


def test_entries_whose_ids_stand_for_none_or_do_not_fit_are_not_real() -> None:
    assert all(map(is_real, [(0, 0), (LAST_ID, LAST_ID), (5, 0)]))
    assert not any(map(is_real, [(-1, 0), (0, -1), (-1, -1), (LAST_ID + 1, 0), (0, LAST_ID + 1)]))
