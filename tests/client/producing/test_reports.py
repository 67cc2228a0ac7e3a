import logging
from collections.abc import Callable

import pytest

from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.producing import reports as module
from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.exceptions import AlreadyClosed, Timeout
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.outgoing import SentTo

TOPIC = "persistent://public/default/t"
CLOSED = AlreadyClosed("closed")


class Heard:
    """Callbacks, and what they were called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Result, MessageId]] = []

    def callback(self, result: Result, message_id: MessageId) -> None:
        self.calls.append((result, message_id))

    def ids(self) -> list[tuple[int, int, int, int]]:
        return [(i.partition(), i.ledger_id(), i.entry_id(), i.batch_index()) for _, i in self.calls]


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def reports() -> Reports:
    return Reports(TOPIC, 2)


def alone(*positions: tuple[int, int]) -> SentTo:
    return SentTo(positions, batched=False, size=7)


def in_batch(ledger_id: int, entry_id: int, size: int = 7) -> SentTo:
    return SentTo(((ledger_id, entry_id),), batched=True, size=size)


def test_a_message_alone_is_where_its_entry_is(reports: Reports, heard: Heard) -> None:
    reports([([heard.callback], alone((3, 9)))])
    assert heard.calls[0][0] is Result.Ok
    assert heard.ids() == [(2, 3, 9, -1)]
    assert heard.calls[0][1].topic_name() == TOPIC


def test_the_messages_of_a_batch_are_in_it_one_after_the_other(reports: Reports, heard: Heard) -> None:
    reports([([heard.callback, None, heard.callback], in_batch(3, 9))])
    assert heard.ids() == [(2, 3, 9, 0), (2, 3, 9, 2)]
    assert [message_id.wire.batch_size for _, message_id in heard.calls] == [3, 3]


def test_a_message_in_chunks_is_where_its_last_one_is_and_knows_its_first(reports: Reports, heard: Heard) -> None:
    reports([([heard.callback], alone((3, 7), (3, 8), (3, 9)))])
    assert heard.ids() == [(2, 3, 9, -1)]
    first = heard.calls[0][1].wire.first_chunk
    assert first is not None
    assert (first.ledger_id, first.entry_id, first.partition) == (3, 7, 2)


def test_a_future_gets_the_id_or_the_error(reports: Reports) -> None:
    stored: SlimFuture[MessageId] = SlimFuture()
    failed: SlimFuture[MessageId] = SlimFuture()
    reports([([stored], alone((3, 9)))])
    reports([([failed], CLOSED)])
    assert stored.result(0).entry_id() == 9
    assert failed.exception(0) is CLOSED


def test_who_wants_to_hear_nothing_hears_nothing(reports: Reports) -> None:
    reports([([None], alone((3, 9)))])
    reports([([None] * 3, in_batch(1, 1, size=3))])
    assert reports.last_failure is None
    reports([([None], CLOSED)])
    assert (reports.sent, reports.failed) == (4, 1)
    assert reports.last_failure == f"AlreadyClosed: {CLOSED}"


def test_who_wants_to_hear_does_so_beside_who_does_not(reports: Reports, heard: Heard) -> None:
    reports([([None, heard.callback, None], in_batch(3, 9))])
    assert heard.calls == [(Result.Ok, MessageId(2, 3, 9, 1))]


@pytest.mark.parametrize(("error", "result"), [(CLOSED, Result.AlreadyClosed), (Timeout("late"), Result.Timeout)])
def test_a_failure_is_called_by_its_result_with_an_id_of_nothing(
    reports: Reports, heard: Heard, error: Exception, result: Result
) -> None:
    reports([([heard.callback], error)])
    assert heard.calls == [(result, MessageId())]


def test_what_was_sent_and_what_failed_is_counted(reports: Reports, heard: Heard) -> None:
    reports([([heard.callback, heard.callback], in_batch(1, 1, size=5))])
    reports([([heard.callback], CLOSED)])
    assert (reports.sent, reports.sent_bytes, reports.failed) == (2, 5, 1)


@pytest.mark.parametrize("bug", [ValueError("planted"), SystemExit(3)], ids=repr)
def test_a_callback_that_raises_is_logged_and_the_others_are_called(
    reports: Reports, heard: Heard, bug: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(result: Result, message_id: MessageId) -> None:
        raise bug

    reports([([broken, heard.callback], in_batch(1, 1))])
    reports([([broken, heard.callback], CLOSED)])
    assert len(heard.calls) == 2
    assert caplog.text.count(f"a send callback of {TOPIC} raised") == 2


def slow_clock(seconds: float) -> Callable[[], float]:
    readings = iter([0.0, seconds] * 10)
    return lambda: next(readings)


def test_slow_callbacks_are_mentioned_once(
    reports: Reports, heard: Heard, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.time, "monotonic", slow_clock(1.5))
    with caplog.at_level(logging.WARNING, "pulsar_actors"):
        reports([([heard.callback], CLOSED)])
        reports([([heard.callback], CLOSED)])
    assert caplog.text.count("took 1.5 s") == 1


def test_quick_callbacks_are_not(
    reports: Reports, heard: Heard, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module.time, "monotonic", slow_clock(0.09))
    with caplog.at_level(logging.WARNING, "pulsar_actors"):
        reports([([heard.callback], CLOSED)])
    assert caplog.text == ""


def test_a_sender_can_be_told_by_itself(reports: Reports, heard: Heard) -> None:
    reports.fail(heard.callback, CLOSED)
    assert heard.calls == [(Result.AlreadyClosed, MessageId())]
    assert reports.failed == 0, "it was never on its way"
