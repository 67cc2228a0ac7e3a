import gc
from typing import Any

import pytest

from pulsar_actors import exceptions
from pulsar_actors.machines import connection_handler_events, producer_events
from pulsar_actors.machines.connection_events import SendRequest
from pulsar_actors.machines.connection_handler_events import EndAtOnce
from pulsar_actors.machines.producer import ProducerMachine
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.runtime.actor import ActorDied, tell
from pulsar_actors.runtime.future import SlimFuture, settle
from pulsar_actors.runtime.messages import CloseHandle
from pulsar_actors.runtime.producer_actor import FlushAll, MessagesEnqueued, ProducerActor, TriggerFlush
from pulsar_actors.runtime.send_queue import SentTo, UnbatchableOptions, tag_in
from pulsar_actors.runtime.transaction_work import TransactionWork
from pulsar_actors.wire.batch import split_batch
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseProducer,
    CommandSendError,
    CommandSendReceipt,
    CommandSuccess,
    MessageIdData,
    ServerError,
)
from pulsar_actors.wire.transaction_id import TransactionId
from tests.runtime.handler_bench import MANNER, ProducerBench
from tests.support.manual_loop import Interrupter, effects_of, of_kind
from tests.support.steps import steps

LIMITS = BatchLimits(3, 1000, 0.5)


def created(limits: BatchLimits | None = None, **options: Any) -> ProducerBench:
    bench = ProducerBench(limits, **options)
    bench.create()
    return bench


@pytest.fixture
def bench() -> ProducerBench:
    return created()


def payloads(bench: ProducerBench) -> list[list[bytes]]:
    """The messages of each entry that was written."""
    return [
        [one.payload for one in split_batch(entry.payload, entry.metadata.num_messages_in_batch)]
        if entry.metadata.HasField("num_messages_in_batch")
        else [bytes(entry.payload)]
        for _, entry in bench.written()
    ]


def flush(bench: ProducerBench) -> SlimFuture[None]:
    done: SlimFuture[None] = SlimFuture()
    bench.link.pending_calls.track(done)
    bench.tell(FlushAll(done))
    return done


def test_every_effect_of_the_chart_is_performed_and_every_question_has_its_outcomes() -> None:
    effects = effects_of(connection_handler_events) | effects_of(producer_events)
    assert set(ProducerActor.PERFORMS) == effects
    assert set(ProducerActor.OUTCOMES) == {effect for effect in effects if effect.__name__.startswith("Ask")}


# Out of the send_queue.


def test_a_message_leaves_at_once_where_there_are_no_batches_and_those_told_of_together_leave_in_one_write(
    bench: ProducerBench,
) -> None:
    bench.send(b"one", b"two")
    found = bench.to_connection()
    assert len(found) == 1
    assert len(found[0].frames) == 2


def test_sequence_ids_rise_from_message_to_message(bench: ProducerBench) -> None:
    bench.send(b"one", b"two")
    bench.put(b"mine", sequence_id=10)
    bench.send(b"next")
    assert [command.sequence_id for command, _ in bench.written()] == [0, 1, 10, 11]


def test_a_full_batch_leaves_at_once_and_the_rest_waits_for_the_delay() -> None:
    bench = created(LIMITS)
    bench.send(b"a", b"b", b"c", b"d")
    assert payloads(bench) == [[b"a", b"b", b"c"]]
    bench.loop.pass_time(0.4)
    assert payloads(bench) == []
    bench.loop.pass_time(0.2)
    assert payloads(bench) == [[b"d"]]


def test_the_delay_runs_from_the_first_message_that_waits() -> None:
    bench = created(LIMITS)
    bench.send(b"a")
    bench.loop.pass_time(0.3)
    bench.send(b"b")
    bench.loop.pass_time(0.3)
    assert payloads(bench) == [[b"a", b"b"]]


def test_a_timer_of_a_batch_that_has_left_does_not_cut_the_next_one_short() -> None:
    bench = created(LIMITS)
    bench.send(b"a")
    bench.tell(TriggerFlush())
    bench.loop.pass_time(0.3)
    bench.send(b"b")
    bench.loop.pass_time(0.3)
    assert payloads(bench) == [[b"a"]]
    bench.loop.pass_time(0.3)
    assert payloads(bench) == [[b"b"]]


def test_without_a_delay_a_batch_is_what_is_there_at_the_next_turn() -> None:
    bench = created(BatchLimits(3, 1000, 0.0))
    bench.send(b"a", b"b")
    assert payloads(bench) == [[b"a", b"b"]]


