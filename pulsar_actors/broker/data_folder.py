"""The data folder of a broker: a storage that survives a restart, in one SQLite file.

    data = DataFolder("data")
    cluster = Cluster(loop, settings, data)  # what was stored
    ...
    data.commit()

Changes are collected, and written with `commit`: at the end of each turn of the loop, and before any byte is sent
(`CommittingTransport`). So the receipts of a hundred messages wait for one commit. What has to be removed is removed at
once, in the same transaction of SQLite.

A commit is safe when the program is killed at any moment. The file is in write-ahead mode and is flushed to the disk
with each commit, so it is also safe when the machine loses power, if the disk keeps its word.

A disk that is full or fails ends the broker: it must not answer what it cannot store. `failure` says why, and what was
not committed is gone. Only one broker at a time can use a folder.
"""

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from pulsar_actors.broker.log import LOG
from pulsar_actors.broker.model.entry import StoredEntry, metadata_of
from pulsar_actors.broker.model.storage import State
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.runtime.loop import Buffer, Transport

__all__ = ["CommittingTransport", "DataFolder"]


FILE: Final = "broker.sqlite3"
FORMAT: Final = 1
"""Which tables a file has. It increases when a broker can no longer read what an earlier one wrote."""

_CLUSTER: Final = 0
"""Stands for the id of a topic in the records that belong to no topic."""

_EVERY_OFFSET: Final = 2**63 - 1

_LOCK_SECONDS: Final = 2.0
"""How long to wait for a broker that is being stopped."""

_TABLES: Final = """
CREATE TABLE topics (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE records (topic INTEGER, kind TEXT, name TEXT, state TEXT, PRIMARY KEY (topic, kind, name)) WITHOUT ROWID;
CREATE TABLE entries (
    topic INTEGER, position INTEGER, data BLOB, author TEXT, broker_timestamp INTEGER, hidden INTEGER,
    PRIMARY KEY (topic, position)
);
CREATE TABLE acknowledged (
    topic INTEGER, cursor TEXT, position INTEGER, messages_left BLOB, PRIMARY KEY (topic, cursor, position)
) WITHOUT ROWID;
"""
"""`position` is the offset of an entry in its topic."""


