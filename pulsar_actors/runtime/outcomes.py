"""What the answer to a question becomes: an actor's table of the events that its machine takes for each of them."""

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from pulsar_actors.exceptions import BrokerRefusal, InvalidArgument, Timeout
from pulsar_actors.wire.PulsarApi_pb2 import CommandSuccess


class Outcomes(NamedTuple):
    """The events that an answer to a question becomes: done, refused, and out of time.

    `answer` is the command that says done.
    """

    done: Callable[[int, Any], object]
    refused: Callable[[int, BrokerRefusal | InvalidArgument], object]
    timed_out: Callable[[int, Timeout], object]
    answer: type[Message] = CommandSuccess


def by_attempt(event: Callable[[int], object]) -> Callable[[int, object], object]:
    """Make an event of the attempt alone: what the answer says does not matter."""

    def made(attempt: int, _: object) -> object:
        return event(attempt)

    return made
