import logging
from typing import Any

import pytest

from pulsar_actors.runtime.oddities import Oddities
from pulsar_actors.wire.commands import encode_command
from pulsar_actors.wire.frames import FrameReader
from pulsar_actors.wire.PulsarApi_pb2 import (
    BaseCommand,
    CommandConnect,
    CommandError,
    CommandMessage,
    CommandPing,
    CommandSend,
    CommandSuccess,
    MessageIdData,
    ServerError,
)

ERROR = CommandError(request_id=5, error=ServerError.UnknownError, message="a broker's words")
MESSAGE = CommandMessage(consumer_id=1, message_id=MessageIdData(ledgerId=1, entryId=1))


def lines(caplog: pytest.LogCaptureFixture, level: int = logging.INFO) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= level]


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="pulsar_actors")


def test_each_kind_has_one_line_however_often_it_comes(caplog: pytest.LogCaptureFixture) -> None:
    oddities = Oddities()
    for _ in range(1000):
        oddities.unexpected(CommandConnect(client_version="x"), "b:1")
        oddities.unexpected(CommandSend(producer_id=1, sequence_id=1), "b:1")
        oddities.unawaited(CommandSuccess(request_id=5), "b:1")
        oddities.unawaited(ERROR, "b:1")
        oddities.unaddressed(MESSAGE, "b:1")
    assert len(lines(caplog)) == 5
    assert all("b:1" in line for line in lines(caplog))
    assert any("a broker's words" in line for line in lines(caplog, logging.WARNING))


def test_what_may_come_in_good_order_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    oddities = Oddities()
    oddities.unawaited(CommandSuccess(request_id=5), "b:1")
    oddities.unaddressed(MESSAGE, "b:1")
    assert lines(caplog, logging.WARNING) == []


def test_another_connection_has_lines_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        Oddities().unawaited(CommandSuccess(request_id=5), "b:1")
    assert len(lines(caplog)) == 2


def test_a_broker_s_words_are_cut_short(caplog: pytest.LogCaptureFixture) -> None:
    long = CommandError(request_id=5, error=ServerError.UnknownError, message="x" * 100_000)
    Oddities().unawaited(long, "b:1")
    assert len(lines(caplog)[0]) < 500


def test_commands_that_make_no_sense_cost_themselves_alone(caplog: pytest.LogCaptureFixture) -> None:
    unknown, missing = b"\x08\xff\x01", BaseCommand(type=BaseCommand.SUCCESS).SerializePartialToString()
    reader, oddities = FrameReader(), Oddities()
    commands: list[Any] = []
    for body in [unknown, missing, b"\xff\xff"] * 1000:
        frame = (len(body) + 4).to_bytes(4, "big") + len(body).to_bytes(4, "big") + body
        frames = reader.feed(frame + encode_command(CommandPing()))
        commands += [type(command) for command, _ in oddities.commands(frames, "b:1")]
    assert commands == [CommandPing] * 3000
    assert len(lines(caplog)) == len({line.partition(" (")[0] for line in lines(caplog)}) <= 3
