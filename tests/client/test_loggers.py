import pickle
from typing import Any

import pulsar
import pytest

from pulsar_actors.client.enums import LoggerLevel
from pulsar_actors.client.loggers import ConsoleLogger, FileLogger
from pulsar_actors.exceptions import InvalidArgument


def test_a_logger_has_the_attributes_of_the_official_one() -> None:
    ours = FileLogger(LoggerLevel.Warn, "a.log")
    official = pulsar.FileLogger(pulsar.LoggerLevel.Warn, "a.log")
    assert (ours.log_level, ours.log_file) == (official.log_level, official.log_file)
    assert ConsoleLogger().log_level == pulsar.ConsoleLogger().log_level


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: ConsoleLogger(1), "log_level"),
        (lambda: ConsoleLogger("Info"), "log_level"),
        (lambda: FileLogger(None, "a.log"), "log_level"),
        (lambda: FileLogger(LoggerLevel.Info, 5), "log_file"),
        (lambda: FileLogger(LoggerLevel.Info, ""), "log_file"),
    ],
)
def test_a_wrong_argument_is_refused_by_name(make: Any, name: str) -> None:
    with pytest.raises(InvalidArgument, match=rf"^{name} takes "):
        make()


@pytest.mark.parametrize("logger", [ConsoleLogger(LoggerLevel.Debug), FileLogger(LoggerLevel.Info, "a.log")])
def test_a_logger_can_be_pickled(logger: Any) -> None:
    assert pickle.loads(pickle.dumps(logger)) == logger  # noqa: S301 - our own pickle