def test_a_blocking_send_and_a_flush_do_not_wait_for_the_delay() -> None:
    bench = created(LIMITS)
    bench.send(b"a")
    bench.tell(TriggerFlush())
    assert payloads(bench) == [[b"a"]]
    bench.send(b"b")
    done = flush(bench)
    assert payloads(bench) == [[b"b"]]
    assert not done.done()
    bench.hears(bench.receipt(0), bench.receipt(1))
    assert done.result(0) is None


def test_a_message_that_travels_alone_cuts_the_batch_off_and_nobody_waits() -> None:
    bench = created(LIMITS)
    bench.put(b"a")
    bench.put(b"later", UnbatchableOptions(deliver_at_ms=5))
    bench.loop.run()
    assert payloads(bench) == [[b"a"], [b"later"]]


def test_news_of_what_has_left_already_is_no_harm() -> None:
    bench = created(LIMITS)
    bench.tell(MessagesEnqueued(), TriggerFlush())
    assert bench.to_connection() == []


def test_a_message_that_comes_while_others_are_taken_is_taken_in_the_next_turn() -> None:
    interloper = Interrupter()
    bench = created(interleaving=interloper.interleaving)
    bench.put(b"first")
    announced: list[bool] = []
    interloper.at(0, lambda: announced.append(bench.send_queue.put(b"unannounced", b"unannounced")))
    bench.loop.run()
    assert announced == [False]
    assert payloads(bench) == [[b"first"], [b"unannounced"]]


def test_a_batch_has_a_range_of_ids_and_a_batch_of_one_key_its_last_alone() -> None:
    bench = created(LIMITS)
    bench.send(b"a", b"b", b"c")
    ((command, _),) = bench.written()
    assert (command.sequence_id, command.highest_sequence_id) == (0, 2)
    keyed = created(LIMITS, batch_settings=MANNER._replace(by_key=True))
    keyed.put(b"a", partition_key="k")
    keyed.put(b"b", ordering_key=b"o", partition_key="k")
    keyed.put(b"c", partition_key="k")
    keyed.loop.run()
    found = keyed.written()
    assert [(command.sequence_id, command.HasField("highest_sequence_id")) for command, _ in found] == [
        (1, False),
        (2, False),
    ]
    assert [entry.metadata.partition_key for _, entry in found] == ["k", "k"]


def test_messages_with_and_without_properties_are_alike_without_a_key() -> None:
    bench = created(LIMITS, batch_settings=MANNER._replace(by_key=True))
    bench.put(b"a", event_time=1)
    bench.put(b"b")
    bench.put(b"c", event_time=1)
    bench.loop.run()
    assert payloads(bench) == [[b"a", b"b", b"c"]]


def test_a_large_message_goes_in_chunks_if_that_is_wanted() -> None:
    bench = created(batch_settings=MANNER._replace(in_chunks=True))
    bench.send(bytes(25_000))
    found = bench.written()
    assert len(found) == 3
    assert all(command.is_chunk for command, _ in found)
    bench.hears(*[bench.receipt(0, number) for number in range(3)])
    assert bench.told == [(bytes(25_000), SentTo(((1, 0), (1, 1), (1, 2)), batched=False, size=25_000))]


def test_messages_carry_the_name_the_schema_version_and_the_time_of_their_own_moment(bench: ProducerBench) -> None:
    bench.send(b"first")
    bench.loop.pass_time(1.0)
    bench.send(b"later")
    first, later = (entry.metadata for _, entry in bench.written())
    assert later.publish_time - first.publish_time == 1000
    bench.hears(bench.receipt(0), bench.receipt(1))
    bench.lose()
    bench.loop.pass_time(60.0)
    bench.reply(bench.attach(), bench.success(producer_name="another", schema_version=b"\x01"))
    bench.send(b"again")
    ((_, entry),) = bench.written()
    assert (entry.metadata.producer_name, entry.metadata.schema_version) == ("another", b"\x01")


# What becomes of it.


def test_a_receipt_tells_the_senders_where_their_messages_are_and_frees_their_room() -> None:
    bench = created(LIMITS, places=3)
    bench.send(b"a", b"b", b"c")
    waiting = bench.send_queue.room()
    assert bench.machine.pending.used == (3, 3)
    bench.hears(bench.receipt(0, 5))
    where = SentTo(((1, 5),), batched=True, size=3)
    assert bench.told == [(b"a", where), (b"b", where), (b"c", where)]
    assert bench.machine.pending.used == (0, 0)
    assert waiting.done()


def test_what_has_been_stored_keeps_no_bytes(bench: ProducerBench) -> None:
    bench.send(b"a")
    ((shipped),) = bench.to_connection()
    bench.hears(bench.receipt(0))
    assert [list(outgoing.buffers()) for outgoing in shipped.frames] == [[]]


