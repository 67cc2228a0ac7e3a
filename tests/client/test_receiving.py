from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.message import new_messages
from pulsar_actors.client.receiving import (
    DEFAULT_BATCH_RECEIVE_POLICY,
    BatchReceiveFuture,
    MessageReceiver,
    seek_target,
)
from pulsar_actors.machines.trackers.entry_map import Generation
from pulsar_actors.machines.trackers.start_message_id import seek_command
from pulsar_actors.runtime.consumer_actor import ServeReceiveFutures
from pulsar_actors.runtime.engine import Engine
from pulsar_actors.runtime.receiver_queue import ReceiverQueue, ReceiverQueueSettings
from pulsar_actors.wire.PulsarApi_pb2 import MessageIdData
from tests.support import topics
from tests.support.entries_in_hand import batch, single
from tests.support.life import until
from tests.support.manual_loop import ManualLoop, RecordingActors

CLOSED = pulsar.AlreadyClosed("the consumer is closed")
WHAT = "the consumer of 's' on t"


class Waiting(Engine):
    """Lets something happen whenever somebody waits; when there is nothing left to happen, time passes."""

    def __init__(self, loop: ManualLoop) -> None:
        self.loops = [loop]
        self._loop = loop
        self.happens: list[Callable[[], object]] = []
        self.inside = False

    def block(self, future: Future[Any], timeout: float | None, what: str) -> Any:
        while not future.done():
            if self.happens:
                self.happens.pop(0)()
                continue
            assert timeout is not None, "it would wait for ever"
            self._loop.time += timeout
            raise pulsar.Timeout(f"{what} took longer than {timeout} s")
        return future.result(0)

    def stop(self, timeout: float) -> None:
        raise NotImplementedError

    def forget_everything(self) -> None:
        raise NotImplementedError

    def is_on_io_thread(self) -> bool:
        return self.inside


class Bench:
    def __init__(self, *, has_listener: bool = False) -> None:
        self.loop = ManualLoop()
        self.actors = RecordingActors(self.loop)
        self.actor = self.actors.make()
        self.engine = Waiting(self.loop)
        self.queue = ReceiverQueue(
            ReceiverQueueSettings(10, "t", new_messages, lambda message: message.data()), lambda _: None
        )
        self.receiving = MessageReceiver(self.engine, self.queue, self.actor, WHAT, has_listener=has_listener)

    def arrive(self, *payloads: bytes) -> None:
        self.queue.add([single(number, payload) for number, payload in enumerate(payloads)])

    def later(self, *happens: Callable[[], object]) -> None:
        self.engine.happens.extend(happens)

    def batch(self, messages: int = 10, size: int = 1000, timeout_ms: int = 100) -> list[bytes]:
        policy = pulsar.ConsumerBatchReceivePolicy(messages, size, timeout_ms)
        return [message.data() for message in self.receiving.receive_batch(policy)]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_seek_during_a_batch_receive_voids_what_it_had(bench: Bench) -> None:
    def seek() -> None:
        bench.queue.clear(bench.queue.generation.sought())

    bench.arrive(b"a", b"b")
    bench.later(seek, lambda: bench.arrive(b"b", b"c"))
    assert bench.batch(3) == [b"b", b"c"]
    bench.arrive(b"d")
    bench.later(seek)
    assert bench.batch(3) == []
    bench.arrive(b"e", b"f")
    bench.later(seek, lambda: bench.arrive(b"ef"))
    assert bench.batch(size=3) == [b"ef"], "what is void still counts"


class Robbed(ReceiverQueue):
    """A queue whose messages another caller takes at the last moment."""

    is_robbed = True

    def take(self) -> Any:
        message = super().take()
        return None if self.is_robbed else message


