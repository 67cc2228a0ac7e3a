"""The state machine of one transaction: from NEW_TXN to the answer of END_TXN.

A transaction collects messages that are sent and messages that are acknowledged, on any topics. All of it becomes
effective with the commit, or none of it with an abort. A coordinator, which is a part of a broker, opens and ends
transactions. It has to know each partition and each subscription before the first message or acknowledgement goes
there, because at the end it tells them the outcome.

What is sent or acknowledged in a transaction is called its *work* here. `commit` and `abort` first refuse more of it,
and then wait until all that has begun has ended: END_TXN must not overtake a message. If any of it failed, the
transaction cannot be committed as a whole; `commit` then aborts, and raises the reason.

The coordinator answers END_TXN when the outcome can be seen everywhere. Without an answer the outcome is open to us,
but not to the coordinator: it may have begun to commit, and goes on by itself. So the same action may be repeated, and
never the other. Most errors tell no more than a missing answer does: the coordinator may have failed to write to its
log, and try again. That no transactions are allowed, or not to us, is no end of this one either.

The callers are told then. If nothing came in time, END_TXN is repeated until the coordinator answers, or the client
closes. A coordinator that has moved runs again only when a client connects to it: without the repeats, nobody might get
what is behind the first message of the transaction. A caller who asks again joins a repeat that is under way, or is
told of the answer that came meanwhile. Nothing has to refer to the transaction for that.

A refusal shows that the coordinator runs, so that it ends the transaction by itself: it goes on with what it has begun,
and aborts what is open for too long. So nothing is repeated after that unless a caller asks again, and a transaction
that nothing refers to ends. Nor is it repeated if too many others of the coordinator are: `RepeatedEnds` tells why.
That number bounds the load, so the pauses are those of the client's backoff, and a coordinator that can be reached
again is asked soon.

The coordinator may also refuse END_TXN because of the status of the transaction. The same end may be under way already:
one that was sent before, or that a coordinator goes on with after it has moved. Two of them race, and the loser is
refused. So the status that the refusal names tells more than the refusal does: COMMITTED and ABORTED are the outcome,
and COMMITTING and ABORTING are decisions that no longer change. If what we want is decided, END_TXN is sent once more,
because its answer tells when the outcome can be seen.

A coordinator forgets a transaction that has ended. That it does not know one whose commit was sent before means that
the commit has most probably succeeded: OutcomeUnknown says so. It is certain if the commit was decided before.

The coordinator aborts a transaction that is open for longer than its timeout. Our timer starts after the coordinator's,
and counts only until END_TXN is sent. When it ends, the callers are told, and we ask for the abort as well, with the
same repeats: the coordinator may run nowhere, or the clock of its broker may be set back. But who joins a transaction
does not know its timeout, so only the client that has opened a shared one asks for that.

An abort of a transaction that the coordinator does not know, or is ending, has succeeded: we have sent no commit.

A transaction may be *shared* by several clients: one opens it, others join it by its id, and one of them ends it, which
knows from the others that their work is done. Each of the others leaves it: its work settles as before an end, but no
END_TXN is sent. A client that closes leaves what it shares, because the others may go on.
"""

import re
from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import (
    AlreadyClosed,
    InvalidTxnStatusError,
    OutcomeUnknown,
    PulsarException,
    TransactionHasOperationFailed,
    TransactionNotFound,
)
from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StartTimer, StateMachine
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.repeated_ends import RepeatedEnds
from pulsar_actors.machines.transaction_events import (
    Abort,
    AskToBegin,
    AskToEnd,
    AskToRegister,
    Begin,
    BeginFailed,
    Begun,
    CallDone,
    CallsFailed,
    CloseTransaction,
    Commit,
    DropWork,
    EndAnswered,
    EndFailed,
    EndTransaction,
    ForgetTransaction,
    FreeSubscriptions,
    Join,
    Leave,
    RefuseWork,
    Register,
    Registered,
    RegistrationFailed,
    RepeatEndDue,
    RewindConsumers,
    Settled,
    SettleWork,
    TransactionNotOpened,
    TransactionOpened,
    TransactionTimeoutDue,
)
from pulsar_actors.wire.transaction_id import TransactionId
from pulsar_actors.wire.transaction_requests import end_request, new_transaction_request


