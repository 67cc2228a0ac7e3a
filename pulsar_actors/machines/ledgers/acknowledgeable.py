"""Which ids can be acknowledged.

Ids come from users, who may have read them from anywhere. Those that no message has are refused, and so are batches
larger than a broker stores: a set of their size would take the memory before the broker could say that it has none.
"""

from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.machines.ledgers.entry_key import is_real
from pulsar_actors.wire.message_id import MessageId


def fault(message_id: MessageId, largest_batch: int) -> InvalidArgument | None:
    """Refuse what is no message, or of a batch of unknown size: all of that might be acknowledged in its name."""
    ledger_id, entry_id, partition, index, size, first_chunk = message_id
    if not is_real((ledger_id, entry_id)) or (first_chunk is not None and not is_real(first_chunk.position)):
        what = "the ids of its ledger and its entry must be 0 to 2^63 - 1"
    elif not (-1 < index < size <= largest_batch or index == -1):
        what = f"batch_index must be below batch_size, and that at most {largest_batch:,}, not {size:,}"
    else:
        return None
    return InvalidArgument(f"({ledger_id},{entry_id},{partition},{index}) is no message: {what}")