def test_a_future_of_several_ends_in_its_time_although_another_caller_was_faster() -> None:
    settings = ReceiverQueueSettings(10, "t", new_messages, lambda message: message.data())
    queue = Robbed(settings, lambda _: None)
    batch = BatchReceiveFuture(queue, pulsar.ConsumerBatchReceivePolicy(2, -1, 100))
    queue.add([single(0, b"a")])
    queue.serve()
    assert not batch.cancel()
    batch.expire()
    assert batch.result(0) == []
    queue.is_robbed = False
    queue.add([single(1, b"b")])
    queue.serve()
    assert not queue.has_messages
    later = queue.receive_future()
    queue.serve()
    assert later.result(0).data() == b"b"


def many(bench: Bench, most: int = 10, timeout: int | None = 0) -> list[bytes]:
    return [message.data() for message in bench.receiving.receive_many(most, timeout)]


def test_many_are_those_that_are_there_and_no_more_than_wanted(bench: Bench) -> None:
    bench.arrive(b"a", b"b", b"c")
    assert [many(bench, 2), many(bench, 2)] == [[b"a", b"b"], [b"c"]]


def test_who_wants_many_waits_for_the_first_only(bench: Bench) -> None:
    bench.later(lambda: bench.arrive(b"a", b"b"), lambda: bench.arrive(b"never waited for"))
    assert many(bench, timeout=None) == [b"a", b"b"]
    assert len(bench.engine.happens) == 1


def test_if_none_of_many_comes_in_time_it_is_a_timeout_as_for_one(bench: Bench) -> None:
    with pytest.raises(pulsar.Timeout, match=f"no message came to {WHAT} within 50 ms"):
        many(bench, timeout=50)
    bench.arrive(b"a")
    assert many(bench) == [b"a"]


def test_what_was_given_back_comes_first_among_many_unless_a_seek_voids_it(bench: Bench) -> None:
    bench.arrive(b"a", b"b", b"c")
    bench.receiving.give_back(bench.receiving.receive_many(2, 0))
    assert [many(bench, 1), many(bench)] == [[b"a"], [b"b", b"c"]]
    bench.arrive(b"d")
    bench.receiving.give_back(bench.receiving.receive_many(2, 0))
    bench.queue.clear(Generation().sought())
    with pytest.raises(pulsar.Timeout):
        many(bench)


def test_an_interrupted_call_for_many_leaves_its_messages_to_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.arrive(b"a", b"b")
    take_many = bench.queue.take_many

    def interrupted(self: ReceiverQueue, most: int, messages: list[Any]) -> None:
        take_many(most, messages)
        raise KeyboardInterrupt

    monkeypatch.setattr(ReceiverQueue, "take_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        many(bench)
    monkeypatch.undo()
    assert many(bench) == [b"a", b"b"]


def test_many_are_not_received_after_the_end_nor_beside_a_listener(bench: Bench) -> None:
    with pytest.raises(pulsar.InvalidConfiguration, match="listener"):
        many(Bench(has_listener=True))
    bench.arrive(b"a")
    bench.queue.end(CLOSED)
    with pytest.raises(pulsar.AlreadyClosed):
        many(bench)


def test_what_is_there_is_received_without_waiting(bench: Bench) -> None:
    bench.arrive(b"a", b"b")
    assert bench.receiving.receive(None).data() == b"a"
    assert bench.receiving.receive(0).data() == b"b"


def test_what_comes_later_is_waited_for(bench: Bench) -> None:
    bench.later(lambda: bench.arrive(b"a"))
    assert bench.receiving.receive(None).data() == b"a"


def test_a_wake_up_for_what_another_has_taken_is_waited_on_again(bench: Bench) -> None:
    def arrive_for_another() -> None:
        bench.arrive(b"another's")
        bench.queue.take()

    bench.later(arrive_for_another, lambda: bench.arrive(b"ours"))
    assert bench.receiving.receive(None).data() == b"ours"


def test_who_waits_in_vain_is_told_so_in_its_own_words(bench: Bench) -> None:
    with pytest.raises(pulsar.Timeout, match="no message came to the consumer of 's' on t within 500 ms"):
        bench.receiving.receive(500)
    assert bench.loop.time == 100.5


@pytest.mark.parametrize("timeout", [0, -1])
def test_0_or_less_does_not_wait(bench: Bench, timeout: int) -> None:
    with pytest.raises(pulsar.Timeout):
        bench.receiving.receive(timeout)
    assert bench.loop.time == 100.0


def test_a_message_in_the_very_moment_of_the_timeout_counts(bench: Bench) -> None:
    def time_out(*_: object) -> None:
        bench.arrive(b"just in time")
        raise pulsar.Timeout("a moment before")

    bench.engine.block = time_out  # type: ignore[method-assign, assignment]
    assert bench.receiving.receive(500).data() == b"just in time"


def test_a_message_that_came_between_the_look_and_the_waiting_is_found(bench: Bench) -> None:
    wait = bench.queue.wait

    def overtaken(waiter: Any) -> None:
        bench.arrive(b"a")
        wait(waiter)

    bench.receiving._receiver_queue = _With(bench.queue, wait=overtaken)  # type: ignore[assignment]
    assert bench.receiving.receive(None).data() == b"a"


class _With:
    """A queue of which one method is another."""

    def __init__(self, queue: Any, **methods: Any) -> None:
        self._queue = queue
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)


