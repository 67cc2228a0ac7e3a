"""What a producer's handle shares with its actor: the outbox, and the reports of what became of messages."""

from pulsar_actors.client.parts import Parts
from pulsar_actors.client.reports import Reports
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.producer import Producer
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.outbox import Outbox
from pulsar_actors.runtime.packing import Packed


class ProducerParts(Parts[Producer]):
    """The parts of one."""

    __slots__ = ("outbox", "reports")

    def __init__(self, engine: Engine, outbox: Outbox, reports: Reports) -> None:
        super().__init__(engine)
        self.outbox = outbox
        self.reports = reports

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
            packed.release()
            self.reports(packed.messages, failed.told(error))
        super().end(error)

    def forget(self, error: Exception) -> None:
        """Refuse everything, in a forked child."""
        self.outbox.forget(error)
        super().forget(error)
