"""Where callers leave their acknowledgements for a consumer's actor.

Acknowledging is an append, and makes nothing that lives on. The first one in an empty box tells the actor, and so does
the one that makes a command's worth, and so does each that somebody waits for; the actor empties the box with whatever
it hears next, or after a moment. Each acknowledgement carries the generation of its message, because a seek makes
earlier ones void. Either all that are left in a box have a receipt, or none.

The box says that it has been emptied and *then* gives what is in it: who appends after that, tells the actor again. Two
who append at once may both tell it; then it is to be emptied twice, or the next ones would not tell it at all.
"""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.ledgers.ack_groups import MAX_ENTRIES
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.gathered_acks import Left, Receipt, gathered
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.wire.message_id import MessageId

MOMENT = 0.02
"""Seconds between the first acknowledgement in the box and its emptying, if nothing else happens."""


class AcksLeft(NamedTuple):
    """To the actor: there is something in the box, to be taken out after so many seconds."""

    delay: float


class AckBox:
    """The acknowledgements of one consumer that its actor has not seen yet: `full` of them are a command's worth."""

    __slots__ = ("_checkpoint", "_full", "_left", "_moment", "_news_at", "_tell", "emptied")

    def __init__(
        self,
        tell: Callable[[object], object],
        interleaving: Interleaving = THREADS,
        *,
        full: int = MAX_ENTRIES,
        moment: float = MOMENT,
    ) -> None:
        self._left: list[Any] = []  # two places each: a Left and -1, or an Opened and the index of a message
        self._tell = tell
        self._full = 2 * full
        self._moment = moment
        self._checkpoint = interleaving.checkpoint
        self._news_at = 0  # how many of these places make the actor hear of it
        self.emptied = 0  # acknowledgements that the actor has seen

    def __bool__(self) -> bool:
        return self._news_at > 0 or bool(self._left)

    def acknowledge(self, message_id: MessageId, generation: Generation, receipt: Receipt | None = None) -> None:
        """Leave one for a message."""
        self._leave((generation, message_id, False, receipt))

    def acknowledge_up_to(self, message_id: MessageId, generation: Generation, receipt: Receipt | None = None) -> None:
        """Leave one for a message and all before it."""
        self._leave((generation, message_id, True, receipt))

    def acknowledge_opened(self, opened: object, index: int) -> None:
        """Leave one for a message of an `Opened`, as most are: two appends in one, and nothing is made."""
        left = self._left
        left.extend((opened, index))
        if len(left) >= self._news_at:
            self._tell_of_it()

    def empty(self) -> list[Acknowledge | AcknowledgeUpTo]:
        """Take everything out, as events in the order in which it came."""
        self._news_at = 0
        self._checkpoint()
        count = len(self._left)
        left = self._left[:count]
        del self._left[:count]
        self.emptied += count // 2
        return gathered(left[::2], left[1::2])

    def _leave(self, one: Left) -> None:
        left = self._left
        left.extend((one, -1))
        if len(left) >= self._news_at:
            self._tell_of_it()
        if one[3] is not None and one[3].at_once:
            self._tell(AcksLeft(0.0))

    def _tell_of_it(self) -> None:
        if self._news_at:
            self._news_at = sys.maxsize
            self._tell(AcksLeft(0.0))
            return
        self._checkpoint()
        try:
            self._news_at = self._full
            self._tell(AcksLeft(self._moment))
        except KeyboardInterrupt:  # nobody else will tell
            self._tell(AcksLeft(self._moment))
            raise