class DataFolder:
    """The storage in a folder, which is created if it is not there. Used on one thread at a time.

    `when_changed` is called at the first change after a commit, and `when_failed` once.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open a folder; InvalidArgument if it is not a broker's, or in use; OSError if it cannot be used."""
        self.failure: str | None = None
        self.when_changed: Callable[[], object] = _nothing
        self.when_failed: Callable[[], object] = _nothing
        self._is_open = True
        self._is_changed = False
        self._entries: dict[tuple[int, int], StoredEntry] = {}  # by topic and offset
        self._records: dict[_Record, None] = {}
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._sqlite = _open(self._folder / FILE)

    def record(self, kind: str, name: str, state: Callable[[], State]) -> "_Record":
        """Return the record of an object that belongs to no topic, whose state is what the function returns."""
        return _Record(self, _Removable(_CLUSTER), kind, name, state)

    def names(self, kind: str) -> list[str]:
        """List the names of those records of a kind, sorted."""
        return self.names_of(_CLUSTER, kind)

    def topics(self) -> list[str]:
        """List the names of the topics, in the order of their creation."""
        return [name for (name,) in self.query("SELECT name FROM topics ORDER BY id")]

    def topic(self, name: str) -> "_TopicData":
        """Return the storage of a topic, which may be new."""
        self.execute("INSERT OR IGNORE INTO topics (name) VALUES (?)", (name,))
        found = self.query("SELECT id FROM topics WHERE name = ?", (name,))
        return _TopicData(self, found[0][0] if found else _CLUSTER)  # nothing is found after a failure

    def commit(self) -> bool:
        """Store all changes since the last commit; False if the storage has failed."""
        if self._is_open and self._is_changed:
            entries = [
                (topic, offset, entry.data, entry.author, entry.broker_timestamp, entry.is_hidden)
                for (topic, offset), entry in self._entries.items()
            ]
            records = [each for each in self._records if each.is_there]
            self.execute_many("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", entries)
            self.execute_many("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", [each.row() for each in records])
            for each in records:
                each.write_more()
            if self._sqlite.in_transaction:
                self._attempt(lambda: self._sqlite.execute("COMMIT"))
            self._entries.clear()
            self._records.clear()
            self._is_changed = False
        return self._is_open

    def close(self) -> None:
        """Store all changes, and close the file. A second call does nothing."""
        self.commit()
        self._is_open = False
        self._sqlite.close()

    # For records and topics.

    def names_of(self, topic: int, kind: str) -> list[str]:
        """List the names of the records of a topic, sorted."""
        rows = self.query("SELECT name FROM records WHERE topic = ? AND kind = ? ORDER BY name", (topic, kind))
        return [name for (name,) in rows]

    def mark(self, record: "_Record") -> None:
        """Write a record with the next commit."""
        self._records[record] = None
        self._note_change()

    def put(self, topic: int, entry: StoredEntry) -> None:
        """Write an entry with the next commit."""
        self._entries[topic, entry.offset] = entry
        self._note_change()

    def remove_entries(self, topic: int, before: int) -> None:
        """Remove the entries of a topic before an offset."""
        for key in [(number, offset) for number, offset in self._entries if number == topic and offset < before]:
            del self._entries[key]
        self.execute("DELETE FROM entries WHERE topic = ? AND position < ?", (topic, before))

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return rows; none if the storage has failed."""
        return self._attempt(lambda: self._sqlite.execute(sql, values).fetchall()) or []

    def execute(self, sql: str, values: Sequence[Any]) -> None:
        """Change rows at once, within the transaction of the next commit."""
        self.execute_many(sql, [values])

    def execute_many(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        """Do the same for each of these values."""

        def change() -> None:
            if not self._sqlite.in_transaction:
                self._sqlite.execute("BEGIN")
            self._sqlite.executemany(sql, rows)
            self._note_change()

        if rows:
            self._attempt(change)

    def _note_change(self) -> None:
        if not self._is_changed:
            self._is_changed = True
            self.when_changed()

    def _attempt(self, action: Callable[[], Any]) -> Any:  # noqa: ANN401 - what the action returns
        """Do something with the file. If it fails, nothing is done from then on."""
        if not self._is_open:
            return None
        try:
            return action()
        except sqlite3.Error as error:
            self._is_open = False
            self.failure = f"the broker cannot go on with its data in {self._folder}: {error}"
            LOG.error("%s", self.failure, exc_info=error)
            self.when_failed()
            return None


class _Removable:
    """The id of a topic, and whether the topic was removed: its objects may live on, and another may have its name."""

    __slots__ = ("id", "is_removed")

    def __init__(self, topic: int) -> None:
        self.id = topic
        self.is_removed = False


class _Record:
    """One row of `records`."""

    __slots__ = ("_data", "_is_removed", "_kind", "_name", "_state", "_topic")

    def __init__(self, data: DataFolder, topic: _Removable, kind: str, name: str, state: Callable[[], State]) -> None:
        self._data = data
        self._topic = topic
        self._kind = kind
        self._name = name
        self._state = state
        self._is_removed = False

    @property
    def is_there(self) -> bool:
        """False if it was removed, or its topic was."""
        return not (self._is_removed or self._topic.is_removed)

    @property
    def stored(self) -> State:
        """The state that is stored; None if there is none."""
        found = self._data.query("SELECT state FROM records WHERE topic = ? AND kind = ? AND name = ?", self._key)
        return json.loads(found[0][0]) if found else None

    def changed(self) -> None:
        """Store the state with the next commit."""
        if self.is_there:
            self._data.mark(self)

    def remove(self) -> None:
        """Remove it. Later changes of the object are not stored."""
        if self.is_there:
            self._is_removed = True
            self._data.execute("DELETE FROM records WHERE topic = ? AND kind = ? AND name = ?", self._key)

    def row(self) -> tuple[int, str, str, str]:
        """Return the row as it should be."""
        return *self._key, json.dumps(self._state(), default=_as_text)

    def write_more(self) -> None:
        """Write what is not in the row: nothing."""

    @property
    def _key(self) -> tuple[int, str, str]:
        return self._topic.id, self._kind, self._name


class _CursorRecord(_Record):
    """The row of a cursor in `records`, and its rows in `acknowledged`."""

    __slots__ = ("_left_of", "_touched")

    def __init__(
        self,
        data: DataFolder,
        topic: _Removable,
        name: str,
        state: Callable[[], State],
        left_of: Callable[[int], int],
    ) -> None:
        super().__init__(data, topic, "cursor", name, state)
        self._left_of = left_of
        self._touched: set[int] = set()

    def acknowledgements(self) -> list[tuple[int, int]]:
        """Return the stored offsets, each with the set of messages that are left of its entry."""
        rows = self._data.query(
            "SELECT position, messages_left FROM acknowledged WHERE topic = ? AND cursor = ?", self._cursor
        )
        return [(offset, int.from_bytes(left, "big")) for offset, left in rows]

    def acknowledged(self, offset: int) -> None:
        """Store what is left of an entry with the next commit. The cursor has changed, too."""
        self._touched.add(offset)
        self.changed()

    def reset(self) -> None:
        """Forget all offsets. The cursor has changed, too."""
        self._touched.clear()
        self._forget_up_to(_EVERY_OFFSET)
        self.changed()

    def remove(self) -> None:
        """Remove it. Later changes of the object are not stored."""
        self._forget_up_to(_EVERY_OFFSET)
        super().remove()

    def write_more(self) -> None:
        """Write what is acknowledged beyond the mark-delete position, and remove what is before it now."""
        mark_delete = self._state()["mark_delete"]
        self._forget_up_to(mark_delete)
        touched, self._touched = self._touched, set()
        self._data.execute_many(
            "INSERT OR REPLACE INTO acknowledged VALUES (?, ?, ?, ?)",
            [(*self._cursor, offset, _bytes_of(self._left_of(offset))) for offset in touched if offset > mark_delete],
        )

    @property
    def _cursor(self) -> tuple[int, str]:
        return self._topic.id, self._name

    def _forget_up_to(self, offset: int) -> None:
        if self.is_there:
            self._data.execute(
                "DELETE FROM acknowledged WHERE topic = ? AND cursor = ? AND position <= ?", (*self._cursor, offset)
            )


class _TopicData:
    """The rows of one topic."""

    __slots__ = ("_data", "_topic")

    def __init__(self, data: DataFolder, topic: int) -> None:
        self._data = data
        self._topic = _Removable(topic)

    def record(self, kind: str, name: str, state: Callable[[], State]) -> _Record:
        """Return the record of an object, whose state is what the function returns."""
        return _Record(self._data, self._topic, kind, name, state)

    def cursor(self, name: str, state: Callable[[], State], left_of: Callable[[int], int]) -> _CursorRecord:
        """Return the record of a cursor. Its state has `mark_delete`; `left_of` an offset are messages of its entry."""
        return _CursorRecord(self._data, self._topic, name, state, left_of)

    def names(self, kind: str) -> list[str]:
        """List the names of the records of a kind, sorted."""
        return self._data.names_of(self._topic.id, kind)

    def entries(self, base: int) -> Iterable[StoredEntry]:
        """Read the entries from an offset on, in their order."""
        rows = self._data.query(
            "SELECT data, author, broker_timestamp, hidden FROM entries "
            "WHERE topic = ? AND position >= ? ORDER BY position",
            (self._topic.id, base),
        )
        for data, author, broker_timestamp, hidden in rows:
            entry = StoredEntry(data, metadata_of(data, author, broker_timestamp), author, broker_timestamp)
            entry.is_hidden = bool(hidden)
            yield entry

    def put(self, entry: StoredEntry) -> None:
        """Store an entry with the next commit; also one that is stored, and is hidden now."""
        if not self._topic.is_removed:
            self._data.put(self._topic.id, entry)

    def trim(self, base: int) -> None:
        """Remove the entries before an offset."""
        if not self._topic.is_removed:
            self._data.remove_entries(self._topic.id, base)

    def remove(self) -> None:
        """Remove the topic. Later changes of its objects are not stored."""
        if not self._topic.is_removed:
            self._topic.is_removed = True
            self._data.remove_entries(self._topic.id, _EVERY_OFFSET)
            self._data.execute("DELETE FROM acknowledged WHERE topic = ?", (self._topic.id,))
            self._data.execute("DELETE FROM records WHERE topic = ?", (self._topic.id,))
            self._data.execute("DELETE FROM topics WHERE id = ?", (self._topic.id,))


class CommittingTransport(Transport):
    """A transport that sends nothing before all changes are stored, and nothing at all if that fails."""

    def __init__(self, transport: Transport, data: DataFolder) -> None:
        self._transport = transport
        self._data = data

    def send(self, buffers: Sequence[Buffer]) -> int:
        """Store what has changed; then write as much as fits now, and return the number of bytes."""
        return self._transport.send(buffers) if self._data.commit() else 0

    def await_room(self) -> None:
        """Call the owner's `writable` once, as soon as the transport takes bytes again."""
        self._transport.await_room()

    def close(self) -> None:
        """Close the transport."""
        self._transport.close()


