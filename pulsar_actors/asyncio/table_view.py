"""The `TableView` of asyncio."""

import weakref
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from typing import Any

from pulsar_actors.asyncio.binding import LoopBinding
from pulsar_actors.asyncio.handle import ClosedAtEnd
from pulsar_actors.asyncio.listeners import UpdatesListener, called
from pulsar_actors.client.history import History
from pulsar_actors.client.table_view import TableView as SyncTableView
from pulsar_actors.client.table_view import updates_of
from pulsar_actors.client.validation import callback as check_callback

_callback = check_callback("a key and its value")


class TableView(ClosedAtEnd):
    """The latest value of each key of a topic. Made by `Client.create_table_view`.

    It reads like a dict, as the synchronous one does: the values are there, and nothing waits. The functions that are
    given to `for_each`, `for_each_and_listen` and `listen` may be coroutine functions.
    """

    def __init__(self, view: SyncTableView, binding: LoopBinding) -> None:
        self._view = view
        self._binding = binding
        self._listeners: weakref.WeakSet[UpdatesListener] = weakref.WeakSet()  # those that have ended are not kept
        binding.completions()

    def get(self, key: str, default: Any = None) -> Any:  # noqa: ANN401 - the schema decides
        """Return the value of a key, or the default if there is none."""
        return self._view.get(key, default)

    async def for_each(self, callback: Callable[[str, Any], object]) -> None:
        """Call a function with each key and its value, in this task. If the function raises, the walk ends there."""
        values: list[tuple[str, Any]] = []
        self._view.for_each(lambda key, value: values.append((key, value)))
        for key, value in values:
            await called(callback, key, value)

    async def for_each_and_listen(self, callback: Callable[[str, Any], object]) -> None:
        """Call a function with each key and its value, and then with each update, one after the other, in a task.

        This returns after the calls with the values. No update in between is lost, or given twice. The value of a
        deleted key is None. If the function raises in this call, it is not called with updates. If it raises later,
        that is logged.
        """
        await self._listen(callback, self._view.for_each_and_listen)

    async def listen(self, callback: Callable[[str, Any], object]) -> None:
        """Call a function with each update from now on, in a task. The value of a deleted key is None."""
        await self._listen(callback, self._view.listen)

    async def refresh(self, timeout: float | None = None) -> None:
        """Wait until the view has all messages that its topic has now; for so many seconds at most.

        What was published before is then in the view. Raise Timeout if it takes longer.
        """
        await self._binding.in_thread(lambda: self._view.refresh(timeout))

    def topic(self) -> str:
        """Return the topic's complete name."""
        return self._view.topic()

    @property
    def is_open(self) -> bool:
        """Return whether the view follows its topic: it has neither been closed nor failed permanently."""
        return self._view.is_open

    def is_connected(self) -> bool:
        """Return whether the view is connected to its brokers now. If not, it is trying to connect."""
        return self._view.is_connected()

    def history(self) -> History:
        """Return the last changes of state of the reader behind the view."""
        return self._view.history()

    async def close(self) -> None:
        """End the updates. A second call does nothing. The view keeps its values.

        A call of a listener that is running comes to its end first, except if it is this one.
        """
        listeners = list(self._listeners)
        for listener in listeners:
            listener.stop()
        await self._binding.in_thread(self._view.close)
        for listener in listeners:
            await listener.wait()

    # Like a dict.

    def keys(self) -> KeysView[str]:
        """Return the keys of this moment."""
        return self._view.keys()

    def values(self) -> ValuesView[Any]:
        """Return the values of this moment."""
        return self._view.values()

    def items(self) -> ItemsView[str, Any]:
        """Return the keys and values of this moment."""
        return self._view.items()

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401 - the schema decides
        return self._view[key]

    def __contains__(self, key: object) -> bool:
        return key in self._view

    def __iter__(self) -> Iterator[str]:
        return iter(self._view)

    def __len__(self) -> int:
        return len(self._view)

    def __repr__(self) -> str:
        return f"<asyncio {self._view!r}>"

    async def _listen(
        self, callback: Callable[[str, Any], object], begin: Callable[[Callable[[str, Any], object]], object]
    ) -> None:
        _callback("callback", callback)
        listener = UpdatesListener(self._binding.completions(), callback, repr(self._view))
        self._listeners.add(listener)
        self._binding.add_listener(listener)
        try:
            await self._binding.in_thread(lambda: listener.listen(begin))
            await listener.called_with_values()
        except BaseException:
            listener.stop()
            updates_of(self._view).remove_listener(listener.post)
            raise
