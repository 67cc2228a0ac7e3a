import gc
import logging
import pickle
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.client.authentication import AuthenticationTLS, AuthenticationToken
from pulsar_actors.client.client import Client
from pulsar_actors.client.client_options import ClientOptions
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.open_handles import warn_of_open_producers
from pulsar_actors.client.service_info import ServiceInfo, ServiceInfoProvider
from pulsar_actors.client.transport_config import service_access
from pulsar_actors.exceptions import (
    AlreadyClosed,
    AuthenticationError,
    ConnectError,
    InvalidArgument,
    InvalidTopicName,
    OperationNotSupported,
    OutcomeUnknown,
    ProcessForked,
    Timeout,
)
from pulsar_actors.machines.client_close import ShutDownClient
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.wire.PulsarApi_pb2 import CommandPartitionedTopicMetadata
from pulsar_actors.wire.topic_name import TopicName
from tests.support.certificates import Authority
from tests.support.life import closed_port, nothing_left, until

PATIENCE = 20.0


@pytest.fixture
def own(broker: EmbeddedBroker) -> Iterator[Client]:
    """A client that the test may close."""
    client = Client(broker.service_url, operation_timeout_seconds=5)
    yield client
    client.shutdown()


def partitioned(broker: EmbeddedBroker, topic: str, partitions: int) -> None:
    broker.call(lambda inside: inside.cluster.create_partitioned(TopicName.parse(topic), partitions))


def test_no_connection_is_made_before_it_is_needed(own: Client, topic: str) -> None:
    assert own.stats().connections == 0
    own.create_producer(topic).close()
    assert own.stats().connections == 1


def test_wrong_options_are_refused_before_anything_is_started(broker: EmbeddedBroker) -> None:
    with nothing_left():
        for options in ({"io_threads": 0}, {"operation_timeout_seconds": "5"}, {"logger": 5}):
            with pytest.raises(InvalidArgument, match=next(iter(options))):
                Client(broker.service_url, **options)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument):
            Client("localhost:6650")


def test_wrong_options_of_what_is_made_are_refused_by_their_names(client: Client, topic: str) -> None:
    with pytest.raises(InvalidArgument, match="send_timeout_millis"):
        client.create_producer(topic, send_timeout_millis=-1)
    with pytest.raises(InvalidArgument, match="receiver_queue_size"):
        client.subscribe(topic, "s", receiver_queue_size=-1)
    with pytest.raises(InvalidArgument, match="start_message_id"):
        client.create_reader(topic, "earliest")  # type: ignore[arg-type]
    with pytest.raises(InvalidTopicName):
        client.get_topic_partitions("")


