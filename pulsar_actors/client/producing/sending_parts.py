"""What a producer's handle shares with its actor, be it of one topic or of all partitions: a way in, and reports."""

from typing import Any, TypeAlias, TypeVar

from pulsar_actors.client.parts import Parts
from pulsar_actors.client.producing.door import Doorway
from pulsar_actors.client.producing.producer_interceptors import ProducerInterceptors
from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.runtime.engine import Engine

M = TypeVar("M")


class SendingParts(Parts[M]):
    """The parts of one. `reports` tells senders what became of their messages."""

    __slots__ = ("door", "interceptors", "reports")

    def __init__(self, engine: Engine, door: Doorway, reports: Reports) -> None:
        super().__init__(engine)
        self.door = door
        self.reports = reports
        self.interceptors: ProducerInterceptors | None = None


AnySendingParts: TypeAlias = SendingParts[Any]
