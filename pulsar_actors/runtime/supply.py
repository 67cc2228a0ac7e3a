"""Where callers get messages, and how they wait for them: what the queue of one consumer and that of several share.

Who waits, waits on a future. A caller adds it and *then* looks again; messages are added and *then* waiters are woken.
A woken caller may find that another was faster, and waits again; one that leaves without having needed its wake-up
passes it on (`waiting_line.py`). Futures that want a message, rather than a caller to wake, are served on the loop
(`promises.py`).
"""

from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import Any

from pulsar_actors.exceptions import TopicTerminated
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interleaving import Interleaving
from pulsar_actors.runtime.promises import Promises
from pulsar_actors.runtime.waiting_line import WaitingLine


class Supply(ABC):
    """A source of messages for callers."""

    __slots__ = ("_promises", "_waiting", "checkpoint", "closed")

    def __init__(self, interleaving: Interleaving) -> None:
        self.closed: Exception | None = None
        self.checkpoint = interleaving.checkpoint
        self._waiting = WaitingLine()
        self._promises = Promises(self.give_up_one)

    @abstractmethod
    def take(self) -> Any:  # noqa: ANN401 - a message, as `make` makes it
        """Take the next message, or None if there is none now."""

    @property
    @abstractmethod
    def queued(self) -> int:
        """Count the messages that are here, as far as entries say."""

    @property
    def has_messages(self) -> bool:
        """Tell whether any are."""
        return self.queued > 0

    @property
    @abstractmethod
    def left_open(self) -> int:
        """Count those of them that are opened."""

    @property
    @abstractmethod
    def asks_by_itself(self) -> bool:
        """Tell whether the broker is asked for messages before anybody waits for one."""

    @abstractmethod
    def is_at_its_end(self) -> bool:
        """Tell whether nothing comes after what is queued."""

    @abstractmethod
    def is_due(self) -> bool:
        """Tell whether there is a message, or will be none: then whoever asks next gets its answer at once."""

    @abstractmethod
    def await_one(self) -> None:
        """Hear that somebody waits."""

    @abstractmethod
    def give_up_one(self) -> None:
        """Hear that somebody waits no longer."""

    @abstractmethod
    def still_delivers(self, topic: str, generation: Generation) -> bool:
        """Tell whether a message of a topic that was opened in a generation may still be handed out."""

    # The actor's side.

    @abstractmethod
    def end(self, error: Exception) -> None:
        """Hand out nothing more."""

    @abstractmethod
    def forget(self, error: Exception) -> None:
        """Hand out nothing, in a forked child."""

    def announce(self, messages: int) -> None:
        """Wake as many callers as there are messages for."""
        self._waiting.wake(messages)
        self.serve()

    def announce_all(self) -> None:
        """Have all callers look again."""
        self._waiting.wake_all()
        self.serve()

    def serve(self) -> None:
        """Give messages to the futures that want one; if there will be none, an error. On the loop only."""
        self._promises.serve(self)

    # The callers' side.

    @property
    def over(self) -> Exception | None:
        """Tell why no message will come, if none will."""
        if self.closed is None and self.is_at_its_end():
            reason = "the topic was terminated, and all its messages have been received"
            return TopicTerminated("TopicTerminatedError", reason)
        return self.closed

    def wait(self, waiter: SlimFuture[None]) -> None:
        """Have a future end when it is worth looking again. Look once more before waiting for it."""
        self.checkpoint()
        self._waiting.append(waiter)
        self.checkpoint()
        self.await_one()

    def leave(self, waiter: SlimFuture[None], *, empty_handed: bool) -> None:
        """Wait no longer. A wake-up that came, and led to no message, is somebody else's."""
        try:
            self._waiting.remove(waiter)
        except ValueError:
            self.checkpoint()
            if empty_handed and self.queued:
                self._waiting.wake(1)
        if empty_handed:
            self.give_up_one()

    def promise(self, *, ahead: bool = False) -> Future[Any]:
        """Give a future of a message, perhaps ahead of others, for the actor to `serve`; cancelled it costs none."""
        future = self._promises.make(ahead=ahead)
        self.checkpoint()
        self.await_one()
        if self.closed is not None:  # perhaps before there was a future to fail
            self._promises.take_back(future, self.closed)
        return future