@unique
class State(Enum):
    """The states of a transaction."""

    OPENING = "NEW_TXN is sent; the coordinator has to answer with the id."
    OPEN = "Messages and acknowledgements may be added."
    COMMIT_SETTLING = "To be committed: all sends and acknowledgements that have begun must end first."
    COMMITTING = "END_TXN with COMMIT is sent; the coordinator answers when the outcome can be seen everywhere."
    COMMIT_UNANSWERED = (
        "The outcome of the commit is not known. END_TXN is repeated after a pause, unless it was refused."
    )
    ABORT_SETTLING = "To be aborted: all sends and acknowledgements that have begun must end first."
    ABORTING = "END_TXN with ABORT is sent, because of abort() or of a failure."
    ABORT_UNANSWERED = (
        "The outcome of the abort is not known. END_TXN is repeated after a pause, unless it was refused."
    )
    COMMITTED = "Committed."
    ABORTED = "Aborted."
    LEAVE_SETTLING = "To be left: all sends and acknowledgements that have begun must end first."
    LEFT = "Left: it goes on in another client."
    TIMED_OUT = "It was open for longer than its timeout: END_TXN with ABORT is sent until there is an answer."
    EXPIRED = "It was open for longer than its timeout, for which the coordinator aborts it."
    FAILED = "Not opened, or ended by an error; after a commit the outcome may not be known."


(
    OPENING, OPEN, COMMIT_SETTLING, COMMITTING, COMMIT_UNANSWERED, ABORT_SETTLING, ABORTING, ABORT_UNANSWERED,
    COMMITTED, ABORTED, LEAVE_SETTLING, LEFT, TIMED_OUT, EXPIRED, FAILED,
) = State  # fmt: skip

SETTLING: Final = (COMMIT_SETTLING, ABORT_SETTLING, LEAVE_SETTLING)
TAKING: Final = (OPEN, *SETTLING)
OURS_TO_END: Final = (OPEN, COMMIT_SETTLING, ABORT_SETTLING)
FOR_COMMIT: Final = (COMMIT_SETTLING, COMMITTING)
FOR_ABORT: Final = (ABORT_SETTLING, ABORTING)
UNANSWERED: Final = (COMMIT_UNANSWERED, ABORT_UNANSWERED)
END_SENT: Final = (COMMITTING, ABORTING)
FINAL: Final = (COMMITTED, ABORTED, LEFT, EXPIRED, FAILED)
ENDED_HERE: Final = (TIMED_OUT, *FINAL)
UNENDED: Final = (*TAKING, *END_SENT, *UNANSWERED)

