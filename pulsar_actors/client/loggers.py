"""What `Client(logger=...)` takes: a logger of the program's, or one of these. What becomes of it: `log_outlet.py`."""

import logging
from dataclasses import dataclass
from typing import TypeAlias

from pulsar_actors.client.arguments import instance_of, path
from pulsar_actors.client.enums import LoggerLevel

__all__ = ["ConsoleLogger", "FileLogger", "LoggerOption"]

_level = instance_of(LoggerLevel)


@dataclass(frozen=True, slots=True)
class ConsoleLogger:
    """Lines go to the standard output, from this level up."""

    log_level: LoggerLevel = LoggerLevel.Info

    def __post_init__(self) -> None:
        _level("log_level", self.log_level)


@dataclass(frozen=True, slots=True)
class FileLogger:
    """Lines are appended to a file, from this level up."""

    log_level: LoggerLevel
    log_file: str

    def __post_init__(self) -> None:
        _level("log_level", self.log_level)
        path("log_file", self.log_file)


LoggerOption: TypeAlias = logging.Logger | ConsoleLogger | FileLogger | None