def test_the_partitions_of_a_topic_are_named_and_one_without_any_is_itself(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    assert client.get_topic_partitions(topic) == [topic]
    partitioned(broker, f"{topic}-p", 2)
    assert client.get_topic_partitions(f"{topic}-p") == [f"{topic}-p-partition-0", f"{topic}-p-partition-1"]


def test_a_partition_is_a_topic_of_its_own_under_its_own_name(
    client: Client, topic: str, broker: EmbeddedBroker
) -> None:
    partitioned(broker, topic, 2)
    with client.create_producer(f"{topic}-partition-1") as producer:
        assert producer.send(b"to one partition").partition() == 1


def test_several_threads_may_make_things_at_once(client: Client, topic: str) -> None:
    made: list[str] = []

    def make(number: int) -> None:
        with client.create_producer(f"{topic}-{number}") as producer:
            producer.send(b"1")
            made.append(producer.topic())

    threads = [threading.Thread(target=make, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(set(made)) == 8


def test_stats_list_what_was_made(own: Client, topic: str) -> None:
    producer, consumer = own.create_producer(topic), own.subscribe(topic, "s")
    reader = own.create_reader(topic, MessageId.earliest)
    stats = own.stats()
    assert [one.topic for one in stats.producers] == [topic]
    assert sorted(one.subscription_name[:1] for one in stats.consumers) == ["r", "s"]
    assert (stats.connections, stats.pending_lookups, stats.pending_bytes) == (1, 0, 0)
    assert producer.is_connected()
    assert consumer.is_connected()
    assert reader.is_connected()


def test_stats_leave_out_what_is_closed(own: Client, topic: str) -> None:
    held = own.create_producer(topic), own.subscribe(topic, "s"), own.create_reader(topic, MessageId.earliest)
    for handle in held:
        handle.close()
    assert (own.stats().producers, own.stats().consumers) == ((), ())


def test_lookups_that_wait_for_an_answer_are_counted(own: Client, broker: EmbeddedBroker, topic: str) -> None:
    fault = broker.faults.on(CommandPartitionedTopicMetadata).stall()
    thread = threading.Thread(target=lambda: own.get_topic_partitions(topic), daemon=True)
    thread.start()
    fault.wait(1, PATIENCE)
    assert own.stats().pending_lookups == 1
    broker.faults.clear()
    fault.release()
    thread.join(PATIENCE)
    assert own.stats().pending_lookups == 0


def test_with_closes_everything_and_nothing_is_left(broker: EmbeddedBroker, topic: str) -> None:
    with nothing_left():
        with Client(broker.service_url, io_threads=2) as client:
            producer, consumer = client.create_producer(topic), client.subscribe(topic, "s")
            producer.send(b"1")
            consumer.receive(5_000)
        with pytest.raises(AlreadyClosed):
            producer.send(b"2")
        with pytest.raises(AlreadyClosed):
            consumer.receive(0)
        del client, producer, consumer


def test_after_a_close_nothing_is_made_and_closing_again_does_nothing(own: Client, topic: str) -> None:
    own.close()
    own.close()
    own.shutdown()
    for make in (
        lambda: own.create_producer(topic),
        lambda: own.subscribe(topic, "s"),
        lambda: own.create_reader(topic, MessageId.earliest),
        lambda: own.get_topic_partitions(topic),
    ):
        with pytest.raises(AlreadyClosed, match="client is closed"):
            make()


def test_a_shutdown_ends_everything_at_once(own: Client, topic: str) -> None:
    consumer = own.subscribe(topic, "s")
    future = consumer.receive_async()
    own.shutdown()
    assert isinstance(future.exception(PATIENCE), AlreadyClosed)


def test_in_a_callback_a_client_begins_to_close_and_makes_nothing(own: Client, topic: str) -> None:
    producer = own.create_producer(topic)
    errors: list[Any] = []
    event = threading.Event()

    def callback(*_: object) -> None:
        for make in (lambda: own.create_producer(topic), lambda: own.get_topic_partitions(topic)):
            try:
                make()
            except OperationNotSupported as error:
                errors.append(error)
        own.close()
        own.close()
        event.set()

    producer.send_async(b"1", callback)
    assert event.wait(PATIENCE)
    assert len(errors) == 2
    assert own._shutdown.ended is not None
    own._shutdown.ended.result(PATIENCE)


def test_where_nobody_listens_the_call_fails_when_its_time_is_up_and_says_what_went_wrong() -> None:
    with closed_port() as url, Client(url, operation_timeout_seconds=0.3) as client:
        with pytest.raises((ConnectError, OutcomeUnknown)) as caught:
            client.create_producer("t")
        assert "refused" in str(caught.value)


def test_a_timeout_says_what_was_not_done_in_time_and_for_which_topic() -> None:
    with closed_port() as url, Client(url, operation_timeout_seconds=0.3) as client:
        for call, what in (
            (lambda: client.create_producer("fruit"), "creating a producer on fruit"),
            (lambda: client.subscribe("fruit", "s"), "subscribing to fruit"),
            (lambda: client.create_reader("fruit", MessageId.earliest), "creating a reader on fruit"),
            (lambda: client.get_topic_partitions("fruit"), "asking for the partitions of fruit"),
        ):
            with pytest.raises(Timeout, match=f"^{what}: .*: no connection to 127"):
                call()


def test_a_token_lets_in_and_none_does_not(topic: str) -> None:
    tokens = Tokens(b"a secret of the broker's")
    with EmbeddedBroker(tokens=tokens) as broker:
        with Client(broker.service_url, AuthenticationToken(tokens.issue("somebody"))) as client:
            client.create_producer(topic).close()
        with Client(broker.service_url, operation_timeout_seconds=5) as client, pytest.raises(AuthenticationError):
            client.create_producer(topic)


def test_tls_needs_a_certificate_that_is_trusted(tmp_path: Path, topic: str) -> None:
    authority = Authority(tmp_path)
    files = authority.certify()
    with EmbeddedBroker(certificate_file=files.certificate, private_key_file=files.key) as broker:
        with Client(broker.service_url_tls, tls_trust_certs_file_path=authority.file) as client:
            client.create_producer(topic).close()
            client.subscribe(topic, "s").close()
        with (
            Client(broker.service_url_tls, operation_timeout_seconds=0.5) as client,
            pytest.raises((ConnectError, OutcomeUnknown), match="authority"),
        ):
            client.create_producer(topic)
        insecure = Client(broker.service_url_tls, tls_allow_insecure_connection=True, tls_validate_hostname=False)
        with insecure:
            insecure.create_producer(topic).close()


def test_a_certificate_can_be_shown_by_option_or_by_authentication(tmp_path: Path) -> None:
    files = Authority(tmp_path).certify()
    by_option = ClientOptions(
        "pulsar+ssl://h", tls_certificate_file_path=files.certificate, tls_private_key_file_path=files.key
    )
    shown = service_access(by_option)
    assert shown.fetch_credentials(None) == ("none", b"")
    assert shown.make_context() is shown.make_context(), "it is made once for all connections"
    by_authentication = ClientOptions("pulsar+ssl://h", authentication=AuthenticationTLS(files.certificate, files.key))
    assert service_access(by_authentication).make_context()
    assert service_access(by_authentication).fetch_credentials(None)[0] == "tls"


def test_a_logger_gets_what_happens_until_the_client_is_closed(broker: EmbeddedBroker, topic: str) -> None:
    records: list[logging.LogRecord] = []

    class Keeps(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger = logging.Logger("mine")  # noqa: LOG001 - one that nothing else knows
    logger.addHandler(Keeps())

    def broken(*_: object) -> None:
        raise ValueError("planted")

    with Client(broker.service_url, logger=logger) as client, client.create_producer(topic) as producer:
        producer.send_async(b"1", broken)
        until(lambda: any("a send callback" in record.getMessage() for record in records), "the record")


def test_a_client_that_cannot_be_made_has_its_provider_closed(tmp_path: Path) -> None:
    closed: list[bool] = []

    class Provider(ServiceInfoProvider):
        def initial_service_info(self) -> ServiceInfo:
            return ServiceInfo("pulsar+ssl://h", tls_trust_certs_file_path=str(tmp_path / "no such file"))

        def close(self) -> None:
            closed.append(True)

    with pytest.raises(InvalidArgument):
        Client(Provider())
    assert closed == [True]


def test_a_client_that_nobody_holds_is_ended(broker: EmbeddedBroker, topic: str) -> None:
    with nothing_left():
        client = Client(broker.service_url)
        gone = weakref.ref(client)
        client.create_producer(topic)
        del client
        gc.collect()
        assert gone() is None


def test_a_producer_keeps_its_client_alive(broker: EmbeddedBroker, topic: str) -> None:
    producer = Client(broker.service_url).create_producer(topic)
    gc.collect()
    producer.send(b"1")
    assert isinstance(producer._client, Client)
    producer._client.close()


def test_it_does_not_pickle_and_says_who_it_is(client: Client, broker: EmbeddedBroker) -> None:
    with pytest.raises(TypeError, match="a Client holds connections and cannot be pickled"):
        pickle.dumps(client)
    assert repr(client) == f"<Client of {broker.service_url}>"


def test_in_a_forked_child_everything_says_so(
    broker: EmbeddedBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(broker.service_url)
    producer, consumer = client.create_producer(topic), client.subscribe(topic, "s")
    stop = client._finalizer
    monkeypatch.setattr(client._engine, "forget_everything", lambda: None)  # its sockets are not a copy here
    client.forget_everything()
    for call in (
        lambda: client.create_producer(topic),
        client.close,
        client.shutdown,
        lambda: producer.send(b"1"),
        lambda: consumer.receive(0),
    ):
        with pytest.raises(ProcessForked, match="make a new Client in the child"):
            call()
    assert not stop.alive
    done: SlimFuture[None] = SlimFuture()
    tell(client._context.guardian, ShutDownClient(done))
    done.result(PATIENCE)
    client._engine.stop(PATIENCE)
    client._shutdown._log.detach()


def test_at_the_end_of_the_interpreter_producers_that_were_left_open_are_named(client: Client, topic: str) -> None:
    producer = client.create_producer(topic)
    with pytest.warns(ResourceWarning, match="may have lost messages.*topic"):
        warn_of_open_producers()
    producer.close()
