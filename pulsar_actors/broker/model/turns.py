"""Taking turns among the consumers of a Shared subscription.

Consumers of a lower priority level come first: those of the next level are only served while nobody of the levels
before can take more. Within a level it goes round, beginning after the one that was served last.
"""

from pulsar_actors.broker.model.choices import Choice
from pulsar_actors.broker.model.consumer import Consumer
from pulsar_actors.broker.model.entry import StoredEntry


class Turns(Choice):
    """The consumers of a Shared subscription."""

    __slots__ = ("_levels", "_next")

    def __init__(self) -> None:
        super().__init__()
        self._levels: list[list[Consumer]] = []
        self._next: list[int] = []  # whose turn it is on each level

    def add(self, consumer: Consumer) -> None:
        """Take one more."""
        self.consumers.append(consumer)
        self._arrange()

    def remove(self, consumer: Consumer) -> None:
        """Let one go."""
        self.consumers.remove(consumer)
        self._arrange()

    def of(self, entry: StoredEntry) -> Consumer | None:
        """Give the next one, whatever the entry."""
        del entry
        return self.next()

    def next(self) -> Consumer | None:
        """Give the one whose turn it is, of those who can take an entry now."""
        for level, consumers in enumerate(self._levels):
            count = len(consumers)
            first = self._next[level]
            for step in range(count):
                at = (first + step) % count
                if consumers[at].available:
                    self._next[level] = (at + 1) % count
                    return consumers[at]
        return None

    def _arrange(self) -> None:
        levels: dict[int, list[Consumer]] = {}
        for consumer in self.consumers:
            levels.setdefault(consumer.request.priority_level, []).append(consumer)
        self._levels = [levels[level] for level in sorted(levels)]
        self._next = [0] * len(self._levels)
