"""Events and effects of a transaction: those of `transaction.py`.

A token is the future of a caller. `Registered` and `RegistrationFailed` carry the token of their `Register`.
"""

from google.protobuf.message import Message

from pulsar_actors.exceptions import PulsarException
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.transaction_id import TransactionId

# Events of our own side.


class Begin(NamedTuple):
    """Open a transaction at the coordinator."""


class Join(NamedTuple):
    """Take part in a transaction that another client has opened."""

    transaction: TransactionId


class Register(NamedTuple):
    """Tell the coordinator about a partition or a subscription that the transaction will use."""

    token: object
    command: Message


class Commit(NamedTuple):
    """Commit, once everything that has begun has ended."""

    token: object


class Abort(NamedTuple):
    """Abort, once everything that has begun has ended."""

    token: object


class Leave(NamedTuple):
    """End our part of a shared transaction, once everything that has begun has ended."""

    token: object


class Settled(NamedTuple):
    """All sends and acknowledgements of the transaction have ended; `failure` is the first error of any."""

    failure: PulsarException | None


class ForgetTransaction(NamedTuple):
    """Nothing refers to the transaction any more, so nobody will end it: abort it."""


class CloseTransaction(NamedTuple):
    """The client closes: abort the transaction, and repeat nothing."""


class EndTransaction(NamedTuple):
    """The client has ended, or a block that shares the transaction has failed: end at once, with this error for all."""

    error: PulsarException


# Events of the coordinator.


class Begun(NamedTuple):
    """NEW_TXN_RESPONSE."""

    transaction: TransactionId


class BeginFailed(NamedTuple):
    """NEW_TXN was refused, or not answered in time."""

    error: PulsarException


class Registered(NamedTuple):
    """The coordinator knows the partition or the subscription."""

    token: object


class RegistrationFailed(NamedTuple):
    """The coordinator refused the registration, or has not answered in time."""

    token: object
    error: PulsarException


class EndAnswered(NamedTuple):
    """END_TXN_RESPONSE: the outcome is visible on all partitions and subscriptions."""


class EndFailed(NamedTuple):
    """END_TXN was refused, or not answered in time. It is `repeated` if an earlier one may have arrived."""

    error: PulsarException
    repeated: bool


# Events of time.


class TransactionTimeoutDue(NamedTuple):
    """The timeout of the transaction is over: the coordinator aborts it by itself."""

    generation: int


class RepeatEndDue(NamedTuple):
    """END_TXN had no answer: it is to be sent again."""

    generation: int


# Effects.


class AskToBegin(NamedTuple):
    """Send NEW_TXN; answer with `Begun` or `BeginFailed`."""

    command: Message
    timeout: float


class AskToRegister(NamedTuple):
    """Send ADD_PARTITION_TO_TXN or ADD_SUBSCRIPTION_TO_TXN; answer with one of the Registration events."""

    token: object
    command: Message
    timeout: float


class AskToEnd(NamedTuple):
    """Send END_TXN; answer with one of the End events."""

    command: Message
    timeout: float


class TransactionOpened(NamedTuple):
    """Hand the transaction out: it has an id."""

    transaction: TransactionId


class TransactionNotOpened(NamedTuple):
    """Fail the call that wants a transaction."""

    error: PulsarException


class RefuseWork(NamedTuple):
    """Refuse sends and acknowledgements from now on, with this error."""

    error: PulsarException


class FreeSubscriptions(NamedTuple):
    """Let other transactions acknowledge in another way, because this one is over. It comes before callers go on."""


class SettleWork(NamedTuple):
    """Have producers send what they hold back; report `Settled` when all that has begun has ended."""


class DropWork(NamedTuple):
    """Fail what has begun and not ended: nothing of an ended transaction may be sent any more."""

    error: PulsarException


class RewindConsumers(NamedTuple):
    """Have the consumers whose messages come in order deliver all again that is not acknowledged.

    After an abort no broker does so by itself for what was acknowledged cumulatively. For the rest it does, but behind
    what was queued before.

    Then complete these calls, with an error if there is one: so their callers do not receive what was queued before.
    """

    tokens: tuple[object, ...]
    error: PulsarException | None


class CallDone(NamedTuple):
    """Complete calls with success."""

    tokens: tuple[object, ...]


class CallsFailed(NamedTuple):
    """Fail calls."""

    tokens: tuple[object, ...]
    error: PulsarException
