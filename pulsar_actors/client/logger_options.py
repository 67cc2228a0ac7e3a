"""The destinations of log lines that a client may name: the console, or a file. `loggers.py` writes to them."""

import logging
from dataclasses import dataclass
from typing import TypeAlias

from pulsar_actors.client.enums import LoggerLevel
from pulsar_actors.client.validation import instance_of, path

__all__ = ["ConsoleLogger", "FileLogger", "LoggerOption"]

_level = instance_of(LoggerLevel)


@dataclass(frozen=True, slots=True)
class ConsoleLogger:
    """Writes log lines from this level up to the standard output."""

    log_level: LoggerLevel = LoggerLevel.Info

    def __post_init__(self) -> None:
        _level("log_level", self.log_level)


@dataclass(frozen=True, slots=True)
class FileLogger:
    """Appends log lines from this level up to a file."""

    log_level: LoggerLevel
    log_file: str

    def __post_init__(self) -> None:
        _level("log_level", self.log_level)
        path("log_file", self.log_file)


LoggerOption: TypeAlias = logging.Logger | ConsoleLogger | FileLogger | None
