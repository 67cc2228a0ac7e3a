from typing import Any

import pytest
from pykka import ActorRegistry

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.options import BrokerOptions
from pulsar_actors.client.build_producer import new_send_queue, start_single_producer
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.context import NO_IDLE_TIMEOUT, ClientContext, HandleSettings, _client_settings
from pulsar_actors.client.enqueuer import SendQueueEnqueuer
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.exceptions import AlreadyClosed
from pulsar_actors.machines.client_close import CloseClient
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.handle_link import ClientCounters
from pulsar_actors.runtime.producer_actor import FlushAll
from pulsar_actors.simulation.engine import SimulatedEngine
from pulsar_actors.simulation.world import World
from pulsar_actors.wire.service_url import ServiceUrl

TOPIC = "persistent://public/default/t"


class Stage:
    """A context and a broker, in a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_closed = False
        loop = world.loop("broker")
        broker = Broker(loop, BrokerOptions(host="broker", port=6650))
        loop.post(lambda _: broker.listen(), None)
        world.run(limit=1.0)
        self.engine = SimulatedEngine(world, listener_threads=2)
        self.context = ClientContext(
            self.engine, ClientOptions("pulsar://broker:6650", operation_timeout_seconds=5), "test"
        )

    def wait(self, future: Any) -> Any:
        return self.engine.block(future, 60.0, "the test")

    def producer(self, *options: Any) -> Any:
        return self.created(start_single_producer(self.context, ProducerOptions(TOPIC), *options))

    def created(self, state: Any) -> Any:
        self.context.wait_until_created(state, "creating")
        return state

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        done: SlimFuture[None] = SlimFuture()
        tell(self.context.guardian, CloseClient(done))
        self.wait(done)
        self.engine.stop(1.0)


@pytest.fixture(params=range(3))
def stage(request: pytest.FixtureRequest) -> Any:
    with World(request.param) as world:
        stage = Stage(world)
        yield stage
        stage.close()


class EagerEnqueuer(SendQueueEnqueuer):
    """Has a message enqueued by another thread at the very moment from which it notifies somebody else."""

    __slots__ = ()

    @property
    def notify(self) -> Any:
        return SendQueueEnqueuer.notify.__get__(self)  # type: ignore[attr-defined] # of a class, it is a descriptor

    @notify.setter
    def notify(self, notify: Any) -> None:
        is_the_first = not hasattr(self, "notify")
        SendQueueEnqueuer.notify.__set__(self, notify)  # type: ignore[attr-defined]
        if not is_the_first:
            self.enqueue_and_flush(b"x", None, SlimFuture())


def test_a_message_that_comes_while_the_producer_of_a_lazy_partition_starts_is_sent(stage: Stage) -> None:
    options = ProducerOptions(TOPIC)
    queue, callbacks = new_send_queue(stage.context, options)
    waiting = EagerEnqueuer(stage.engine, queue, callbacks, lambda _: None, waits=False)
    state = stage.created(start_single_producer(stage.context, options, waiting=waiting))
    flushed: SlimFuture[None] = SlimFuture()
    tell(state.address, FlushAll(flushed))
    stage.wait(flushed)
    assert (callbacks.sent, callbacks.failed) == (1, 0)


def test_what_is_created_while_the_client_closes_is_refused_and_does_not_hold_up_the_close(stage: Stage) -> None:
    done: SlimFuture[None] = SlimFuture()
    stage.producer()
    tell(stage.context.guardian, CloseClient(done))
    with pytest.raises(AlreadyClosed, match="the client is closed"):
        stage.producer()
    stage.wait(done)


def test_after_the_threads_have_ended_nothing_is_created_and_no_actor_is_left_behind(stage: Stage) -> None:
    stage.close()
    stage.context.pending_calls.end(AlreadyClosed("the client is closed"))
    with pytest.raises(AlreadyClosed, match="the client is closed"):
        stage.producer()
    assert not [one for one in ActorRegistry.get_all() if one.actor_inbox.loop in stage.engine.loops]


@pytest.mark.parametrize(
    ("seconds", "timeout", "idle_after"), [(60, 30, 60.0), (5, 30, 30.0), (0, 30, NO_IDLE_TIMEOUT), (60, 0.5, 60.0)]
)
def test_a_connection_counts_as_idle_no_sooner_than_a_question_may_take(
    seconds: float, timeout: float, idle_after: float
) -> None:
    options = ClientOptions(
        "pulsar://h", connection_max_idle_seconds=seconds, operation_timeout_seconds=timeout, listener_name="outside"
    )
    common = HandleSettings(timeout, first_backoff=0.1, longest_backoff=2.0)
    url = ServiceUrl.parse("pulsar+ssl://h")
    settings = _client_settings(options, url, "v", ClientCounters(), common.backoff, service_can_change=False)
    assert settings.pool_settings.idle_after == idle_after
    assert (settings.lookup.timeout, settings.lookup.listener_name) == (timeout, "outside")
