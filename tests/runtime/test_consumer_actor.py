from functools import partial
from typing import Any

import pytest

from pulsar_actors import exceptions
from pulsar_actors.machines import connection_handler_events, consumer_events
from pulsar_actors.machines.connection_events import SendCommand, SendRequest
from pulsar_actors.machines.consumer import ConsumerMachine, ConsumerSettings
from pulsar_actors.machines.trackers.ack_grouping_tracker import MAX_ENTRIES
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.runtime.ack_queue import DEFAULT_GROUP_TIME, AckQueue
from pulsar_actors.runtime.consumer_actor import ConsumerActor, ConsumerHooks, ServeReceiveFutures
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.messages import CloseHandle, ConnectionReady
from pulsar_actors.runtime.receiver_queue import ReceiverQueue, ReceiverQueueSettings
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.message_id import MessageId
from tests.runtime.handler_bench import LOST, HandlerBench
from tests.support.consumer_bench import SUBSCRIBE, incoming, trackers
from tests.support.manual_loop import effects_of, of_kind

DONE = pb.CommandSuccess(request_id=1)
NO = exceptions.NotAllowedError("NotAllowedError", "no")


class ConsumerBench(HandlerBench):
    """One consumer; `dead` are the entries that went to the dead letter topic."""

    kind = "consumer"

    def __init__(self, queue_size: int = 4, group_time: float = DEFAULT_GROUP_TIME, **options: Any) -> None:
        super().__init__()
        held = trackers(queue_size=queue_size, **options)
        self.machine = ConsumerMachine(ConsumerSettings(SUBSCRIBE), held, Backoff(self.loop.chance))
        terms = ReceiverQueueSettings(
            queue_size, "t", lambda _, payloads, opened, __: [(bytes(each), opened) for each in payloads], bytes
        )
        self.dead: list[Any] = []
        self.activity: list[bool] = []
        self.arrivals = 0
        hooks = ConsumerHooks(lambda *letter: self.dead.append(letter), self._arrived, self.activity.append)
        actor = ConsumerActor(
            self.registration,
            self.link,
            self.machine,
            partial(ReceiverQueue, terms),
            partial(AckQueue, group_time=group_time),
            hooks,
        )
        self.receiver_queue, self.ack_queue, self.actor = actor.receiver_queue, actor.ack_queue, actor.actor_ref
        actor.begin()
        self.loop.run()

    def _arrived(self) -> None:
        self.arrivals += 1

    def subscribe(self) -> "ConsumerBench":
        self.reply(self.attach(), DONE)
        return self

    def receives(self, *entries: int, **options: Any) -> None:
        self.hears(*(tuple(incoming(entry, **options)) for entry in entries))

    def take(self, count: int = 1) -> list[bytes | None]:
        taken = [self.receiver_queue.take() for _ in range(count)]
        self.loop.run()
        return [message and message[0] for message in taken]

    def acknowledge(self, *entries: int) -> None:
        for entry in entries:
            self.ack_queue.acknowledge(MessageId(1, entry), self.receiver_queue.generation)

    def said(self, kind: type = object) -> list[Any]:
        """The commands that went to the broker, asked or told."""
        commands = [one.command for one in self.to_connection() if isinstance(one, (SendRequest, SendCommand))]
        return of_kind(kind, commands)

    def call(self, ask: Any) -> SlimFuture[None]:
        done: SlimFuture[None] = SlimFuture()
        self.link.pending_calls.track(done)
        self.tell(ask(done))
        return done


@pytest.fixture
def bench() -> ConsumerBench:
    return ConsumerBench().subscribe()


def test_every_effect_of_the_chart_is_performed_and_every_question_has_its_outcomes() -> None:
    effects = effects_of(connection_handler_events) | effects_of(consumer_events)
    assert set(ConsumerActor.PERFORMS) == effects
    assert set(ConsumerActor.OUTCOMES) == {effect for effect in effects if effect.__name__.startswith("AskTo")}


def test_it_subscribes_and_grants_its_queue_once() -> None:
    bench = ConsumerBench()
    ask = bench.attach()
    assert isinstance(ask.command, pb.CommandSubscribe)
    bench.reply(ask, DONE)
    assert bench.link.created.result(0) is None
    assert bench.said() == [pb.CommandFlow(consumer_id=7, messagePermits=4)]
    assert bench.receiver_queue.max_message_size == 10_000


def test_a_broker_that_says_no_limit_leaves_the_usual_one() -> None:
    bench = ConsumerBench()
    bench.find()
    bench.join()
    before = bench.receiver_queue.max_message_size
    bench.tell(ConnectionReady(bench.number, bench.connection, 0))
    assert bench.receiver_queue.max_message_size == before


