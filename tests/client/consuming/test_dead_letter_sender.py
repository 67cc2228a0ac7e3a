"""`dead_letter_sender.py`: an entry to the dead letter topic, and the word of how that went."""

from collections.abc import Mapping
from typing import Any

import pytest
from entries_in_hand import batch, single

from pulsar_actors.client.consuming.dead_letter_sender import DeadLetterSender
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import Timeout
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.future import SlimFuture

TOPIC = "persistent://public/default/t"


class Bench:
    """The producer of the dead letter topic, played by a test."""

    def __init__(self) -> None:
        self.forwarded: list[tuple[bytes, Mapping[str, str], SlimFuture[MessageId]]] = []
        self.reports: list[Exception | None] = []
        self.send = DeadLetterSender(self, TOPIC, "s", 10_000)  # type: ignore[arg-type]

    def forward(self, message: Any, properties: Mapping[str, str]) -> SlimFuture[MessageId]:
        self.forwarded.append((message.data(), properties, SlimFuture()))
        return self.forwarded[-1][2]

    def bury(self, delivery: Any) -> None:
        self.send(delivery, Generation(), self.reports.append)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_letter_says_where_it_comes_from_and_what_it_was(bench: Bench) -> None:
    bench.bury(single(7, b"a"))
    ((_, properties, _),) = bench.forwarded
    assert (properties["REAL_TOPIC"], properties["REAL_SUBSCRIPTION"]) == (TOPIC, "s")
    assert "7" in properties["ORIGIN_MESSAGE_ID"]


def test_an_entry_is_there_when_all_its_messages_are(bench: Bench) -> None:
    bench.bury(batch(1, b"a", b"b", b"c", wanted=0b101))
    assert [payload for payload, _, _ in bench.forwarded] == [b"a", b"c"]
    bench.forwarded[0][2].set_result(MessageId())
    assert bench.reports == []
    bench.forwarded[1][2].set_result(MessageId())
    assert bench.reports == [None]


def test_one_message_that_is_not_taken_fails_the_entry_once(bench: Bench) -> None:
    bench.bury(batch(1, b"a", b"b"))
    error = Timeout("no answer")
    bench.forwarded[0][2].set_exception(error)
    bench.forwarded[1][2].set_result(MessageId())
    assert bench.reports == [error]


def test_a_corrupt_entry_is_not_sent(bench: Bench) -> None:
    bench.bury(single(1, broken=True))
    assert len(bench.reports) == 1
    assert bench.forwarded == []


def test_an_entry_of_which_nothing_is_left_is_done_with(bench: Bench) -> None:
    bench.bury(batch(1, b"a", wanted=0))
    assert bench.reports == [None]
