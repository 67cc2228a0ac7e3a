"""The package's log, in a form that never raises.

A handler or a filter is the program's, and one that raises would end whoever logs: an I/O thread that everybody shares,
or an actor before it has answered. So whatever they raise ends here, and is printed as `logging` prints the errors that
its own handlers meet.
"""

import logging
import sys
import traceback

from pulsar_actors.runtime.interrupts import is_ctrl_c

__all__ = ["LOG", "Log"]

_CALLER = 3
"""Frames from `logging` to whoever has something to say, for the line to name."""


class Log:
    """Takes lines for the logger of this name, from any thread."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def info(self, text: str, *values: object) -> None:
        """Say what a reader of the log would like to know."""
        self._say(logging.INFO, text, values, None)

    def warning(self, text: str, *values: object) -> None:
        """Say what somebody may want to look into."""
        self._say(logging.WARNING, text, values, None)

    def error(self, text: str, *values: object, exc_info: BaseException) -> None:
        """Say what went wrong, with the traceback of an error."""
        self._say(logging.ERROR, text, values, exc_info)

    def exception(self, text: str, *values: object) -> None:
        """Say it with the traceback of the error that is being handled."""
        self._say(logging.ERROR, text, values, sys.exc_info()[1])

    def _say(self, level: int, text: str, values: tuple[object, ...], exc_info: BaseException | None) -> None:
        try:
            if not self._logger.isEnabledFor(level):
                return
            self._logger.log(level, text, *values, exc_info=exc_info, stacklevel=_CALLER)
        except BaseException as raised:
            if is_ctrl_c(raised):
                raise
            if logging.raiseExceptions and sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] # it is, under pythonw
                traceback.print_exc()


LOG = Log("pulsar_actors")
"""The client's."""
