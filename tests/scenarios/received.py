"""The messages that a scenario has received, and the checks of them."""

from typing import Any, NamedTuple

from pulsar_actors.client.message import Message
from tests.histories.history import Place
from tests.scenarios.scene import Scene


class Arrival(NamedTuple):
    """A message that a caller got."""

    content: bytes
    place: Place
    line: str


class Received:
    """The messages that callers got, in the order in which they got them. A line is one caller at one consumer."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []

    def note(self, message: Message, line: str) -> None:
        """Note a message."""
        self.arrivals.append(Arrival(message.data(), Place.of(message.message_id()), line))

    def check_contents(self, scene: Scene) -> None:
        """See that each message is what the broker has at its place."""
        by_place = {message.place: message.content for message in scene.stored()}
        for content, place, _ in self.arrivals:
            assert by_place.get(place) == content, f"{content!r} came from {place}, where {by_place.get(place)!r} is"

    def check_order(self) -> None:
        """See that in each line messages came for the first time in the order in which they are stored."""
        lines: dict[str, list[Place]] = {}
        for _, place, line in self.arrivals:
            places = lines.setdefault(line, [])
            if place not in places:
                assert not places or place > places[-1], f"{line} got {place} after {places[-1]}"
                places.append(place)

    def check_nothing_is_repeated(self) -> None:
        """See that no message came twice, where nothing gave it reason to."""
        seen: dict[Place, Any] = {}
        for arrival in self.arrivals:
            assert arrival.place not in seen, f"{arrival} came before, as {seen[arrival.place]}, for no reason"
            seen[arrival.place] = arrival
