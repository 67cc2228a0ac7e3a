"""The `Transaction` of asyncio."""

from types import TracebackType
from typing import TYPE_CHECKING

from pulsar_actors.asyncio.binding import LoopBinding
from pulsar_actors.client.transaction import Transaction as SyncTransaction
from pulsar_actors.client.transaction import TransactionState
from pulsar_actors.exceptions import PulsarException
from pulsar_actors.runtime.log import LOG
from pulsar_actors.wire.transaction_id import TransactionId

if TYPE_CHECKING:
    from pulsar_actors.client.history import History


class Transaction:
    """Messages and acknowledgements that take effect together or not at all. Any task of its loop may use it.

    Made by `Client.new_transaction`. `async with await client.new_transaction() as txn:` commits it at the end of the
    block, and aborts it if the block raises or is cancelled.
    """

    def __init__(self, transaction: SyncTransaction, binding: LoopBinding) -> None:
        self.synchronous = transaction
        self._binding = binding

    @property
    def txn_id(self) -> TransactionId:
        """The id of the transaction in the cluster."""
        return self.synchronous.txn_id

    @property
    def state(self) -> TransactionState:
        """The state of the transaction."""
        return self.synchronous.state

    def history(self) -> "History":
        """Return the last changes of state of the transaction. The synchronous one says more."""
        return self.synchronous.history()

    async def commit(self) -> None:
        """Make all of it visible, once the sends and acknowledgements that have begun have ended.

        If any of them failed, the transaction is aborted, and this raises TransactionHasOperationFailed. An
        OutcomeUnknown means that the coordinator has not answered: call `commit` again. If this is cancelled, the
        transaction is committed all the same.
        """
        self._binding.completions()
        await self._binding.wait_for(self.synchronous.commit_async())

    async def abort(self) -> None:
        """Drop all of it, once the sends and acknowledgements that have begun have ended."""
        self._binding.completions()
        await self._binding.wait_for(self.synchronous.abort_async())

    async def __aenter__(self) -> "Transaction":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.synchronous.is_ended:
            return
        if kind is None:
            await self.commit()
            return
        try:
            await self.abort()
        except PulsarException as failure:  # the error of the block says more
            LOG.warning("%r could not be aborted: %s", self, failure)

    def __repr__(self) -> str:
        return f"<Transaction {self.txn_id} {self.state.name}>"
