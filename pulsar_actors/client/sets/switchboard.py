"""The way of messages to the partitions of a topic: the router says which, and that one's door takes the message.

How many partitions there are is read anew for each message, for there may be more of them at any time; a message that
waits for room stays with the partition that was chosen for it.
"""

from pulsar_actors.client.anew import anew
from pulsar_actors.client.producing.door import Door, Doorway
from pulsar_actors.client.sets.message_router import Router
from pulsar_actors.client.sets.producer_crew import ProducerCrew
from pulsar_actors.exceptions import PulsarException


class Switchboard(Doorway):
    """The way into a partitioned producer. Any thread may use it."""

    __slots__ = ("_crew", "_fates", "_route")

    def __init__(self, crew: ProducerCrew, route: Router) -> None:
        self._crew = crew
        self._route = route
        self._fates: set[type[Exception]] = set()  # what partitions have ended with

    @property
    def closed(self) -> Exception | None:
        """Tell why no message is taken any longer, if that is so."""
        return self._crew.closed

    def has_ended_by(self, error: Exception) -> bool:
        """Tell whether an error is the end of it, or of a partition."""
        return type(error) is type(self.closed) or type(error) in self._fates

    def leave(self, payload: bytes, place: object) -> None:
        """Leave a message with its partition."""
        door = self._door(payload, place)
        try:
            door.leave(payload, place)
        except PulsarException as error:
            if door.has_ended_by(error):
                self._fates.add(type(error))
            raise

    def leave_now(self, payload: bytes, place: object) -> None:
        """Likewise, and have it sent at once."""
        self._door(payload, place).leave_now(payload, place)

    def slip(self, payload: bytes, place: object) -> None:
        """Leave a message without ever waiting."""
        self._door(payload, place).slip(payload, place)

    def _door(self, payload: bytes, place: object) -> Door:
        crew = self._crew
        if crew.closed is not None:
            raise anew(crew.closed)
        partitions = crew.partitions
        return partitions[self._route(payload, place, len(partitions))].door
