"""How much of one producer is on its way: its messages, to which there may be a limit, or their bytes, to be counted.

The producer's thread alone takes and frees. Callers look, from threads of their own, and add what they have left for it
to take. A limit of 0 is no limit.
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

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        if limit < 0:
            raise InvalidArgument(f"a limit is a positive number, or 0 for none: got {limit}")
        self.limit = limit
        self.used = 0

    def has_place(self, waiting: int) -> bool:
        """Whether one more may come, beside those that wait to be taken."""
        return not self.limit or self.used + waiting < self.limit

    def take(self, amount: int) -> None:
        """Take so many."""
        self.used += amount

    def free(self, amount: int) -> None:
        """Give back; more than was taken would mean that something ended twice."""
        if amount > self.used:
            raise InternalError(f"{amount} freed where only {self.used} are taken: something ended twice")
        self.used -= amount
