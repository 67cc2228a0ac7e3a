import inspect
import logging
import re
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.consumer_options import ConsumerOptions, ReaderOptions, TableViewOptions
from pulsar_actors.client.open_handles import warn_of_open_producers
from pulsar_actors.client.options import Options
from pulsar_actors.client.producer import Producer
from pulsar_actors.client.producer_options import ProducerOptions
from pulsar_actors.client.transport_config import service_access
from pulsar_actors.machines.client_close import ShutDownClient
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.future import SlimFuture
from tests.support import topics
from tests.support.certificates import Authority
from tests.support.life import closed_port, nothing_left, until

PATIENCE = 20.0


@pytest.fixture
def own(broker: EmbeddedBroker) -> Iterator[pulsar.Client]:
    """A client that the test may close."""
    client = pulsar.Client(broker.service_url, operation_timeout_seconds=5)
    yield client
    client.shutdown()


def test_no_connection_is_made_before_it_is_needed(own: pulsar.Client, topic: str) -> None:
    assert own.stats().connections == 0
    own.create_producer(topic).close()
    assert own.stats().connections == 1


def test_the_partitions_of_a_topic_are_named_and_one_without_any_is_itself(
    client: pulsar.Client, topic: str, broker: EmbeddedBroker
) -> None:
    assert client.get_topic_partitions(topic) == [topic]
    topics.create_partitioned(broker, f"{topic}-p", 2)
    assert client.get_topic_partitions(f"{topic}-p") == [f"{topic}-p-partition-0", f"{topic}-p-partition-1"]


def test_a_partition_is_a_topic_of_its_own_under_its_own_name(
    client: pulsar.Client, topic: str, broker: EmbeddedBroker
) -> None:
    topics.create_partitioned(broker, topic, 2)
    with client.create_producer(f"{topic}-partition-1") as producer:
        assert producer.send(b"to one partition").partition() == 1


def test_stats_list_what_was_made(own: pulsar.Client, topic: str) -> None:
    producer, consumer = own.create_producer(topic), own.subscribe(topic, "s")
    reader = own.create_reader(topic, pulsar.MessageId.earliest)
    stats = own.stats()
    assert [one.topic for one in stats.producers] == [topic]
    assert sorted(one.subscription_name[:1] for one in stats.consumers) == ["r", "s"]
    assert (stats.connections, stats.pending_lookups, stats.pending_bytes) == (1, 0, 0)
    for handle in (producer, consumer, reader):
        assert handle.is_connected()
        handle.close()
    assert (own.stats().producers, own.stats().consumers) == ((), ())


def test_with_closes_everything_and_nothing_is_left(broker: EmbeddedBroker, topic: str) -> None:
    with nothing_left():
        with pulsar.Client(broker.service_url, io_threads=2) as client:
            producer, consumer = client.create_producer(topic), client.subscribe(topic, "s")
            producer.send(b"1")
            consumer.receive(5_000)
        with pytest.raises(pulsar.AlreadyClosed):
            producer.send(b"2")
        with pytest.raises(pulsar.AlreadyClosed):
            consumer.receive(0)
        del client, producer, consumer


def test_a_shutdown_ends_everything_at_once(own: pulsar.Client, topic: str) -> None:
    consumer = own.subscribe(topic, "s")
    future = consumer.receive_async()
    own.shutdown()
    assert isinstance(future.exception(PATIENCE), pulsar.AlreadyClosed)


def test_a_timeout_says_what_was_not_done_in_time_and_for_which_topic() -> None:
    with closed_port() as url, pulsar.Client(url, operation_timeout_seconds=2) as client:
        for call, what in (
            (lambda: client.create_producer("fruit"), "creating a producer on fruit"),
            (lambda: client.subscribe("fruit", "s"), "subscribing to fruit"),
            (lambda: client.create_reader("fruit", pulsar.MessageId.earliest), "creating a reader on fruit"),
            (lambda: client.get_topic_partitions("fruit"), "asking for the partitions of fruit"),
        ):
            with pytest.raises(pulsar.Timeout, match=f"^{what}: .*: no connection to 127"):
                call()


def test_all_connections_share_what_was_made_of_the_files_of_certificates(tmp_path: Path) -> None:
    files = Authority(tmp_path).certify()
    access = service_access(ClientOptions("pulsar+ssl://h", authentication=pulsar.AuthenticationTLS(*files)))
    assert access.make_context() is access.make_context()
    assert access.fetch_credentials(None) == ("tls", b"")


