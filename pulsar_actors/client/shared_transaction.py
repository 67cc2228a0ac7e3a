"""A transaction on which several clients work, each in a process of its own: those of a Spark driver and of its tasks.

One client opens it, and the others join it by its id. Each of them leaves it when its own part is done, so that the one
that ends it can know from the others that nothing is missing. One that has no end here, because the client closes or
nobody refers to it any more, is left to the others. The coordinator aborts it after its timeout, like any other. The
client that has opened it asks for that, unless it has left it: the others do not know when it was opened.
"""

from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING

from pulsar_actors.client.client import Client, context_of
from pulsar_actors.client.new_transaction import TransactionOpener
from pulsar_actors.client.transaction import Transaction
from pulsar_actors.exceptions import InvalidTxnStatusError
from pulsar_actors.machines.transaction_events import EndTransaction, Leave
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.transaction_work import TransactionCall
from pulsar_actors.wire.transaction_id import TransactionId

if TYPE_CHECKING:
    from pulsar_actors.runtime.transaction_coordinator_actor import OpenedTransaction


class SharedTransaction(Transaction):
    """Our part of a transaction. A `with` block leaves it at its end, unless the block has ended it.

    If the block raises, nothing more is sent of it.
    """

    _end_without_references = "left"

    def leave(self) -> None:
        """Wait for the sends and acknowledgements that have begun here, and leave the transaction to other clients.

        If any of them failed, this raises TransactionHasOperationFailed: it must not be committed.
        """
        self._engine.refuse_on_io_thread("leave()", "another thread")
        self._engine.block(self._end(Leave), None, f"leave() of {self!r}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.is_ended:
            return
        if kind is None:
            self.leave()
        else:
            self._give_up()

    def _give_up(self) -> None:
        """Leave it without what has not been sent yet. The error of the block says more than any of ours.

        An incomplete batch is not sent: whoever repeats the block cuts the messages in other places, and a broker that
        drops repeats would take a longer batch for one that it has.
        """
        self.is_ended = True
        self._finalizer.detach()
        error = InvalidTxnStatusError("InvalidTxnStatus", f"the transaction {self.txn_id} was left by an error")
        tell(self._coordinator, TransactionCall(self._serial, EndTransaction(error)))


def open_shared_transaction(client: Client, timeout: timedelta, number: int) -> SharedTransaction:
    """Open a transaction that other clients may join. Those with the same number have the same coordinator.

    That matters for a client that is cut off, and sends a message after the end of its transaction: brokers may then
    take the transaction to be open on that topic, until a later one of the same coordinator ends there.
    """
    return _wait_for(client, _opener(client).open(timeout, number), "opening a transaction")


def join_transaction(client: Client, transaction: TransactionId, timeout: timedelta) -> SharedTransaction:
    """Take part in a transaction with this timeout that another client has opened."""
    return _wait_for(client, _opener(client).join(transaction, timeout), f"joining transaction {transaction}")


def _opener(client: Client) -> TransactionOpener:
    return context_of(client).only(TransactionOpener)


def _wait_for(client: Client, opened: "SlimFuture[OpenedTransaction]", what: str) -> SharedTransaction:
    context = context_of(client)
    return SharedTransaction(context.wait_for_answer(opened, what), context.engine, context.pending_calls, client)
