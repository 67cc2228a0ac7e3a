"""What the handle of a producer of one topic shares with its actor: the outbox, and the door to it."""

from functools import partial

from pulsar_actors.client.producing.door import Door
from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.client.producing.sending_parts import SendingParts
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.producer import Producer
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.outbox import Outbox
from pulsar_actors.runtime.packing import Packed


class ProducerParts(SendingParts[Producer]):
    """The parts of one."""

    __slots__ = ("outbox",)

    door: Door

    def __init__(self, engine: Engine, outbox: Outbox, reports: Reports, *, waits: bool) -> None:
        super().__init__(engine, Door(engine, outbox, reports.topic, waits=waits), reports)
        self.outbox = outbox

    @property
    def closed(self) -> Exception | None:
        """Tell why no message is taken any longer, if that is so."""
        return self.outbox.closed

    def end(self, error: PulsarException) -> None:
        """Fail what is pending, and refuse everything from now on."""
        self.outbox.end(error)
        for failed in self.outbox.pending.fail_all():
            packed = failed.token
            assert isinstance(packed, Packed)  # noqa: S101 - the token of a pending send
            self.reports([(packed.release(), failed.told(error))])
        super().end(error)

    def placed(self, address: Address) -> None:
        """Note where the actor is; the door tells it from now on."""
        self.address = address
        self.door.tell = partial(tell, address)

    def forget(self, error: Exception) -> None:
        """Refuse everything, in a forked child."""
        self.outbox.forget(error)
        super().forget(error)
