"""The interface between the broker's model and its storage, and the storage in memory, which keeps nothing.

The model tells the storage of each change when it happens, and the storage writes all changes since its last commit at
once. The broker commits before it sends a byte. So no answer tells of a change that a crash could undo, and what is
stored is always a state between two requests.

A `Record` is the stored state of one object. It has a kind and a name, and belongs to a topic or to the cluster. An
object creates its record when it is created itself, and takes over the state that is `stored` there, if there is any:
so a model that is created from a filled storage is the one that was stored. `changed` says only that the state differs
now. The storage asks for it when it commits, so an object that changes a hundred times in between is written once.

Two things are too many for that, and have places of their own: the entries of a topic, and the offsets that a cursor
has acknowledged beyond its mark-delete position.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol, TypeAlias

from pulsar_actors.broker.model.entry import StoredEntry

State: TypeAlias = Any
"""The JSON value of a record."""


class Record(Protocol):
    """The stored state of one object."""

    @property
    def stored(self) -> State:
        """The state that is stored; None if there is none."""
        ...

    def changed(self) -> None:
        """Store the state with the next commit."""
        ...

    def remove(self) -> None:
        """Remove it. Later changes of the object are not stored."""
        ...


class CursorRecord(Record, Protocol):
    """The record of a cursor. What it has acknowledged beyond its mark-delete position is stored by offset."""

    def acknowledgements(self) -> Iterable[tuple[int, int]]:
        """Return the stored offsets, each with the set of messages that are left of its entry."""
        ...

    def acknowledged(self, offset: int) -> None:
        """Store what is left of an entry with the next commit. The cursor has changed, too."""
        ...

    def reset(self) -> None:
        """Forget all offsets. The cursor has changed, too."""
        ...


class TopicStorage(Protocol):
    """The storage of one topic, or of the cluster, which has records only."""

    def record(self, kind: str, name: str, state: Callable[[], State]) -> Record:
        """Return the record of an object, whose state is what the function returns."""
        ...

    def cursor(self, name: str, state: Callable[[], State], left_of: Callable[[int], int]) -> CursorRecord:
        """Return the record of a cursor. Its state has `mark_delete`; `left_of` an offset are messages of its entry."""
        ...

    def names(self, kind: str) -> list[str]:
        """List the names of the records of a kind, in the order of their characters."""
        ...

    def entries(self, base: int) -> Iterable[StoredEntry]:
        """Read the entries from an offset on, in their order."""
        ...

    def put(self, entry: StoredEntry) -> None:
        """Store an entry with the next commit; also one that is stored, and is hidden now."""
        ...

    def trim(self, base: int) -> None:
        """Remove the entries before an offset."""
        ...

    def remove(self) -> None:
        """Remove the topic. Later changes of its objects are not stored."""
        ...


class Storage(Protocol):
    """The storage of a cluster and its topics."""

    @property
    def cluster(self) -> TopicStorage:
        """The records of objects that belong to no topic."""
        ...

    def topics(self) -> list[str]:
        """List the names of the topics, in the order of their creation."""
        ...

    def topic(self, name: str) -> TopicStorage:
        """Return the storage of a topic, which may be new."""
        ...


class InMemory:
    """The storage of what does not survive a restart: it stores nothing."""

    @property
    def stored(self) -> State:
        """The state that is stored: none."""
        return None

    @property
    def cluster(self) -> "InMemory":
        """The records of a cluster, which store nothing."""
        return self

    def record(self, kind: str, name: str, state: Callable[[], State]) -> "InMemory":  # noqa: ARG002 - as in Storage
        """Return a record that stores nothing."""
        return self

    def cursor(self, name: str, state: Callable[[], State], left_of: Callable[[int], int]) -> "InMemory":  # noqa: ARG002
        """Return a record that stores nothing."""
        return self

    def topic(self, name: str) -> "InMemory":  # noqa: ARG002 - as in Storage
        """Return the storage of a topic, which stores nothing."""
        return self

    def topics(self) -> list[str]:
        """Return no topic."""
        return []

    def names(self, kind: str) -> list[str]:  # noqa: ARG002 - as in Storage
        """Return no name."""
        return []

    def entries(self, base: int) -> tuple[()]:  # noqa: ARG002 - as in TopicStorage
        """Return no entry."""
        return ()

    def acknowledgements(self) -> tuple[()]:
        """Return no offset."""
        return ()

    def changed(self) -> None:
        """Store nothing."""

    def remove(self) -> None:
        """Remove nothing."""

    def put(self, entry: StoredEntry) -> None:
        """Store nothing."""

    def trim(self, base: int) -> None:
        """Remove nothing."""

    def acknowledged(self, offset: int) -> None:
        """Store nothing."""

    def reset(self) -> None:
        """Forget nothing."""


IN_MEMORY: Final = InMemory()
