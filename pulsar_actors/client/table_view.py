"""The `TableView` of the public API: the latest value of each key of a topic.

A table view has a reader, which starts at the first message of the topic and never ends. On a persistent topic it reads
the compacted version, so that a topic with many old values is read faster. `table_view_updates.py` reads the messages
and keeps the values.
"""

import math
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import TYPE_CHECKING, Any, cast

from pulsar_actors.client.consumer_options import ReaderOptions, TableViewOptions
from pulsar_actors.client.context import ClientContext
from pulsar_actors.client.create_consumer import create_reader
from pulsar_actors.client.handle import Closeable, state_of
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.open_handles import OpenHandles
from pulsar_actors.client.reader import Reader
from pulsar_actors.client.table_view_updates import TableViewUpdates, Undecodable, call_with_each
from pulsar_actors.client.validation import callback as check_callback
from pulsar_actors.client.validation import optional, seconds
from pulsar_actors.exceptions import InvalidArgument, ProcessForked, Timeout
from pulsar_actors.machines.trackers.table_view_progress import MessagePlace
from pulsar_actors.runtime.future import copy_error
from pulsar_actors.wire.topic_name import TopicName

if TYPE_CHECKING:
    from pulsar_actors.client.history import History

__all__ = ["TableView", "create_table_view"]

_listener = check_callback("a key and its value")
_timeout = optional(seconds(0))


class TableView(Closeable):
    """The latest value of each key of a topic. Made by `Client.create_table_view`.

    It has all values that the topic had when it was created, and then follows the topic. It reads like a dict:
    `view[key]`, `key in view`, `len(view)`, `for key in view`, `view.items()`. Iteration, and each of `keys`, `values`,
    `items` and `for_each`, shows the values of one moment. Any thread may read them.

    A message without a value (`None`, or no bytes) deletes its key. A message without a key is ignored. If the value of
    a key cannot be decoded, reading it raises the schema's error, until the key gets another value; listeners are not
    called with it.

    A deletion that compaction has removed before the view has read it is lost: while a view has no connection, the key
    keeps its value.

    A view whose topic goes to another cluster reads it there from its first message, and listeners are called with what
    it reads. A key that only the former cluster had keeps its value.

    A view that is closed, by `close`, by the end of a `with` block or with its client, keeps the values that it had.
    Like a dict, a view without keys is false.
    """

    def __init__(
        self, reader: Reader, updates: TableViewUpdates, options: TableViewOptions, open_handles: OpenHandles
    ) -> None:
        self._reader = reader
        self._state = state_of(reader)
        self._updates = updates
        self._options = options
        self._open_handles = open_handles
        self._is_kept = False

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - the schema decides
        """Return the value of a key, or the default if there is none."""
        if not isinstance(cast("object", key), str):
            raise InvalidArgument(f"key takes a str, got an object of type {type(key).__name__}")
        return _decoded(self._values.get(key, default))

    def for_each(self, callback: Callable[[str, Any], object]) -> None:
        """Call a function with each key and its value, in this thread. If the function raises, the walk ends there."""
        _listener("callback", callback)
        call_with_each(callback, self._snapshot())

    def for_each_and_listen(self, callback: Callable[[str, Any], object]) -> None:
        """Call a function with each key and its value, in this thread, and then with each update, on a listener thread.

        No update in between is lost, or given twice. The value of a deleted key is None. If the function raises in this
        call, it is not called with updates. If it raises later, that is logged.
        """
        self._listen(callback, with_values=True)

    def listen(self, callback: Callable[[str, Any], object]) -> None:
        """Call a function with each update from now on, on a listener thread. The value of a deleted key is None."""
        self._listen(callback, with_values=False)

    def refresh(self, timeout: float | None = None) -> None:
        """Wait until the view has all messages that its topic has now; for so many seconds at most.

        What this client, or another one, has published before is then in the view; of partitions that were just added
        only once the view has found them. Raise Timeout if it takes longer.
        Listeners may be called with these messages later.
        """
        _timeout("timeout", timeout)
        self._refuse_if_closed()
        _wait_until_read(self._reader, self._updates, math.inf if timeout is None else timeout, f"refresh() of {self}")

    def topic(self) -> str:
        """Return the topic's complete name."""
        return self._reader.topic()

    @property
    def is_open(self) -> bool:
        """Return whether the view follows its topic: it has neither been closed nor failed permanently."""
        return self._reader.is_open

    def is_connected(self) -> bool:
        """Return whether the view is connected to its brokers now. If not, it is trying to connect."""
        return self._reader.is_connected()

    def history(self) -> "History":
        """Return the last changes of state of the reader behind the view."""
        return self._reader.history()

    def close(self) -> None:
        """End the updates. A second call does nothing. The view keeps its values."""
        self._updates.stop()
        self._reader.close()

    def close_soon(self) -> None:
        """Start the close, and do not wait for its end."""
        self._updates.stop()
        self._reader.close_soon()

    # Like a dict.

    def keys(self) -> KeysView[str]:
        """Return the keys of this moment."""
        return self._snapshot().keys()

    def values(self) -> ValuesView[Any]:
        """Return the values of this moment."""
        return self._decoded_snapshot().values()

    def items(self) -> ItemsView[str, Any]:
        """Return the keys and values of this moment."""
        return self._decoded_snapshot().items()

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - the schema decides
        return _decoded(self._values[key])

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._snapshot())

    def __len__(self) -> int:
        return len(self._values)

    def __str__(self) -> str:
        name = self._options.subscription_name
        return f"TableView(topic={self._options.topic}{f', subscription={name}' if name is not None else ''})"

    def __repr__(self) -> str:
        return str(self)

    # Behind them.

    def _listen(self, callback: Callable[[str, Any], object], *, with_values: bool) -> None:
        _listener("callback", callback)
        self._refuse_if_closed()
        self._updates.add_listener(callback, with_values=with_values)
        if not self._is_kept:
            self._is_kept = True
            self._open_handles.keep_until_ended(self._reader, self._state.link.ended)

    def _snapshot(self) -> dict[str, Any]:
        return self._values.copy()

    def _decoded_snapshot(self) -> dict[str, Any]:
        """Copy the values. Raise the error of one that could not be decoded."""
        values = self._snapshot()
        for value in values.values():
            _decoded(value)
        return values

    @property
    def _values(self) -> dict[str, Any]:
        if isinstance(self._state.closed, ProcessForked):
            raise copy_error(self._state.closed)
        return self._updates.values

    def _refuse_if_closed(self) -> None:
        self._state.engine.refuse_on_io_thread("a call of a table view that waits", "another thread")
        if self._state.closed is not None:
            raise copy_error(self._state.closed)


