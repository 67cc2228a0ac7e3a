"""Where the lines of the log go.

The package has one logger, `pulsar_actors`, whose lines are about the process: its loops and connections serve several
clients at once. Left alone it is like any library's: silent until the program sets up `logging`.

A client may name a destination: the console, a file, or a logger of the program's. While such a client is open, each
line goes once to each destination that an open client has named, and nowhere else, however many name the same one, and
whichever way two of them lead to the same handler in the end. A client that names none counts as having named the
program's own set-up, which would otherwise fall silent whenever another client has a file. So lines are neither doubled
nor lost, and a destination gets none that is less important than its level.

All this is a filter on the logger: it calls the handlers of the destinations, each once, and lets a line pass to where
`logging` itself would take it only for a client that names none. A child of the logger goes past that filter, as the
embedded broker's does, whose lines are no client's; so whatever a client runs logs to `pulsar_actors` itself. When the
last client that names a destination has been closed, the filter is gone and the logger has its level back.
"""

import logging
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pulsar_actors.client.enums import LoggerLevel
from pulsar_actors.client.loggers import FileLogger, LoggerOption
from pulsar_actors.exceptions import InvalidConfiguration

__all__ = ["Attachment", "attach"]

_FORMAT = "%(asctime)s.%(msecs)03d %(levelname)-7s [%(threadName)s] %(name)s | %(message)s"
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"
_LEVELS = {
    LoggerLevel.Debug: logging.DEBUG,
    LoggerLevel.Info: logging.INFO,
    LoggerLevel.Warn: logging.WARNING,
    LoggerLevel.Error: logging.ERROR,
}
_CONSOLE = Path()

_OURS = logging.getLogger("pulsar_actors")
_OURS.addHandler(logging.NullHandler())


class Attachment:
    """What one client has named, until `detach`."""

    __slots__ = ("handler", "level", "logger", "place")

    def __init__(self, option: LoggerOption) -> None:
        self.logger: logging.Logger | None = None
        self.place: Path | None = None
        self.handler: logging.Handler | None = None  # of the place, which the outlet opens
        self.level = logging.NOTSET
        if isinstance(option, logging.Logger):
            self.logger = None if _OURS in _chain(option) else option  # else it is the program's set-up already
        elif option is not None:
            self.level = _LEVELS[option.log_level]
            self.place = Path(option.log_file).absolute() if isinstance(option, FileLogger) else _CONSOLE

    @property
    def names_none(self) -> bool:
        """Whether it is content with the program's set-up."""
        return self.logger is None and self.place is None

    def wants(self, record: logging.LogRecord) -> bool:
        """Tell whether the destination takes this line."""
        if self.logger is not None:
            return self.logger.isEnabledFor(record.levelno) and bool(self.logger.filter(record))
        return record.levelno >= self.level

    def handlers(self) -> Iterable[logging.Handler]:
        """Give the handlers that take lines there."""
        if self.logger is not None:
            return _handlers_of(self.logger)
        return () if self.handler is None else (self.handler,)

    def detach(self) -> None:
        """End it; doing it again does nothing."""
        _OUTLET.change(without=self)


class _Outlet:
    """The filter: all attachments there are, and the handlers of consoles and files."""

    def __init__(self) -> None:
        self._attached: tuple[Attachment, ...] = ()
        self._handlers: dict[Path, logging.Handler] = {}
        self._own_level: int | None = None  # of the logger, while it has another
        self._guard = logging.Handler()  # for its lock, which `logging` leaves free after a fork

    def change(self, *, to: Attachment | None = None, without: Attachment | None = None) -> None:
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
        reached = set(_handlers_of(_OURS)) if passes else set[logging.Handler]()
        for one in attached:
            if one.wants(record):
                for handler in one.handlers():
                    if handler not in reached and record.levelno >= handler.level:
                        reached.add(handler)
                        handler.handle(record)
        return passes

    def _open(self, one: Attachment | None) -> None:
        if one is None or one.place is None:
            return
        if one.place not in self._handlers:
            self._handlers[one.place] = _handler_for(one.place)
        one.handler = self._handlers[one.place]

    def _close_unused(self) -> None:
        for place in {*self._handlers} - {one.place for one in self._attached}:
            self._handlers.pop(place).close()

    def _set_level(self) -> None:
        """Let the logger make the lines that anybody wants, and no others."""
        if all(one.names_none for one in self._attached):
            if self._own_level is not None:
                _OURS.removeFilter(self)
                _OURS.setLevel(self._own_level)
                self._own_level = None
            return
        if self._own_level is None:
            self._own_level = _OURS.level
            _OURS.addFilter(self)
        _OURS.setLevel(min(map(self._level_of, self._attached)))

    def _level_of(self, one: Attachment) -> int:
        if one.names_none:
            return self._program_level()
        return one.level if one.logger is None else one.logger.getEffectiveLevel()

    def _program_level(self) -> int:
        above = _OURS.parent
        return self._own_level or (above.getEffectiveLevel() if above is not None else logging.WARNING)


def attach(option: LoggerOption) -> Attachment:
    """Open what a client has named. InvalidConfiguration says that a file cannot be written."""
    attachment = Attachment(option)
    _OUTLET.change(to=attachment)
    return attachment


def _handler_for(place: Path) -> logging.Handler:
    try:
        to_file = None if place is _CONSOLE else logging.FileHandler(place, encoding="utf-8")
    except OSError as fault:
        raise InvalidConfiguration(f"log_file cannot be opened: {fault}") from fault
    handler = to_file or logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter(_FORMAT, _TIME_FORMAT))
    return handler


def _chain(logger: logging.Logger) -> Iterator[logging.Logger]:
    """Give the loggers whose handlers get the lines of this one."""
    one: logging.Logger | None = logger
    while one is not None:
        yield one
        one = one.parent if one.propagate else None


def _handlers_of(logger: logging.Logger) -> Iterator[logging.Handler]:
    for one in _chain(logger):
        yield from one.handlers


_OUTLET = _Outlet()
