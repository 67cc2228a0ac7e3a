"""The ledgers of one consumer, and what befalls several of them at once.

A message that is acknowledged is no longer refused, late or on its last try. A lost binding voids what the next broker
sends again by itself. After a seek nothing counts that was known of messages before it.

Two of the ledgers are there only if the user asked for what they do.
"""

from typing import NamedTuple

from pulsar_actors.machines.entry_intake import Delivery
from pulsar_actors.machines.ledgers.ack_command import Token
from pulsar_actors.machines.ledgers.ack_groups import AckGroups
from pulsar_actors.machines.ledgers.ack_outcome import Outcome
from pulsar_actors.machines.ledgers.ack_timeouts import AckTimeouts
from pulsar_actors.machines.ledgers.chunks import ChunkAssembly
from pulsar_actors.machines.ledgers.dead_letters import DeadLetters
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.machines.ledgers.permits import Permits
from pulsar_actors.machines.ledgers.redelivery import Redelivery
from pulsar_actors.machines.ledgers.start_position import StartPosition
from pulsar_actors.wire.message_id import MessageId


class Ledgers(NamedTuple):
    """The ledgers of one consumer. Times are monotonic seconds."""

    permits: Permits
    acks: AckGroups
    redelivery: Redelivery
    chunks: ChunkAssembly
    start: StartPosition
    timeouts: AckTimeouts | None = None
    dead: DeadLetters[Delivery] | None = None

    def acknowledged(self, outcome: Outcome) -> None:
        """Forget what an acknowledgement settles, wherever something was to be done about it."""
        for entry in outcome.entries:
            self.redelivery.acknowledged(entry)
            if self.timeouts is not None:
                self.timeouts.acknowledged(entry)
            if self.dead is not None:
                self.dead.acknowledged(entry)
        if outcome.up_to is not None:
            self.redelivery.acknowledged_up_to(outcome.up_to)
            self.chunks.acknowledged_up_to(outcome.up_to)
            if self.timeouts is not None:
                self.timeouts.acknowledged_up_to(outcome.up_to)
            if self.dead is not None:
                self.dead.acknowledged_up_to(outcome.up_to)

    def unbound(self, now: float) -> None:
        """Hold unanswered acknowledgements; all the rest comes again by itself with the next binding."""
        self.acks.disconnected(now)
        self.redelivery.clear()
        self.chunks.drop_unfinished()
        self._clear_asked_for()

    def sought(self, target: MessageId | int, generation: Generation) -> tuple[Token, ...]:
        """Begin anew elsewhere; gives those who wait for acknowledgements that are void."""
        if isinstance(target, int):
            self.start.sought_time(target)
        else:
            self.start.sought(target)
        self.redelivery.clear()
        self.chunks.clear()
        self._clear_asked_for()
        return self.acks.sought(generation)

    def next_sweep(self) -> float | None:
        """Give the time at which something is due."""
        times = [self.redelivery.next_due(), self.chunks.next_expiry()]
        if self.timeouts is not None:
            times.append(self.timeouts.next_due())
        return min((time for time in times if time is not None), default=None)

    def _clear_asked_for(self) -> None:
        if self.timeouts is not None:
            self.timeouts.clear()
        if self.dead is not None:
            self.dead.clear()
