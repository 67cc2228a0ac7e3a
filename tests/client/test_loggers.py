import ast
import logging
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Any

import pulsar
import pytest

import pulsar_actors
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client import loggers
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import LoggerLevel
from pulsar_actors.client.logger_options import ConsoleLogger, FileLogger, LoggerOption
from pulsar_actors.client.loggers import LogDestination
from pulsar_actors.exceptions import InvalidArgument, InvalidConfiguration


def test_a_logger_has_the_attributes_of_the_official_one() -> None:
    ours = FileLogger(LoggerLevel.Warn, "a.log")
    official = pulsar.FileLogger(pulsar.LoggerLevel.Warn, "a.log")
    assert (ours.log_level, ours.log_file) == (official.log_level, official.log_file)
    assert ConsoleLogger().log_level == pulsar.ConsoleLogger().log_level


@pytest.mark.parametrize("logger", [ConsoleLogger(LoggerLevel.Debug), FileLogger(LoggerLevel.Info, "a.log")])
def test_a_logger_can_be_pickled(logger: Any) -> None:
    assert pickle.loads(pickle.dumps(logger)) == logger  # noqa: S301 - our own pickle


Attach = Callable[[LoggerOption], LogDestination]
OURS = logging.getLogger("pulsar_actors")
PACKAGE = Path(pulsar_actors.__file__).parent


class Lines(logging.Handler):
    """A handler of the program's, and what came to it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(autouse=True)
def _no_other_destinations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin without those of clients that other tests of this process keep, as a worker's pool of clients does."""
    monkeypatch.setattr(loggers, "LOG_FILTER", loggers.LogFilter())


@pytest.fixture
def root() -> Iterator[Lines]:
    """The program's own set-up: a handler at the root, from WARNING up as `logging` has it."""
    lines = Lines()
    logging.getLogger().addHandler(lines)
    yield lines
    logging.getLogger().removeHandler(lines)


@pytest.fixture
def app() -> Iterator[tuple[logging.Logger, Lines]]:
    """A logger of the program's with a handler of its own, which hands lines on to the root as well."""
    logger, lines = logging.getLogger("an.app"), Lines()
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    yield logger, lines
    logger.removeHandler(lines)


@pytest.fixture
def lines(app: tuple[logging.Logger, Lines], root: Lines) -> dict[str, list[str]]:
    """What came to the program's handlers, by their loggers."""
    return {"an.app": app[1].lines, "root": root.lines}


@pytest.fixture
def attach() -> Iterator[Attach]:
    """Attach as clients do, and detach at the end whatever is left."""
    attached: list[LogDestination] = []

    def attach_as_a_client(option: LoggerOption) -> LogDestination:
        attached.append(loggers.add_log_destination(option))
        return attached[-1]

    yield attach_as_a_client
    for one in attached:
        one.detach()
    assert (OURS.level, OURS.filters, OURS.propagate) == (logging.NOTSET, [], True)


def say(*lines: str) -> None:
    for line in lines:
        OURS.log(getattr(logging, line.split()[0].strip(":").upper()), line)


ALL = ("debug", "info", "warning", "error")


def texts(file: Path) -> list[str]:
    return [line.partition(" | ")[2] for line in file.read_text().splitlines()]


def test_the_library_is_silent_until_it_is_told_otherwise() -> None:
    program = "import logging, pulsar_actors.client.loggers; logging.getLogger('pulsar_actors').error('a line')"
    assert run(program) == (b"", b"")


def run(program: str) -> tuple[bytes, bytes]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=PACKAGE.parent)  # noqa: S603 - our own
    return done.stdout, done.stderr


INFO, WARNING, ERROR = list(ALL[1:]), list(ALL[2:]), list(ALL[3:])
DESTINATIONS: list[tuple[list[Any], dict[str, list[str]]]] = [
    ([None], {"root": WARNING}),
    (["pulsar_actors"], {"root": WARNING}),
    (["pulsar_actors.part"], {"root": WARNING}),
    (["an.app"], {"an.app": INFO, "root": INFO}),
    (["an.app", "an.app.part", "another", None], {"an.app": INFO, "root": INFO}),
    ([("a.log", LoggerLevel.Error)], {"a.log": ERROR}),
    ([("a.log", LoggerLevel.Error), ("a.log", LoggerLevel.Info)], {"a.log": INFO}),
    ([("a.log", LoggerLevel.Debug), ("b.log", LoggerLevel.Error)], {"a.log": list(ALL), "b.log": ERROR}),
    ([None, ("a.log", LoggerLevel.Debug)], {"root": WARNING, "a.log": list(ALL)}),
    ([("a.log", LoggerLevel.Info), "an.app"] * 2, {"a.log": INFO, "an.app": INFO, "root": INFO}),
]
"""Of each client None, a logger's name, or a file and its level; and what comes where."""