@pytest.mark.parametrize(
    "answer", [exceptions.ConsumerBusy("ConsumerBusy", "taken"), exceptions.Timeout("no answer")], ids=repr
)
def test_a_subscribe_that_is_refused_or_not_answered_fails_or_is_closed(answer: Any) -> None:
    bench = ConsumerBench()
    bench.reply(bench.attach(), answer)
    if isinstance(answer, exceptions.Timeout):
        assert isinstance(bench.asked().command, pb.CommandCloseConsumer)
    else:
        assert repr(bench.link.created.exception(0)) == repr(answer)


def test_messages_go_through_the_queue_and_permits_come_back(bench: ConsumerBench) -> None:
    bench.said()
    bench.receives(1, 2, 3)
    assert bench.arrivals == 1
    assert bench.take(4) == [b"payload"] * 3 + [None]
    flows = bench.said(pb.CommandFlow)
    assert sum(flow.messagePermits for flow in flows) in (2, 3)


def test_what_concerns_the_consumer_keeps_its_place_among_the_messages(bench: ConsumerBench) -> None:
    change = pb.CommandActiveConsumerChange(consumer_id=7, is_active=True)
    bench.hears(tuple(incoming(1)), change, tuple(incoming(2)), pb.CommandReachedEndOfTopic(consumer_id=7))
    assert bench.activity == [True]
    assert bench.take(2) == [b"payload", b"payload"]
    assert isinstance(bench.receiver_queue.end_reason, exceptions.TopicTerminated)
    assert bench.arrivals == 3


def test_what_came_before_the_brokers_close_is_dropped_for_it_comes_again(bench: ConsumerBench) -> None:
    bench.hears(tuple(incoming(1)), pb.CommandCloseConsumer(consumer_id=7, request_id=2**64 - 1), tuple(incoming(2)))
    bench.loop.pass_time(1.0)
    bench.attach()
    assert bench.take() == [None]


def test_somebody_who_waits_by_a_future_is_served(bench: ConsumerBench) -> None:
    bench.receives(1)
    future = bench.receiver_queue.receive_future()
    bench.tell(ServeReceiveFutures())
    assert future.result(0)[0] == b"payload"


# Acknowledgements.


def test_acknowledgements_leave_as_a_group_when_its_time_is_over_and_no_later(bench: ConsumerBench) -> None:
    bench.receives(1, 2)
    bench.take(2)
    bench.said()
    bench.acknowledge(1)
    bench.loop.pass_time(DEFAULT_GROUP_TIME / 2)
    bench.acknowledge(2)
    assert bench.said(pb.CommandAck) == []
    bench.loop.pass_time(DEFAULT_GROUP_TIME / 2)
    ((ack),) = bench.said(pb.CommandAck)
    assert len(ack.message_id) == 2


def test_what_the_machine_saw_early_leaves_with_its_group(bench: ConsumerBench) -> None:
    bench.receives(1, 2)
    bench.take(2)
    bench.said()
    bench.acknowledge(1)
    bench.loop.run()
    bench.acknowledge(2)
    bench.tell(ServeReceiveFutures())
    assert bench.ack_queue.drained == 2
    assert bench.said(pb.CommandAck) == []
    bench.loop.pass_time(DEFAULT_GROUP_TIME)
    ((ack),) = bench.said(pb.CommandAck)
    assert len(ack.message_id) == 2


def test_a_full_group_leaves_at_once_and_the_next_has_its_own_time(bench: ConsumerBench) -> None:
    bench.said()
    bench.acknowledge(*range(MAX_ENTRIES))
    assert [len(ack.message_id) for ack in bench.said(pb.CommandAck)] == [MAX_ENTRIES]
    bench.loop.pass_time(DEFAULT_GROUP_TIME / 2)
    bench.acknowledge(MAX_ENTRIES)
    bench.loop.pass_time(DEFAULT_GROUP_TIME * 0.9)
    assert bench.said(pb.CommandAck) == []
    bench.loop.pass_time(DEFAULT_GROUP_TIME * 0.2)
    assert [len(ack.message_id) for ack in bench.said(pb.CommandAck)] == [1]


def test_groups_that_are_full_leave_no_timers_behind(bench: ConsumerBench) -> None:
    before = len(bench.loop.timers)
    for _ in range(5):
        bench.acknowledge(*range(MAX_ENTRIES))
        bench.loop.run()
    assert len(bench.loop.timers) <= before + 1


def test_a_group_that_a_caller_waits_for_leaves_at_once(bench: ConsumerBench) -> None:
    bench.said()
    bench.acknowledge(1)
    bench.ack_queue.flush()
    assert [len(ack.message_id) for ack in bench.said(pb.CommandAck)] == [1]