def test_a_message_over_the_limit_fails_alone_and_frees_its_room() -> None:
    bench = created(places=5)
    waiting = bench.send_queue.room()
    bench.put(b"before")
    bench.put(bytes(20_000))
    bench.send(b"after")
    assert payloads(bench) == [[b"before"], [b"after"]]
    (((_, error),),) = [bench.told]
    assert isinstance(error, exceptions.MessageTooBig)
    assert bench.machine.pending.used == (2, 11)
    assert waiting.done()


def test_a_refused_message_fails_alone_with_the_brokers_word(bench: ProducerBench) -> None:
    bench.send(b"a", b"b")
    bench.hears(CommandSendError(producer_id=7, sequence_id=0, error=ServerError.NotAllowedError, message="no"))
    (((payload, error),),) = [bench.told]
    assert (payload, type(error)) == (b"a", exceptions.NotAllowedError)


def test_what_is_not_stored_in_time_fails_and_its_outcome_is_unknown() -> None:
    bench = created(batch_settings=MANNER._replace(send_timeout=5.0))
    bench.send(b"a", b"b")
    bench.loop.pass_time(5.1)
    assert [(payload, isinstance(error, exceptions.OutcomeUnknown)) for payload, error in bench.told] == [
        (b"a", True),
        (b"b", True),
    ]


def test_without_a_timeout_messages_wait_for_ever() -> None:
    bench = created(batch_settings=MANNER._replace(send_timeout=None))
    bench.lose()
    bench.send(b"a")
    bench.loop.pass_time(100_000.0)
    assert bench.told == []


def test_a_terminated_topic_fails_what_is_pending_and_whatever_comes(bench: ProducerBench) -> None:
    bench.send(b"a")
    bench.hears(CommandSendError(producer_id=7, sequence_id=0, error=ServerError.TopicTerminatedError, message="over"))
    assert isinstance(bench.told[0][1], exceptions.TopicTerminated)
    bench.send(b"late")
    assert isinstance(bench.told[1][1], exceptions.TopicTerminated)
    assert isinstance(flush(bench).exception(0), exceptions.TopicTerminated)


def test_a_message_that_is_left_in_the_very_moment_of_the_end_fails_once(bench: ProducerBench) -> None:
    bench.send_queue.put(b"a", b"a")
    bench.send_queue.closed = exceptions.AlreadyClosed(
        "closed"
    )  # the actor has just said so; the caller is about to look
    bench.tell(TriggerFlush())
    assert bench.told == []
    bench.send_queue.end(bench.send_queue.closed)
    assert len(bench.told) == 1
    assert bench.machine.pending.used == (0, 0)


def test_a_close_sends_what_is_in_the_outbox_first() -> None:
    bench = created(LIMITS)
    bench.send(b"a")
    bench.tell(CloseHandle())
    shipped, close = bench.to_connection()
    assert len(shipped.frames) == 1
    bench.hears(bench.receipt(0))
    assert isinstance(bench.told[0][1], SentTo)
    assert close


# Transactions.


def new_work(bench: ProducerBench, number: int = 0) -> TransactionWork:
    """A transaction whose coordinator is asked, and never answers."""
    return TransactionWork(TransactionId(0, number), bench.guardian, number)


def send_in(bench: ProducerBench, work: TransactionWork, payload: bytes) -> None:
    if bench.send_queue.put(payload, tag_in(work, payload)):
        bench.tell(MessagesEnqueued())


def register(bench: ProducerBench, work: TransactionWork) -> None:
    settle(work.register_partition(bench.machine.topic), None)
    bench.loop.run()


def test_what_waits_for_a_registration_is_looked_at_once_however_much_comes_after_it() -> None:
    def cost(count: int) -> int:
        bench = created(LIMITS)
        work = new_work(bench)
        contents = [b"%d" % number for number in range(count)]

        def play() -> None:
            for content in contents:
                send_in(bench, work, content)
            register(bench, work)

        taken = steps(play)
        bench.tell(TriggerFlush())
        assert [payload for entry in payloads(bench) for payload in entry] == contents
        return taken

    assert cost(900) < 10 * cost(100)


def test_a_registration_lets_go_of_the_messages_of_its_transaction_and_the_rest_is_not_looked_at_again() -> None:
    def cost(count: int) -> int:
        bench = created(LIMITS)
        works = [new_work(bench, number) for number in range(count)]
        for number, work in enumerate(works):
            send_in(bench, work, b"%d" % number)
        taken = steps(lambda: [register(bench, work) for work in works])
        bench.tell(TriggerFlush())
        assert [payload for entry in payloads(bench) for payload in entry] == [b"%d" % one for one in range(count)]
        return taken

    assert cost(270) < 10 * cost(30)