# fmt: off
ROWS: Final = (
    #   trigger                source             dest               guard            does
    Row(Begin,                 OPENING,           INTERNAL,          None,            "ask_to_begin"),
    Row(Begun,                 OPENING,           OPEN,              None,            "hand_out"),
    Row(BeginFailed,           OPENING,           FAILED,            None,            "fail_opening"),
    Row(Join,                  OPENING,           OPEN,              None,            "take_part"),

    # Open.
    Row(Register,              TAKING,            INTERNAL,          None,            "ask_to_register"),
    Row(Registered,            UNENDED,           INTERNAL,          None,            "complete_registration"),
    Row(RegistrationFailed,    UNENDED,           INTERNAL,          None,            "fail_registration"),
    Row(TransactionTimeoutDue, LEAVE_SETTLING,    EXPIRED,           None,            "time_out"),
    Row(TransactionTimeoutDue, OURS_TO_END,       EXPIRED,           "has_joined",    "time_out"),
    Row(TransactionTimeoutDue, OURS_TO_END,       EXPIRED,           "is_closing",    "time_out_and_abort"),
    Row(TransactionTimeoutDue, OURS_TO_END,       TIMED_OUT,         None,            "time_out_and_abort"),

    # Commit.
    Row(Commit,                OPEN,              COMMIT_SETTLING,   None,            "settle"),
    Row(Settled,               COMMIT_SETTLING,   ABORTING,          "has_failed",    "abort_instead"),
    Row(Settled,               COMMIT_SETTLING,   COMMITTING,        None,            "send_commit"),
    Row(EndAnswered,           COMMITTING,        COMMITTED,         None,            "complete"),
    Row(EndFailed,             COMMITTING,        INTERNAL,          "is_decided",    "ask_again"),
    Row(EndFailed,             COMMITTING,        COMMITTED,         "is_committed",  "complete"),
    Row(EndFailed,             COMMITTING,        FAILED,            "is_forgotten",  "fail_as_unknown"),
    Row(EndFailed,             COMMITTING,        FAILED,            "is_over_there", "fail"),
    Row(EndFailed,             COMMITTING,        FAILED,            "is_closing",    "end_with_commit_open"),
    Row(EndFailed,             COMMITTING,        COMMIT_UNANSWERED, "is_to_repeat",  "repeat_commit_later"),
    Row(EndFailed,             COMMITTING,        FAILED,            "nothing_refers", "end_committing"),
    Row(EndFailed,             COMMITTING,        COMMIT_UNANSWERED, None,            "leave_commit_open"),
    Row(Commit,                COMMIT_UNANSWERED, COMMITTING,        None,            "repeat_commit"),
    Row(Commit,                FOR_COMMIT,        INTERNAL,          None,            "join"),

    # Abort.
    Row(Abort,                 OPEN,              ABORT_SETTLING,    None,            "settle"),
    Row(Settled,               ABORT_SETTLING,    ABORTING,          None,            "send_abort"),
    Row(EndAnswered,           ABORTING,          ABORTED,           None,            "complete_abort"),
    Row(EndFailed,             ABORTING,          INTERNAL,          "is_decided",    "ask_again"),
    Row(EndFailed,             ABORTING,          FAILED,            "will_commit",   "fail_abort"),
    Row(EndFailed,             ABORTING,          ABORTED,           "is_over_there", "complete_abort"),
    Row(EndFailed,             ABORTING,          FAILED,            "is_closing",    "end_with_abort_open"),
    Row(EndFailed,             ABORTING,          ABORT_UNANSWERED,  "is_to_repeat",  "repeat_abort_later"),
    Row(EndFailed,             ABORTING,          FAILED,            "nothing_refers", "end_aborting"),
    Row(EndFailed,             ABORTING,          ABORT_UNANSWERED,  None,            "leave_abort_open"),
    Row(Abort,                 ABORT_UNANSWERED,  ABORTING,          None,            "repeat_abort"),
    Row(Abort,                 FOR_ABORT,         INTERNAL,          None,            "join"),

    # Without an answer: ask until there is one, also for nobody.
    Row(RepeatEndDue,          COMMIT_UNANSWERED, COMMITTING,        None,            "send_commit"),
    Row(RepeatEndDue,          ABORT_UNANSWERED,  ABORTING,          None,            "send_abort"),
    Row(RepeatEndDue,          TIMED_OUT,         INTERNAL,          None,            "send_abort"),
    Row(EndAnswered,           TIMED_OUT,         EXPIRED,           None,            "stop_repeating"),
    Row(EndFailed,             TIMED_OUT,         INTERNAL,          "is_to_repeat",  "repeat_later"),
    Row(EndFailed,             TIMED_OUT,         EXPIRED,           None,            "stop_repeating"),
    Row(Commit,                COMMITTED,         INTERNAL,          "was_unanswered", "tell_of_success"),
    Row(Abort,                 ABORTED,           INTERNAL,          "was_unanswered", "tell_of_success"),
    Row(Commit,                FAILED,            INTERNAL,          "was_unanswered", "tell_of_error"),
    Row(Abort,                 FAILED,            INTERNAL,          "was_unanswered", "tell_of_error"),

    # Leave a shared one.
    Row(Leave,                 OPEN,              LEAVE_SETTLING,    None,            "settle"),
    Row(Settled,               LEAVE_SETTLING,    LEFT,              "has_failed",    "fail_leave"),
    Row(Settled,               LEAVE_SETTLING,    LEFT,              None,            "complete_leave"),

    # Too late.
    Row(Commit,                (*FOR_ABORT, ABORT_UNANSWERED, LEAVE_SETTLING, *ENDED_HERE),   INTERNAL, None, "refuse"),
    Row(Abort,                 (*FOR_COMMIT, COMMIT_UNANSWERED, LEAVE_SETTLING, *ENDED_HERE), INTERNAL, None, "refuse"),
    Row(Leave,                 (*SETTLING, *END_SENT, *UNANSWERED, *ENDED_HERE), INTERNAL, None,       "refuse"),
    Row(Register,              (*END_SENT, *UNANSWERED, *ENDED_HERE),      INTERNAL, None, "refuse_registration"),

    # Nobody will end it: nothing refers to the transaction any more, or the client closes.
    Row(ForgetTransaction,     OPEN,              LEAVE_SETTLING,    "is_shared",     "settle_and_leave"),
    Row(ForgetTransaction,     OPEN,              ABORT_SETTLING,    None,            "settle_and_abort"),
    Row(ForgetTransaction,     (*SETTLING, *END_SENT), INTERNAL,     None,            "note_forgotten"),
    Row(ForgetTransaction,     UNANSWERED,        INTERNAL,          "is_repeated",   "note_forgotten"),
    Row(ForgetTransaction,     UNANSWERED,        FAILED,            None,            "give_up_unanswered"),
    Row(CloseTransaction,      OPENING,           FAILED,            None,            "give_up_opening"),
    Row(CloseTransaction,      OPEN,              LEAVE_SETTLING,    "is_shared",     "settle_and_leave"),
    Row(CloseTransaction,      OPEN,              ABORT_SETTLING,    None,            "settle_and_close"),
    Row(CloseTransaction,      SETTLING,          INTERNAL,          None,            "note_close"),
    Row(CloseTransaction,      END_SENT,          FAILED,            "nobody_waits",  "give_up_unanswered"),
    Row(CloseTransaction,      END_SENT,          INTERNAL,          None,            "note_close"),
    Row(CloseTransaction,      UNANSWERED,        FAILED,            None,            "give_up_unanswered"),
    Row(CloseTransaction,      TIMED_OUT,         EXPIRED,           None,            "stop_repeating"),
    Row(EndTransaction,        OPENING,           FAILED,            None,            "fail_opening"),
    Row(EndTransaction,        (COMMITTING, COMMIT_UNANSWERED), FAILED, None,         "end_committing"),
    Row(EndTransaction,        (*TAKING, ABORTING, ABORT_UNANSWERED), FAILED, None,   "end_at_once"),
    Row(EndTransaction,        TIMED_OUT,         EXPIRED,           None,            "stop_repeating"),
)

