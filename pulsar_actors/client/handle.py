"""The base classes of producers, consumers and readers (handles), and of the state that a handle shares with its actor.

An actor ends with its handle: when the last reference to the handle is gone, the actor closes. The handle keeps its
client alive, because a program may have a reference only to a producer. `HandleState` has no reference to the handle,
because it is needed until the actor has closed, which may be after the handle is gone.
"""

import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pulsar_actors.client.rates import RateMeter
from pulsar_actors.exceptions import ProcessForked, PulsarException
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import SlimFuture, copy_error, settle
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.messages import CloseHandle

if TYPE_CHECKING:
    from pulsar_actors.client.history import History

C = TypeVar("C", bound="Closeable")


class Closeable(ABC):
    """A client or a handle: `with` closes it at the end of its block, and it cannot be pickled."""

    @abstractmethod
    def close(self) -> None:
        """Close the client or the handle. A second call does nothing."""

    def __enter__(self: C) -> C:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> Any:  # noqa: ANN401 - it never returns
        name = type(self).__name__
        raise TypeError(f"a {name} holds connections and cannot be pickled: make one where it is needed")


M = TypeVar("M")


class HandleState(ABC, Generic[M]):
    """The state of a producer, a consumer or a reader, of one topic or of several."""

    __slots__ = ("__weakref__", "address", "engine", "link", "machine")

    def __init__(self, engine: Engine, link: HandleLink, machine: M, address: ActorRef) -> None:
        self.engine = engine
        self.link = link
        self.machine = machine
        self.address = address

    @property
    @abstractmethod
    def closed(self) -> Exception | None:
        """The error with which calls are refused, or None while the handle is open."""

    def end(self, error: PulsarException) -> None:
        """Fail all calls, and mark the handle as ended, in place of an actor that does not exist any longer."""
        self.link.pending_calls.end(error)
        settle(self.link.ended, None)

    def forget(self, error: Exception) -> None:
        """Refuse calls from now on, in a forked child."""
        self.link.pending_calls.closed = error


P = TypeVar("P", bound=HandleState[Any])
T = TypeVar("T")


class Handle(Closeable, Generic[P]):
    """The base of Producer, Consumer and Reader. `topic` is a complete name, and `what` names the handle in errors."""

    def __init__(self, state: P, topic: str, what: str, client: object) -> None:
        self._state = state
        self._what = what
        self._client = client
        self._address = state.address
        self._topic = sys.intern(topic)  # the same object as in its messages, so comparisons are fast
        self._meter = RateMeter(state.engine.now())
        self._finalizer = weakref.finalize(self, tell, self._address, CloseHandle())
        self._finalizer.atexit = False

    def topic(self) -> str:
        """Return the topic's complete name."""
        return self._topic

    @property
    def is_open(self) -> bool:
        """Return whether the handle can be used: it has neither been closed nor failed permanently."""
        return self._state.closed is None

    def is_connected(self) -> bool:
        """Return whether the handle is registered with a broker now. If not, it is trying to connect."""
        return self._state.closed is None and self._state.machine.is_bound

    def history(self) -> "History":
        """Return the last changes of state of the handle: of its connections to brokers, its close and the like.

        It can be asked of a handle that has ended, too.
        """
        from pulsar_actors.client.history import History  # noqa: PLC0415 - many programs never ask

        return History.of(self._address, *(member.address for member in self._members()))

    def _members(self) -> Collection[HandleState[Any]]:
        """Return the state of the producer or consumer of each topic."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the handle, after its pending messages or acknowledgements were sent. A second call does nothing.

        In a callback this starts the close, and does not wait for its end.
        """
        self._refuse_if_forked()
        self.close_soon()
        if not self._state.engine.is_on_io_thread():
            self._state.engine.block(self._state.link.ended, None, f"close() of {self._what}")

    def close_soon(self) -> None:
        """Start the close, and do not wait for its end."""
        tell(self._address, CloseHandle())
        self._finalizer.detach()

    def __repr__(self) -> str:
        return f"<{self._what}>"

    def _call(self, ask: Callable[[SlimFuture[T]], object], what: str) -> T:
        """Make a request to the actor, and wait for the answer."""
        done: SlimFuture[T] = SlimFuture()
        self._state.link.pending_calls.track(done)
        tell(self._address, ask(done))
        return self._state.engine.block(done, None, what)

    def _refuse_if_forked(self) -> None:
        if isinstance(self._state.closed, ProcessForked):
            raise copy_error(self._state.closed)


def state_of(handle: Handle[P]) -> P:
    """Return the state of a handle, for other code of this package."""
    return handle._state  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
