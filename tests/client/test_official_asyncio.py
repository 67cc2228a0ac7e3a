"""A program for the official `pulsar.asyncio` finds its names, arguments, defaults and errors in ours, and runs.

`DEVIATIONS` has what differs on purpose, each with its reason; an entry that no longer differs is a fault.
"""

import asyncio
import contextlib
import inspect
import pickle
from collections.abc import Iterator
from typing import Any, Final

import pulsar
import pulsar.asyncio
import pytest

import pulsar_actors
import pulsar_actors.asyncio
from pulsar_actors.broker.embedded import EmbeddedBroker
from tests.support.loops import Run

CLASSES: Final = ("Client", "Producer", "Consumer", "Reader")

TIMEOUT: Final = "the official one has none: programs cancel it instead, and it loses a message"
OPTIONS: Final = "arguments of the synchronous client that the official coroutine lacks, by name only"
TRANSACTION: Final = "transactions, which the official module lacks, by name only"
LISTENER: Final = "listeners, which the official module lacks, by name only"

DEVIATIONS: Final[dict[tuple[str, str], str]] = {
    ("Consumer.receive", "timeout_millis"): TIMEOUT,
    ("Reader.read_next", "timeout_millis"): TIMEOUT,
    ("Consumer.unsubscribe", "force"): "as in the synchronous client",
    ("Producer.send", "transaction"): TRANSACTION,
    ("Consumer.acknowledge", "transaction"): TRANSACTION,
    ("Consumer.acknowledge_cumulative", "transaction"): TRANSACTION,
    ("Client.create_producer", "options"): OPTIONS,
    ("Client.subscribe", "options"): OPTIONS,
    ("Client.subscribe", "message_listener"): LISTENER,
    ("Client.subscribe", "start_paused"): LISTENER,
    ("Client.subscribe", "consumer_event_listener"): LISTENER,
    ("Client.create_reader", "options"): OPTIONS,
    ("Client.create_reader", "reader_listener"): LISTENER,
}
"""Arguments of ours alone, with the reason."""

ADDED: Final = {
    "Client": {"create_table_view", "get_service_info", "history", "inspect", "new_transaction", "stats"},
    "Producer": {"history", "is_open", "send_many", "stats"},
    "Consumer": {
        *("batch_receive", "reconsume_later", "get_broker_consumer_stats", "has_reached_end_of_topic", "is_connected"),
        *("history", "is_open", "stats", "pause_message_listener", "resume_message_listener", "receive_many"),
    },
    "Reader": {"has_reached_end_of_topic", "history", "is_open", "read_many", "stats"},
}
"""What the synchronous client has and the official module lacks."""


def methods() -> Iterator[tuple[str, str]]:
    for cls in CLASSES:
        for name, _ in inspect.getmembers(getattr(pulsar.asyncio, cls), inspect.isfunction):
            if not name.startswith("_"):
                yield cls, name


each_method = pytest.mark.parametrize(("cls", "name"), list(methods()), ids=".".join)


def both(cls: str, name: str) -> tuple[Any, Any]:
    return getattr(getattr(pulsar_actors.asyncio, cls), name), getattr(getattr(pulsar.asyncio, cls), name)


def plain(default: Any) -> Any:
    return str(default) if hasattr(default, "value") else default


@each_method
def test_a_coroutine_is_one_and_a_plain_method_is_none(cls: str, name: str) -> None:
    ours, official = both(cls, name)
    assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(official)


