"""Where callers leave their acknowledgements for a consumer's actor.

Acknowledging is an append. The first one in an empty box tells the actor, and so does the one that makes a command's
worth; the actor empties the box with whatever it hears next, or after a moment. Each acknowledgement carries the
generation of its message, because a seek makes earlier ones void.

The box says that it has been emptied and *then* gives what is in it: who appends after that, tells the actor again. Two
who append at once may both tell it; then it is to be emptied twice, or the next ones would not tell it at all.
"""

from collections.abc import Callable
from typing import NamedTuple

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.ledgers.ack_groups import MAX_ENTRIES
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.wire.message_id import MessageId

MOMENT = 0.02
"""Seconds between the first acknowledgement in the box and its emptying, if nothing else happens."""


class AcksLeft(NamedTuple):
    """To the actor: there is something in the box, or it is full."""

    full: bool


class AckBox:
    """The acknowledgements of one consumer that its actor has not seen yet."""

    __slots__ = ("_checkpoint", "_left", "_tell", "_told", "emptied")

    def __init__(self, tell: Callable[[object], object], interleaving: Interleaving = THREADS) -> None:
        self._left: list[tuple[Generation, MessageId, bool]] = []
        self._tell = tell
        self._checkpoint = interleaving.checkpoint
        self._told = False
        self.emptied = 0  # acknowledgements that the actor has seen

    def __bool__(self) -> bool:
        return self._told or bool(self._left)

    def acknowledge(self, message_id: MessageId, generation: Generation) -> None:
        """Leave one for a message."""
        self._leave((generation, message_id, False))

    def acknowledge_up_to(self, message_id: MessageId, generation: Generation) -> None:
        """Leave one for a message and all before it."""
        self._leave((generation, message_id, True))

    def empty(self) -> list[Acknowledge | AcknowledgeUpTo]:
        """Take everything out, as events in the order in which it came."""
        self._told = False
        self._checkpoint()
        count = len(self._left)
        left = self._left[:count]
        del self._left[:count]
        self.emptied += count
        events: list[Acknowledge | AcknowledgeUpTo] = []
        start = 0
        for place, (generation, message_id, up_to) in enumerate(left):
            is_last = place + 1 == count
            if up_to:
                events.append(AcknowledgeUpTo(generation, message_id))
                start = place + 1
            elif is_last or left[place + 1][2] or left[place + 1][0] != generation:
                events.append(Acknowledge(generation, tuple(one[1] for one in left[start : place + 1])))
                start = place + 1
        return events

    def _leave(self, one: tuple[Generation, MessageId, bool]) -> None:
        self._left.append(one)
        if not self._told:
            self._checkpoint()
            try:
                self._told = True
                self._tell(AcksLeft(full=False))
            except KeyboardInterrupt:  # nobody else will tell
                self._tell(AcksLeft(full=False))
                raise
        elif len(self._left) == MAX_ENTRIES:
            self._tell(AcksLeft(full=True))
