"""Where an entry is: its ledger, and its place in it. What clients call a message id, less the batch index."""

from typing import Final, NamedTuple


class Position(NamedTuple):
    """A ledger and an entry of it, in the order of writing."""

    ledger_id: int
    entry_id: int


EARLIEST: Final = Position(-1, -1)
"""Before every entry. In a receipt: the entry was not stored, because the topic has it already."""
LATEST: Final = Position(2**63 - 1, 2**63 - 1)
"""After every entry."""
