"""Several topics behave as one, whatever goes wrong: nothing is lost, each keeps its order, nothing is left over."""

from contextlib import suppress
from typing import Any

import pytest

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.fault_rules import Action, Answer, Drop, InterceptedCommand
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.exceptions import ConnectError, InternalError, ProducerBusy, PulsarException, Timeout
from pulsar_actors.simulation.caller import Caller
from pulsar_actors.simulation.connection import CALM
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandError,
    CommandGetLastMessageId,
    CommandGetLastMessageIdResponse,
    CommandSubscribe,
    MessageIdData,
)
from tests.scenarios.programs import in_troubles, subscribe
from tests.scenarios.received import Received
from tests.scenarios.scene import PARTS, PATIENCE, SUBSCRIPTION, Scene, play
from tests.scenarios.troubles import Troubles

TOPIC = str(PARTS)


def make_partitions(scene: Scene, count: int) -> None:
    scene.on_broker(lambda broker: broker.cluster.create_partitioned(PARTS, count))


def grow(scene: Scene, count: int) -> None:
    """Give the topic more partitions at some moment, and unload one."""

    def more(broker: Broker) -> None:
        broker.cluster.grow(PARTS, count)
        topic = broker.cluster.find_topic(PARTS.partition(scene.dice.below(count)))
        if topic is not None:
            topic.unload()

    scene.world.after(10.0 ** (scene.dice.chance() * 4 - 3), lambda: scene.on_broker(more))


class Writer:
    """Sends numbers with keys, so that those of one key have an order, until all are stored."""

    def __init__(self, scene: Scene, client: Client, count: int) -> None:
        self._scene = scene
        self._client = client
        self._dice = Dice(scene.world.seed, "writer")
        self.count = count
        self.caller: Caller = scene.world.spawn(self._run, "writer")

    def _run(self) -> None:
        scene, dice = self._scene, self._dice
        is_lazy = dice.happens(0.5)
        producer = scene.insist(
            lambda: self._client.create_producer(
                TOPIC,
                send_timeout_millis=0,
                producer_name="writer" if dice.happens(0.5) else None,
                batching_enabled=dice.happens(0.5),
                batching_max_messages=1 + dice.below(10),
                lazy_start_partitioned_producers=is_lazy,
                max_pending_messages=0,
            )
        )
        left = list(range(self.count))
        # A partition that a lazy producer could not begin with in time refuses what was for it, and so does one whose
        # broker has not noticed that the connection of the first attempt is lost, and has a producer of this name.
        while left:
            futures: dict[int, Any] = {}
            for number in left:
                futures[number] = producer.send_async(str(number).encode(), partition_key=f"k{number % 5}")
                if dice.happens(0.2):
                    scene.sleep(10.0 ** (dice.chance() * 3 - 3))
            for future in futures.values():
                scene.world.block(future)
            failed = {number: future.exception() for number, future in futures.items() if future.exception()}
            left = list(failed)
            assert is_lazy or not left, failed
            assert all(isinstance(error, ConnectError | ProducerBusy) for error in failed.values()), failed
        try:
            producer.close()
        except PulsarException as error:
            scene.world.note(f"the writer's close: {error!r}")


def test_all_partitions_are_received_each_in_its_order_while_the_topic_grows() -> None:
    def scenario(scene: Scene) -> None:
        before = 1 + scene.dice.below(4)
        make_partitions(scene, before)
        client = scene.client(partitions_update_interval=0.5)
        kind = ConsumerType.Exclusive if scene.dice.happens(0.6) else ConsumerType.Shared
        received, seen = Received(), set[bytes]()

        def read() -> None:
            queue = (1, 3, 1000)[scene.dice.below(3)]
            consumer = subscribe(scene, client, TOPIC, consumer_type=kind, receiver_queue_size=queue)
            writer = Writer(scene, client, 1 + scene.dice.below(40))
            if scene.dice.happens(0.5):
                grow(scene, before + 1 + scene.dice.below(3))
            while len(seen) < writer.count:
                try:
                    message = consumer.receive(500)
                except Timeout:
                    continue
                if message.data() not in seen:  # a lazy producer may have stored one twice
                    received.note(message, message.topic_name())
                    seen.add(message.data())
                consumer.acknowledge(message)
            scene.world.block(lambda: writer.caller.ended)
            writer.caller.result()
            assert len(seen) == writer.count

        in_troubles(scene, read, patience=2 * PATIENCE)
        if kind is ConsumerType.Exclusive:
            received.check_order()

    play(40, scenario, deduplication=True)


