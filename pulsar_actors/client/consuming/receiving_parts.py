"""What the handle of a consumer or a reader shares with its actor, be it of one topic or of several.

There is a pump where there is a listener. Where the user has interceptors or a listener for events, these are here.
"""

from typing import Any, Generic, TypeAlias, TypeVar

from pulsar_actors.client.consuming.announcer import Announcer
from pulsar_actors.client.consuming.consumer_interceptors import ConsumerInterceptors
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.consuming.listener import Pump
from pulsar_actors.client.parts import Parts
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.consumer import Consumer
from pulsar_actors.machines.topic_set import TopicSet
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.supply import Supply

M = TypeVar("M", Consumer, TopicSet)
Q = TypeVar("Q", bound=Supply)


class ReceivingParts(Parts[M], Generic[M, Q]):
    """The parts of one; `hand_off` is where its messages come from."""

    __slots__ = ("announcer", "hand_off", "interceptors", "operation_timeout", "options", "pump")

    hand_off: Q

    def __init__(self, engine: Engine, options: ConsumerOptions, operation_timeout: float) -> None:
        super().__init__(engine)
        self.options = options
        self.operation_timeout = operation_timeout
        self.pump: Pump | None = None
        self.announcer: Announcer | None = None
        self.interceptors: ConsumerInterceptors | None = None

    @property
    def closed(self) -> Exception | None:
        """Tell why nothing is handed out any longer, if that is so."""
        return self.hand_off.closed

    def end(self, error: PulsarException) -> None:
        """Hand out nothing from now on; what is behind a set is ended as such."""
        self.hand_off.end(error)
        super().end(error)

    def forget(self, error: Exception) -> None:
        """Hand out nothing, in a forked child."""
        self.hand_off.forget(error)
        super().forget(error)


AnyReceivingParts: TypeAlias = ReceivingParts[Any, Any]