IGNORES: Final = (
    Ignore((Begun, BeginFailed),             (*UNENDED, *ENDED_HERE)),
    Ignore((Registered, RegistrationFailed), (OPENING, *ENDED_HERE)),
    Ignore(TransactionTimeoutDue,            (OPENING, *END_SENT, *UNANSWERED, *ENDED_HERE)),
    Ignore(RepeatEndDue,                     (OPENING, *TAKING, *END_SENT, *FINAL)),
    Ignore(Settled,                          ENDED_HERE),
    Ignore((EndAnswered, EndFailed),         (OPENING, *TAKING, *UNANSWERED, *FINAL)),
    Ignore(ForgetTransaction,                ENDED_HERE),
    Ignore((CloseTransaction, EndTransaction), FINAL),
)
# fmt: on

OURS: Final = (
    Begin, Join, Register, Commit, Abort, Leave, Settled, ForgetTransaction, CloseTransaction, EndTransaction,
)  # fmt: skip

CHART: Final = Chart("transaction", states=State, initial=OPENING, final=FINAL, ours=OURS, rows=ROWS, ignores=IGNORES)


COMMITS: Final = ("COMMITTING", "COMMITTED")
ABORTS: Final = ("ABORTING", "ABORTED")
"""Names that a coordinator gives to the status of a transaction; no other status follows on the last."""

_STATUS: Final = re.compile(r" but it is in (\w+) status")
"""Only the text of a refusal tells the status."""

ADVICE: Final = "; commit() may be called again"

ENDED_BY: Final = {Commit: "committed", Abort: "aborted", Leave: "left"}
"""What a call does to a transaction."""


