import time
from collections.abc import Callable

import pytest

from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.send_callbacks import SendCallbacks
from pulsar_actors.exceptions import AlreadyClosed, Timeout
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.send_queue import SentTo

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
def send_callbacks() -> SendCallbacks:
    return SendCallbacks(TOPIC, 2, time.monotonic)


def unheard(_: Result, __: MessageId) -> None:
    pass


def alone(*positions: tuple[int, int]) -> SentTo:
    return SentTo(positions, batched=False, size=7)


def in_batch(ledger_id: int, entry_id: int, size: int = 7) -> SentTo:
    return SentTo(((ledger_id, entry_id),), batched=True, size=size)


def test_a_message_alone_is_where_its_entry_is(send_callbacks: SendCallbacks, heard: Heard) -> None:
    send_callbacks([([heard.callback], alone((3, 9)))])
    assert heard.calls[0][0] is Result.Ok
    assert heard.ids() == [(2, 3, 9, -1)]
    assert heard.calls[0][1].topic_name() == TOPIC


def test_the_messages_of_a_batch_are_in_it_one_after_the_other(send_callbacks: SendCallbacks, heard: Heard) -> None:
    send_callbacks([([heard.callback, None, heard.callback], in_batch(3, 9))])
    assert heard.ids() == [(2, 3, 9, 0), (2, 3, 9, 2)]
    assert [message_id.wire.batch_size for _, message_id in heard.calls] == [3, 3]


KEEPS = {
    "none": lambda _: False,
    "all": lambda _: True,
    "the first": lambda index: index == 0,
    "the second": lambda index: index == 1,
    "the last": lambda index: index == 4,
    "every other": lambda index: index % 2 == 1,
}


@pytest.mark.parametrize("keeps", KEEPS.values(), ids=KEEPS)
def test_an_id_that_a_callback_keeps_stays_as_it_is(
    send_callbacks: SendCallbacks, keeps: Callable[[int], bool]
) -> None:
    heard, kept = list[int](), dict[int, MessageId]()

    def callback(_: Result, message_id: MessageId) -> None:
        index = len(heard)
        heard.append(message_id.batch_index())  # which the next message must not be told again
        if keeps(index):
            kept[index] = message_id

    send_callbacks([([callback] * 5, in_batch(3, 9))])
    assert heard == [0, 1, 2, 3, 4]
    assert {index: message_id.batch_index() for index, message_id in kept.items()} == {index: index for index in kept}
    assert all(message_id.topic_name() == TOPIC for message_id in kept.values())


def test_callbacks_and_futures_of_one_batch_have_ids_of_their_own(send_callbacks: SendCallbacks, heard: Heard) -> None:
    futures = [SlimFuture[MessageId]() for _ in range(2)]
    send_callbacks([([unheard, futures[0], unheard, heard.callback, futures[1]], in_batch(3, 9))])
    assert [one.result(0).batch_index() for one in futures] == [1, 4]
    assert heard.ids() == [(2, 3, 9, 3)]


def test_a_message_in_chunks_is_where_its_last_one_is_and_knows_its_first(
    send_callbacks: SendCallbacks, heard: Heard
) -> None:
    send_callbacks([([heard.callback], alone((3, 7), (3, 8), (3, 9)))])
    assert heard.ids() == [(2, 3, 9, -1)]
    first = heard.calls[0][1].wire.first_chunk
    assert (first.ledger_id, first.entry_id, first.partition) == (3, 7, 2)


def test_a_message_in_chunks_that_the_broker_had_already_has_no_place(
    send_callbacks: SendCallbacks, heard: Heard
) -> None:
    send_callbacks([([heard.callback], alone((3, 7), (-1, -1)))])
    assert heard.ids() == [(2, -1, -1, -1)]
    assert heard.calls[0][1].wire.first_chunk is None


def test_a_future_gets_the_id_or_the_error(send_callbacks: SendCallbacks) -> None:
    stored: SlimFuture[MessageId] = SlimFuture()
    failed: SlimFuture[MessageId] = SlimFuture()
    send_callbacks([([stored], alone((3, 9)))])
    send_callbacks([([failed], CLOSED)])
    assert stored.result(0).entry_id() == 9
    assert failed.exception(0) is CLOSED


def test_who_wants_to_hear_nothing_hears_nothing(send_callbacks: SendCallbacks) -> None:
    send_callbacks([([None], alone((3, 9)))])
    send_callbacks([([None] * 3, in_batch(1, 1, size=3))])
    send_callbacks([([None], CLOSED)])
    assert (send_callbacks.sent, send_callbacks.failed) == (4, 1)


@pytest.mark.parametrize(("error", "result"), [(CLOSED, Result.AlreadyClosed), (Timeout("late"), Result.Timeout)])
def test_a_failure_is_called_by_its_result_with_an_id_of_nothing(
    send_callbacks: SendCallbacks, heard: Heard, error: Exception, result: Result
) -> None:
    send_callbacks([([heard.callback], error)])
    assert heard.calls == [(result, MessageId())]


def test_what_was_sent_and_what_failed_is_counted(send_callbacks: SendCallbacks, heard: Heard) -> None:
    send_callbacks([([heard.callback, heard.callback], in_batch(1, 1, size=5))])
    send_callbacks([([heard.callback], CLOSED)])
    assert (send_callbacks.sent, send_callbacks.sent_bytes, send_callbacks.failed) == (2, 5, 1)


@pytest.mark.parametrize("bug", [ValueError("planted"), SystemExit(3)], ids=repr)
def test_a_callback_that_raises_is_logged_and_the_others_are_called(
    send_callbacks: SendCallbacks, heard: Heard, bug: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(result: Result, message_id: MessageId) -> None:
        raise bug

    send_callbacks([([broken, heard.callback], in_batch(1, 1))])
    send_callbacks([([broken, heard.callback], CLOSED)])
    assert len(heard.calls) == 2
    assert caplog.text.count(f"a send callback of {TOPIC} raised") == 2


def slow_clock(seconds: float) -> Callable[[], float]:
    readings = iter([0.0, seconds] * 10)
    return lambda: next(readings)


@pytest.mark.parametrize(("seconds", "times"), [(1.5, 1), (0.09, 0)])
def test_slow_callbacks_are_mentioned_once(caplog: pytest.LogCaptureFixture, seconds: float, times: int) -> None:
    send_callbacks = SendCallbacks(TOPIC, 2, slow_clock(seconds))
    for _ in range(2):
        send_callbacks([([lambda *_: None], CLOSED)])
    lines = [line.getMessage() for line in caplog.records if "the send callbacks of" in line.getMessage()]
    assert (sum(f"took {seconds} s" in line for line in lines), len(lines)) == (times, times)


def test_a_sender_can_be_told_by_itself(send_callbacks: SendCallbacks, heard: Heard) -> None:
    send_callbacks.fail(heard.callback, CLOSED)
    assert heard.calls == [(Result.AlreadyClosed, MessageId())]
    assert send_callbacks.failed == 0, "it was never on its way"