def _open(file: Path) -> sqlite3.Connection:
    """Open a file, or create it; InvalidArgument if it is not a broker's, or in use; OSError."""
    try:
        sqlite = sqlite3.connect(file, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            _prepare(sqlite, file)
        except BaseException:
            sqlite.close()
            raise
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise InvalidArgument(f"{file.parent} is in use: another broker has its data there") from None
        raise OSError(f"{file} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise InvalidArgument(f"{file} is not the data of a broker, or is damaged: {error}") from None
    return sqlite


def _prepare(sqlite: sqlite3.Connection, file: Path) -> None:
    """Lock the file for this broker; make its tables if it is new."""
    sqlite.execute("PRAGMA locking_mode = EXCLUSIVE")
    sqlite.execute("PRAGMA auto_vacuum = INCREMENTAL")
    sqlite.execute("PRAGMA journal_mode = WAL")
    sqlite.execute("PRAGMA synchronous = FULL")
    sqlite.execute("BEGIN IMMEDIATE")
    (found,) = sqlite.execute("PRAGMA user_version").fetchone()
    (tables,) = sqlite.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if found != FORMAT and (found or tables):
        raise InvalidArgument(f"{file} has format {found}, and this version reads format {FORMAT}")
    if not found:
        for statement in _TABLES.split(";"):
            sqlite.execute(statement)
        sqlite.execute(f"PRAGMA user_version = {FORMAT}")
    sqlite.execute("COMMIT")
    sqlite.execute("PRAGMA incremental_vacuum").fetchall()  # gives the space of removed entries back


def _as_text(value: object) -> str:
    """Write what JSON cannot hold: a text from a client that is not UTF-8, which Protobuf gives as bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _bytes_of(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _nothing() -> None:
    """Do nothing."""