def test_a_close_at_any_moment_leaves_nothing_behind_and_ends_every_call() -> None:
    def scenario(scene: Scene) -> None:
        make_partitions(scene, 1 + scene.dice.below(4))
        client = scene.client(partitions_update_interval=0.2)
        dice = Dice(scene.world.seed, "closing")
        ended: list[str] = []

        def use(name: str, make: Any, do: Any) -> Caller:
            def run() -> None:
                try:
                    handle = make()
                    for _ in range(3):
                        do(handle)
                    handle.close()
                except InternalError:
                    raise
                except PulsarException as error:
                    scene.world.note(f"{name}: {error!r}")
                ended.append(name)

            return scene.world.spawn(run, name)

        callers = [
            use("producer", lambda: client.create_producer(TOPIC), lambda made: made.send(b"x")),
            use("lazy", lambda: client.create_producer(TOPIC, lazy_start_partitioned_producers=True), _send_and_flush),
            use("consumer", lambda: client.subscribe([TOPIC, "other"], SUBSCRIPTION), lambda made: made.seek(0)),
            use("leaver", lambda: client.subscribe(TOPIC, "leaver"), lambda made: made.unsubscribe()),
        ]
        grow(scene, 6)
        Troubles(scene)
        at = 10.0 ** (dice.chance() * 4 - 3)
        scene.sleep(at)
        if dice.happens(0.5):
            scene.close(client)
        else:
            client.shutdown()
        scene.world.run(until=lambda: all(caller.ended for caller in callers), limit=scene.world.now + PATIENCE)
        for caller in callers:
            caller.result()
        assert len(ended) == len(callers), f"only {ended} have ended"
        scene.check_nothing_is_left()

    play(60, scenario)


def _send_and_flush(producer: Any) -> None:
    producer.send_async(b"x")
    producer.flush()


def test_a_set_that_unsubscribes_just_when_its_last_topic_is_lost_is_closed() -> None:
    def scenario(scene: Scene) -> None:
        """Have the answer that a program waits for come together with the end of the set's only partition."""
        make_partitions(scene, 1)
        client = scene.client(connections_per_broker=1)
        asking = scene.insist(lambda: client.subscribe("other", SUBSCRIPTION))
        doomed = scene.insist(lambda: client.subscribe(TOPIC, SUBSCRIPTION))
        questions: list[int] = []

        def control(seen: InterceptedCommand) -> Action | None:
            if isinstance(seen.command, CommandGetLastMessageId):
                questions.append(seen.command.request_id)
                return Drop()
            if isinstance(seen.command, CommandSubscribe):
                last = CommandGetLastMessageIdResponse(
                    request_id=questions.pop(), last_message_id=MessageIdData(ledgerId=1, entryId=1)
                )
                refusal = CommandError(request_id=seen.command.request_id, error="TopicNotFound", message="gone")
                return Answer((last, refusal) if scene.dice.happens(0.7) else (refusal, last))
            return None

        def unload(broker: Broker) -> None:
            topic = broker.cluster.find_topic(PARTS.partition(0))
            assert topic is not None
            topic.unload()

        assert scene.broker is not None
        controlled = scene.broker.faults.control(control)
        scene.world.after(1.0, lambda: scene.on_broker(unload))
        asking.get_last_message_id()
        with suppress(PulsarException):
            doomed.unsubscribe()
        controlled.remove()
        with pytest.raises(PulsarException) as told:
            doomed.receive(int(PATIENCE * 1000))
        assert not isinstance(told.value, Timeout)
        asking.close()
        scene.end()

    play(20, scenario, CALM)
