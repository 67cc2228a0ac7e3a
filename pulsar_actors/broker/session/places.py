"""Where in a topic something is, as it travels and as the model has it: ids are unsigned there and signed here."""

from pulsar_actors.broker.model.position import Position
from pulsar_actors.wire.ids import signed, unsigned
from pulsar_actors.wire.PulsarApi_pb2 import MessageIdData

__all__ = ["message_id_of", "position_of"]


def position_of(message_id: MessageIdData) -> Position:
    """Read which entry an id means."""
    return Position(signed(message_id.ledgerId), signed(message_id.entryId))


def message_id_of(position: Position) -> MessageIdData:
    """Write the id of an entry, as it is where no partition is meant."""
    return MessageIdData(ledgerId=unsigned(position.ledger_id), entryId=unsigned(position.entry_id))