class TransactionMachine(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order."""

    __slots__ = (
        "_backoff", "_callers", "_closing", "_commits_sent", "_coordinator", "_decided", "_failure", "_forgotten",
        "_joined", "_operation_timeout", "_registrations", "_repeated", "_shared", "_told", "_unanswered", "id",
        "timeout",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - a machine is built whole
        self,
        coordinator: int,
        timeout: float,
        operation_timeout: float,
        backoff: Backoff,
        repeated: RepeatedEnds,
        *,
        shared: bool = False,
    ) -> None:
        super().__init__()
        self.id: TransactionId | None = None
        self.timeout = timeout
        self._coordinator = coordinator
        self._operation_timeout = operation_timeout
        self._registrations: dict[object, None] = {}  # those that have no answer
        self._callers: list[object] = []  # of commit or abort
        self._commits_sent = 0
        self._decided = False  # the coordinator has said that it ends the transaction as we want
        self._backoff = backoff
        self._repeated = repeated
        self._unanswered = False  # callers were told that END_TXN had no answer that tells the outcome
        self._closing = False
        self._forgotten = False  # nothing refers to it
        self._shared = shared
        self._joined = False
        self._failure: PulsarException | None = None  # for which a commit is aborted
        self._told: PulsarException = AlreadyClosed("the client is closed")  # to callers who ask again, if it failed

    def ask_to_begin(self, event: Begin, now: float) -> Effects:
        """Send NEW_TXN."""
        return [AskToBegin(new_transaction_request(self._coordinator, self.timeout), self._operation_timeout)]

    def hand_out(self, event: Begun | Join, now: float) -> Effects:
        """Hand the transaction out, and start its timeout."""
        self.id = event.transaction
        return [TransactionOpened(event.transaction), self.timers.start(TransactionTimeoutDue, self.timeout)]

    def take_part(self, event: Join, now: float) -> Effects:
        """Hand out what another client has opened."""
        self._joined = True
        return self.hand_out(event, now)

    def fail_opening(self, event: BeginFailed | EndTransaction, now: float) -> Effects:
        """Fail the call."""
        return [TransactionNotOpened(event.error)]

    # Open.

    def ask_to_register(self, event: Register, now: float) -> Effects:
        """Send the registration."""
        self._registrations[event.token] = None
        return [AskToRegister(event.token, event.command, self._operation_timeout)]

    def complete_registration(self, event: Registered, now: float) -> Effects:
        """Let the partition or the subscription be used."""
        self._registrations.pop(event.token, None)
        return [CallDone((event.token,))]

    def fail_registration(self, event: RegistrationFailed, now: float) -> Effects:
        """Fail what waits for the registration. It may be tried again."""
        self._registrations.pop(event.token, None)
        return [CallsFailed((event.token,), event.error)]

    def time_out(self, event: TransactionTimeoutDue, now: float) -> Effects:
        """End: the coordinator aborts the transaction. Nothing more of it may be sent."""
        what = f"the transaction {self.id} was open for longer than its timeout of {self.timeout:g} s"
        error = _not_open(f"{what}, and is aborted")
        return [*self._over(error), DropWork(error), RewindConsumers(self._take_callers(), error)]

    def has_joined(self, event: TransactionTimeoutDue, now: float) -> bool:
        """Return whether another client has opened it, and knows its timeout."""
        return self._joined

    def time_out_and_abort(self, event: TransactionTimeoutDue, now: float) -> Effects:
        """End in the same way, and ask for the abort, in case the coordinator's time does not pass."""
        return [*self.time_out(event, now), self._ask_to_end(commit=False)]

    # Commit.

    def settle(self, event: Commit | Abort | Leave, now: float) -> Effects:
        """Refuse more work, and wait until all that has begun has ended."""
        self._callers.append(event.token)
        return self._settle(ENDED_BY[type(event)])

    def has_failed(self, event: Settled, now: float) -> bool:
        """Return whether any send or acknowledgement of the transaction has failed here."""
        return event.failure is not None

    def abort_instead(self, event: Settled, now: float) -> Effects:
        """Abort, because a part of the transaction is missing. The callers of `commit` get the reason at the end."""
        self._failure = event.failure
        return [self._ask_to_end(commit=False)]

    def send_commit(self, event: Settled | RepeatEndDue, now: float) -> Effects:
        """Commit."""
        return [self._ask_to_end(commit=True)]

    def complete(self, event: EndAnswered, now: float) -> Effects:
        """Complete the callers: it is committed."""
        return [*self._over(_not_open(f"the transaction {self.id} is committed")), CallDone(self._take_callers())]

    def is_decided(self, event: EndFailed, now: float) -> bool:
        """Return whether the coordinator ends the transaction as we want already, and was not asked again for that."""
        return not self._decided and _status_there(event.error) == self.state.name

    def ask_again(self, event: EndFailed, now: float) -> Effects:
        """Send END_TXN once more: its answer tells when the outcome can be seen."""
        self._decided = True
        return [self._ask_to_end(commit=self.state is COMMITTING)]

    def is_committed(self, event: EndFailed, now: float) -> bool:
        """Return whether the coordinator has committed it, or has forgotten it after the decision to commit."""
        return _status_there(event.error) == "COMMITTED" or (
            self._decided and isinstance(event.error, TransactionNotFound)
        )

    def is_forgotten(self, event: EndFailed, now: float) -> bool:
        """Return whether the coordinator does not know a transaction whose commit may have arrived before."""
        return self._may_have_committed(event) and isinstance(event.error, TransactionNotFound)

    def fail_as_unknown(self, event: EndFailed, now: float) -> Effects:
        """Fail the callers with what is most probable. If it was aborted, what it acknowledged must come again."""
        what = "the coordinator knows it no longer, and an earlier commit of it had no answer"
        return self._rewind(OutcomeUnknown(f"the transaction {self.id} was most probably committed: {what}"))

    def is_over_there(self, event: EndFailed, now: float) -> bool:
        """Return whether the coordinator has aborted it already, or is about to. No other refusal is final."""
        if isinstance(event.error, InvalidTxnStatusError):
            status = _status_there(event.error)
            return status in ABORTS if status else not self._may_have_committed(event)
        return isinstance(event.error, TransactionNotFound)

    def fail(self, event: EndFailed, now: float) -> Effects:
        """Fail the callers: it is not committed."""
        return self._rewind(event.error)

    def is_closing(self, event: TransactionTimeoutDue | EndFailed, now: float) -> bool:
        """Return whether the client closes, and nothing is to be asked again."""
        return self._closing

    def is_to_repeat(self, event: EndFailed, now: float) -> bool:
        """Return whether there was no answer, and not too many others are repeated.

        If the coordinator has moved, the handler has sent the request there, and no answer came in time.
        """
        return isinstance(event.error, OutcomeUnknown) and self._repeated.has_room(self)

    def repeat_commit_later(self, event: EndFailed, now: float) -> Effects:
        """Fail the callers, who may call `commit` again, and ask again after a pause."""
        advice = "" if self._forgotten else ADVICE
        return [*self._leave_open(advice, event.error), self._repeat_later()]

    def nothing_refers(self, event: EndFailed, now: float) -> bool:
        """Return whether nobody can ask again."""
        return self._forgotten

    def leave_commit_open(self, event: EndFailed, now: float) -> Effects:
        """Fail the callers, who may call `commit` again."""
        self._stop_repeating()
        return self._leave_open(ADVICE, event.error)

    def end_with_commit_open(self, event: EndFailed, now: float) -> Effects:
        """End. Nobody will call `commit` again."""
        return [*self._over(AlreadyClosed("the client is closed")), *self._leave_open("", event.error)]

    def repeat_commit(self, event: Commit, now: float) -> Effects:
        """Commit again."""
        self._callers.append(event.token)
        return [self._ask_to_end(commit=True)]

    def join(self, event: Commit | Abort, now: float) -> Effects:
        """Complete the caller together with the first."""
        self._callers.append(event.token)
        return []

    # Abort.

    def send_abort(self, event: Settled | RepeatEndDue, now: float) -> Effects:
        """Abort."""
        return [self._ask_to_end(commit=False)]

    def will_commit(self, event: EndFailed, now: float) -> bool:
        """Return whether another client that shares the transaction has committed it, or is about to."""
        return _status_there(event.error) in COMMITS

    def fail_abort(self, event: EndFailed, now: float) -> Effects:
        """Fail the callers: it is not aborted. To callers of `commit` it is committed, but not as a whole."""
        if self._failure is None:
            return self._fail(event.error)
        what = "another client commits it, and a part of it failed here"
        return self._fail(OutcomeUnknown(f"the transaction {self.id}: {what}: {self._failure}"))

    def complete_abort(self, event: EndAnswered | EndFailed, now: float) -> Effects:
        """Complete the callers: it is aborted. Callers of `commit` get the failure."""
        over = self._over(_not_open(f"the transaction {self.id} is aborted"))
        return [*over, RewindConsumers(self._take_callers(), self._operation_failed())]

    def repeat_abort_later(self, event: EndFailed, now: float) -> Effects:
        """Fail the callers, who may call `abort` again, and ask again after a pause. Rewind the consumers once."""
        if self._unanswered:
            told: Effect = CallsFailed(self._take_callers(), self._operation_failed() or event.error)
        else:
            told = self._leave_unaborted(event.error)
        return [told, self._repeat_later()]

    def end_aborting(self, event: EndFailed, now: float) -> Effects:
        """End without the abort, which the coordinator does by itself."""
        return [*self._over(event.error), self._leave_unaborted(event.error)]

    def leave_abort_open(self, event: EndFailed, now: float) -> Effects:
        """Fail the callers, who may call `abort` again."""
        self._stop_repeating()
        return [self._leave_unaborted(event.error)]

    def end_with_abort_open(self, event: EndFailed, now: float) -> Effects:
        """End. Nobody will call `abort` again."""
        failed = CallsFailed(self._take_callers(), self._operation_failed() or event.error)
        return [*self._over(AlreadyClosed("the client is closed")), failed]

    def repeat_abort(self, event: Abort, now: float) -> Effects:
        """Abort again."""
        self._callers.append(event.token)
        return [self._ask_to_end(commit=False)]

    # Without an answer.

    def repeat_later(self, event: EndFailed, now: float) -> Effects:
        """Ask again after a pause."""
        return [self._repeat_later()]

    def stop_repeating(self, event: EndAnswered | EndFailed | CloseTransaction | EndTransaction, now: float) -> Effects:
        """Leave the rest to the coordinator."""
        self._stop_repeating()
        return []

    def was_unanswered(self, event: Commit | Abort, now: float) -> bool:
        """Return whether callers may have been told only that the outcome is not known."""
        return self._unanswered or isinstance(self._told, OutcomeUnknown)

    def tell_of_success(self, event: Commit | Abort, now: float) -> Effects:
        """Complete a caller who asks again: it has ended so meanwhile."""
        return [CallDone((event.token,))]

    def tell_of_error(self, event: Commit | Abort, now: float) -> Effects:
        """Fail a caller who asks again with what became known meanwhile."""
        return [CallsFailed((event.token,), self._told)]

    # Leave.

    def complete_leave(self, event: Settled, now: float) -> Effects:
        """Complete the callers: all that they have begun is a part of the transaction."""
        return [*self._over(_not_open(f"the transaction {self.id} is left")), CallDone(self._take_callers())]

    def fail_leave(self, event: Settled, now: float) -> Effects:
        """Fail the callers: the transaction is not to be committed without a part of it."""
        assert event.failure is not None  # noqa: S101 - by the guard
        self._failure = event.failure
        return self._fail(self._operation_failed() or event.failure)

    # Too late.

    def refuse(self, event: Commit | Abort | Leave, now: float) -> Effects:
        """Refuse to end it in two ways, or to end it again."""
        error = _not_open(f"the transaction {self.id} is {self.state.name}, and cannot be {ENDED_BY[type(event)]}")
        return [CallsFailed((event.token,), error)]

    def refuse_registration(self, event: Register, now: float) -> Effects:
        """Refuse to add a partition or a subscription."""
        error = _not_open(f"the transaction {self.id} is {self.state.name}")
        return [CallsFailed((event.token,), error)]

    # Nobody will end it.

    def give_up_opening(self, event: CloseTransaction, now: float) -> Effects:
        """Fail the call. If the coordinator opens the transaction, it is empty, and times out."""
        return [TransactionNotOpened(AlreadyClosed("the client is closed"))]

    def is_shared(self, event: ForgetTransaction | CloseTransaction, now: float) -> bool:
        """Return whether other clients may work on it."""
        return self._shared

    def settle_and_leave(self, event: ForgetTransaction | CloseTransaction, now: float) -> Effects:
        """Leave it to the other clients."""
        return self._settle("left")

    def settle_and_abort(self, event: ForgetTransaction, now: float) -> Effects:
        """Abort, as if the user had called `abort`."""
        self._forgotten = True
        return self._settle("aborted")

    def note_forgotten(self, event: ForgetTransaction, now: float) -> Effects:
        """Go on to the end."""
        self._forgotten = True
        return []

    def is_repeated(self, event: ForgetTransaction, now: float) -> bool:
        """Return whether END_TXN is sent again without a caller."""
        return self in self._repeated

    def settle_and_close(self, event: CloseTransaction, now: float) -> Effects:
        """Abort, as if the user had called `abort`, but ask once."""
        self._closing = True
        return self._settle("aborted")

    def note_close(self, event: CloseTransaction, now: float) -> Effects:
        """Go on to the end, but do not wait for anybody after it."""
        self._closing = True
        return []

    def nobody_waits(self, event: CloseTransaction, now: float) -> bool:
        """Return whether END_TXN was repeated for no caller."""
        return self._unanswered and not self._callers

    def give_up_unanswered(self, event: ForgetTransaction | CloseTransaction, now: float) -> Effects:
        """End. The coordinator goes on by itself with what it was told, or aborts after the timeout."""
        return self._over(AlreadyClosed("the client is closed"))

    def end_committing(self, event: EndFailed | EndTransaction, now: float) -> Effects:
        """End while the commit has no answer: it may be committed. All that had begun has ended before."""
        return [*self._over(event.error), *self._leave_open("", event.error)]

    def end_at_once(self, event: EndTransaction, now: float) -> Effects:
        """End with the error. The coordinator aborts the transaction after its timeout, unless END_TXN was sent."""
        return self._end(event.error)

    def drop_all(self) -> tuple[object, ...]:
        """Drop everything because of a bug, and return the tokens of all callers."""
        waiting, self._registrations = tuple(self._registrations), {}
        return (*waiting, *self._take_callers())

    def _settle(self, verb: str) -> Effects:
        return [RefuseWork(_not_open(f"the transaction {self.id} is being {verb}")), SettleWork()]

    def _ask_to_end(self, *, commit: bool) -> AskToEnd:
        assert self.id is not None  # noqa: S101 - it is open
        self._commits_sent += commit
        return AskToEnd(end_request(self.id, commit=commit), self._operation_timeout)

    def _repeat_later(self) -> StartTimer:
        self._unanswered = True
        self._repeated.add(self)
        return self.timers.start(RepeatEndDue, self._backoff.next_delay())

    def _stop_repeating(self) -> None:
        self._unanswered = True
        self._repeated.discard(self)
        self.timers.stop(RepeatEndDue)

    def _may_have_committed(self, event: EndFailed) -> bool:
        """Return whether an END_TXN before the one that has failed may have committed the transaction."""
        return self._commits_sent + event.repeated > 1

    def _take_callers(self) -> tuple[object, ...]:
        callers, self._callers = tuple(self._callers), []
        return callers

    def _over(self, error: PulsarException) -> Effects:
        """Refuse all that comes later, and fail registrations that nothing needs any more."""
        self._repeated.discard(self)
        waiting, self._registrations = tuple(self._registrations), {}
        return [RefuseWork(error), FreeSubscriptions(), CallsFailed(waiting, error)]

    def _leave_open(self, advice: str, error: PulsarException) -> Effects:
        what = f"the transaction {self.id}: the coordinator has not confirmed the commit, and may commit it yet"
        self._told = OutcomeUnknown(f"{what}: {error}")
        return [CallsFailed(self._take_callers(), OutcomeUnknown(f"{what}{advice}: {error}"))]

    def _leave_unaborted(self, error: PulsarException) -> RewindConsumers:
        return RewindConsumers(self._take_callers(), self._operation_failed() or error)

    def _fail(self, error: PulsarException) -> Effects:
        self._told = error
        return [*self._over(error), CallsFailed(self._take_callers(), error)]

    def _rewind(self, error: PulsarException) -> Effects:
        self._told = error
        return [*self._over(error), RewindConsumers(self._take_callers(), error)]

    def _operation_failed(self) -> TransactionHasOperationFailed | None:
        """Return the error for callers of a commit that aborts, because a part of the transaction is missing."""
        if self._failure is None:
            return None
        what = f"the transaction {self.id} is not committed, because a part of it failed: {self._failure}"
        error = TransactionHasOperationFailed(what)
        error.__cause__ = self._failure
        return error

    def _end(self, error: PulsarException) -> Effects:
        return [*self._fail(error), DropWork(error)]


def _status_there(error: PulsarException) -> str:
    """Return the status of the transaction at the coordinator that a refusal names, or nothing."""
    found = _STATUS.search(str(error)) if isinstance(error, InvalidTxnStatusError) else None
    return found[1] if found else ""


def _not_open(what: str) -> InvalidTxnStatusError:
    return InvalidTxnStatusError("InvalidTxnStatus", what)