def test_what_is_acknowledged_in_time_is_not_asked_for_again_however_long_its_group_takes() -> None:
    bench = ConsumerBench(ack_timeout=1.0, group_time=100.0).subscribe()
    bench.receives(1)
    bench.take()
    bench.tell(consumer_events.HandedOut(bench.receiver_queue.generation, 0, (MessageId(1, 1),), (0,)))
    bench.acknowledge(1)
    bench.said()
    bench.loop.pass_time(5.0)
    assert bench.said(pb.CommandRedeliverUnacknowledgedMessages) == []


def test_a_close_takes_along_what_was_acknowledged_before_it(bench: ConsumerBench) -> None:
    bench.receives(1)
    bench.take()
    bench.said()
    bench.acknowledge(1)
    bench.tell(CloseHandle())
    assert [type(command) for command in bench.said()] == [pb.CommandAck, pb.CommandCloseConsumer]


def test_the_end_of_a_connection_does_not_overtake_what_was_acknowledged_before_it(bench: ConsumerBench) -> None:
    bench.receives(1)
    bench.take()
    bench.acknowledge(1)
    bench.lose()
    assert bench.ack_queue.drained == 1


def test_a_group_whose_time_is_over_after_the_end_finds_nobody(bench: ConsumerBench) -> None:
    bench.acknowledge(1)
    bench.loop.run()
    bench.tell(KeyError("no event"))
    bench.loop.pass_time(1.0)
    assert not bench.actor.is_alive()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (pb.CommandAckResponse(consumer_id=7, request_id=1), None),
        (
            pb.CommandAckResponse(consumer_id=7, request_id=1, error=pb.ServerError.MetadataError, message="m"),
            exceptions.BrokerMetadataError,
        ),
        (NO, exceptions.NotAllowedError),
        (exceptions.Timeout("no answer"), exceptions.Timeout),
    ],
    ids=["done", "an error inside", "refused", "no answer"],
)
def test_who_wants_to_know_hears_what_became_of_an_acknowledgement(answer: Any, error: type | None) -> None:
    bench = ConsumerBench(receipts=True).subscribe()
    bench.receives(1)
    bench.take()
    bench.said()
    future: SlimFuture[None] = SlimFuture()
    generation = bench.receiver_queue.generation
    bench.ack_queue.acknowledge(MessageId(1, 1), generation, future)
    bench.loop.pass_time(0.2)
    bench.reply(bench.asked(), answer)
    if error is None:
        assert future.exception(0) is None
    else:
        assert isinstance(future.exception(0), error)


def test_a_bug_ends_acknowledgements_that_wait_for_an_answer() -> None:
    bench = ConsumerBench(receipts=True).subscribe()
    bench.receives(1)
    bench.take()
    future: SlimFuture[None] = SlimFuture()
    bench.ack_queue.acknowledge(MessageId(1, 1), bench.receiver_queue.generation, future)
    call = bench.call(lambda done: consumer_events.Seek(done, 5))
    waiting: SlimFuture[None] = SlimFuture()
    bench.receiver_queue.wait(waiting)
    bench.tell(KeyError("no event"))
    assert isinstance(future.exception(0), exceptions.InternalError)
    assert isinstance(call.exception(0), exceptions.InternalError)
    assert waiting.done()
    assert isinstance(bench.receiver_queue.closed, exceptions.InternalError)


# Calls.


def test_a_seek_ends_with_the_brokers_answer(bench: ConsumerBench) -> None:
    done = bench.call(lambda done: consumer_events.Seek(done, 1_000))
    ask = bench.asked()
    assert isinstance(ask.command, pb.CommandSeek)
    assert ask.command.message_publish_time == 1_000
    bench.reply(ask, DONE)
    assert done.result(0) is None


def test_an_unsubscribe_ends_the_consumer(bench: ConsumerBench) -> None:
    done = bench.call(consumer_events.Unsubscribe)
    ask = bench.asked()
    assert isinstance(ask.command, pb.CommandUnsubscribe)
    bench.reply(ask, DONE)
    assert done.result(0) is None
    assert isinstance(bench.receiver_queue.closed, exceptions.AlreadyClosed)


@pytest.mark.parametrize("answer", [NO, exceptions.Timeout("no answer")], ids=repr)
@pytest.mark.parametrize(
    "ask", [lambda done: consumer_events.Seek(done, 1_000), consumer_events.Unsubscribe], ids=["seek", "unsubscribe"]
)
def test_a_seek_or_an_unsubscribe_that_fails_says_why(bench: ConsumerBench, ask: Any, answer: Exception) -> None:
    done = bench.call(ask)
    bench.reply(bench.asked(), answer)
    assert repr(done.exception(0)) == repr(answer)


