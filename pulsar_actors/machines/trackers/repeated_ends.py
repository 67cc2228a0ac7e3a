"""The transactions of one coordinator whose END_TXN is repeated, because it had no answer.

They stay in memory, and each is a request from time to time, for as long as the coordinator answers nothing. So there
is room for a few only. Those that find none lose little: one request that gets through has the coordinator run, and it
ends the others by itself, at the latest after their timeouts.
"""

from typing import Final

MOST_REPEATED: Final = 100


class RepeatedEnds:
    """The transactions that have room."""

    __slots__ = ("_transactions",)

    def __init__(self) -> None:
        self._transactions: set[object] = set()

    def __contains__(self, transaction: object) -> bool:
        return transaction in self._transactions

    def has_room(self, transaction: object) -> bool:
        """Return whether the transaction has room already, or may get some."""
        return transaction in self._transactions or len(self._transactions) < MOST_REPEATED

    def add(self, transaction: object) -> None:
        """Note that END_TXN of the transaction is repeated."""
        self._transactions.add(transaction)

    def discard(self, transaction: object) -> None:
        """Note that it is not, or not any longer."""
        self._transactions.discard(transaction)