@pytest.mark.parametrize(("given", "expected"), DESTINATIONS, ids=str)
def test_every_destination_gets_each_line_once_from_its_level_up_and_nobody_else_does(
    given: list[Any], expected: dict[str, list[str]], lines: dict[str, list[str]], attach: Attach, tmp_path: Path
) -> None:
    for one in given:
        if isinstance(one, tuple):
            attach(FileLogger(one[1], str(tmp_path / one[0])))
        else:
            attach(one and logging.getLogger(one))
    say(*ALL)
    lines |= {file.name: texts(file) for file in tmp_path.iterdir()}
    assert {place: found for place, found in lines.items() if found} == expected


@pytest.mark.parametrize(("level", "first"), [*zip(LoggerLevel, range(4), strict=True)])
def test_a_console_logger_prints_from_its_level_up(
    level: LoggerLevel, first: int, attach: Attach, capsys: pytest.CaptureFixture[str]
) -> None:
    attach(ConsoleLogger(level))
    say(*ALL)
    printed = capsys.readouterr().out.splitlines()
    assert [line.partition(" | ")[2] for line in printed] == list(ALL[first:])


def test_a_line_says_when_how_bad_which_thread_and_who(
    attach: Attach, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The official client switches it off and on again from threads of its own, and sometimes leaves it off.
    monkeypatch.setattr(logging, "logThreads", True)
    attach(ConsoleLogger())
    say("warning")
    form = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} WARNING \[MainThread\] pulsar_actors \| warning\n"
    assert re.fullmatch(form, capsys.readouterr().out)


def test_a_file_logger_appends_to_its_file(tmp_path: Path, attach: Attach) -> None:
    file = tmp_path / "a.log"
    file.write_text("an older line\n")
    attach(FileLogger(LoggerLevel.Info, str(file)))
    say("debug", "info: grün")
    assert file.read_text(encoding="utf-8").startswith("an older line\n")
    assert texts(file)[1:] == ["info: grün"]


def test_a_logger_that_keeps_lines_to_itself_keeps_ours_as_well(
    app: tuple[logging.Logger, Lines], root: Lines, attach: Attach
) -> None:
    app[0].propagate = False
    try:
        attach(app[0])
        say("error")
    finally:
        app[0].propagate = True
    assert (app[1].lines, root.lines) == (["error"], [])


def test_filters_and_levels_of_a_named_logger_and_its_handlers_count(
    app: tuple[logging.Logger, Lines], attach: Attach
) -> None:
    logger, lines = app
    attach(logger)
    logger.addFilter(nothing_secret)
    lines.setLevel(logging.ERROR)
    say("error: secret", "error: public", "warning: public")
    logger.removeFilter(nothing_secret)
    assert lines.lines == ["error: public"]


def nothing_secret(record: logging.LogRecord) -> bool:
    return "secret" not in record.getMessage()