@each_method
def test_arguments_have_their_names_places_and_defaults(cls: str, name: str) -> None:
    ours, official = (inspect.signature(one).parameters for one in both(cls, name))
    own = {argument for method, argument in DEVIATIONS if method == f"{cls}.{name}"}
    places = {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    if list(official) == ["self", "message"]:  # they all take one
        assert len(ours.keys() - own) == 2
    assert [one for one in ours if one not in own] == list(official)
    assert [plain(ours[one].default) for one in official] == [plain(official[one].default) for one in official]
    assert {ours[one].kind for one in official} == places
    assert own <= ours.keys()


@pytest.mark.parametrize(("method", "argument"), list(DEVIATIONS), ids=".".join)
def test_an_argument_of_ours_alone_can_be_left_out_and_has_a_reason(method: str, argument: str) -> None:
    ours, official = both(*method.split("."))
    parameter = inspect.signature(ours).parameters[argument]
    assert parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD
    assert argument not in inspect.signature(official).parameters
    assert DEVIATIONS[method, argument]


@pytest.mark.parametrize("cls", CLASSES)
def test_nothing_else_is_public(cls: str) -> None:
    ours, official = getattr(pulsar_actors.asyncio, cls), getattr(pulsar.asyncio, cls)
    public = {name for name in dir(ours) if not name.startswith("_")}
    assert public - set(dir(official)) == ADDED[cls]


def test_every_name_of_the_official_module_is_there() -> None:
    classes = inspect.getmembers(pulsar.asyncio, inspect.isclass)
    theirs = {name for name, one in classes if one.__module__ in {"pulsar.asyncio", "_pulsar"}}
    assert theirs <= set(pulsar_actors.asyncio.__all__)


def shared_methods() -> Iterator[tuple[str, str]]:
    """List the public methods that our asynchronous and synchronous classes both have."""
    for cls in (*CLASSES, "TableView"):
        for name, _ in inspect.getmembers(getattr(pulsar_actors.asyncio, cls), inspect.isfunction):
            if not name.startswith("_") and hasattr(getattr(pulsar_actors, cls), name):
                yield cls, name


@pytest.mark.parametrize(("cls", "name"), list(shared_methods()))
def test_a_method_takes_all_arguments_of_the_synchronous_one(cls: str, name: str) -> None:
    ours = inspect.signature(getattr(getattr(pulsar_actors.asyncio, cls), name)).parameters
    synchronous = inspect.signature(getattr(getattr(pulsar_actors, cls), name)).parameters
    takes_any = any(one.kind is one.VAR_KEYWORD for one in ours.values())
    assert takes_any or synchronous.keys() <= ours.keys()


def test_the_client_takes_what_the_synchronous_one_takes() -> None:
    assert list(inspect.signature(pulsar_actors.asyncio.Client).parameters) == ["service_url", "kwargs"]
    with pytest.raises(TypeError, match="nonsense"):
        pulsar_actors.asyncio.Client("pulsar://localhost:6650", nonsense=1)


# Errors.


def test_one_clause_catches_the_errors_of_both_ways_of_calling() -> None:
    assert pulsar_actors.asyncio.PulsarException is pulsar_actors.PulsarException


@pytest.mark.parametrize("name", [name for name in pulsar.Result.__members__ if name != "Ok"])
def test_each_error_has_the_official_result_and_may_be_made_of_it(name: str) -> None:
    result = pulsar_actors.Result[name]
    official = pulsar.asyncio.PulsarException(pulsar.Result.__members__[name])
    assert int(result) == int(official.error())
    made = pulsar_actors.asyncio.PulsarException(result, "why")
    assert (made.error(), pickle.loads(pickle.dumps(made)).error()) == (result, result)  # noqa: S301 - our own bytes
    cls = getattr(pulsar_actors, name, None)
    if cls is not None:
        assert cls("why").error() is result


def test_an_error_without_a_result_of_its_own_has_that_of_its_base() -> None:
    assert pulsar_actors.ConnectTimeout("why").error() is pulsar_actors.Result.ConnectError
    assert pulsar_actors.InternalError("why").error() is pulsar_actors.Result.UnknownError


# The same programs, with both.

MODULES: Final = {"ours": (pulsar_actors, pulsar_actors.asyncio), "official": (pulsar, pulsar.asyncio)}


@pytest.fixture(params=MODULES)
def modules(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    return MODULES[request.param]


def test_a_program_of_the_official_documentation_runs(
    modules: tuple[Any, Any], broker: EmbeddedBroker, topic: str
) -> None:
    sync, aio = modules

    async def main() -> None:
        client = aio.Client(broker.service_url, operation_timeout_seconds=10)
        producer = await client.create_producer(topic, producer_name="me", batching_max_publish_delay_ms=1)
        consumer = await client.subscribe(
            [topic], "sub", consumer_type=sync.ConsumerType.Shared, negative_ack_redelivery_delay_ms=100
        )
        ids = await asyncio.gather(*(producer.send(f"m-{number}".encode()) for number in range(10)))
        assert all(isinstance(one, sync.MessageId) for one in ids)
        await producer.flush()
        assert (producer.producer_name(), producer.last_sequence_id(), producer.is_connected()) == ("me", 9, True)
        for _ in range(9):
            message = await consumer.receive()
            await consumer.acknowledge(message)
        message = await consumer.receive()
        await consumer.negative_acknowledge(message)
        message = await asyncio.wait_for(consumer.receive(), 5)
        await consumer.acknowledge(message.message_id())
        consumer.redeliver_unacknowledged_messages()
        assert consumer.subscription_name() == "sub"
        reader = await client.create_reader(topic, sync.MessageId.earliest)
        read = []
        while await reader.has_message_available():
            read.append((await reader.read_next()).data())
        assert sorted(read) == sorted(f"m-{number}".encode() for number in range(10))
        await reader.seek(0)
        assert (await reader.read_next()).data() == read[0]
        await reader.seek(ids[0])
        assert (reader.topic(), reader.is_connected()) == (topic, True)
        assert await client.get_topic_partitions(topic) == [topic]
        for each in (reader, consumer, producer, client):
            await each.close()

    asyncio.run(main())


def test_what_was_given_is_not_taken_for_left_out(modules: tuple[Any, Any], broker: EmbeddedBroker, topic: str) -> None:
    sync, aio = modules

    async def main() -> None:
        client = aio.Client(broker.service_url)
        producer = await client.create_producer(topic)
        consumer = await client.subscribe(topic, "s", initial_position=sync.InitialPosition.Earliest)
        await producer.send(b"", sequence_id=0, partition_key="", event_timestamp=0, disable_replication=False)
        message = await consumer.receive()
        assert (message.data(), message.partition_key(), message.event_timestamp()) == (b"", "", 0)
        await client.close()

    asyncio.run(main())


def test_an_error_is_caught_and_told_apart(modules: tuple[Any, Any], broker: EmbeddedBroker, topic: str) -> None:
    sync, aio = modules

    async def main() -> None:
        client = aio.Client(broker.service_url)
        first = await client.subscribe(topic, "s")
        found = []
        for failing in (client.subscribe(topic, "s"), client.create_producer("bad://topic")):
            try:
                await failing
            except aio.PulsarException as error:
                found.append(error.error())
        assert found == [sync.Result.ConsumerBusy, sync.Result.InvalidTopicName]
        await first.close()
        with pytest.raises(aio.PulsarException):
            await first.receive()
        for wrong in (
            lambda: client.subscribe([topic], "s", is_pattern_topic=True),
            lambda: client.create_producer(topic, batching_enabled=True, chunking_enabled=True),
            lambda: client.subscribe(7, "s"),
        ):
            with pytest.raises(ValueError):  # noqa: PT011 - the texts differ
                await wrong()
        with contextlib.suppress(Exception):
            await client.close()

    asyncio.run(main())


def test_a_timeout_loses_no_message_as_it_does_in_the_official_client(
    broker: EmbeddedBroker, topic: str, run: Run
) -> None:
    async def main() -> None:
        async with pulsar_actors.asyncio.Client(broker.service_url) as client:
            consumer = await client.subscribe(topic, "s")
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.receive(), 0.05)
            producer = await client.create_producer(topic)
            await producer.send(b"a")
            assert (await asyncio.wait_for(consumer.receive(), 5)).data() == b"a"

    run(main)
