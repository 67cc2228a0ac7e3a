"""What producers, consumers and readers are alike in, as users hold them: a topic, an actor, and an end.

An actor ends with its handle: once nobody holds that any longer, it is told to close. The handle keeps its client, for
a program may hold nothing but a producer.
"""

import sys
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pulsar_actors.client.anew import anew
from pulsar_actors.client.closeable import Closeable
from pulsar_actors.client.parts import Parts
from pulsar_actors.client.stats import RateMeter
from pulsar_actors.exceptions import ProcessForked
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.binding_messages import CloseHandle
from pulsar_actors.runtime.future import SlimFuture

P = TypeVar("P", bound=Parts[Any])
T = TypeVar("T")


class Handle(Closeable, Generic[P]):
    """The base of Producer, Consumer and Reader. `topic` is a complete name, and `what` names the handle in errors."""

    def __init__(self, parts: P, topic: str, what: str, client: object) -> None:
        self._parts = parts
        self._what = what
        self._client = client
        self._address = parts.address
        self._topic = sys.intern(topic)  # as that of its messages, to be compared in no time
        self._meter = RateMeter(parts.engine.now())
        self._finalizer = weakref.finalize(self, tell, self._address, CloseHandle())
        self._finalizer.atexit = False

    def topic(self) -> str:
        """Return the topic's complete name."""
        return self._topic

    @property
    def is_open(self) -> bool:
        """Tell whether it can be used: it has not been closed, and has not failed for good."""
        return self._parts.closed is None

    def is_connected(self) -> bool:
        """Tell whether a broker serves it now. If none does, it is trying to find one."""
        return self._parts.closed is None and self._parts.machine.is_bound

    def close(self) -> None:
        """End it, once what is left here has been sent: messages, or acknowledgements. Closing it again does nothing.

        In a callback this begins the close, and does not wait for its end.
        """
        self._refuse_if_forked()
        self.close_soon()
        if not self._parts.engine.is_inside():
            self._parts.engine.block(self._parts.ties.ended, None, f"close() of {self._what}")

    def close_soon(self) -> None:
        """Begin to close, and do not wait."""
        tell(self._address, CloseHandle())
        self._finalizer.detach()

    def __repr__(self) -> str:
        return f"<{self._what}>"

    def _call(self, ask: Callable[[SlimFuture[T]], object], what: str) -> T:
        """Ask the actor for something, and wait until that has ended."""
        done: SlimFuture[T] = SlimFuture()
        self._parts.ties.debts.owe(done)
        tell(self._address, ask(done))
        return self._parts.engine.block(done, None, what)

    def _refuse_if_forked(self) -> None:
        if isinstance(self._parts.closed, ProcessForked):
            raise anew(self._parts.closed)
