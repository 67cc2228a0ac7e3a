"""Where callers leave messages for one producer, and wait for room if they want to.

A producer of a partitioned topic has a door for each partition, and a switchboard in front of them; to callers either
is the same kind of doorway. A message is its payload and what `outgoing.py` keeps beside it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

from pulsar_actors.client.anew import anew
from pulsar_actors.exceptions import LimitReached
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.outbox import Outbox
from pulsar_actors.runtime.producer_actor import MessagesLeft, TakeAll

_MESSAGES_LEFT = MessagesLeft()


class Doorway(ABC):
    """A way into a producer. Any thread may use it."""

    __slots__ = ()

    @property
    @abstractmethod
    def closed(self) -> Exception | None:
        """Tell why no message is taken any longer, if that is so."""

    @abstractmethod
    def has_ended_by(self, error: Exception) -> bool:
        """Tell whether an error is the end of the producer, or of a part of it."""

    @abstractmethod
    def leave(self, payload: bytes, place: object) -> None:
        """Leave a message, waiting for room if that is wanted."""

    @abstractmethod
    def leave_now(self, payload: bytes, place: object) -> None:
        """Likewise, and have it sent at once, with what has been batched so far."""

    @abstractmethod
    def slip(self, payload: bytes, place: object) -> None:
        """Leave a message without ever waiting: from anywhere, a loop included."""


class Door(Doorway):
    """The way into one outbox. `waits` says whether a full queue is waited for.

    `tell` tells the actor, or whoever is to make it as long as there is none.
    """

    __slots__ = ("_engine", "_outbox", "_topic", "_waits", "tell")

    def __init__(self, engine: Engine, outbox: Outbox, topic: str, *, waits: bool) -> None:
        self._engine = engine
        self._outbox = outbox
        self._topic = topic
        self.tell: Callable[[object], object] = _nobody
        self._waits = waits

    @property
    def closed(self) -> Exception | None:
        """Tell why no message is taken any longer, if that is so."""
        return self._outbox.closed

    def has_ended_by(self, error: Exception) -> bool:
        """Tell whether an error is the end of the producer."""
        return type(error) is type(self._outbox.closed)

    def leave(self, payload: bytes, place: object) -> None:
        """Leave a message, waiting for room if that is wanted."""
        outbox = self._outbox
        try:
            while True:
                if outbox.closed is not None:
                    raise anew(outbox.closed)
                try:
                    if outbox.put(payload, place):
                        self.tell(_MESSAGES_LEFT)
                except LimitReached:
                    if not self._waits:
                        raise
                else:
                    return
                self._engine.refuse_inside("a full queue", "block_if_queue_full=False")
                self._engine.block(outbox.room(), None, f"the full queue of {self._topic}")
        except KeyboardInterrupt:  # it may be there, with nobody to tell the actor of it
            self.tell(TakeAll())
            raise

    def leave_now(self, payload: bytes, place: object) -> None:
        """Likewise, and have it sent at once, with what has been batched so far."""
        self.leave(payload, place)
        self.tell(TakeAll())

    def slip(self, payload: bytes, place: object) -> None:
        """Leave a message without ever waiting: from anywhere, a loop included."""
        if self._outbox.closed is not None:
            raise anew(self._outbox.closed)
        if self._outbox.put(payload, place):
            self.tell(_MESSAGES_LEFT)


def _nobody(_: object) -> None:
    """Do nothing: callers have no handle before there is an actor."""
