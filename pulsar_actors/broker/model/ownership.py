"""Which of several brokers serves a topic: what lookups are answered from.

A cluster here is one process, but it may listen at several addresses and play one broker at each. Who they are is the
sessions' affair; here an owner is a name of their choosing.
"""

from pulsar_actors.wire.topic_name import TopicName


class Ownership:
    """Who serves what, by how the names of topics begin."""

    __slots__ = ("_owners",)

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def assign(self, prefix: str, owner: str | None) -> None:
        """Say who serves the topics whose complete name begins so; None: whoever is asked, as for all at first."""
        if owner is None:
            self._owners.pop(prefix, None)
        else:
            self._owners[prefix] = owner

    def owner_of(self, name: TopicName) -> str | None:
        """Tell who serves a topic; the longest beginning decides. None: whoever is asked."""
        text = str(name)
        fitting = [prefix for prefix in self._owners if text.startswith(prefix)]
        return self._owners[max(fitting, key=len)] if fitting else None