def updates_of(view: TableView) -> TableViewUpdates:
    """Return the updates of a view, for listeners that end before it."""
    return view._updates  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def create_table_view(
    context: ClientContext, open_handles: OpenHandles, options: TableViewOptions, client: object
) -> TableView:
    """Create a table view, and wait until it has all values that the topic has now."""
    reader_options = ReaderOptions(
        options.topic,
        MessageId.earliest,
        options.schema,
        is_read_compacted=TopicName.parse(options.topic).is_persistent,
        crypto_key_reader=options.crypto_key_reader,
        crypto_failure_action=options.crypto_failure_action,
    )
    reader = create_reader(context, open_handles, reader_options, client, options.subscription_name)
    what = f"the table view of {reader.topic()}"
    updates = TableViewUpdates(state_of(reader), context.next_worker(), what)
    updates.start()
    try:
        _wait_until_read(reader, updates, math.inf, f"creating {what}")
    except BaseException:
        reader.close_soon()
        raise
    return TableView(reader, updates, options, open_handles)


def _wait_until_read(reader: Reader, updates: TableViewUpdates, timeout: float, what: str) -> None:
    """Wait for the last message of each partition; if a topic goes to another cluster meanwhile, for the one there.

    A non-persistent topic keeps no message.
    """
    engine = state_of(reader).engine
    deadline = engine.now() + timeout
    moves = None
    while moves != (now := updates.moves()):
        moves = now
        lasts = reader._get_last_messages(max(0.0, deadline - engine.now()))  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        places = {topic: MessagePlace(moves.get(topic, 0), last.message_id) for topic, last in lasts.items()}
        try:
            updates.wait_until_read(places, None if timeout == math.inf else max(0.0, deadline - engine.now()), what)
        except Timeout:
            raise Timeout(f"{what} took longer than {timeout:g} s") from None


def _decoded(value: Any) -> Any:  # noqa: ANN401 - the schema decides
    if type(value) is Undecodable:
        raise value.error
    return value
