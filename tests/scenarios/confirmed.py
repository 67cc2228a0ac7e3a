"""The messages whose acknowledgement was confirmed, held against what the broker has as acknowledged."""

from collections.abc import Iterable

from pulsar_actors.broker.model.cursor import Cursor
from pulsar_actors.broker.model.entry import Position, StoredEntry
from pulsar_actors.client.message import Message
from tests.histories.history import Place
from tests.scenarios.scene import SUBSCRIPTION, Scene


class Confirmed:
    """The confirmed messages of one subscription.

    Without acknowledgement `of_each_message`, one of a batch counts when all of the batch are confirmed.
    """

    def __init__(self, scene: Scene, *, of_each_message: bool) -> None:
        self._scene = scene
        self._of_each_message = of_each_message
        self._places: set[Place] = set()

    def add(self, messages: Iterable[Message]) -> None:
        """Note messages whose acknowledgement was just confirmed, and see that they are acknowledged."""
        places = [Place.of(message.message_id()) for message in messages]
        self._places.update(places)
        for place in places:
            size = self._size_of_batch(place)
            if all(place._replace(index=index) in self._places for index in range(size)):
                assert not self._left(place), f"{place} was confirmed with all of its entry, which will come again"
            elif self._of_each_message:
                assert not self._is_left(place), f"{place} was confirmed, and will come again"

    def check_refused(self, messages: Iterable[Message]) -> None:
        """See that messages are not acknowledged whose callers were told so."""
        for place in (Place.of(message.message_id()) for message in messages):
            assert self._is_left(place), f"the acknowledgement of {place} was refused, and it will not come again"

    def _size_of_batch(self, place: Place) -> int:
        return 0 if place.index < 0 else self._look_up(place)[1].messages

    def _is_left(self, place: Place) -> bool:
        return bool(self._left(place) >> max(place.index, 0) & 1)

    def _left(self, place: Place) -> int:
        """Return the set of the messages of an entry that are not acknowledged."""
        cursor, entry = self._look_up(place)
        return cursor.remaining_set(entry)

    def _look_up(self, place: Place) -> tuple[Cursor, StoredEntry]:
        topic = self._scene.topic()
        assert topic is not None
        offset = topic.managed_ledger.find(Position(place.ledger, place.entry))
        assert offset is not None
        return topic.subscriptions[SUBSCRIPTION].cursor, topic.managed_ledger.entry(offset)
