"""What the handle of a consumer or a reader shares with its actor: the queue, the box for acknowledgements, a pump."""

from pulsar_actors.client.consumer_options import ConsumerOptions
from pulsar_actors.client.listener import Pump
from pulsar_actors.client.parts import Parts
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.consumer import Consumer
from pulsar_actors.runtime.ack_box import AckBox
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.hand_off import HandOff


class ConsumerParts(Parts[Consumer]):
    """The parts of one. There is a pump where there is a listener."""

    __slots__ = ("acks", "hand_off", "operation_timeout", "options", "pump")

    hand_off: HandOff
    acks: AckBox

    def __init__(self, engine: Engine, options: ConsumerOptions, operation_timeout: float) -> None:
        super().__init__(engine)
        self.options = options
        self.operation_timeout = operation_timeout
        self.pump: Pump | None = None

    @property
    def closed(self) -> Exception | None:
        """Tell why nothing is handed out any longer, if that is so."""
        return self.hand_off.closed

    def end(self, error: PulsarException) -> None:
        """Hand out nothing from now on."""
        self.hand_off.end(error)
        super().end(error)

    def forget(self, error: Exception) -> None:
        """Hand out nothing, in a forked child."""
        self.hand_off.forget(error)
        super().forget(error)
