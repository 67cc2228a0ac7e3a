"""The package's log, which never raises.

`about` is whom a line is about: fields of the record, for programs that write logs as JSON. They are `pulsar_topic`,
`pulsar_producer`, `pulsar_consumer`, `pulsar_subscription` and `pulsar_broker`.

Handlers and filters belong to the program. One that raises would end the code that logs: an I/O thread that all actors
share, or an actor before it has answered. So the exception ends here, and is printed as `logging` prints the errors of
its own handlers.
"""

import logging
import sys
import traceback
from collections.abc import Mapping

from pulsar_actors.runtime.interrupts import is_ctrl_c

__all__ = ["LOG", "Fields", "Log"]

Fields = Mapping[str, str]
"""Whom a line is about."""


_CALLER = 3
"""The number of frames between `logging` and the code that logs, whose file and line are in the log record."""


class Log:
    """Logs to the logger of this name, from any thread."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    @property
    def is_debugging(self) -> bool:
        """True if records of level DEBUG go anywhere: those who would log much ask before they make the texts."""
        return self._logger.isEnabledFor(logging.DEBUG)

    def debug(self, text: str, *values: object, about: Fields | None = None) -> None:
        """Log at level DEBUG."""
        self._log(logging.DEBUG, text, values, None, about)

    def info(self, text: str, *values: object, about: Fields | None = None) -> None:
        """Log at level INFO."""
        self._log(logging.INFO, text, values, None, about)

    def warning(self, text: str, *values: object, about: Fields | None = None) -> None:
        """Log at level WARNING."""
        self._log(logging.WARNING, text, values, None, about)

    def error(self, text: str, *values: object, exc_info: BaseException, about: Fields | None = None) -> None:
        """Log an error with the traceback of an exception."""
        self._log(logging.ERROR, text, values, exc_info, about)

    def exception(self, text: str, *values: object, about: Fields | None = None) -> None:
        """Log an error with the traceback of the exception that is being handled."""
        self._log(logging.ERROR, text, values, sys.exc_info()[1], about)

    def _log(
        self,
        level: int,
        text: str,
        values: tuple[object, ...],
        exc_info: BaseException | None,
        about: Fields | None,
    ) -> None:
        try:
            if not self._logger.isEnabledFor(level):
                return
            self._logger.log(level, text, *values, exc_info=exc_info, extra=about, stacklevel=_CALLER)
        except BaseException as raised:
            if is_ctrl_c(raised):
                raise
            if logging.raiseExceptions and sys.stderr is not None:  # pyright: ignore[reportUnnecessaryComparison] # it is, under pythonw
                traceback.print_exc()


LOG = Log("pulsar_actors")
"""The log of the client."""
