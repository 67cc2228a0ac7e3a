"""`late_producer.py`: a producer that is made when it is wanted, against a workshop in the hands of the test."""

from types import SimpleNamespace
from typing import Any

import pytest
from entries_in_hand import single

from pulsar_actors.client.late_producer import LateProducer
from pulsar_actors.client.living import Living
from pulsar_actors.client.message import Message
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.schema import BYTES
from pulsar_actors.exceptions import ConnectError, InternalError
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.interleaving import THREADS
from pulsar_actors.runtime.opened import Opened

TOPIC = "persistent://public/default/t"


def message(payload: bytes) -> Message:
    return Message(payload, None, Opened(single(1, payload), Generation(), TOPIC, bytes), 0)


class Bench:
    """A workshop that is asked for partitions and for a producer, and the producer that it made."""

    def __init__(self, topic: str = TOPIC) -> None:
        self.engine = SimpleNamespace(interleaving=THREADS)
        self.asked: list[SlimFuture[Any]] = []
        self.orders: list[tuple[Any, str, SlimFuture[Any]]] = []
        self.forwarded: list[tuple[bytes, SlimFuture[MessageId]]] = []
        self.is_open = True
        self.closed = 0
        self.breaks: Exception | None = None
        self.late = LateProducer(self, Living(), topic, BYTES, "first")  # type: ignore[arg-type]

    # What a workshop is asked.

    def ask(self, _: object) -> SlimFuture[Any]:
        self.asked.append(SlimFuture())
        return self.asked[-1]

    def producer(self, options: Any, _: int, initial_subscription: str) -> SlimFuture[Any]:
        self.orders.append((options, initial_subscription, SlimFuture()))
        return self.orders[-1][2]

    # What a producer is asked.

    def forward(self, message: Message, _: object, __: object, done: SlimFuture[MessageId]) -> None:
        if self.breaks is not None:
            raise self.breaks
        self.forwarded.append((message.data(), done))

    def close_soon(self) -> None:
        self.closed += 1

    # What tests do.

    def send(self, payload: bytes) -> SlimFuture[MessageId]:
        return self.late.forward(message(payload), {})

    def make(self) -> None:
        self.asked[-1].set_result(SimpleNamespace(partitions=0))
        self.orders[-1][2].set_result(self)


def put_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the bench asked for producers, and taken for the one that it made."""
    late = "pulsar_actors.client.late_producer"
    monkeypatch.setattr(f"{late}.begin_producer", lambda bench, *asked: bench.producer(*asked))
    monkeypatch.setattr(f"{late}.producer_with", lambda made, _: made)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    put_in(monkeypatch)
    return Bench()


def test_it_is_made_with_the_first_message_and_serves_the_next(bench: Bench) -> None:
    assert bench.asked == []
    bench.send(b"a")
    bench.send(b"b")
    assert len(bench.asked) == 1
    assert bench.forwarded == []
    bench.make()
    bench.send(b"c")
    assert [payload for payload, _ in bench.forwarded] == [b"a", b"b", b"c"]
    assert len(bench.orders) == 1


def test_it_is_made_of_a_partition_without_asking_and_with_the_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    put_in(monkeypatch)
    bench = Bench(f"{TOPIC}-partition-0")
    bench.send(b"a")
    ((options, subscription, _),) = bench.orders
    assert (bench.asked, subscription) == ([], "first")
    assert (options.topic, options.chunking_enabled, options.batching_enabled) == (f"{TOPIC}-partition-0", True, False)


def test_one_that_cannot_be_made_fails_the_message_and_is_tried_again_with_the_next(bench: Bench) -> None:
    failure = ConnectError("nobody listens")
    failed = bench.send(b"a")
    bench.asked[-1].set_exception(failure)
    assert failed.exception() is failure
    sent = bench.send(b"b")
    bench.asked[-1].set_result(SimpleNamespace(partitions=0))
    bench.orders[-1][2].set_exception(failure)
    assert sent.exception() is failure
    bench.send(b"c")
    assert len(bench.asked) == 3


def test_one_that_ended_for_good_is_made_anew_with_the_next_message(bench: Bench) -> None:
    bench.send(b"a")
    bench.make()
    bench.is_open = False
    bench.send(b"b")
    assert len(bench.asked) == 2


def test_whatever_goes_wrong_is_told(bench: Bench) -> None:
    failed = bench.send(b"a")
    bench.asked[-1].set_exception(SystemExit(3))
    assert isinstance(failed.exception(), InternalError)
    bench.breaks = ValueError("a bug")
    failed = bench.send(b"b")
    bench.make()
    assert failed.exception() is bench.breaks


def test_it_closes_once_it_is_there(bench: Bench) -> None:
    bench.late.close_soon()  # nothing was ever sent
    bench.send(b"a")
    bench.late.close_soon()
    assert bench.closed == 0
    bench.make()
    assert (len(bench.forwarded), bench.closed) == (1, 1)


def test_one_that_could_not_be_made_needs_no_close(bench: Bench) -> None:
    bench.send(b"a")
    bench.asked[-1].set_exception(ConnectError("nobody listens"))
    bench.late.close_soon()
    assert bench.closed == 0
