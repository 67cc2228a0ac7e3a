"""Who waits to hear that an acknowledgement counts, and until when.

An acknowledgement outlives its connection: it is held until there is a broker to take it. Whoever made it is not to
wait for as long as that may take. Each is told once: of the broker's answer, or that its time is up, after which the
answer is nobody's. All wait equally long, so they are late in the order in which they came.
"""

from collections.abc import Iterable

from pulsar_actors.machines.ledgers.ack_command import Token


class Receipts:
    """The receipts of one consumer that are waited for. Times are monotonic seconds."""

    __slots__ = ("_deadlines", "timeout")

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self._deadlines: dict[Token, float] = {}

    def awaited(self, tokens: Iterable[Token], now: float) -> None:
        """Begin to wait."""
        deadline = now + self.timeout
        for token in tokens:
            self._deadlines[token] = deadline

    def ended(self, tokens: Iterable[Token]) -> tuple[Token, ...]:
        """Give those of them who still wait, and end that."""
        return tuple(token for token in tokens if self._deadlines.pop(token, None) is not None)

    def next_deadline(self) -> float | None:
        """When to call `expire` next; None when nobody waits."""
        return next(iter(self._deadlines.values()), None)

    def expire(self, now: float) -> tuple[Token, ...]:
        """Give those whose time is up, and end their waiting."""
        late: list[Token] = []
        for token, deadline in self._deadlines.items():
            if deadline > now:
                break
            late.append(token)
        return self.ended(late)
