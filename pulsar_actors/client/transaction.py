"""The `Transaction` of the public API, and how messages join it.

A transaction is opened by `Client.new_transaction`. Its work, which all threads share, is in
`runtime/transaction_work.py`; what it does next is decided in `machines/transaction.py`.
"""

import os
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from enum import Enum, unique
from types import MappingProxyType, TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pulsar_actors.client.enums import Result
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.send_callbacks import NO_MESSAGE_ID, SendCallback, SendCallbacks
from pulsar_actors.exceptions import InvalidArgument, OperationNotSupported, PulsarException
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.transaction import State
from pulsar_actors.machines.transaction_events import Abort, Commit, ForgetTransaction, Leave
from pulsar_actors.runtime.actor import ActorRef, tell
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.future import PendingCalls, SlimFuture
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.transaction_work import TransactionCall, TransactionWork
from pulsar_actors.wire.transaction_id import TransactionId

if TYPE_CHECKING:
    from pulsar_actors.client.history import History
    from pulsar_actors.runtime.transaction_coordinator_actor import OpenedTransaction


@unique
class TransactionState(Enum):
    """The states of a transaction. The names are those of the Java client."""

    OPEN = "Messages and acknowledgements may be added."
    COMMITTING = "commit() was called, and is not confirmed yet."
    ABORTING = "abort() was called, or a part of it failed; not confirmed yet."
    COMMITTED = "All of it is visible."
    ABORTED = "None of it ever becomes visible."
    TIME_OUT = "It was open for longer than its timeout, and is aborted."
    ERROR = "It has ended by an error, which `commit` or `abort` has raised."


_PUBLIC_STATES: Final = MappingProxyType(
    {
        State.OPENING: TransactionState.OPEN,  # nobody sees it then
        State.OPEN: TransactionState.OPEN,
        State.COMMIT_SETTLING: TransactionState.COMMITTING,
        State.COMMITTING: TransactionState.COMMITTING,
        State.COMMIT_UNANSWERED: TransactionState.COMMITTING,
        State.ABORT_SETTLING: TransactionState.ABORTING,
        State.ABORTING: TransactionState.ABORTING,
        State.ABORT_UNANSWERED: TransactionState.ABORTING,
        State.COMMITTED: TransactionState.COMMITTED,
        State.ABORTED: TransactionState.ABORTED,
        State.LEAVE_SETTLING: TransactionState.OPEN,  # it goes on in another client
        State.LEFT: TransactionState.OPEN,
        State.TIMED_OUT: TransactionState.TIME_OUT,
        State.EXPIRED: TransactionState.TIME_OUT,
        State.FAILED: TransactionState.ERROR,
    }
)


