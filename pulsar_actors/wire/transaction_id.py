"""The id of a transaction, and the fields of commands and of metadata that have it.

An id has two parts: the number of the transaction coordinator, and the coordinator's own counter, from 0. So the first
transaction of a new cluster is (0, 0): it is the presence of the fields that says that there is a transaction, never
their values.
"""

from typing import Any

from pulsar_actors.named_tuple import NamedTuple


class TransactionId(NamedTuple):
    """The id of a transaction: its coordinator, and its number there."""

    most: int
    least: int

    def __str__(self) -> str:
        return f"({self.most},{self.least})"


def transaction_in(command: Any) -> TransactionId | None:  # noqa: ANN401 - any command or metadata with these fields
    """Return the transaction that a command or the metadata of a message belongs to; None for none."""
    if command.HasField("txnid_least_bits") or command.HasField("txnid_most_bits"):
        return TransactionId(command.txnid_most_bits, command.txnid_least_bits)
    return None


def set_transaction(command: Any, transaction: TransactionId) -> None:  # noqa: ANN401 - as above
    """Set the fields of a command, or of the metadata of a message."""
    command.txnid_most_bits, command.txnid_least_bits = transaction
