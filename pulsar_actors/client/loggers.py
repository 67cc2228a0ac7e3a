"""The destinations of log lines: a logger of the program, the console, or a file.

The package has one logger, `pulsar_actors`, for all clients of the process. By default it is silent until the program
sets up `logging`, like the logger of any library.

A client may name a destination: the console, a file, or a logger of the program. While such a client is open, each line
goes once to each destination that an open client has named, and to no other handler. This holds even if several clients
name the same destination, or if two destinations lead to the same handler. A client that names none counts as having
named the program's own logging set-up: otherwise its lines would disappear when another client has a file. So lines are
neither doubled nor lost, and a destination gets no lines below its level.

This is done by a filter on the logger. It calls each handler of the destinations once, and lets a line pass to
`logging` itself only for a client that names no destination. Lines of a child logger bypass the filter. The embedded
broker logs to such a child, because its lines do not belong to a client. Therefore all code of a client logs to
`pulsar_actors` itself. When the last client that names a destination has been closed, the filter is removed and the
logger gets its level back.
"""

import logging
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from pulsar_actors.client.enums import LoggerLevel
from pulsar_actors.exceptions import InvalidConfiguration

if TYPE_CHECKING:
    from pathlib import Path

    from pulsar_actors.client.logger_options import LoggerOption

__all__ = ["LogDestination", "add_log_destination"]


_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s [%(threadName)s] %(name)s | %(message)s"
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
_LEVELS = {
    LoggerLevel.Debug: logging.DEBUG,
    LoggerLevel.Info: logging.INFO,
    LoggerLevel.Warn: logging.WARNING,
    LoggerLevel.Error: logging.ERROR,
}
_CONSOLE = ""
"""In place of the path of a file."""

_PACKAGE_LOGGER = logging.getLogger("pulsar_actors")
_PACKAGE_LOGGER.addHandler(logging.NullHandler())


class LogDestination:
    """The log destination of one client, until `detach`."""

    __slots__ = ("handler", "level", "log_path", "logger")

    def __init__(self, option: "LoggerOption") -> None:
        self.logger: logging.Logger | None = None
        self.log_path: Path | str | None = None
        self.handler: logging.Handler | None = None  # the handler for `log_path`, which the filter opens
        self.level = logging.NOTSET
        if isinstance(option, logging.Logger):
            self.logger = None if _PACKAGE_LOGGER in _chain(option) else option  # otherwise it is the program's set-up
        elif option is not None:
            from pulsar_actors.client.logger_options import FileLogger  # noqa: PLC0415 - most programs name none

            self.level = _LEVELS[option.log_level]
            self.log_path = _absolute(option.log_file) if isinstance(option, FileLogger) else _CONSOLE

    @property
    def names_none(self) -> bool:
        """True if the client has named no destination, or the program's set-up."""
        return self.logger is None and self.log_path is None

    def wants(self, record: logging.LogRecord) -> bool:
        """Return whether the destination takes this line."""
        if self.logger is not None:
            return self.logger.isEnabledFor(record.levelno) and bool(self.logger.filter(record))
        return record.levelno >= self.level

    def handlers(self) -> Iterable[logging.Handler]:
        """Return the handlers of the destination."""
        if self.logger is not None:
            return _handlers_of(self.logger)
        return () if self.handler is None else (self.handler,)

    def detach(self) -> None:
        """Remove the destination. A second call does nothing."""
        LOG_FILTER.change(without=self)


class LogFilter:
    """The filter on the package's logger. It has all destinations, and the handlers of the console and of files."""

    def __init__(self) -> None:
        self._attached: tuple[LogDestination, ...] = ()
        self._handlers: dict[Path | str, logging.Handler] = {}
        self._own_level: int | None = None  # the logger's own level, while the filter has set another
        self._guard = logging.Handler()  # for its lock, which `logging` renews after a fork

    def change(self, *, to: LogDestination | None = None, without: LogDestination | None = None) -> None:
        self._guard.acquire()
        try:
            kept = tuple(one for one in self._attached if one is not without)
            self._open(to)
            self._attached = kept if to is None else (*kept, to)
            self._close_unused()
            self._set_level()
        finally:
            self._guard.release()

    def filter(self, record: logging.LogRecord) -> bool:
        attached = self._attached
        passes = record.levelno >= self._program_level() and any(one.names_none for one in attached)
        reached = set(_handlers_of(_PACKAGE_LOGGER)) if passes else set[logging.Handler]()
        for one in attached:
            if one.wants(record):
                for handler in one.handlers():
                    if handler not in reached and record.levelno >= handler.level:
                        reached.add(handler)
                        handler.handle(record)
        return passes

    def _open(self, one: LogDestination | None) -> None:
        if one is None or one.log_path is None:
            return
        if one.log_path not in self._handlers:
            self._handlers[one.log_path] = _handler_for(one.log_path)
        one.handler = self._handlers[one.log_path]

    def _close_unused(self) -> None:
        for log_path in {*self._handlers} - {one.log_path for one in self._attached}:
            self._handlers.pop(log_path).close()

    def _set_level(self) -> None:
        """Set the logger's level to the lowest that a destination takes."""
        if all(one.names_none for one in self._attached):
            if self._own_level is not None:
                _PACKAGE_LOGGER.removeFilter(self)
                _PACKAGE_LOGGER.setLevel(self._own_level)
                self._own_level = None
            return
        if self._own_level is None:
            self._own_level = _PACKAGE_LOGGER.level
            _PACKAGE_LOGGER.addFilter(self)
        _PACKAGE_LOGGER.setLevel(min(map(self._level_of, self._attached)))

    def _level_of(self, one: LogDestination) -> int:
        if one.names_none:
            return self._program_level()
        return one.level if one.logger is None else one.logger.getEffectiveLevel()

    def _program_level(self) -> int:
        above = _PACKAGE_LOGGER.parent
        return self._own_level or (above.getEffectiveLevel() if above is not None else logging.WARNING)


def add_log_destination(option: "LoggerOption") -> LogDestination:
    """Open the destination of a client. Raises InvalidConfiguration if a file cannot be written."""
    destination = LogDestination(option)
    LOG_FILTER.change(to=destination)
    return destination


def _absolute(log_file: str) -> "Path":
    from pathlib import Path  # noqa: PLC0415 - most programs name none

    return Path(log_file).absolute()


def _handler_for(log_path: "Path | str") -> logging.Handler:
    try:
        to_file = None if log_path == _CONSOLE else logging.FileHandler(log_path, encoding="utf-8")
    except OSError as fault:
        raise InvalidConfiguration(f"log_file cannot be opened: {fault}") from fault
    handler = to_file or logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter(_FORMAT, _TIME_FORMAT))
    return handler


def _chain(logger: logging.Logger) -> Iterator[logging.Logger]:
    """Yield the loggers whose handlers get the lines of this one."""
    one: logging.Logger | None = logger
    while one is not None:
        yield one
        one = one.parent if one.propagate else None


def _handlers_of(logger: logging.Logger) -> Iterator[logging.Handler]:
    for one in _chain(logger):
        yield from one.handlers


LOG_FILTER = LogFilter()