def test_nobody_is_left_among_those_who_wait(bench: Bench) -> None:
    bench.later(lambda: bench.arrive(b"a"))
    bench.receiving.receive(None)
    with pytest.raises(pulsar.Timeout):
        bench.receiving.receive(5)
    assert not bench.queue._waiters


def test_the_end_is_said_before_and_while_somebody_waits(bench: Bench) -> None:
    bench.later(lambda: bench.queue.end(CLOSED))
    with pytest.raises(pulsar.AlreadyClosed):
        bench.receiving.receive(None)
    with pytest.raises(pulsar.AlreadyClosed) as again:
        bench.receiving.receive(None)
    assert str(again.value) == str(CLOSED)
    bench.arrive(b"late")
    with pytest.raises(pulsar.AlreadyClosed):
        bench.receiving.receive(None)


def test_the_end_of_the_topic_is_said_after_the_last_message(bench: Bench) -> None:
    bench.arrive(b"last")
    bench.queue.mark_end()
    assert bench.receiving.receive(None).data() == b"last"
    with pytest.raises(pulsar.TopicTerminated):
        bench.receiving.receive(None)


def test_on_a_loop_only_what_is_there_can_be_received(bench: Bench) -> None:
    bench.engine.inside = True
    bench.arrive(b"a")
    assert bench.receiving.receive(None).data() == b"a"
    with pytest.raises(pulsar.OperationNotSupported, match="receive_async"):
        bench.receiving.receive(None)
    with pytest.raises(pulsar.OperationNotSupported, match="receive_async"):
        bench.batch()


def test_a_future_tells_the_actor_to_serve_it(bench: Bench) -> None:
    future = bench.receiving.receive_async()
    assert bench.actors.heard(bench.actor) == [ServeReceiveFutures()]
    bench.arrive(b"a")
    assert future.result(0).data() == b"a"


def test_where_a_listener_gets_the_messages_there_is_nothing_to_receive() -> None:
    bench = Bench(has_listener=True)
    for receive in (lambda: bench.receiving.receive(5), bench.receiving.receive_async, bench.batch):
        with pytest.raises(pulsar.InvalidConfiguration, match="has a listener"):
            receive()


# Batches.


