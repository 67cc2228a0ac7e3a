"""A counter of messages, which is shown on a line of the terminal and changes once a second."""

import sys
import time
from types import TracebackType
from typing import Final

_SECONDS: Final = 1.0
_TO_THE_LEFT, _CLEAR_LINE = "\r", "\x1b[K"


class MessageCounter:
    """The count of the messages, for its `with` block. It is shown on the standard error if that is a terminal.

    A command that writes messages to the terminal shows none: the messages are its progress.
    """

    def __init__(self, *, is_shown: bool = True) -> None:
        self._is_shown = is_shown and sys.stderr.isatty()
        self._due = time.monotonic() + _SECONDS
        self.count = 0

    def __enter__(self) -> "MessageCounter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_shown:
            print(_TO_THE_LEFT + _CLEAR_LINE, end="", file=sys.stderr, flush=True)

    def add(self, messages: int) -> None:
        """Count messages, and show the count if the last time was a second ago."""
        self.count += messages
        if self._is_shown and time.monotonic() >= self._due:
            self._due = time.monotonic() + _SECONDS
            print(f"{_TO_THE_LEFT}{self.count:,} messages", end="", file=sys.stderr, flush=True)
