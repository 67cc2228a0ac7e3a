from typing import Any

import pytest

from pulsar_actors.client.sets.switchboard import Switchboard
from pulsar_actors.exceptions import AlreadyClosed, OperationNotSupported, ProducerFenced, TopicTerminated

OVER = TopicTerminated("TopicTerminated", "over")


class Partition:
    """It is its own door."""

    def __init__(self) -> None:
        self.door: Any = self
        self.left: list[tuple[str, bytes]] = []
        self.refuses: Exception | None = None
        self.has_ended = True

    def has_ended_by(self, _: Exception) -> bool:
        return self.has_ended

    def leave(self, payload: bytes, _: object) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.left.append(("leave", payload))

    def leave_now(self, payload: bytes, _: object) -> None:
        self.left.append(("leave_now", payload))

    def slip(self, payload: bytes, _: object) -> None:
        self.left.append(("slip", payload))


class Crew:
    def __init__(self, partitions: int) -> None:
        self.partitions = tuple(Partition() for _ in range(partitions))
        self.closed: Exception | None = None


def board(crew: Any) -> Switchboard:
    return Switchboard(crew, lambda payload, _, count: int(payload) % count)


def test_a_message_is_left_with_the_partition_that_the_router_chose() -> None:
    crew = Crew(3)
    switchboard = board(crew)
    switchboard.leave(b"2", None)
    switchboard.leave_now(b"0", None)
    switchboard.slip(b"1", None)
    assert [each.left for each in crew.partitions] == [[("leave_now", b"0")], [("slip", b"1")], [("leave", b"2")]]


def test_partitions_that_were_added_count_from_the_next_message_on() -> None:
    crew = Crew(1)
    switchboard = board(crew)
    switchboard.leave(b"1", None)
    crew.partitions += (Partition(),)
    switchboard.leave(b"1", None)
    assert [len(each.left) for each in crew.partitions] == [1, 1]


def test_what_one_partition_has_ended_with_is_known_as_the_end_of_something() -> None:
    crew = Crew(2)
    switchboard = board(crew)
    assert not switchboard.has_ended_by(OVER)
    crew.partitions[1].refuses = OVER
    with pytest.raises(TopicTerminated):
        switchboard.leave(b"1", None)
    assert switchboard.has_ended_by(OVER)
    assert switchboard.closed is None
    assert not switchboard.has_ended_by(ProducerFenced("ProducerFenced", "no"))


def test_what_a_partition_that_goes_on_has_refused_is_no_end() -> None:
    crew = Crew(2)
    switchboard = board(crew)
    crew.partitions[1].refuses = OperationNotSupported("not in a callback")
    crew.partitions[1].has_ended = False
    with pytest.raises(OperationNotSupported):
        switchboard.leave(b"1", None)
    assert not switchboard.has_ended_by(OperationNotSupported("not in a callback"))


def test_nobody_is_asked_for_a_partition_once_it_is_closed() -> None:
    crew = Crew(1)
    crew.closed = AlreadyClosed("closed")
    with pytest.raises(AlreadyClosed):
        board(crew).leave(b"0", None)
    assert crew.partitions[0].left == []