@pytest.mark.parametrize(
    ("policy", "arriving", "batch", "seconds"),
    [
        ({"messages": 2, "timeout_ms": 0}, [b"a", b"b", b"c"], [b"a", b"b"], 0.0),
        ({"size": 8}, [b"1234", b"5678", b"9"], [b"1234", b"5678"], 0.0),
        ({"size": 7}, [b"1234", b"5678", b"9"], [b"1234"], 0.0),
        ({"size": 3}, [b"1234", b"5678", b"9"], [b"1234"], 0.0),
        ({"timeout_ms": 250}, [b"a", b"b"], [b"a", b"b"], 0.25),
        ({"timeout_ms": 250}, [], [], 0.25),
    ],
)
@pytest.mark.parametrize("later", [False, True])
def test_a_batch_ends_with_its_number_its_size_or_its_time(  # noqa: PLR0913 - a table of cases
    bench: Bench, policy: dict[str, int], arriving: list[bytes], batch: list[bytes], seconds: float, *, later: bool
) -> None:
    for payload in arriving:
        (bench.later if later else call)(lambda payload=payload: bench.arrive(payload))
    assert bench.batch(**policy) == batch
    assert bench.loop.time == 100.0 + seconds


def call(function: Callable[[], object]) -> None:
    function()


def test_without_a_policy_a_batch_is_what_comes_in_a_tenth_of_a_second(bench: Bench) -> None:
    bench.arrive(b"a")
    assert [message.data() for message in bench.receiving.receive_batch(DEFAULT_BATCH_RECEIVE_POLICY)] == [b"a"]
    assert bench.loop.time == 100.1


def test_a_batch_that_meets_the_end_is_what_there_was_and_the_next_one_says_it(bench: Bench) -> None:
    bench.later(lambda: bench.arrive(b"a"), lambda: bench.queue.end(CLOSED))
    assert bench.batch() == [b"a"]
    with pytest.raises(pulsar.AlreadyClosed):
        bench.batch()


@pytest.mark.parametrize("error", [pulsar.InternalError("a bug"), pulsar.AlreadyClosed("closed")], ids=repr)
def test_a_batch_that_ends_before_its_first_message_says_why(bench: Bench, error: Exception) -> None:
    bench.later(lambda: bench.queue.end(error))
    with pytest.raises(type(error)):
        bench.batch()


def interrupt() -> None:
    raise pulsar.Interrupted("Ctrl-C")


def test_what_an_interrupted_batch_had_is_received_next_in_its_order(bench: Bench) -> None:
    bench.arrive(b"a", b"b")
    bench.later(interrupt)
    with pytest.raises(pulsar.Interrupted):
        bench.batch()
    bench.arrive(b"c")
    assert bench.receiving.receive(None).data() == b"a"
    assert bench.batch(messages=2) == [b"b", b"c"]


def test_what_an_interrupted_batch_had_is_for_futures_too(bench: Bench) -> None:
    bench.arrive(b"a", b"b")
    bench.later(interrupt)
    with pytest.raises(pulsar.Interrupted):
        bench.batch()
    futures = [bench.receiving.receive_async() for _ in range(3)]
    bench.queue.serve()
    assert [one.result(0).data() for one in futures[:2]] == [b"a", b"b"]
    assert not futures[2].done()
    bench.receiving.give_back([futures[0].result(0)])
    assert bench.actors.heard(bench.actor) == [ServeReceiveFutures()] * 4, "of each future, and of what was given back"
    bench.queue.serve()
    assert futures[2].result(0).data() == b"a"


def test_a_seek_voids_what_an_interrupted_batch_had(bench: Bench) -> None:
    bench.queue.add([batch(1, b"a", b"b")])
    bench.later(interrupt)
    with pytest.raises(pulsar.Interrupted):
        bench.batch()
    bench.queue.clear(Generation().sought())
    with pytest.raises(pulsar.Timeout):
        bench.receiving.receive(0)


SOON = 5_000
PATIENCE = 20.0


@pytest.fixture
def producer(client: pulsar.Client, topic: str) -> Iterator[pulsar.Producer]:
    with client.create_producer(topic, batching_enabled=True) as producer:
        yield producer


def sends(producer: pulsar.Producer, *payloads: bytes) -> None:
    for payload in payloads:
        producer.send_async(payload, None)
    producer.flush()


def policy(messages: int = -1, size: int = -1, timeout_ms: int = -1) -> pulsar.ConsumerBatchReceivePolicy:
    return pulsar.ConsumerBatchReceivePolicy(messages, size, timeout_ms)


