"""The data folder of a broker: a storage that survives a restart, in one SQLite file.

    data = DataFolder("data")
    cluster = Cluster(loop, settings, data)  # what was stored
    ...
    data.commit()

Changes are collected, and written with `commit`: soon after the first one, and before any byte is sent
(`CommittingTransport`). So the receipts of a hundred messages wait for one commit. What has to be removed is removed at
once, in the same transaction of SQLite.

A commit survives when the program is killed at any moment. The file is in write-ahead mode and is flushed to the disk
with each commit, so it also survives when the machine loses power, if the disk keeps its word.

A disk that is full or fails ends the broker: it must not answer what it cannot store. `failure` says why, and what was
not committed is gone.

Only one broker at a time uses a folder: it holds a lock on a file beside the data. SQLite's own lock would be lost when
anything else in the process closes the file, such as a backup. A forked child gives its copy of the lock up, and writes
nothing.
"""

import json
import os
import sqlite3
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeAlias

from pulsar_actors.broker.log import LOG
from pulsar_actors.broker.model.entry import StoredEntry, metadata_of
from pulsar_actors.broker.model.storage import State
from pulsar_actors.exceptions import InvalidArgument
from pulsar_actors.runtime.loop import Buffer, Transport

__all__ = ["CommittingTransport", "DataFolder"]


FILE: Final = "broker.sqlite3"
LOCK: Final = "lock"
FORMAT: Final = 1
"""The version of the tables. It increases when a broker can no longer read what an earlier one wrote."""

_CLUSTER: Final = 0
"""Stands for the id of a topic in the records that belong to no topic."""

_EVERY_OFFSET: Final = 2**63 - 1

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

_FORGET: Final = "DELETE FROM acknowledged WHERE topic = ? AND cursor = ? AND position <= ?"