@pytest.mark.parametrize("behind", [False, True])
def test_messages_behind_one_that_waits_for_a_registration_keep_their_order_and_are_full_batches(
    *, behind: bool
) -> None:
    bench = created(LIMITS)
    first, second = new_work(bench, 1), new_work(bench, 2)
    send_in(bench, first, b"a")
    bench.tell(TriggerFlush())
    for payload in (b"b", b"c", b"d"):
        send_in(bench, first, payload)
    if behind:
        bench.send(b"plain")
        send_in(bench, second, b"e")
        register(bench, second)
    assert payloads(bench) == []
    register(bench, first)
    assert payloads(bench) == [[b"a", b"b", b"c"], [b"d"], *([[b"plain"], [b"e"]] if behind else [])]


def test_a_producer_that_has_ended_keeps_no_message_that_waited_for_a_registration() -> None:
    bench = created(LIMITS)
    payload = bytes(50)
    send_in(bench, new_work(bench), payload)
    bench.tell(TriggerFlush())
    bench.tell(EndAtOnce(exceptions.AlreadyClosed("closed")))
    ((_, error),) = bench.told
    assert isinstance(error, exceptions.AlreadyClosed)
    bench.told.clear()
    assert [holder for holder in gc.get_referrers(payload) if isinstance(holder, (list, tuple))] == []


# A close while the coordinator of a transaction does not know the topic yet.


def sent_in(bench: ProducerBench, *payloads: bytes, number: int = 0) -> TransactionWork:
    work = new_work(bench, number)
    for payload in payloads:
        send_in(bench, work, payload)
    return work


def test_a_close_waits_for_a_registration_and_sends_all_that_was_enqueued_before(bench: ProducerBench) -> None:
    work = sent_in(bench, b"1", b"2")
    bench.send(b"plain")
    bench.tell(CloseHandle(), CloseHandle())
    assert isinstance(bench.send_queue.closed, exceptions.AlreadyClosed)
    done = flush(bench)
    assert bench.to_connection() == []
    register(bench, work)
    *shipped, close = bench.to_connection()
    assert [len(each.frames) for each in shipped] == [2, 1]
    assert isinstance(close, SendRequest)
    assert isinstance(close.command, CommandCloseProducer)
    bench.hears(bench.receipt(0), bench.receipt(1), bench.receipt(2))
    assert [reply for reply, outcome in bench.told if isinstance(outcome, SentTo)] == [b"1", b"2", b"plain"]
    assert done.result(0) is None
    bench.reply(close, CommandSuccess(request_id=1))
    assert bench.link.ended.done()
    assert bench.machine.pending.used == (0, 0)


@pytest.mark.parametrize("refusal", [exceptions.TransactionNotFound("TransactionNotFound", "gone"), None])
def test_of_a_registration_that_fails_or_never_ends_only_its_messages_fail(
    bench: ProducerBench, refusal: exceptions.PulsarException | None
) -> None:
    refused, accepted = sent_in(bench, b"refused"), sent_in(bench, b"accepted", number=1)
    register(bench, accepted)
    bench.send(b"plain")
    bench.tell(CloseHandle())
    if refusal is None:
        bench.loop.pass_time(29.9)
        assert bench.to_connection() == []
        bench.loop.pass_time(0.2)
    else:
        settle(refused.register_partition(bench.machine.topic), refusal)
        bench.loop.run()
    *shipped, close = bench.to_connection()
    assert [len(each.frames) for each in shipped] == [1, 1]
    assert isinstance(close.command, CommandCloseProducer)
    [(reply, error)] = bench.told
    assert (reply, type(error)) == (b"refused", exceptions.Timeout if refusal is None else type(refusal))


def test_a_transaction_that_ends_meanwhile_holds_up_no_close(bench: ProducerBench) -> None:
    work = sent_in(bench, b"dropped")
    bench.send(b"plain")
    bench.tell(CloseHandle())
    work.dropped = exceptions.InvalidTxnStatusError("InvalidTxnStatus", "timed out")
    bench.tell(TriggerFlush())
    assert bench.told == [(b"dropped", work.dropped)]
    shipped, close = bench.to_connection()
    assert len(shipped.frames) == 1
    assert isinstance(close.command, CommandCloseProducer)


