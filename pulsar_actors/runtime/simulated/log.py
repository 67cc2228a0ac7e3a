"""What the package logs, for the history of a world.

An error that is logged with a traceback has been caught by somebody who could do nothing better with it, an actor that
died of a bug, say. Nobody may be waiting for what it owed, so it counts as a failure of the run.
"""

import logging
import re
from collections.abc import Callable
from typing import Any, final

_ADDRESS = re.compile(r"\b0x[0-9a-f]+")


@final
class LogReader(logging.Handler):
    """Takes each line, and the errors among them."""

    def __init__(self, line: Callable[[str], object], failure: Callable[[str, BaseException], object]) -> None:
        super().__init__()
        self._line = line
        self._failure = failure

    def emit(self, record: logging.LogRecord) -> None:
        """Take a line. Addresses of objects are left out, which differ from run to run."""
        text = _ADDRESS.sub("0x…", f"{record.levelname}: {record.getMessage()}")
        self._line(text)
        exc_info: Any = record.exc_info
        if record.levelno >= logging.ERROR and exc_info and exc_info[1] is not None:
            self._failure(text, exc_info[1])

    def __enter__(self) -> "LogReader":
        """Begin to read."""
        logging.getLogger("pulsar_actors").addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        logging.getLogger("pulsar_actors").removeHandler(self)