def test_refused_messages_are_asked_for_again_and_so_is_everything(bench: ConsumerBench) -> None:
    bench.receives(1)
    bench.take()
    bench.said()
    bench.tell(consumer_events.NegativeAcknowledge(bench.receiver_queue.generation, ((MessageId(1, 1), 0),)))
    bench.loop.pass_time(2.0)
    assert len(bench.said(pb.CommandRedeliverUnacknowledgedMessages)) == 1
    bench.tell(consumer_events.RedeliverUnacknowledged())
    assert len(bench.said(pb.CommandRedeliverUnacknowledgedMessages)) == 1


# The last message.


def ask_for_last(bench: ConsumerBench, timeout: float = 30.0) -> SlimFuture[consumer_events.LastMessage]:
    done: SlimFuture[consumer_events.LastMessage] = SlimFuture()
    bench.link.pending_calls.track(done)
    bench.tell(consumer_events.GetLastMessageId(done, bench.loop.now() + timeout))
    return done


def last(**more: Any) -> pb.CommandGetLastMessageIdResponse:
    return pb.CommandGetLastMessageIdResponse(
        last_message_id=pb.MessageIdData(ledgerId=3, entryId=9), request_id=1, **more
    )


def test_the_last_message_is_asked_for_and_given_with_what_was_acknowledged_if_that_is_said(
    bench: ConsumerBench,
) -> None:
    done = ask_for_last(bench)
    ask = bench.asked()
    assert ask.command == pb.CommandGetLastMessageId(consumer_id=7, request_id=0)
    assert ask.timeout == 30.0
    bench.reply(ask, last())
    assert done.result(0) == consumer_events.LastMessage(MessageId(3, 9), None)
    done = ask_for_last(bench)
    bench.reply(bench.asked(), last(consumer_mark_delete_position=pb.MessageIdData(ledgerId=3, entryId=4)))
    assert done.result(0).acknowledged == MessageId(3, 4)


def test_the_last_message_is_asked_for_again_when_the_connection_was_lost(bench: ConsumerBench) -> None:
    done = ask_for_last(bench)
    ask = bench.asked()
    bench.lose()
    bench.reply(ask, LOST)
    bench.loop.pass_time(1.0)
    bench.reply(bench.attach(), DONE)
    ask = of_kind(SendRequest, bench.to_connection())[0]
    assert ask.timeout == 29.0
    bench.reply(ask, last())
    assert done.done()


def test_a_refusal_to_name_the_last_message_is_passed_on(bench: ConsumerBench) -> None:
    done = ask_for_last(bench)
    bench.reply(bench.asked(), NO)
    assert repr(done.exception(0)) == repr(NO)


def test_without_a_broker_the_question_for_the_last_message_ends_in_time_and_says_what_went_wrong() -> None:
    bench = ConsumerBench()
    done = ask_for_last(bench, 0.25)
    bench.loop.pass_time(0.2)
    bench.find()
    bench.join()
    bench.lose()
    bench.loop.pass_time(0.1)
    error = done.exception(0)
    assert isinstance(error, exceptions.Timeout)
    assert str(error) == (
        "which message of t is the last was not told in time: the consumer is WAITING; the last failure was: reset"
    )


def test_a_question_for_the_last_message_ends_with_the_consumer(bench: ConsumerBench) -> None:
    done = ask_for_last(bench)
    ask = bench.asked()
    bench.tell(CloseHandle())
    bench.reply(of_kind(SendRequest, bench.to_connection())[0], DONE)
    assert isinstance(done.exception(0), exceptions.AlreadyClosed)
    bench.reply(ask, last())
    bench.loop.pass_time(1.0)


# Dead letters.


def test_a_message_that_failed_too_often_goes_to_the_dead_letters_and_is_acknowledged_when_it_is_there() -> None:
    bench = ConsumerBench(max_redeliver_count=1).subscribe()
    bench.receives(1, count=2)
    assert bench.take() == [None]
    (((delivery, generation, report),),) = [bench.dead]
    assert (delivery.message_id, generation) == (MessageId(1, 1), bench.receiver_queue.generation)
    bench.said()
    report(None)
    bench.loop.pass_time(0.2)
    ((ack),) = bench.said(pb.CommandAck)
    assert ack.message_id[0].entryId == 1


def test_a_message_that_the_dead_letters_do_not_take_comes_again() -> None:
    bench = ConsumerBench(max_redeliver_count=1).subscribe()
    bench.receives(1, count=2)
    bench.said()
    bench.dead[0][2](RuntimeError("no"))
    bench.loop.pass_time(2.0)
    assert bench.said(pb.CommandAck) == []
    assert len(bench.said(pb.CommandRedeliverUnacknowledgedMessages)) <= 1
    assert bench.actor.is_alive()
