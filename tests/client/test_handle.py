import contextlib
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from pulsar_actors.client.client import Client
from pulsar_actors.client.handle import Closeable
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.exceptions import InternalError
from pulsar_actors.runtime.future import copy_error


class Door(Closeable):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_block_hands_it_out_and_closes_it_once_also_if_it_raises() -> None:
    door = Door()
    with contextlib.suppress(KeyError), door as inside:
        assert (inside, door.closed) == (door, 0)
        raise KeyError
    assert door.closed == 1


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda client, _: Client(client.get_service_info().service_url), "Client"),
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


def test_an_error_raised_anew_says_the_same_and_the_one_that_lasts_keeps_no_frames() -> None:
    error = InternalError("a bug")
    error.__cause__ = ValueError("of this kind")
    with pytest.raises(InternalError) as raised:
        raise copy_error(error)
    assert raised.value is not error
    assert (str(raised.value), raised.value.__cause__) == ("a bug", error.__cause__)
    assert error.__traceback__ is None