Change: TypeAlias = tuple[str, Sequence[Sequence[Any]]]
"""A statement, and the values of each time that it is executed."""


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
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except FileExistsError:
            raise InvalidArgument(f"{folder} is no folder, so no data can be stored in it") from None
        self._lock = _locked(self._folder / LOCK)
        try:
            self._sqlite = _open(self._folder / FILE)
        except BaseException:
            self._lock.close()
            raise
        self.cluster = _TopicData(self, _CLUSTER)
        _IN_USE.add(self)

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
            self._attempt(self._write)
        return self._is_open

    def close(self) -> None:
        """Store all changes, and close the file. A second call does nothing."""
        try:
            self.commit()
        finally:
            self._is_open = False
            self._sqlite.close()
            self._lock.close()

    def forget(self) -> None:
        """Write nothing any more: in a forked child, the folder is the parent's."""
        self._is_open = False
        self._lock.close()

    def _write(self) -> None:
        entries = [
            (topic, offset, entry.data, entry.author, entry.broker_timestamp, entry.is_hidden)
            for (topic, offset), entry in self._entries.items()
        ]
        records = [each for each in self._records if each.is_there]
        self._change("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?)", entries)
        self._change("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?)", [each.row() for each in records])
        for each in records:
            for sql, rows in each.more():
                self._change(sql, rows)
        if self._sqlite.in_transaction:
            self._sqlite.execute("COMMIT")
        self._entries.clear()
        self._records.clear()
        self._is_changed = False

    # For records and topics.

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
        self._attempt(lambda: self._change(sql, [values]))
        self._note_change()

    def _change(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            if not self._sqlite.in_transaction:
                self._sqlite.execute("BEGIN")
            self._sqlite.executemany(sql, rows)

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
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be sent that is not stored
            self._is_open = False
            self.failure = f"the broker cannot go on with its data in {self._folder}: {error}"
            LOG.error("%s", self.failure, exc_info=error)
            self.when_failed()
            return None


class _Record:
    """One row of `records`."""

    __slots__ = ("_data", "_is_removed", "_kind", "_name", "_state", "_topic")

    def __init__(self, data: DataFolder, topic: "_TopicData", kind: str, name: str, state: Callable[[], State]) -> None:
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
        return *self._key, json.dumps(self._state())

    def more(self) -> Iterable[Change]:
        """Return what is to be written beside the row: nothing."""
        return ()

    @property
    def _key(self) -> tuple[int, str, str]:
        return self._topic.id, self._kind, self._name


class _CursorRecord(_Record):
    """The row of a cursor in `records`, and its rows in `acknowledged`."""

    __slots__ = ("_left_of", "_touched")

    def __init__(
        self,
        data: DataFolder,
        topic: "_TopicData",
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
        if self.is_there:
            self._data.execute(_FORGET, (*self._cursor, _EVERY_OFFSET))
        self.changed()

    def remove(self) -> None:
        """Remove it. Later changes of the object are not stored."""
        if self.is_there:
            self._data.execute(_FORGET, (*self._cursor, _EVERY_OFFSET))
        super().remove()

    def more(self) -> Iterable[Change]:
        """Return what is acknowledged beyond the mark-delete position, and what is before it now."""
        mark_delete = self._state()["mark_delete"]
        touched, self._touched = self._touched, set()
        yield _FORGET, [(*self._cursor, mark_delete)]
        yield (
            "INSERT OR REPLACE INTO acknowledged VALUES (?, ?, ?, ?)",
            [(*self._cursor, offset, _bytes_of(self._left_of(offset))) for offset in touched if offset > mark_delete],
        )

    @property
    def _cursor(self) -> tuple[int, str]:
        return self._topic.id, self._name


class _TopicData:
    """The rows of one topic. `is_removed` is True when it was deleted: its objects may live on, and change."""

    __slots__ = ("_data", "id", "is_removed")

    def __init__(self, data: DataFolder, topic: int) -> None:
        self._data = data
        self.id = topic
        self.is_removed = False

    def record(self, kind: str, name: str, state: Callable[[], State]) -> _Record:
        """Return the record of an object, whose state is what the function returns."""
        return _Record(self._data, self, kind, name, state)

    def cursor(self, name: str, state: Callable[[], State], left_of: Callable[[int], int]) -> _CursorRecord:
        """Return the record of a cursor. Its state has `mark_delete`; `left_of` an offset are messages of its entry."""
        return _CursorRecord(self._data, self, name, state, left_of)

    def names(self, kind: str) -> list[str]:
        """List the names of the records of a kind, in the order of their characters."""
        rows = self._data.query("SELECT name FROM records WHERE topic = ? AND kind = ? ORDER BY name", (self.id, kind))
        return [name for (name,) in rows]

    def entries(self, base: int) -> Iterable[StoredEntry]:
        """Read the entries from an offset on, in their order."""
        rows = self._data.query(
            "SELECT data, author, broker_timestamp, hidden FROM entries "
            "WHERE topic = ? AND position >= ? ORDER BY position",
            (self.id, base),
        )
        for data, author, broker_timestamp, hidden in rows:
            entry = StoredEntry(data, metadata_of(data, author, broker_timestamp), author, broker_timestamp)
            entry.is_hidden = bool(hidden)
            yield entry

    def put(self, entry: StoredEntry) -> None:
        """Store an entry with the next commit; also one that is stored, and is hidden now."""
        if not self.is_removed:
            self._data.put(self.id, entry)

    def trim(self, base: int) -> None:
        """Remove the entries before an offset."""
        if not self.is_removed:
            self._data.remove_entries(self.id, base)

    def remove(self) -> None:
        """Remove the topic. Later changes of its objects are not stored."""
        if not self.is_removed:
            self.is_removed = True
            self._data.remove_entries(self.id, _EVERY_OFFSET)
            self._data.execute("DELETE FROM acknowledged WHERE topic = ?", (self.id,))
            self._data.execute("DELETE FROM records WHERE topic = ?", (self.id,))
            self._data.execute("DELETE FROM topics WHERE id = ?", (self.id,))


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


def _locked(file: Path) -> BinaryIO:
    """Open a file, and lock it until it is closed; InvalidArgument if somebody else has."""
    lock = file.open("ab")
    try:
        if sys.platform == "win32":
            import msvcrt  # noqa: PLC0415 - it is there on Windows only

            lock.seek(0)
            msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl  # noqa: PLC0415 - it is not there on Windows

            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise InvalidArgument(f"{file.parent} is in use: another broker has its data there") from None
    return lock


def _open(file: Path) -> sqlite3.Connection:
    """Open a file, or create it, readable for its owner; InvalidArgument if it is not a broker's; OSError."""
    os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    try:
        sqlite = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        try:
            _prepare(sqlite, file)
        except BaseException:
            sqlite.close()
            raise
    except sqlite3.OperationalError as error:
        raise OSError(f"{file} cannot be used: {error}") from error
    except sqlite3.DatabaseError as error:
        raise InvalidArgument(f"{file} is not the data of a broker, or is damaged: {error}") from None
    return sqlite


def _prepare(sqlite: sqlite3.Connection, file: Path) -> None:
    """Look what the file is; make its tables if it is new."""
    (found,) = sqlite.execute("PRAGMA user_version").fetchone()
    (tables,) = sqlite.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if found != FORMAT and (found or tables):
        raise InvalidArgument(f"{file} has format {found}, and this version reads format {FORMAT}")
    sqlite.execute("PRAGMA auto_vacuum = INCREMENTAL")
    sqlite.execute("PRAGMA journal_mode = WAL")
    sqlite.execute("PRAGMA synchronous = FULL")
    sqlite.execute("PRAGMA fullfsync = ON")  # on macOS, where a usual flush reaches the disk's own memory only
    sqlite.execute("PRAGMA checkpoint_fullfsync = ON")
    if not found:
        sqlite.execute("BEGIN")
        for statement in _TABLES.split(";"):
            sqlite.execute(statement)
        sqlite.execute(f"PRAGMA user_version = {FORMAT}")
        sqlite.execute("COMMIT")
    sqlite.execute("PRAGMA incremental_vacuum").fetchall()  # gives the space of removed entries back


def _bytes_of(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _nothing() -> None:
    """Do nothing."""


_IN_USE: "weakref.WeakSet[DataFolder]" = weakref.WeakSet()


def _forget_all() -> None:
    """Give up what is the parent's, in a forked child."""
    for data in list(_IN_USE):
        data.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)
