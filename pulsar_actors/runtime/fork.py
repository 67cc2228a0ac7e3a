"""Forks: the clients of a forked child end.

A forked child has copies of all objects and none of the threads: loops without a thread, locks that are never released,
and sockets that the parent goes on using. So in the child every client is told before any other code runs. The client
closes its copies of the sockets, sends nothing, and refuses every call from then on. To wait for a pending future
raises. The child can create a new client.

The clients are in a plain dict, whose changes are atomic in Python: there is no lock that a fork could leave locked.
"""

import os
import weakref
from typing import Protocol

from pulsar_actors.runtime.actor import forget_all_actors
from pulsar_actors.runtime.future import orphan_pending
from pulsar_actors.runtime.interrupts import forget_main_thread


class Forkable(Protocol):
    """A client."""

    def forget_everything(self) -> None:
        """Close the inherited sockets, and refuse all calls. Called in the child, where no other thread exists."""
        ...


_ALIVE: "dict[int, weakref.ref[Forkable]]" = {}


def forget_on_fork(client: Forkable) -> None:
    """Register a client: in a forked child its `forget_everything` is called, if the client still exists."""
    number = id(client)
    _ALIVE[number] = weakref.ref(client, lambda _: _ALIVE.pop(number, None))


def _in_child() -> None:
    forget_main_thread()
    forget_all_actors()
    orphan_pending()
    for reference in list(_ALIVE.values()):
        client = reference()
        if client is not None:
            client.forget_everything()
    _ALIVE.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
