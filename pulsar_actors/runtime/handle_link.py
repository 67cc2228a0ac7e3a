"""The data that a handle shares with its actor: two futures, its pending calls and its counters.

Either may exist longer than the other: a handle may be used after its actor has ended, and an actor may still be
closing when its handle has been collected. A client shares its counters with its actors in the same way.
"""

from pulsar_actors.runtime.future import PendingCalls, SlimFuture
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.observer import ClientObserver


class HandleCounters:
    """The counters of one handle, for its `stats`. Its actor writes them, any thread may read them."""

    __slots__ = ("ack_timeouts", "attachments", "dead_letters", "last_error")

    def __init__(self) -> None:
        self.attachments = 0
        self.ack_timeouts = 0  # entries that were not acknowledged in time
        self.dead_letters = 0  # messages that were delivered too often, and sent to another topic
        self.last_error: Exception | None = None

    @property
    def reconnects(self) -> int:
        """The number of times that the handle was registered with a broker again, after the first time."""
        return max(0, self.attachments - 1)

    @property
    def last_error_text(self) -> str | None:
        """The text of the last error."""
        return None if self.last_error is None else str(self.last_error)


class HandleLink:
    """The data shared by a handle and its actor.

    `created` gets a result when the brokers have accepted it, or an error.

    `ended` gets a result when the actor has ended, for whatever reason.
    """

    __slots__ = ("counters", "created", "ended", "pending_calls")

    def __init__(self, interleaving: Interleaving = THREADS) -> None:
        self.created: SlimFuture[None] = SlimFuture()
        self.ended: SlimFuture[None] = SlimFuture()
        self.pending_calls = PendingCalls(interleaving)
        self.counters = HandleCounters()


class ClientCounters:
    """The counters of one client, for its `stats`, and its observer. Each has one writer; any thread may read them."""

    __slots__ = ("connections", "lookups", "moves", "observer")

    def __init__(self) -> None:
        self.connections = 0
        self.lookups = 0
        self.moves = 0  # to another service
        self.observer: ClientObserver | None = None  # set before there are actors