@pytest.mark.parametrize(("queue", "timeout_ms"), [(1000, -1), (1, -1), (0, -1), (1000, 0)])
def test_it_has_as_many_messages_as_the_policy_says_and_the_next_has_what_follows(
    client: pulsar.Client, producer: pulsar.Producer, topic: str, queue: int, timeout_ms: int
) -> None:
    three = policy(3, timeout_ms=timeout_ms)
    with client.subscribe(topic, "s", receiver_queue_size=queue, batch_receive_policy=three) as consumer:
        first, second = consumer.batch_receive_async(), consumer.batch_receive_async()
        sends(producer, b"a", b"b")
        assert not wait([first], 0.02).done
        sends(producer, b"c", b"d", b"e", b"f")
        assert [one.data() for one in first.result(PATIENCE)] == [b"a", b"b", b"c"]
        assert [one.data() for one in second.result(PATIENCE)] == [b"d", b"e", b"f"]


@pytest.mark.parametrize("queue", [1000, 1, 0])
@pytest.mark.parametrize("way", ["futures", "one future after the other", "calls"])
def test_it_has_no_more_bytes_than_the_policy_says_unless_one_message_has(
    client: pulsar.Client, producer: pulsar.Producer, topic: str, queue: int, way: str
) -> None:
    def received(future: "Future[list[pulsar.Message]]") -> list[bytes]:
        return [one.data() for one in future.result(PATIENCE)]

    four = policy(size=4, timeout_ms=SOON)
    with client.subscribe(topic, "s", receiver_queue_size=queue, batch_receive_policy=four) as consumer:
        waiting = [consumer.batch_receive_async() for _ in range(3)] if way == "futures" else []
        sends(producer, b"aa", b"bb", b"c", b"large", b"d")
        if way == "futures":
            batches = [received(future) for future in waiting]
        elif way == "calls":
            batches = [[one.data() for one in consumer.batch_receive()] for _ in range(3)]
        else:
            batches = [received(consumer.batch_receive_async()) for _ in range(3)]
        assert batches == [[b"aa", b"bb"], [b"c"], [b"large"]]
        assert consumer.receive(SOON).data() == b"d"


def test_the_message_that_would_make_it_too_large_goes_to_who_waits_next(
    client: pulsar.Client, producer: pulsar.Producer, topic: str
) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=policy(size=3)) as consumer:
        first, second, third = consumer.batch_receive_async(), consumer.receive_async(), consumer.receive_async()
        sends(producer, b"aa", b"bb", b"cc")
        assert [one.data() for one in first.result(PATIENCE)] == [b"aa"]
        assert [second.result(PATIENCE).data(), third.result(PATIENCE).data()] == [b"bb", b"cc"]


def test_when_its_time_is_up_it_has_what_has_come(client: pulsar.Client, producer: pulsar.Producer, topic: str) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=policy(5, timeout_ms=100)) as consumer:
        assert consumer.batch_receive_async().result(PATIENCE) == []
        sends(producer, b"a")
        assert [one.data() for one in consumer.batch_receive_async().result(PATIENCE)] == [b"a"]
        sends(producer, b"b")
        assert consumer.receive(SOON).data() == b"b", "one that is over took it"


def test_without_a_policy_it_is_what_comes_in_a_tenth_of_a_second(
    client: pulsar.Client, producer: pulsar.Producer, topic: str
) -> None:
    with client.subscribe(topic, "s") as consumer:
        sends(producer, b"a", b"b")
        until(lambda: consumer.stats().queued == 2)
        assert [one.data() for one in consumer.batch_receive_async().result(PATIENCE)] == [b"a", b"b"]


