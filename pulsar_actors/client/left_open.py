"""What is said at the end of the interpreter: whose messages may have been lost. Nothing is flushed any longer then."""

import atexit
import warnings

from pulsar_actors.client.living import Living
from pulsar_actors.client.roll import Roll

MOST_NAMED = 5

OPEN: Living[Roll] = Living()
"""The rolls of clients that have not been closed."""


@atexit.register
def warn_of_open_producers() -> None:
    """Name the producers that were left open, in one line."""
    names = sorted({producer.topic() for roll in OPEN for producer in roll.producers if producer.is_open})
    if names:
        some = ", ".join(names[:MOST_NAMED])
        warnings.warn(f"producers were left open, and may have lost messages: {some}", ResourceWarning, stacklevel=1)