def test_a_logger_gets_what_happens_until_the_client_is_closed(broker: EmbeddedBroker, topic: str) -> None:
    records: list[logging.LogRecord] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger = logging.Logger("mine")  # noqa: LOG001 - one that nothing else knows
    logger.addHandler(Keeps())

    def broken(*_: object) -> None:
        raise ValueError("planted")

    with pulsar.Client(broker.service_url, logger=logger) as client, client.create_producer(topic) as producer:
        producer.send_async(b"1", broken)
        until(lambda: any("a send callback" in record.getMessage() for record in records), "the record")


def test_a_client_that_cannot_be_made_has_its_provider_closed(tmp_path: Path) -> None:
    closed: list[bool] = []

    class Provider(pulsar.ServiceInfoProvider):
        def initial_service_info(self) -> pulsar.ServiceInfo:
            return pulsar.ServiceInfo("pulsar+ssl://h", tls_trust_certs_file_path=str(tmp_path / "no such file"))

        def close(self) -> None:
            closed.append(True)

    with pytest.raises(pulsar.InvalidArgument):
        pulsar.Client(Provider())
    assert closed == [True]


def test_in_a_forked_child_everything_says_so(
    broker: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = pulsar.Client(broker.service_url)
    producer, consumer = client.create_producer(topic), client.subscribe(topic, "s")
    stop = client._finalizer
    monkeypatch.setattr(client._engine, "forget_everything", lambda: None)  # its sockets are not a copy here
    client.forget_everything()
    for call in (
        lambda: client.create_producer(topic),
        client.close,
        client.shutdown,
        lambda: producer.send(b"1"),
        producer.flush,
        producer.close,
        lambda: consumer.receive(0),
        lambda: consumer.acknowledge(pulsar.MessageId.earliest),
        consumer.redeliver_unacknowledged_messages,
        consumer.get_last_message_id,
        consumer.close,
    ):
        with pytest.raises(pulsar.ProcessForked, match="make a new Client in the child"):
            call()
    assert (producer.is_connected(), consumer.is_connected()) == (False, False)
    assert not stop.alive
    done: SlimFuture[None] = SlimFuture()
    tell(client._context.guardian, ShutDownClient(done))
    done.result(PATIENCE)
    client._engine.stop(PATIENCE)
    client._shutdown._log.detach()


def test_at_the_end_of_the_interpreter_producers_that_were_left_open_are_named(
    client: pulsar.Client, topic: str
) -> None:
    producer = client.create_producer(topic)
    with pytest.warns(ResourceWarning, match="may have lost messages.*topic"):
        warn_of_open_producers()
    producer.close()


# The arguments of the methods.

OPTIONS: dict[Callable[..., Any], type[Options]] = {
    Client.__init__: ClientOptions,
    Client.create_producer: ProducerOptions,
    Client.subscribe: ConsumerOptions,
    Client.create_reader: ReaderOptions,
    Client.create_table_view: TableViewOptions,
}


def arguments_of(call: Callable[..., Any]) -> list[inspect.Parameter]:
    return [one for name, one in inspect.signature(call).parameters.items() if name != "self"]


@pytest.mark.parametrize("method", OPTIONS, ids=lambda one: one.__qualname__)
def test_a_method_and_its_options_have_the_same_names_and_defaults(method: Callable[..., Any]) -> None:
    options = OPTIONS[method]
    defaults = [(name, getattr(options, name, inspect.Parameter.empty)) for name in options.names]
    assert [(one.name, one.default) for one in arguments_of(method)] == defaults


def shown(parameter: inspect.Parameter) -> str:
    default = parameter.default
    if default is inspect.Parameter.empty:
        return parameter.name
    value = f"{type(default).__name__}.{default.name}" if isinstance(default, Enum) else repr(default)
    return f"{parameter.name} = {value}"


@pytest.mark.parametrize("call", [*OPTIONS, Producer.send], ids=lambda call: call.__qualname__)
def test_every_argument_is_explained_with_its_default(call: Callable[..., Any]) -> None:
    heads = re.findall(r"^(\w+(?: = \S+)?)$", inspect.getdoc(call) or "", re.MULTILINE)
    assert heads == [shown(one) for one in arguments_of(call)]
