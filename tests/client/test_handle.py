import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.client.client import Client
from pulsar_actors.client.handle import Closeable, copy_error
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import AlreadyClosed, InternalError


class Door(Closeable):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_block_closes_it_at_its_end_and_hands_out_the_very_thing() -> None:
    door = Door()
    with door as inside:
        assert inside is door
        assert door.closed == 0
    assert door.closed == 1


def test_a_block_that_raises_closes_it_and_raises() -> None:
    door = Door()
    with pytest.raises(KeyError), door:
        raise KeyError
    assert door.closed == 1


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda client, topic: client.create_producer(topic), "Producer"),
        (lambda client, topic: client.subscribe(topic, "s"), "Consumer"),
        (lambda client, topic: client.create_reader(topic, MessageId.latest), "Reader"),
    ],
)
def test_whatever_holds_connections_does_not_pickle(
    client: Client, topic: str, make: Callable[[Client, str], Any], name: str
) -> None:
    with make(client, topic) as one, pytest.raises(TypeError, match=f"^a {name} holds connections and cannot be"):
        pickle.dumps(one)


def test_an_error_given_anew_is_another_one_that_says_the_same() -> None:
    error = InternalError("a bug")
    error.__cause__ = ValueError("of this kind")
    fresh = copy_error(error)
    assert fresh is not error
    assert (type(fresh), str(fresh), fresh.__cause__) == (InternalError, "a bug", error.__cause__)


def test_raising_an_error_anew_keeps_no_frames_on_the_one_that_lasts() -> None:
    error = AlreadyClosed("closed")
    with pytest.raises(AlreadyClosed):
        raise copy_error(error)
    assert error.__traceback__ is None