class Transaction:
    """Messages and acknowledgements that take effect together or not at all. Any number of threads may use it.

    Made by `Client.new_transaction`. Pass it as `transaction` to `send`, `send_async`, `send_many`, `acknowledge` and
    `acknowledge_cumulative`. `with` commits it at the end of the block, and aborts it if the block raises. One that is
    neither committed nor aborted holds back the readers of its topics until its timeout.
    """

    _end_without_references: ClassVar[str] = "aborted"
    """The end of an open transaction whose last reference is gone, in the words of the log."""

    def __init__(
        self, opened: "OpenedTransaction", engine: Engine, pending_calls: PendingCalls, client: object
    ) -> None:
        self._name = opened.name
        self._machine = opened.machine
        self._work = opened.work
        self._serial = opened.serial
        self._coordinator = opened.coordinator
        self._engine = engine
        self._pending_calls = pending_calls
        self._client = client
        self.is_ended = False  # by its user, and not by the end of a `with` block
        self._finalizer = weakref.finalize(
            self,
            _end_abandoned,
            os.getpid(),
            self._end_without_references,
            self._coordinator,
            self._serial,
            self._machine,
            self._work.id,
        )
        self._finalizer.atexit = False

    @property
    def txn_id(self) -> TransactionId:
        """The id of the transaction in the cluster."""
        return self._work.id

    @property
    def state(self) -> TransactionState:
        """The state of the transaction."""
        state = self._machine.state
        assert isinstance(state, State)  # noqa: S101 - the machine's
        return _PUBLIC_STATES[state]

    def history(self) -> "History":
        """Return the last changes of state of the transaction: how it was opened, and how it has ended.

        It can be asked of a transaction that has ended, too.
        """
        from pulsar_actors.client.history import History  # noqa: PLC0415 - many programs never ask

        return History.of_machine(self._name, self._machine, self._coordinator)

    def commit(self) -> None:
        """Make all of it visible. Waits for the sends and acknowledgements that have begun.

        If any of them failed, the transaction is aborted, and this raises TransactionHasOperationFailed. An
        OutcomeUnknown means that the coordinator has not confirmed it: call `commit` again.
        """
        self._engine.refuse_on_io_thread("commit()", "commit_async()")
        self._engine.block(self.commit_async(), None, f"commit() of {self!r}")

    def commit_async(self) -> "Future[None]":
        """Do the same without waiting: a future is returned."""
        return self._end(Commit)

    def abort(self) -> None:
        """Drop all of it. Waits for the sends and acknowledgements that have begun.

        Messages that were acknowledged in the transaction are delivered again.
        """
        self._engine.refuse_on_io_thread("abort()", "abort_async()")
        self._engine.block(self.abort_async(), None, f"abort() of {self!r}")

    def abort_async(self) -> "Future[None]":
        """Do the same without waiting: a future is returned."""
        return self._end(Abort)

    def __enter__(self) -> "Transaction":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.is_ended:
            return
        if kind is None:
            self.commit()
            return
        try:
            self.abort()
        except PulsarException as failure:  # the error of the block says more
            LOG.warning("%r could not be aborted: %s", self, failure)

    def __repr__(self) -> str:
        return f"<Transaction {self.txn_id} {self.state.name}>"

    def __reduce__(self) -> Any:  # noqa: ANN401 - it never returns
        raise TypeError("a Transaction belongs to its client and cannot be pickled")

    def _end(self, how: Callable[[object], Commit | Abort | Leave]) -> SlimFuture[None]:
        self.is_ended = True
        done: SlimFuture[None] = self._pending_calls.track(SlimFuture())
        tell(self._coordinator, TransactionCall(self._serial, how(done), self._machine))
        return done


class TransactionReply(SlimFuture[MessageId]):
    """The future of a message that is sent in a transaction. With a callback, it only calls that, for speed.

    The send has begun, and ends with the outcome.
    """

    __slots__ = ("_callback", "_callbacks", "_has_ended", "work")

    def __init__(self, work: TransactionWork, callbacks: SendCallbacks, callback: SendCallback | None) -> None:
        if callback is None:
            super().__init__()
        self.work = work
        self._callbacks = callbacks
        self._callback = callback
        self._has_ended = False

    def set_result(self, result: MessageId) -> None:
        """Complete it with the id of the message."""
        if self._callback is None:
            super().set_result(result)
        else:
            self._callbacks.call(self._callback, Result.Ok, result)
        self.end(None)

    def set_exception(self, exception: BaseException | None) -> None:
        """Complete it with an error."""
        if self._callback is None:
            super().set_exception(exception)
        else:
            self._callbacks.call(self._callback, Result.of(exception), NO_MESSAGE_ID)
        self.end(exception)

    def end(self, error: BaseException | None) -> None:
        """End the send in the transaction, once: a mistake may have been told before it is raised."""
        if not self._has_ended:
            self._has_ended = True
            self.work.end(error)


def work_in(transaction: object, client: object) -> TransactionWork:
    """Return the work of a transaction that a caller passes, if it is one of this client."""
    if not isinstance(transaction, Transaction):
        raise TypeError(f"transaction is a Transaction of new_transaction(), not {type(transaction).__name__}")
    if transaction._client is not client:  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        raise InvalidArgument(f"{transaction!r} belongs to another client")
    return transaction._work  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]


def refuse_unless_persistent(topic: str) -> None:
    """Raise if messages of the topic cannot be a part of a transaction."""
    if not topic.startswith("persistent:"):  # it is a complete name
        raise OperationNotSupported(f"{topic} is not persistent, and has no transactions")


def _end_abandoned(
    process: int,
    end: str,
    coordinator: ActorRef,
    serial: int,
    machine: StateMachine,
    number: TransactionId,
) -> None:
    """End a transaction without references: nobody can call its methods any more.

    The garbage collector calls this, in any thread.
    """
    if machine.is_over or os.getpid() != process:  # a forked child has only a copy
        return
    if machine.state is State.OPEN:
        LOG.warning("the transaction %s was neither committed nor aborted, and is %s now", number, end)
    tell(coordinator, TransactionCall(serial, ForgetTransaction()))