def test_it_can_be_cancelled_until_it_has_a_message(
    client: pulsar.Client, producer: pulsar.Producer, topic: str
) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=policy(2)) as consumer:
        unwanted = consumer.batch_receive_async()
        assert unwanted.cancel()
        with pytest.raises(CancelledError):
            unwanted.result(0)
        begun = consumer.batch_receive_async()
        sends(producer, b"a")
        until(lambda: not begun.cancel() and consumer.stats().received == 1)
        sends(producer, b"b")
        assert [one.data() for one in begun.result(PATIENCE)] == [b"a", b"b"]


def test_one_that_is_cancelled_or_has_ended_with_nothing_can_be_cancelled_again(
    client: pulsar.Client, topic: str
) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=pulsar.ConsumerBatchReceivePolicy(2, 0, 10)) as consumer:
        ended = consumer.batch_receive_async()
        assert ended.result(PATIENCE) == []
        assert not ended.cancel()
        unwanted = consumer.batch_receive_async()
        while not unwanted.cancel():
            unwanted = consumer.batch_receive_async()
        assert unwanted.cancel()
        assert wait([unwanted], PATIENCE).done


def test_a_seek_voids_what_it_had(client: pulsar.Client, producer: pulsar.Producer, topic: str) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=policy(4)) as consumer:
        received = consumer.batch_receive_async()
        sends(producer, b"a", b"b", b"c")
        until(lambda: consumer.stats().received == 3)
        consumer.seek(pulsar.MessageId.earliest)
        sends(producer, b"d")
        assert [one.data() for one in received.result(PATIENCE)] == [b"a", b"b", b"c", b"d"]


def test_the_end_gives_what_there_was_and_the_next_call_says_why(
    broker: EmbeddedBroker, client: pulsar.Client, topic: str
) -> None:
    with client.subscribe(topic, "s", batch_receive_policy=policy(3)) as consumer:
        client.create_producer(topic).send(b"a")
        batch, next_one = consumer.batch_receive_async(), consumer.batch_receive_async()
        until(lambda: consumer.stats().received == 1)
        assert not consumer.has_reached_end_of_topic()
        topics.terminate(broker, topic)
        consumer.acknowledge_cumulative(consumer.get_last_message_id())
        assert [one.data() for one in batch.result(PATIENCE)] == [b"a"]
        assert isinstance(next_one.exception(PATIENCE), pulsar.TopicTerminated)
        assert consumer.has_reached_end_of_topic()
        assert isinstance(consumer.batch_receive_async().exception(PATIENCE), pulsar.TopicTerminated)
    assert isinstance(consumer.batch_receive_async().exception(PATIENCE), pulsar.AlreadyClosed)


def test_where_a_listener_gets_the_messages_there_is_no_batch_to_receive(client: pulsar.Client, topic: str) -> None:
    with (
        client.subscribe(topic, "s", message_listener=lambda *_: None) as consumer,
        pytest.raises(pulsar.InvalidConfiguration),
    ):
        consumer.batch_receive_async()


FIRST_CHUNK = MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1, partition=-(2**31))
WIDEST = MessageIdData(
    ledgerId=2**63, entryId=2**63, partition=-(2**31), batch_index=2**31 - 1, first_chunk_message_id=FIRST_CHUNK
)


@pytest.mark.parametrize(
    "given",
    [
        0,
        2**63 - 1,
        pulsar.MessageId.earliest,
        pulsar.MessageId.latest,
        pulsar.MessageId(2**31 - 1, 2**63 - 1, 2**63 - 1, 2**31 - 1),
        pulsar.MessageId.deserialize(WIDEST.SerializeToString()),
        pulsar.MessageId.deserialize(FIRST_CHUNK.SerializeToString()),
    ],
    ids=str,
)
def test_whatever_place_a_seek_takes_a_broker_can_be_told_of(given: Any) -> None:
    assert seek_command(7, seek_target(given), 1000).consumer_id == 7


@pytest.mark.parametrize("given", [-1, 2**63, 1.5, True, None, "latest"])
def test_any_other_place_is_refused_by_the_call_itself(given: Any) -> None:
    with pytest.raises(pulsar.InvalidArgument, match="milliseconds since 1970"):
        seek_target(given)
