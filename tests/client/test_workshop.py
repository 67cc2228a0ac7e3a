from typing import Any

import pytest

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.options import BrokerOptions
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.consuming.consumer_machine import Start
from pulsar_actors.client.consuming.consumer_making import begin_one_consumer
from pulsar_actors.client.consuming.consumer_options import ConsumerOptions
from pulsar_actors.client.producing.producer_making import begin_one_producer
from pulsar_actors.client.producing.producer_options import ProducerOptions
from pulsar_actors.client.workshop import NEVER, Workshop, _settings
from pulsar_actors.exceptions import AlreadyClosed, BrokerRefusal, ConsumerBusy
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.client_actor import CloseAll
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.simulated.engine import SimulatedEngine
from pulsar_actors.runtime.simulated.world import World
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.wire.message_id import EARLIEST
from pulsar_actors.wire.PulsarApi_pb2 import CommandPartitionedTopicMetadata
from pulsar_actors.wire.service_url import ServiceUrl

TOPIC = "persistent://public/default/t"


class Stage:
    """A workshop and a broker, in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        loop = world.loop("broker")
        broker = Broker(loop, BrokerOptions(host="broker", port=6650))
        loop.post(lambda _: broker.listen(), None)
        world.run(limit=1.0)
        self.engine = SimulatedEngine(world, listener_threads=2)
        self.shop = Workshop(self.engine, ClientOptions("pulsar://broker:6650", operation_timeout_seconds=5), "test")

    def wait(self, future: Any) -> Any:
        return self.engine.block(future, 60.0, "the test")

    def close(self) -> None:
        done: SlimFuture[None] = SlimFuture()
        tell(self.shop.guardian, CloseAll(done))
        self.wait(done)
        self.engine.stop(1.0)


@pytest.fixture(params=range(3))
def stage(request: pytest.FixtureRequest) -> Any:
    with World(request.param) as world:
        stage = Stage(world)
        yield stage
        stage.close()


def consumer(**more: Any) -> ConsumerOptions:
    return ConsumerOptions(topic=TOPIC, subscription_name="s", **more)


def test_a_producer_is_whole_once_the_broker_has_accepted_it(stage: Stage) -> None:
    parts = stage.wait(begin_one_producer(stage.shop, ProducerOptions(TOPIC), "first"))
    assert parts.machine.is_bound
    assert parts in list(stage.shop.open)


def test_a_consumer_and_a_reader_are_made_of_the_same_parts(stage: Stage) -> None:
    one = stage.wait(begin_one_consumer(stage.shop, consumer(), None, None))
    options = ConsumerOptions(topic=TOPIC, subscription_name="r")
    other = stage.wait(begin_one_consumer(stage.shop, options, Start(EARLIEST, inclusive=False), None))
    assert one.machine.is_bound
    assert other.machine.is_bound
    assert (one.pump, other.pump) == (None, None)
    assert not other.machine.deliveries.ledgers.start.durable


def test_a_creation_that_the_broker_refuses_ends_with_its_word(stage: Stage) -> None:
    stage.wait(begin_one_consumer(stage.shop, consumer(), None, None))
    with pytest.raises(ConsumerBusy):
        stage.wait(begin_one_consumer(stage.shop, consumer(), None, None))


def test_listeners_take_turns_on_the_workers(stage: Stage) -> None:
    listening = [
        ConsumerOptions(topic=TOPIC, subscription_name=str(number), message_listener=print) for number in range(4)
    ]
    parts = [stage.wait(begin_one_consumer(stage.shop, options, None, None)) for options in listening]
    assert len({id(one.pump._worker) for one in parts}) == 2


def test_a_question_gets_the_brokers_answer_or_its_refusal(stage: Stage) -> None:
    ask = CommandPartitionedTopicMetadata(topic=TOPIC, request_id=0, metadata_auto_creation_enabled=True)
    assert stage.wait(stage.shop.ask(ask)).partitions == 0
    nowhere = CommandPartitionedTopicMetadata(topic="persistent://no/where/t", request_id=0)
    with pytest.raises(BrokerRefusal):
        stage.wait(stage.shop.ask(nowhere))


def test_after_the_end_of_the_client_nothing_is_made(stage: Stage) -> None:
    done: SlimFuture[None] = SlimFuture()
    tell(stage.shop.guardian, CloseAll(done))
    stage.wait(done)
    for made in (
        begin_one_producer(stage.shop, ProducerOptions(TOPIC)),
        begin_one_consumer(stage.shop, consumer(), None, None),
        stage.shop.ask(CommandPartitionedTopicMetadata(topic=TOPIC, request_id=0)),
    ):
        with pytest.raises(AlreadyClosed):
            stage.wait(made)


@pytest.mark.parametrize(
    ("seconds", "timeout", "idle_after"), [(60, 30, 60.0), (5, 30, 30.0), (0, 30, NEVER), (60, 0.5, 60.0)]
)
def test_a_connection_counts_as_idle_no_sooner_than_a_question_may_take(
    seconds: float, timeout: float, idle_after: float
) -> None:
    options = ClientOptions(
        "pulsar://h", connection_max_idle_seconds=seconds, operation_timeout_seconds=timeout, listener_name="outside"
    )
    settings = _settings(options, ServiceUrl.parse("pulsar+ssl://h"), "v", Tally())
    assert settings.manner.idle_after == idle_after
    assert (settings.lookup.timeout, settings.lookup.listener_name) == (timeout, "outside")
