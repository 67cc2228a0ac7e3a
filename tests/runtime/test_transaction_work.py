import threading
from typing import Any

import pytest

from pulsar_actors.exceptions import InvalidTxnStatusError, SendManyFailed, Timeout
from pulsar_actors.machines.transaction_events import Register
from pulsar_actors.runtime import transaction_work
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.send_queue import CompressedPayload, MessageHeader, OutgoingMessages, reply_of, tag_in
from pulsar_actors.runtime.transaction_work import TransactionCall, TransactionWork, runs_by_transaction
from pulsar_actors.wire.transaction_id import TransactionId

FAULT = Timeout("late")
ENDED = InvalidTxnStatusError("InvalidTxnStatus", "it is over")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[TransactionCall]:
    """What the coordinator's actor is told."""
    told: list[TransactionCall] = []
    monkeypatch.setattr(transaction_work, "tell", lambda _, message: told.append(message))
    return told


def new_work() -> TransactionWork:
    address: Any = None
    return TransactionWork(TransactionId(0, 0), address, 7)


def test_what_has_begun_must_end_before_it_is_settled() -> None:
    work, settled = new_work(), list[Exception | None]()
    work.begin()
    work.begin()
    work.when_settled(settled.append)
    work.end(None)
    assert settled == []
    work.end(None)
    assert settled == [None]


def test_the_first_failure_is_reported_once() -> None:
    work, settled = new_work(), list[Exception | None]()
    for error in (None, FAULT, Timeout("later")):
        work.begin()
        work.end(error)
    work.when_settled(settled.append)
    work.begin()
    work.end(None)
    assert list(map(repr, settled)) == [repr(FAULT)]


def test_a_failure_of_many_messages_is_reported_with_the_error_of_each() -> None:
    work, settled = new_work(), list[Any]()
    failed = SendManyFailed("2 of 3 messages were not stored")
    failed.errors, failed.ids = {0: FAULT, 2: FAULT}, [None, "id", None]
    work.begin()
    work.end(failed)
    work.when_settled(settled.append)
    (reported,) = settled
    assert (repr(reported), repr(reported.errors), reported.ids) == (repr(failed), repr(failed.errors), failed.ids)


class Awkward(Exception):
    """An error that cannot be copied."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}, {why}")


def test_a_failure_that_cannot_be_copied_is_reported_by_its_class_and_text() -> None:
    work, settled = new_work(), list[Exception | None]()
    work.begin()
    work.end(Awkward("no way", "today"))
    work.when_settled(settled.append)
    assert list(map(repr, settled)) == ["PulsarException('Awkward: no way, today')"]


def test_no_work_begins_once_it_is_refused_and_what_has_begun_still_counts() -> None:
    work, settled = new_work(), list[Exception | None]()
    work.begin()
    work.refuse(ENDED)
    work.when_settled(settled.append)
    with pytest.raises(InvalidTxnStatusError, match="it is over"):
        work.begin()
    assert settled == []
    work.end(None)
    assert settled == [None]


def test_work_that_is_a_future_ends_with_it() -> None:
    work, settled = new_work(), list[Exception | None]()
    future: SlimFuture[None] = SlimFuture()
    work.begin_as(future)
    work.when_settled(settled.append)
    settle(future, FAULT)
    assert list(map(repr, settled)) == [repr(FAULT)]


def test_a_topic_and_a_subscription_are_registered_once_each(asked: list[TransactionCall]) -> None:
    work = new_work()
    first = work.register_partition("t")
    assert work.register_partition("t") is first
    subscription = work.register_subscription("t", "s")
    assert subscription is not first
    assert work.register_subscription("t", "s") is subscription
    assert [(call.serial, type(call.event)) for call in asked] == [(7, Register)] * 2


def test_a_registration_that_failed_is_tried_again_with_the_next_use(asked: list[TransactionCall]) -> None:
    work = new_work()
    settle(work.register_partition("t"), FAULT)
    assert not work.register_partition("t").done()
    assert len(asked) == 2


def test_threads_that_begin_and_end_at_once_are_all_counted() -> None:
    work, settled = new_work(), threading.Event()

    def send() -> None:
        for _ in range(1000):
            work.begin()
            work.end(None)

    work.begin()
    work.when_settled(lambda _: settled.set())
    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not settled.is_set()
    work.end(None)
    assert settled.is_set()


def test_messages_are_divided_by_transaction_in_their_order() -> None:
    a, b = new_work(), new_work()
    tags: list[object] = [tag_in(a, "1"), tag_in(a, "2"), "3", tag_in(b, "4"), tag_in(a, "5")]
    messages = OutgoingMessages([b"%d" % number for number in range(1, 6)], tags)
    runs = [(run.payloads, run.work) for run in runs_by_transaction(messages)]
    assert runs == [([b"1", b"2"], a), ([b"3"], None), ([b"4"], b), ([b"5"], a)]


def test_only_headers_that_say_more_than_the_transaction_are_kept() -> None:
    work = new_work()
    compressed = MessageHeader(b"", None, None, None, None, "c", CompressedPayload(b"x", 1))
    keyed = MessageHeader(b"metadata", "k", None, None, None, "k")
    messages = OutgoingMessages([b"x"] * 3, [tag_in(work, tag) for tag in ("plain", keyed, compressed)])
    (run,) = runs_by_transaction(messages)
    assert run.tags[0] == "plain"
    assert [type(tag) for tag in run.tags[1:]] == [MessageHeader, MessageHeader]
    assert list(map(reply_of, run.tags)) == ["plain", "k", "c"]
