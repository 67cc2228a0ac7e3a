import logging
from collections.abc import Iterator

import pytest

from pulsar_actors.runtime.log import LOG, Log


class Faulty(logging.Handler):
    """Raises when a line comes."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def handle(self, record: logging.LogRecord) -> bool:
        raise self._error


@pytest.fixture
def handlers() -> Iterator[list[logging.Handler]]:
    logger = logging.getLogger("pulsar_actors")
    before, logger.handlers = logger.handlers, []
    yield logger.handlers
    logger.handlers = before


def say() -> None:
    LOG.warning("a line with %s", "a value")


def test_a_line_names_whoever_has_something_to_say(caplog: pytest.LogCaptureFixture) -> None:
    say()
    (line,) = (line for line in caplog.records if line.getMessage().startswith("a line"))
    assert line.getMessage() == "a line with a value"
    assert (line.name, line.levelno, line.funcName) == ("pulsar_actors", logging.WARNING, "say")


def test_another_log_has_another_name(caplog: pytest.LogCaptureFixture) -> None:
    Log("pulsar_actors.of_this_test").warning("a line")
    lines = [line.name for line in caplog.records if line.getMessage() == "a line"]
    assert lines == ["pulsar_actors.of_this_test"]


def test_an_error_comes_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    error = ValueError("planted")
    LOG.error("went wrong", exc_info=error)
    try:
        raise error
    except ValueError:
        LOG.exception("caught")
    assert [line.exc_info[1] for line in caplog.records if line.exc_info] == [error, error]


@pytest.mark.parametrize("error", [ValueError("planted"), SystemExit(3)], ids=repr)
def test_what_a_handler_raises_is_printed_and_ends_there(
    handlers: list[logging.Handler], error: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    handlers.append(Faulty(error))
    say()
    assert repr(error).split("(")[0] in capsys.readouterr().err


def test_it_is_not_printed_where_logging_is_to_be_quiet(
    handlers: list[logging.Handler], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    handlers.append(Faulty(ValueError("planted")))
    say()
    assert not capsys.readouterr().err


def test_ctrl_c_goes_through_a_handler(handlers: list[logging.Handler]) -> None:
    handlers.append(Faulty(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        say()
