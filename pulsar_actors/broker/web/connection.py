"""One HTTP connection: requests in, answers out, in the order in which they came.

The model answers at once, so no request ever waits for another's answer; what may wait is the socket. While answers are
on their way no further request is looked at: a client that sends and never reads fills no memory of ours, for what it
sends meanwhile has a bound as well, and going over it ends the connection.

After a request that cannot be read, the answer says why and the connection ends, but not at once: closing a socket that
has something unread resets it, and the client would never see the reason. So it is read, and thrown away, for a while
longer. A connection on which nothing comes for half a minute is closed.
"""

from collections.abc import Callable
from typing import Final

from pulsar_actors.broker.web.refusals import HttpRefusal
from pulsar_actors.broker.web.requests import MAX_HELD, Progress, Request, RequestReader
from pulsar_actors.broker.web.responses import CONTINUE, Response, encode_response, refused
from pulsar_actors.runtime.loop import Buffer, Loop, Transport

__all__ = ["IDLE_SECONDS", "LINGER_SECONDS", "WebConnection"]

IDLE_SECONDS: Final = 30.0
LINGER_SECONDS: Final = 2.0

Answer = Callable[[Request], Response]


class WebConnection:
    """Owns an accepted transport."""

    __slots__ = (
        "_answer",
        "_closed",
        "_ending",
        "_gone",
        "_lingering",
        "_loop",
        "_reader",
        "_seen",
        "_transport",
        "_unsent",
    )

    def __init__(
        self, loop: Loop, transport: Transport, answer: Answer, gone: Callable[["WebConnection"], object]
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._answer = answer
        self._gone = gone
        self._reader = RequestReader()
        self._unsent: list[Buffer] = []
        self._ending = False  # no further request is answered
        self._lingering = False  # what comes is thrown away
        self._closed = False
        self._seen = loop.now()
        loop.later(IDLE_SECONDS, self._check_idle, None)

    def opened(self) -> None:
        """Do nothing: an accepted connection is open from the start."""

    def received(self, data: bytes) -> None:
        """Answer what is whole."""
        self._seen = self._loop.now()
        if self._ending:
            return
        self._reader.feed(data)
        if self._reader.held > MAX_HELD:
            self.close()
        else:
            self._go_on()

    def writable(self) -> None:
        """Send more of the answer."""
        self._seen = self._loop.now()
        self._flush()
        self._go_on()

    def lost(self, reason: str) -> None:  # noqa: ARG002 - a client may go whenever it likes
        """Forget the connection."""
        self.close()

    def close(self) -> None:
        """End it now; what has not left never will. Doing it again does nothing."""
        if not self._closed:
            self._closed = self._ending = True
            self._unsent.clear()
            self._transport.close()
            self._gone(self)

    def _go_on(self) -> None:
        while not (self._unsent or self._ending):
            try:
                progress = self._reader.take()
            except HttpRefusal as refusal:
                self._lingering = True
                self._loop.later(LINGER_SECONDS, self._stop_lingering, None)
                self._say(refused(refusal.status, refusal.reason, refusal.headers), keeps_alive=False)
                return
            if progress is Progress.WAIT:
                return
            if isinstance(progress, Request):
                head = progress.method == "HEAD"
                self._say(self._answer(progress), keeps_alive=progress.keeps_alive, with_body=not head)
            else:
                self._send([CONTINUE])

    def _say(self, response: Response, *, keeps_alive: bool, with_body: bool = True) -> None:
        self._ending = not keeps_alive
        now = self._loop.wall_clock_ms()
        self._send(list(encode_response(response, now_ms=now, keeps_alive=keeps_alive, with_body=with_body)))

    def _send(self, buffers: list[Buffer]) -> None:
        self._unsent = buffers
        self._flush()

    def _flush(self) -> None:
        taken = self._transport.send(self._unsent)
        while self._unsent and taken >= len(self._unsent[0]):
            taken -= len(self._unsent.pop(0))
        if self._unsent:
            self._unsent[0] = memoryview(self._unsent[0])[taken:]
            self._transport.await_room()
        elif self._ending and not self._lingering:
            self.close()

    def _stop_lingering(self, _: None) -> None:
        self.close()

    def _check_idle(self, _: None) -> None:
        if self._closed:
            return
        left = self._seen + IDLE_SECONDS - self._loop.now()
        if left > 0:
            self._loop.later(left, self._check_idle, None)
        else:
            self.close()
