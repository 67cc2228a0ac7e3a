"""What becomes of clients when the process forks.

A forked child has copies of everything and the threads of nothing: loops that nobody runs, locks that nobody will
release, and sockets that the parent goes on using. So in the child every client is told, before anything else runs:
it closes its copies of the sockets, sends nothing, and refuses every call from then on. Futures that were pending
refuse to be waited for. Then a new client can be made.

The list is a plain dict, whose changes are one step each for the interpreter: there is no lock that a fork could catch
in the wrong hands.
"""

import os
import weakref
from typing import Protocol

from pulsar_actors.runtime.actor import forget_all_actors
from pulsar_actors.runtime.future import give_up_pending


class Forkable(Protocol):
    """A client."""

    def forget_everything(self) -> None:
        """Let go of what was inherited; called in the child, with no other thread alive."""
        ...


_ALIVE: "dict[int, weakref.ref[Forkable]]" = {}


def watch(client: Forkable) -> None:
    """Tell it when the process is a forked child, for as long as it exists."""
    number = id(client)
    _ALIVE[number] = weakref.ref(client, lambda _: _ALIVE.pop(number, None))


def _in_child() -> None:
    forget_all_actors()
    give_up_pending()
    for reference in list(_ALIVE.values()):
        client = reference()
        if client is not None:
            client.forget_everything()
    _ALIVE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
