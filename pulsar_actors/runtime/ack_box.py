"""Where callers leave their acknowledgements for a consumer's actor.

Acknowledging is an append, and makes nothing that lives on: a message that was received is noted with its entry, and
the first of an entry puts that into the box. The first one in an empty box tells the actor, and so does the one that
makes a command's worth, and so does each that somebody waits for; the actor empties the box with whatever it hears
next, or after a moment. Each acknowledgement carries the generation of its message, because a seek makes earlier ones
void. Either all that are left in a box have a receipt, or none.

The box says that it has been emptied and *then* gives what is in it: who appends after that, tells the actor again. Two
who append at once may both tell it; then it is to be emptied twice, or the next ones would not tell it at all. The same
goes for each entry: it says that it is in no box and *then* gives what is noted with it; which may be nothing, where
two have put it into the box.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.ledgers.ack_groups import MAX_ENTRIES
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.gathered_acks import Left, Receipt, gathered
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.runtime.opened import Opened
from pulsar_actors.wire.message_id import MessageId

MOMENT = 0.02
"""Seconds between the first acknowledgement in the box and its emptying, if nothing else happens."""

_ITSELF = (-1,)


class AcksLeft(NamedTuple):
    """To the actor: there is something in the box, to be taken out after so many seconds."""

    delay: float


class AckBox:
    """What a consumer's actor has not seen of acknowledgements yet: those of `full` entries are a command's worth."""

    __slots__ = ("_checkpoint", "_full", "_left", "_moment", "_news_at", "_tell", "emptied")

    def __init__(
        self,
        tell: Callable[[object], object],
        interleaving: Interleaving = THREADS,
        *,
        full: int = MAX_ENTRIES,
        moment: float = MOMENT,
    ) -> None:
        self._left: list[Left | Opened] = []
        self._tell = tell
        self._full = full
        self._moment = moment
        self._checkpoint = interleaving.checkpoint
        self._news_at = 0  # how many make the actor hear of it
        self.emptied = 0  # acknowledgements that the actor has seen

    def __bool__(self) -> bool:
        return self._news_at > 0 or bool(self._left)

    def acknowledge(self, message_id: MessageId, generation: Generation, receipt: Receipt | None = None) -> None:
        """Leave one for a message."""
        self._leave_one((generation, message_id, False, receipt))

    def acknowledge_up_to(self, message_id: MessageId, generation: Generation, receipt: Receipt | None = None) -> None:
        """Leave one for a message and all before it."""
        self._leave_one((generation, message_id, True, receipt))

    def acknowledge_opened(self, opened: Opened, index: int) -> None:
        """Leave one for a message of an entry, as most are."""
        opened.acknowledged.append(index)
        if not opened.is_left:
            self._leave_opened(opened)

    def empty(self) -> list[Acknowledge | AcknowledgeUpTo]:
        """Take everything out, as events in the order in which it came."""
        self._news_at = 0
        self._checkpoint()
        count = len(self._left)
        left = self._left[:count]
        del self._left[:count]
        taken = [(one, self._noted(one)) for one in left]
        self.emptied += sum(len(noted) for _, noted in taken)
        return gathered((one, noted) for one, noted in taken if noted)

    def _noted(self, one: Left | Opened) -> Sequence[int]:
        """Take out the places of those that are noted with an entry; any other stands for itself."""
        if not isinstance(one, Opened):
            return _ITSELF
        one.is_left = False
        self._checkpoint()
        count = len(one.acknowledged)
        noted = one.acknowledged[:count]
        del one.acknowledged[:count]
        return noted

    def _leave_one(self, one: Left) -> None:
        self._leave(one)
        if one[3] is not None and one[3].at_once:
            self._tell(AcksLeft(0.0))

    def _leave_opened(self, opened: Opened) -> None:
        try:
            opened.is_left = True
            self._checkpoint()
            self._leave(opened)
        except KeyboardInterrupt:  # others rely on its being there
            self._leave(opened)
            raise

    def _leave(self, one: Left | Opened) -> None:
        left = self._left
        left.append(one)
        if len(left) >= self._news_at:
            self._tell_of_it()

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
