"""The bases of the objects of asyncio that `async with` closes, and of its producers, consumers and readers."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pulsar_actors.asyncio.binding import LoopBinding
from pulsar_actors.client.handle import Handle as SyncHandle

if TYPE_CHECKING:
    from pulsar_actors.client.history import History
    from pulsar_actors.client.transaction import Transaction as SyncTransaction

H = TypeVar("H", bound=SyncHandle[Any])
S = TypeVar("S", bound="ClosedAtEnd")


class ClosedAtEnd(ABC):
    """An object that `async with` closes at the end of its block."""

    _binding: LoopBinding

    @abstractmethod
    async def close(self) -> None:
        """Close it."""

    async def __aenter__(self: S) -> S:
        self._binding.completions()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()


class Handle(ClosedAtEnd, Generic[H]):
    """A producer, a consumer or a reader. `async with` closes it at the end of its block."""

    def __init__(self, handle: H, binding: LoopBinding) -> None:
        self._handle = handle
        self._binding = binding
        self._completions = binding.completions()
        self._loop = self._completions.loop

    def topic(self) -> str:
        """Return the topic's complete name."""
        return self._handle.topic()

    def is_connected(self) -> bool:
        """Return whether the handle is registered with a broker now. If not, it is trying to connect."""
        return self._handle.is_connected()

    @property
    def is_open(self) -> bool:
        """Return whether the handle can be used: it has neither been closed nor failed permanently."""
        return self._handle.is_open

    def history(self) -> "History":
        """Return the last changes of state of the handle. It can be asked of one that has ended, too."""
        return self._handle.history()

    async def close(self) -> None:
        """Close it, after its pending messages or acknowledgements were sent. A second call does nothing.

        If this is cancelled, the close goes on to its end.
        """
        await self._binding.in_thread(self._handle.close)

    def __repr__(self) -> str:
        return f"<asyncio {self._handle!r}>"


def sync_transaction(transaction: object) -> "SyncTransaction":
    """Return the synchronous transaction behind one that a caller passes."""
    from pulsar_actors.asyncio.transaction import Transaction  # noqa: PLC0415 - few programs have any

    if not isinstance(transaction, Transaction):
        raise TypeError(f"transaction is a Transaction of new_transaction(), not {type(transaction).__name__}")
    return transaction.synchronous