@pytest.mark.parametrize("is_lost_first", [False, True])
def test_without_a_connection_a_close_waits_for_one_and_for_the_registration(
    bench: ProducerBench, *, is_lost_first: bool
) -> None:
    work = sent_in(bench, b"held")
    bench.send(b"plain")
    if is_lost_first:
        bench.lose()
        bench.tell(CloseHandle())
    else:
        bench.tell(CloseHandle())
        bench.lose()
    assert bench.told == []
    bench.loop.pass_time(1.0)
    bench.create()
    assert bench.to_connection() == []
    register(bench, work)
    *shipped, close = bench.to_connection()
    assert [len(each.frames) for each in shipped] == [1, 1]
    assert isinstance(close.command, CommandCloseProducer)
    bench.hears(bench.receipt(0), bench.receipt(1))
    assert [reply for reply, outcome in bench.told if isinstance(outcome, SentTo)] == [b"held", b"plain"]
    bench.reply(close, CommandSuccess(request_id=1))
    assert bench.link.ended.done()
    assert bench.machine.pending.used == (0, 0)


def test_a_close_during_a_creation_fails_what_waits_for_a_registration_when_the_creation_times_out() -> None:
    bench = ProducerBench()
    bench.attach()
    sent_in(bench, b"held")
    bench.send(b"plain")
    bench.tell(CloseHandle())
    assert bench.told == []
    bench.loop.pass_time(30.0)
    assert [(reply, type(error)) for reply, error in bench.told] == [
        (b"held", exceptions.ConnectError),
        (b"plain", exceptions.ConnectError),
    ]
    assert not bench.link.ended.done()
    bench.reply(bench.asked(), CommandSuccess(request_id=1))
    assert bench.link.ended.done()


# A bug.


def test_a_bug_ends_everything_that_is_pending_in_order_and_once() -> None:
    bench = created(LIMITS)
    bench.send(b"written", b"too", b"as well", b"in the send_queue")
    done = flush(bench)
    bench.tell(KeyError("no event"))
    assert [payload for payload, _ in bench.told] == [b"written", b"too", b"as well", b"in the send_queue"]
    assert all(isinstance(error, exceptions.InternalError) for _, error in bench.told)
    assert isinstance(done.exception(0), exceptions.InternalError)
    assert bench.machine.pending.used == (0, 0)
    assert of_kind(ActorDied, bench.to_guardian())


def test_a_bug_on_the_way_into_the_ledger_forgets_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: ProducerMachine, event: Any, now: float) -> Any:
        raise KeyError("planted")

    bench = created()
    bench.send(b"pending")
    monkeypatch.setattr(ProducerMachine, "handle", broken)
    bench.send(b"a", b"b")
    assert [payload for payload, _ in bench.told] == [b"pending", b"a", b"b"]
    assert bench.machine.pending.used == (0, 0)


def test_a_bug_after_the_ledger_has_them_fails_them_once(bench: ProducerBench, monkeypatch: pytest.MonkeyPatch) -> None:

    def broken(message: Any) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(bench.inside, "tell_connection", broken)
    bench.send(b"a", b"b")
    assert [payload for payload, _ in bench.told] == [b"a", b"b"]
    assert bench.machine.pending.used == (0, 0)


def test_a_bug_in_the_packing_tells_nobody_twice(bench: ProducerBench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.put(bytes(20_000))
    bench.put(b"breaks", event_time=1)
    bench.send_queue.buffer[3] = bench.send_queue.buffer[3]._replace(metadata="no metadata")
    monkeypatch.setattr(bench.inside, "_sequence_ids", lambda messages: range(len(messages)))
    bench.loop.run()
    assert [len(payload) for payload, _ in bench.told] == [20_000, 6]
    assert bench.machine.pending.used == (0, 0)


def test_even_a_broken_ledger_does_not_keep_others_from_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        raise KeyError("planted")

    bench = created(LIMITS)
    bench.send(b"in the send_queue")
    done = flush(bench)
    bench.send(b"there too")
    object.__setattr__(bench.inside, "machine", _BrokenLedger(bench.machine, broken))
    tell(bench.actor, KeyError("no event"))
    bench.loop.run()
    assert isinstance(done.exception(0), exceptions.InternalError)
    assert [payload for payload, _ in bench.told] == [b"there too"]


class _BrokenLedger:
    def __init__(self, machine: Any, fail_all: Any) -> None:
        self._machine = machine
        self.pending = self
        self.fail_all = fail_all

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)


def test_a_receipt_for_a_duplicate_says_that_it_has_no_place(bench: ProducerBench) -> None:
    bench.send(b"a")
    nowhere = MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    bench.hears(CommandSendReceipt(producer_id=7, sequence_id=0, message_id=nowhere))
    assert bench.told == [(b"a", SentTo(((-1, -1),), batched=False, size=1))]
