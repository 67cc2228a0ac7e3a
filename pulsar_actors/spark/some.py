"""Waiting for messages: what comes together is taken together, and what is not there is not waited for."""

import time
from collections.abc import Sequence
from typing import Final

from pulsar_actors.client.consuming.reader import Reader, read_some
from pulsar_actors.client.message import Message
from pulsar_actors.exceptions import Timeout

__all__ = ["some_of"]

LOOK: Final = 500
"""Milliseconds to wait for a message before the broker is asked whether there is any."""


def some_of(reader: Reader, patience_ms: int) -> Sequence[Message]:
    """Give the next messages, or none, if the topic has no more. Timeout: there are some, and they do not come."""
    until = time.monotonic() + patience_ms / 1000
    while True:
        try:
            return read_some(reader, min(LOOK, patience_ms))
        except Timeout:
            if not reader.has_message_available():
                return ()
            if time.monotonic() >= until:
                raise
