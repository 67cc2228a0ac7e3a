"""What the handle of a partitioned producer shares with its actor."""

from pulsar_actors.client.producing.reports import Reports
from pulsar_actors.client.producing.sending_parts import SendingParts
from pulsar_actors.client.sets.producer_crew import ProducerCrew
from pulsar_actors.client.sets.switchboard import Switchboard
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.machines.topic_set import TopicSet
from pulsar_actors.runtime.engine import Engine


class ProducerSetParts(SendingParts[TopicSet]):
    """The parts of one. `reports` tells those whose message no partition has taken."""

    __slots__ = ("crew",)

    def __init__(self, engine: Engine, crew: ProducerCrew, door: Switchboard, reports: Reports) -> None:
        super().__init__(engine, door, reports)
        self.crew = crew

    @property
    def closed(self) -> Exception | None:
        """Tell why no message is taken any longer, if that is so."""
        return self.crew.closed

    def end(self, error: PulsarException) -> None:
        """Refuse everything from now on; the producers are ended as such."""
        self.crew.end(error)
        super().end(error)

    def forget(self, error: Exception) -> None:
        """Refuse everything, in a forked child."""
        self.crew.forget(error)
        super().forget(error)
