"""Where callers leave their acknowledgements for a consumer's actor.

Acknowledging is an append. The first one in an empty box tells the actor, and so does the one that makes a command's
worth, and so does each that somebody waits for; the actor empties the box with whatever it hears next, or after a
moment. Each acknowledgement carries the generation of its message, because a seek makes earlier ones void. Either all
that are left in a box have a receipt, or none.

The box says that it has been emptied and *then* gives what is in it: who appends after that, tells the actor again. Two
who append at once may both tell it; then it is to be emptied twice, or the next ones would not tell it at all.
"""

from collections.abc import Callable
from typing import NamedTuple

from pulsar_actors.machines.consumer_events import Acknowledge, AcknowledgeUpTo
from pulsar_actors.machines.ledgers.ack_command import Token
from pulsar_actors.machines.ledgers.ack_groups import MAX_ENTRIES
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.interleaving import THREADS, Interleaving
from pulsar_actors.wire.message_id import MessageId

MOMENT = 0.02
"""Seconds between the first acknowledgement in the box and its emptying, if nothing else happens."""


class AcksLeft(NamedTuple):
    """To the actor: there is something in the box, to be taken out after so many seconds."""

    delay: float


class Receipt(NamedTuple):
    """Whom to tell what the broker says of an acknowledgement, and whether that is waited for."""

    token: Token
    at_once: bool


Left = tuple[Generation, MessageId, bool, Receipt | None]


class AckBox:
    """The acknowledgements of one consumer that its actor has not seen yet: `full` of them are a command's worth."""

    __slots__ = ("_checkpoint", "_full", "_left", "_moment", "_tell", "_told", "emptied")

    def __init__(
        self,
        tell: Callable[[object], object],
        interleaving: Interleaving = THREADS,
        *,
        full: int = MAX_ENTRIES,
        moment: float = MOMENT,
    ) -> None:
        self._left: list[Left] = []
        self._tell = tell
        self._full = full
        self._moment = moment
        self._checkpoint = interleaving.checkpoint
        self._told = False
        self.emptied = 0  # acknowledgements that the actor has seen

    def __bool__(self) -> bool:
        return self._told or bool(self._left)

    def acknowledge(self, message_id: MessageId, generation: Generation, receipt: Receipt | None = None) -> None:
        """Leave one for a message."""
        self._leave((generation, message_id, False, receipt))

    def acknowledge_up_to(self, message_id: MessageId, generation: Generation, receipt: Receipt | None = None) -> None:
        """Leave one for a message and all before it."""
        self._leave((generation, message_id, True, receipt))

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
        for place, (generation, message_id, up_to, receipt) in enumerate(left):
            is_last = place + 1 == count
            if up_to:
                events.append(_up_to(generation, message_id, receipt))
                start = place + 1
            elif is_last or left[place + 1][2] or left[place + 1][0] != generation:
                events.append(_each(generation, left[start : place + 1]))
                start = place + 1
        return events

    def _leave(self, one: Left) -> None:
        self._left.append(one)
        if not self._told:
            self._checkpoint()
            try:
                self._told = True
                self._tell(AcksLeft(self._moment))
            except KeyboardInterrupt:  # nobody else will tell
                self._tell(AcksLeft(self._moment))
                raise
        elif len(self._left) == self._full:
            self._tell(AcksLeft(0.0))
        if one[3] is not None and one[3].at_once:
            self._tell(AcksLeft(0.0))


def _up_to(generation: Generation, message_id: MessageId, receipt: Receipt | None) -> AcknowledgeUpTo:
    if receipt is None:
        return AcknowledgeUpTo(generation, message_id)
    return AcknowledgeUpTo(generation, message_id, receipt.token, receipt.at_once)


def _each(generation: Generation, left: list[Left]) -> Acknowledge:
    ids, receipts = tuple([one[1] for one in left]), [one[3] for one in left if one[3] is not None]
    if not receipts:
        return Acknowledge(generation, ids)
    tokens = tuple(receipt.token for receipt in receipts)
    return Acknowledge(generation, ids, tokens, any(receipt.at_once for receipt in receipts))
