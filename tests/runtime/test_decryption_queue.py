"""The decryption queue: entries keep their order, and no key reader holds up the loop."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pulsar_actors.exceptions import CryptoError
from pulsar_actors.machines.incoming_entries import DeliveredEntry
from pulsar_actors.runtime import decryption_queue
from pulsar_actors.runtime.decryption_queue import Decryption, DecryptionQueue, FailureAction
from pulsar_actors.runtime.message_crypto import ConsumerKeys, new_data_key
from pulsar_actors.wire.entries import encode_entry, parse_entry
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import MessageMetadata
from tests.support.entries_in_hand import single

KEY = rsa.generate_private_key(65537, 2048)
PEM = serialization.Encoding.PEM
PUBLIC = KEY.public_key().public_bytes(PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
PRIVATE = KEY.private_bytes(PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
DATA_KEY = new_data_key(["k"], lambda *_: (PUBLIC, {}), 0)


def encrypted(entry_id: int, payload: bytes = b"secret", *, broken: bool = False) -> DeliveredEntry:
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=1)
    sealed = DATA_KEY.encrypt(metadata, payload)
    stored = bytearray(b"".join(encode_entry(metadata, sealed)))
    stored[-1] ^= broken
    entry = parse_entry(bytes(stored))
    return DeliveredEntry(MessageId(1, entry_id), entry, 1, 0)


class Bench:
    """A queue whose thread works when the test says so."""

    def __init__(self, action: FailureAction = FailureAction.FAIL, *, has_reader: bool = True) -> None:
        self.can_read = True
        self.asked = 0
        self.executors: list[str] = []
        self.jobs: list[tuple[Callable[[], Any], Callable[[Any], object]]] = []
        self.out: list[Any] = []
        self.counted = 0
        keys = ConsumerKeys(self._read, lambda: 0.0) if has_reader else None
        self.queue = DecryptionQueue(
            Decryption(keys, action),
            self._run_blocking,
            deliver=self._deliver,
            fail=lambda one: self.out.append(("fail", one.message_id.entry_id)),
            discard=lambda one: self.out.append(("discard", one.message_id.entry_id)),
            count=self._count,
        )

    def _read(self, name: str, metadata: Mapping[str, str]) -> tuple[bytes, Mapping[str, str]] | None:
        self.asked += 1
        return (PRIVATE, {}) if self.can_read else None

    def _run_blocking(
        self, work: Callable[[], Any], done: Callable[[Any], object], *, timeout: float, executor: str
    ) -> None:
        assert timeout > 0
        self.executors.append(executor)
        self.jobs.append((work, done))

    def _deliver(self, entries: Sequence[DeliveredEntry]) -> None:
        self.out += [(one.message_id.entry_id, bytes(one.payload)) for one in entries]

    def _count(self) -> None:
        self.counted += 1

    def work(self) -> None:
        """Do the jobs, and those that follow."""
        while self.jobs:
            work, done = self.jobs.pop(0)
            try:
                outcome = work()
            except Exception as error:  # noqa: BLE001 - it is the outcome
                outcome = error
            done(outcome)


def test_what_is_not_encrypted_passes_at_once() -> None:
    bench = Bench()
    bench.queue.put([single(1), single(2)])
    bench.queue.in_order(lambda: bench.out.append("end"))
    assert bench.out == [(1, b"payload"), (2, b"payload"), "end"]
    assert not bench.jobs


def test_everything_keeps_its_order_behind_an_encrypted_entry() -> None:
    bench = Bench()
    bench.queue.put([single(1), encrypted(2), encrypted(3), single(4)])
    bench.queue.put([single(5)])
    bench.queue.in_order(lambda: bench.out.append("end"))
    assert bench.out == [(1, b"payload")]
    assert len(bench.jobs) == 1  # one at a time
    bench.work()
    assert bench.out == [(1, b"payload"), (2, b"secret"), (3, b"secret"), (4, b"payload"), (5, b"payload"), "end"]
    assert bench.asked == 1


def test_what_is_cleared_is_not_delivered_although_it_is_being_decrypted() -> None:
    bench = Bench()
    bench.queue.put([encrypted(1)])
    bench.queue.clear()
    bench.queue.put([encrypted(2)])
    bench.work()
    assert bench.out == [(2, b"secret")]


@pytest.mark.parametrize("has_reader", [True, False])
@pytest.mark.parametrize("action", FailureAction)
def test_what_no_key_decrypts_goes_where_the_action_says(action: FailureAction, has_reader: bool) -> None:  # noqa: FBT001 - a parameter
    bench = Bench(action, has_reader=has_reader)
    bench.can_read = False
    one = encrypted(1)
    bench.queue.put([one, single(2)])
    bench.work()
    first = (1, bytes(one.payload)) if action is FailureAction.CONSUME else (action.name.lower(), 1)
    assert bench.out == [first, (2, b"payload")]
    assert bench.counted == 1


def test_an_entry_that_comes_again_counts_once() -> None:
    bench = Bench(has_reader=False)
    for _ in range(3):
        bench.queue.put([encrypted(1)])
    assert (bench.out, bench.counted) == ([("fail", 1)] * 3, 1)


def test_a_key_that_is_missing_is_asked_for_once_for_many_entries() -> None:
    bench = Bench()
    bench.can_read = False
    bench.queue.put([encrypted(number) for number in range(10)])
    bench.work()
    assert bench.out == [("fail", number) for number in range(10)]
    assert bench.asked == 1


def test_a_key_reader_that_does_not_answer_fails_one_entry_only() -> None:
    bench = Bench()
    bench.queue.put([encrypted(1), encrypted(2)])
    _, done = bench.jobs.pop()
    done(TimeoutError("it was not done within 60 seconds"))
    bench.work()
    assert bench.out == [("fail", 1), (2, b"secret")]


def test_an_entry_whose_data_key_is_known_waits_for_no_key_reader() -> None:
    bench = Bench()
    for number in range(3):
        bench.queue.put([encrypted(number)])
        bench.work()
    assert bench.executors == ["keys", "decryption", "decryption"]


def test_a_slow_key_reader_does_not_keep_back_what_is_decrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decryption_queue, "LONG", -1.0)
    bench = Bench()
    bench.queue.put([encrypted(1), encrypted(2)])
    work, done = bench.jobs.pop()
    done(work())
    assert bench.out == [(1, b"secret")]
    bench.work()
    assert bench.out == [(1, b"secret"), (2, b"secret")]


def test_a_corrupt_entry_is_left_to_the_receiver_queue() -> None:
    """There it is acknowledged as corrupt, whatever the crypto failure action says."""
    bench = Bench()
    broken = encrypted(1, broken=True)
    bench.queue.put([broken])
    bench.work()
    assert bench.out == [(1, bytes(broken.payload))]
    assert bench.counted == 0


@pytest.mark.parametrize("action", FailureAction)
def test_chunks_are_decrypted_one_by_one_and_never_delivered_encrypted(action: FailureAction) -> None:
    chunks = [encrypted(number, b"part %d, " % number) for number in range(3)]
    whole = chunks[2]._replace(other_payload=b"", parts=tuple((one.entry.metadata, one.payload) for one in chunks))
    bench = Bench(action)
    bench.queue.put([whole])
    bench.work()
    assert bench.out == [(2, b"part 0, part 1, part 2, ")]
    bench = Bench(action, has_reader=False)
    bench.queue.put([whole])
    assert bench.out == [("discard" if action is FailureAction.DISCARD else "fail", 2)]


def test_a_dead_letter_is_decrypted_apart(caplog: pytest.LogCaptureFixture) -> None:
    outcomes: list[Any] = []
    bench = Bench()
    bench.queue.decrypt_apart(single(1), outcomes.append)
    bench.queue.decrypt_apart(encrypted(2), outcomes.append)
    bench.work()
    assert [bytes(one.payload) for one in outcomes] == [b"payload", b"secret"]
    assert not caplog.records
    without, failing = Bench(has_reader=False), Bench()
    failing.can_read = False
    without.queue.decrypt_apart(encrypted(3), outcomes.append)
    failing.queue.decrypt_apart(encrypted(4), outcomes.append)
    failing.work()
    assert [type(one) for one in outcomes[2:]] == [CryptoError, CryptoError]
    assert [re.search(r"1:\d", one.getMessage())[0] for one in caplog.records] == ["1:3", "1:4"]  # type: ignore[index]
    assert (without.counted, failing.counted) == (1, 1)
