"""`dead_letter_sender.py`: an entry to the dead letter topic, and the word of how that went."""

from concurrent.futures import Future
from typing import Any

import pytest
from entries_in_hand import batch, single

from pulsar_actors.client.dead_letter_sender import DeadLetterSender
from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import ConnectError
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.future import SlimFuture

TOPIC = "persistent://public/default/t"


class Bench:
    """The producer of the dead letter topic, played by a test."""

    def __init__(self) -> None:
        self.is_open = True
        self.made: list[SlimFuture[Any]] = []
        self.forwarded: list[tuple[bytes, dict[str, str], Any]] = []
        self.reports: list[Exception | None] = []
        self.send = DeadLetterSender(self.make, TOPIC, "s", 10_000)

    def make(self) -> Future[Any]:
        self.made.append(SlimFuture())
        return self.made[-1]

    def forward(self, message: Any, properties: dict[str, str], callback: Any) -> None:
        self.forwarded.append((message.data(), properties, callback))

    def bury(self, delivery: Any) -> None:
        self.send(delivery, Generation(), self.reports.append)

    def answer(self, *results: Result) -> None:
        for (_, _, callback), result in zip(self.forwarded, results, strict=True):
            callback(result, MessageId())


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_the_producer_is_made_with_the_first_letter_and_serves_the_next(bench: Bench) -> None:
    assert bench.made == []
    bench.bury(single(1, b"a"))
    bench.bury(single(2, b"b"))
    assert len(bench.made) == 1
    assert bench.forwarded == []
    bench.made[0].set_result(bench)
    bench.bury(single(3, b"c"))
    assert [payload for payload, _, _ in bench.forwarded] == [b"a", b"b", b"c"]
    assert len(bench.made) == 1


def test_a_letter_says_where_it_comes_from_and_what_it_was(bench: Bench) -> None:
    bench.bury(single(7, b"a"))
    bench.made[0].set_result(bench)
    ((_, properties, _),) = bench.forwarded
    assert (properties["REAL_TOPIC"], properties["REAL_SUBSCRIPTION"]) == (TOPIC, "s")
    assert "7" in properties["ORIGIN_MESSAGE_ID"]


def test_an_entry_is_there_when_all_its_messages_are(bench: Bench) -> None:
    bench.bury(batch(1, b"a", b"b", b"c", wanted=0b101))
    bench.made[0].set_result(bench)
    assert [payload for payload, _, _ in bench.forwarded] == [b"a", b"c"]
    bench.forwarded[0][2](Result.Ok, MessageId())
    assert bench.reports == []
    bench.forwarded[1][2](Result.Ok, MessageId())
    assert bench.reports == [None]


def test_one_message_that_is_not_taken_fails_the_entry_once(bench: Bench) -> None:
    bench.bury(batch(1, b"a", b"b"))
    bench.made[0].set_result(bench)
    bench.answer(Result.Timeout, Result.Ok)
    ((error),) = bench.reports
    assert "Timeout" in str(error)


def test_a_corrupt_entry_is_not_sent(bench: Bench) -> None:
    bench.bury(single(1, broken=True))
    assert len(bench.reports) == 1
    assert bench.made == []


def test_an_entry_of_which_nothing_is_left_is_done_with(bench: Bench) -> None:
    bench.bury(batch(1, b"a", wanted=0))
    bench.made[0].set_result(bench)
    assert bench.reports == [None]


def test_a_producer_that_cannot_be_made_is_tried_again_with_the_next_letter(bench: Bench) -> None:
    failure = ConnectError("nobody listens")
    bench.bury(single(1))
    bench.made[0].set_exception(failure)
    assert bench.reports == [failure]
    bench.bury(single(2))
    assert len(bench.made) == 2


def test_a_producer_that_ended_for_good_is_made_anew_with_the_next_letter(bench: Bench) -> None:
    bench.bury(single(1, b"a"))
    bench.made[0].set_result(bench)
    bench.is_open = False
    bench.bury(single(2, b"b"))
    assert len(bench.made) == 2


def test_whatever_keeps_a_producer_from_being_made_is_told(bench: Bench) -> None:
    bench.bury(single(1))
    bench.made[0].set_exception(SystemExit(3))
    assert "SystemExit" in str(bench.reports[0])