def test_two_clients_of_one_console_print_a_line_once(attach: Attach, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        attach(ConsoleLogger(LoggerLevel.Info))
    say("error")
    assert capsys.readouterr().out.count("error") == 1


def test_a_level_that_the_program_gave_our_logger_still_counts_for_it(
    root: Lines, tmp_path: Path, attach: Attach
) -> None:
    OURS.setLevel(logging.ERROR)
    try:
        attach(None)
        client = attach(FileLogger(LoggerLevel.Info, str(tmp_path / "a.log")))
        say(*ALL)
        client.detach()
        assert OURS.level == logging.ERROR
    finally:
        OURS.setLevel(logging.NOTSET)
    assert root.lines == ["error"]


def test_a_program_that_has_everything_at_the_root_gets_everything(root: Lines, tmp_path: Path, attach: Attach) -> None:
    logging.getLogger().setLevel(logging.NOTSET)
    try:
        attach(logging.getLogger("unset"))
        attach(FileLogger(LoggerLevel.Error, str(tmp_path / "a.log")))
        say(*ALL)
    finally:
        logging.getLogger().setLevel(logging.WARNING)
    assert root.lines == list(ALL)


def test_a_closed_client_gets_no_more_lines_and_closing_twice_takes_nobody_elses(
    root: Lines, tmp_path: Path, attach: Attach
) -> None:
    file, other = tmp_path / "a.log", tmp_path / "b.log"
    first, second = (attach(FileLogger(LoggerLevel.Info, str(file))) for _ in range(2))
    third = attach(FileLogger(LoggerLevel.Info, str(other)))
    first.detach()
    first.detach()
    say("error 1")
    second.detach()
    say("error 2")
    third.detach()
    say("error 3")
    assert (texts(file), texts(other), root.lines) == (["error 1"], ["error 1", "error 2"], ["error 3"])


def test_a_file_is_let_go_when_its_last_client_closes(tmp_path: Path, attach: Attach) -> None:
    file = tmp_path / "a.log"
    client = attach(FileLogger(LoggerLevel.Info, str(file)))
    assert is_open(file)
    client.detach()
    assert not is_open(file)


def is_open(file: Path) -> bool:
    """Whether this process has the file open: Linux says so."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            if descriptor.readlink() == file:
                return True
    return False


def test_a_file_that_cannot_be_written_is_refused_and_nothing_is_attached(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfiguration, match=r"^log_file cannot be opened: .*no-such-folder"):
        loggers.add_log_destination(FileLogger(LoggerLevel.Info, str(tmp_path / "no-such-folder" / "a.log")))
    assert OURS.filters == []


def test_a_handler_that_logs_with_us_while_we_log_does_not_deadlock(
    app: tuple[logging.Logger, Lines], attach: Attach
) -> None:
    logger, lines = app

    class SendsWithPulsar(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            inner = Thread(target=say, args=("info: sent",))
            inner.start()
            inner.join(10)
            assert not inner.is_alive()

    sender = SendsWithPulsar(logging.ERROR)
    logger.addHandler(sender)
    attach(logger)
    say("error")
    logger.removeHandler(sender)
    assert sorted(lines.lines) == ["error", "info: sent"]


FORKED = """
import os, threading
from pulsar_actors.client import loggers as log_outlet
from pulsar_actors.client.logger_options import ConsoleLogger
log_outlet.LOG_FILTER._guard.acquire()  # as another thread may have, at the moment of the fork
child = os.fork()
if child == 0:
    worker = threading.Thread(target=log_outlet.add_log_destination, args=(ConsoleLogger(),), daemon=True)
    worker.start()
    worker.join(10)
    os._exit(worker.is_alive())
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_fork_in_the_middle_of_attaching_does_not_stop_the_child() -> None:
    run(FORKED)


def test_whatever_a_client_runs_logs_to_the_one_logger_and_to_no_child_of_it() -> None:
    named = {
        constant.value
        for floor in ("wire", "machines", "runtime", "client")
        for path in (PACKAGE / floor).rglob("*.py")
        if "import logging" in path.read_text()
        for constant in ast.walk(ast.parse(path.read_text()))
        if isinstance(constant, ast.Constant) and str(constant.value).startswith("pulsar_actors")
    }
    assert named == {"pulsar_actors"}
    assert not any("getLogger(__name__)" in path.read_text() for path in PACKAGE.rglob("*.py"))


def test_a_client_that_cannot_be_made_leaves_the_lines_to_others(root: Lines, tmp_path: Path, attach: Attach) -> None:
    with pytest.raises(InvalidArgument):
        Client("pulsar+ssl://h", tls_trust_certs_file_path=str(tmp_path / "no such file"))
    attach(FileLogger(LoggerLevel.Info, str(tmp_path / "a.log")))
    say("error")
    assert root.lines == []


def about(records: list[logging.LogRecord], words: str) -> dict[str, str]:
    """Return the fields of the first record whose text has these words."""
    record = next(record for record in records if words in record.getMessage())
    return {name: value for name, value in vars(record).items() if name.startswith("pulsar_")}


def test_records_say_in_fields_whom_they_are_about(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "pulsar_actors"), EmbeddedBroker() as broker:
        address = broker.service_url.removeprefix("pulsar://")
        with Client(broker.service_url) as client:
            client.subscribe("t", "audit", consumer_name="ann")
            producer = client.create_producer("t", producer_name="till-3")

            def fail(result: pulsar_actors.Result, message_id: pulsar_actors.MessageId) -> None:
                raise ZeroDivisionError

            producer.send_async(b"x", fail)
            producer.flush()
    topic = "persistent://public/default/t"
    of_producer = {"pulsar_topic": topic, "pulsar_producer": "till-3"}
    records = [record for record in caplog.records if record.name == "pulsar_actors"]
    assert about(records, "the consumer 1 on") == {
        "pulsar_topic": topic,
        "pulsar_subscription": "audit",
        "pulsar_consumer": "ann",
    }
    assert about(records, "the producer 2 on") == of_producer
    assert about(records, "CREATING -> READY") == of_producer
    assert about(records, "connected to") == {"pulsar_broker": address}
    assert about(records, "is closed") == {"pulsar_broker": address}
    assert about(records, "a send callback of") == {"pulsar_topic": topic}
