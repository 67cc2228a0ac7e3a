"""The decryption queue of one consumer: entries that wait for their data keys, on their way to the receiver queue.

A data key comes from the user's key reader, which may be slow, so a thread of the loop's executor decrypts. Entries and
what else must keep its place among them, such as the end of the topic, pass in order. Entries that are not encrypted
pass at once if nothing waits.

The consumer's `crypto_failure_action` decides what happens to an entry that no key decrypts. The chunks of a message
are decrypted one by one, and then put together. Undecryptable chunks count as FAIL even with CONSUME: put together they
could not be decrypted by anyone, because each has its own initialisation vector.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final, Protocol

from pulsar_actors.exceptions import CryptoError
from pulsar_actors.machines.incoming_entries import UNDECRYPTABLE, DeliveredEntry
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.message_crypto import KEY_READER_TIMEOUT, ConsumerKeys, DataKey
from pulsar_actors.wire.entries import Entry
from pulsar_actors.wire.errors import EntryError

MAX_AT_ONCE: Final = 100
"""The most entries that the thread decrypts before the loop gets them."""

LONG: Final = 0.5
"""Seconds: the thread returns what it has decrypted if a key reader took so long."""

MAX_LOGGED: Final = 1000
"""So many entries are remembered, in order that each is logged once."""


class FailureAction(Enum):
    """The handling of an entry that no key decrypts."""

    FAIL = 0
    DISCARD = 1
    CONSUME = 2


class Decryption(NamedTuple):
    """The keys of a consumer, None if it has no key reader, and the handling of what they do not decrypt."""

    keys: ConsumerKeys | None = None
    action: FailureAction = FailureAction.FAIL


NO_DECRYPTION: Final = Decryption()


class RunBlocking(Protocol):
    """Runs work in the thread of an executor. See `Loop.run_blocking`."""

    def __call__(
        self, work: Callable[[], Any], done: Callable[[Any], object], *, timeout: float, executor: str
    ) -> None:
        """Run the work."""
        ...


class _Waiting(NamedTuple):
    """An entry, or something that keeps its place among the entries."""

    delivery: DeliveredEntry | None
    pass_on: Callable[[], object] | None


def is_encrypted(delivery: DeliveredEntry) -> bool:
    """Return whether an entry is encrypted, or a chunk of a message."""
    return bool(delivery.parts) or delivery.entry.is_encrypted


_NOTHING: Final[deque[_Waiting]] = deque(maxlen=0)
"""The empty queue of all consumers that have had nothing to decrypt: a deque for each would take most of a KiB."""


class DecryptionQueue:
    """The queue. Used on the loop only.

    `deliver` takes entries for the receiver queue. `fail` takes those that are not delivered, `discard` those that are
    to be acknowledged. `count` is called for each entry that no key decrypts, once.
    """

    __slots__ = (
        "_count", "_decryption", "_deliver", "_discard", "_fail", "_job", "_logged", "_run_blocking", "_waiting",
    )  # fmt: skip

    def __init__(  # noqa: PLR0913 - one function for each way out
        self,
        decryption: Decryption,
        run_blocking: RunBlocking,
        *,
        deliver: Callable[[Sequence[DeliveredEntry]], object],
        fail: Callable[[DeliveredEntry], object],
        discard: Callable[[DeliveredEntry], object],
        count: Callable[[], object],
    ) -> None:
        self._count = count
        self._decryption = decryption
        self._run_blocking = run_blocking
        self._deliver = deliver
        self._fail = fail
        self._discard = discard
        self._waiting: deque[_Waiting] = _NOTHING
        self._job: object = None  # of the thread; its outcome is dropped if this has changed
        self._logged: OrderedDict[object, None] = OrderedDict()

    def put(self, entries: Sequence[DeliveredEntry]) -> None:
        """Pass entries on, in order, decrypted."""
        if not self._waiting:
            for delivery in entries:
                if delivery.parts or delivery.entry.is_encrypted:  # `is_encrypted`, without the call
                    break
            else:
                self._deliver(entries)
                return
        if self._waiting is _NOTHING:
            self._waiting = deque()
        self._waiting.extend(_Waiting(one, None) for one in entries)
        if self._job is None:
            self._advance()

    def in_order(self, pass_on: Callable[[], object]) -> None:
        """Call a function after all entries that were put before."""
        if self._waiting:
            self._waiting.append(_Waiting(None, pass_on))
        else:
            pass_on()

    def clear(self) -> None:
        """Drop everything: the broker sends it again."""
        self._waiting.clear()
        self._job = None

    def decrypt_apart(self, delivery: DeliveredEntry, done: Callable[[DeliveredEntry | Exception], object]) -> None:
        """Decrypt an entry that does not go to the receiver queue, a dead letter, and call `done`."""
        if not is_encrypted(delivery):
            done(delivery)
            return
        keys = self._decryption.keys
        if keys is None:
            self._log(delivery, _no_reader())
            done(_no_reader())
            return

        def decrypted(outcomes: Sequence[DeliveredEntry | Exception] | Exception) -> None:
            outcome = outcomes if isinstance(outcomes, Exception) else outcomes[0]
            if isinstance(outcome, Exception):
                self._log(delivery, outcome)
            done(outcome)

        self._run_blocking(
            lambda: _decrypt_all(keys, [delivery]), decrypted, timeout=KEY_READER_TIMEOUT, executor="keys"
        )

    def _advance(self) -> None:
        """Pass on what need not be decrypted, and start to decrypt what comes then."""
        while self._waiting:
            delivery, pass_on = self._waiting[0]
            if delivery is None or not is_encrypted(delivery):
                self._waiting.popleft()
                if delivery is not None:
                    self._deliver((delivery,))
                elif pass_on is not None:
                    pass_on()
            elif self._decryption.keys is None:
                self._waiting.popleft()
                self._take_outcome(delivery, _no_reader())
            else:
                self._start_job(self._decryption.keys)
                return

    def _start_job(self, keys: ConsumerKeys) -> None:
        """Decrypt in a thread that no key reader of another consumer holds up, if the data key is known."""
        entries: list[DeliveredEntry] = []
        is_known = True
        for delivery, _ in self._waiting:
            if delivery is None or not is_encrypted(delivery) or len(entries) == MAX_AT_ONCE:
                break
            if is_known and not keys.knows(delivery.entry.metadata):
                if entries:
                    break
                is_known = False
            entries.append(delivery)
        self._job = job = object()
        executor = "decryption" if is_known else "keys"
        self._run_blocking(
            lambda: _decrypt_all(keys, entries),
            lambda outcomes: self._job_done(job, outcomes),
            timeout=KEY_READER_TIMEOUT,
            executor=executor,
        )

    def _job_done(self, job: object, outcomes: Sequence[DeliveredEntry | Exception] | Exception) -> None:
        if job is not self._job:
            return
        self._job = None
        if isinstance(outcomes, Exception):  # the key reader did not answer
            outcomes = [outcomes]
        for outcome in outcomes:
            if not self._waiting:  # an outcome before has cleared the queue
                return
            delivery = self._waiting.popleft().delivery
            if delivery is not None:
                self._take_outcome(delivery, outcome)
        self._advance()

    def _take_outcome(self, delivery: DeliveredEntry, outcome: DeliveredEntry | Exception) -> None:
        if isinstance(outcome, DeliveredEntry):
            self._deliver((outcome,))
            return
        self._log(delivery, outcome)
        action = self._decryption.action
        if action is FailureAction.DISCARD:
            self._discard(delivery)
        elif action is FailureAction.CONSUME and not delivery.parts:
            self._deliver((delivery._replace(data_key=UNDECRYPTABLE),))
        else:
            self._fail(delivery)

    def _log(self, delivery: DeliveredEntry, error: Exception) -> None:
        entry = delivery.message_id.position
        if entry in self._logged:
            return
        self._count()
        self._logged[entry] = None
        if len(self._logged) > MAX_LOGGED:
            self._logged.popitem(last=False)
        action = self._decryption.action.name
        LOG.warning("the entry %d:%d cannot be decrypted (crypto_failure_action %s): %s", *entry, action, error)


def _no_reader() -> CryptoError:
    return CryptoError("the consumer has no crypto_key_reader")


def _decrypt_all(keys: ConsumerKeys, entries: Sequence[DeliveredEntry]) -> list[DeliveredEntry | Exception]:
    """Decrypt the first of these entries: all, unless that takes long."""
    began, failed, outcomes = keys.now(), dict[bytes, str](), list[DeliveredEntry | Exception]()
    for delivery in entries:
        try:
            outcomes.append(_decrypted(keys, delivery, failed))
        except CryptoError as error:
            outcomes.append(error)
        except BaseException as error:  # noqa: BLE001 - a user's key reader may raise anything, with a key in its text
            outcomes.append(CryptoError(f"{type(error).__name__} was raised"))
        if keys.now() - began > LONG:
            break
    return outcomes


def _decrypted(keys: ConsumerKeys, delivery: DeliveredEntry, failed: dict[bytes, str]) -> DeliveredEntry:
    """Verify and decrypt an entry. A corrupt one is returned as it is, and is found out when it is opened."""
    entry: Entry = delivery.entry
    data_key: DataKey | None = None
    payloads: list[bytes] = []
    if not delivery.parts:
        try:
            entry.verify()
        except EntryError:
            return delivery
    for metadata, payload in delivery.parts or ((entry.metadata, delivery.payload),):
        if metadata.encryption_keys:
            plain, data_key = keys.decrypt(metadata, payload, failed)
            payloads.append(plain)
        else:
            payloads.append(payload)
    whole = payloads[0] if len(payloads) == 1 else b"".join(payloads)
    return delivery._replace(other_payload=whole, parts=(), data_key=data_key)
