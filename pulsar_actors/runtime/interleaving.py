"""Where threads may change places: the locks and the checkpoints of what callers and actors share.

On threads the system decides when one goes on and another waits, so there a lock is a lock and a checkpoint is nothing.
Under simulation the seed decides, and only where it is asked: at a checkpoint, and on the way into and out of a lock.
So checkpoints stand where a change of threads could hurt: between two steps of which the second leans on the first.
They stand in no path that every message takes.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple


class Interleaving(NamedTuple):
    """What makes locks, and what to call where threads may change places."""

    lock: Callable[[], AbstractContextManager[Any]]
    checkpoint: Callable[[], None]


def _nothing() -> None:
    """Do nothing: the system decides."""


THREADS = Interleaving(threading.Lock, _nothing)
