from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.client.producing.door import Door
from pulsar_actors.exceptions import AlreadyClosed, ProducerFenced, ProducerQueueIsFull
from pulsar_actors.machines.ledgers.pending_sends import PendingSends
from pulsar_actors.machines.ledgers.send_quota import SendQuota
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.outbox import Outbox
from pulsar_actors.runtime.producer_actor import MessagesLeft, TakeAll

MESSAGE = (b"x", None)
CLOSED = AlreadyClosed("closed")


class Bench:
    """A door with room for two messages, and an engine whose every wait is `meanwhile`."""

    def __init__(self, *, waits: bool = False) -> None:
        self.told: list[Any] = []
        self.meanwhile: Callable[[], object] = lambda: None
        self.outbox = Outbox(PendingSends(SendQuota(2), SendQuota(0)), None, lambda *_: None)
        engine: Any = self
        self.door = Door(engine, self.outbox, "t", waits=waits)
        self.door.tell = self.told.append

    def refuse_inside(self, what: str, instead: str) -> None:
        """Stand in for an engine, outside of its loops."""

    def block(self, room: SlimFuture[None], timeout: float | None, what: str) -> None:
        self.meanwhile()
        assert room.done()


def test_the_actor_hears_of_the_first_message_only_and_of_each_that_is_not_to_wait() -> None:
    bench = Bench()
    bench.door.leave(*MESSAGE)
    bench.door.leave_now(*MESSAGE)
    assert bench.told == [MessagesLeft(), TakeAll()]


def test_a_full_queue_is_an_error() -> None:
    bench = Bench()
    bench.door.leave(*MESSAGE)
    bench.door.slip(*MESSAGE)
    with pytest.raises(ProducerQueueIsFull):
        bench.door.leave(*MESSAGE)


def test_a_full_queue_is_waited_for_where_that_is_wanted() -> None:
    bench = Bench(waits=True)
    bench.meanwhile = lambda: (
        bench.outbox.take(1, 1),
        bench.outbox.pending.give_back(1, 1),
        bench.outbox.waiting.wake(1),
    )
    for _ in range(3):
        bench.door.leave(*MESSAGE)
    assert len(bench.outbox.look()) == 2
    with pytest.raises(ProducerQueueIsFull):
        bench.door.slip(*MESSAGE)


def test_an_interrupted_caller_tells_the_actor_of_what_it_may_have_left() -> None:
    bench = Bench(waits=True)
    bench.door.leave(*MESSAGE)
    bench.door.leave(*MESSAGE)

    def interrupt() -> None:
        raise KeyboardInterrupt

    bench.meanwhile = interrupt
    with pytest.raises(KeyboardInterrupt):
        bench.door.leave(*MESSAGE)
    assert bench.told[-1] == TakeAll()


@pytest.mark.parametrize("way", ["leave", "leave_now", "slip"])
def test_nothing_is_left_once_it_is_closed(way: str) -> None:
    bench = Bench()
    bench.outbox.end(CLOSED)
    with pytest.raises(AlreadyClosed):
        getattr(bench.door, way)(*MESSAGE)
    assert bench.door.has_ended_by(AlreadyClosed("another"))
    assert not bench.door.has_ended_by(ProducerFenced("ProducerFenced", "no"))
