"""How much of one producer may be on its way at once: its messages, or with a limit of 0 their bytes, to be counted.

Two running totals instead of one balance: senders only ever raise `taken`, whoever ends a message only ever raises
`freed`, so the two sides of a hand-over never write the same number. Where several threads share one side, they need a
lock of their own around it.

A limit of 0 is no limit. An amount over the whole limit is granted when nothing else is outstanding: refusing it would
be refusing it for ever.
"""

from pulsar_actors.exceptions import InternalError, InvalidArgument


def pending_limit(max_pending: int, across_partitions: int, partitions: int) -> int:
    """Give how many messages may be pending on each partition; 0 stands for no limit, as it does in the arguments."""
    limits = [max_pending] if max_pending else []
    if across_partitions:
        limits.append(max(across_partitions // partitions, 1))
    return min(limits, default=0)


class SendQuota:
    """One limit, and how much of it is in use."""

    __slots__ = ("freed", "limit", "taken")

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise InvalidArgument(f"a limit is a positive number, or 0 for none: got {limit}")
        self.limit = limit
        self.taken = 0
        self.freed = 0

    @property
    def used(self) -> int:
        """What is taken and not yet freed."""
        return self.taken - self.freed

    def fits(self, amount: int) -> bool:
        """Whether `amount` more may be taken now."""
        used = self.taken - self.freed
        return not self.limit or not used or used + amount <= self.limit

    def take(self, amount: int) -> None:
        """Take what was found to fit."""
        self.taken += amount

    def free(self, amount: int) -> None:
        """Give back; more than was taken would mean that something ended twice."""
        if amount > self.taken - self.freed:
            raise InternalError(f"{amount} freed where only {self.used} are taken: something ended twice")
        self.freed += amount
