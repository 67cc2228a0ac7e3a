import contextlib
import gc
import re
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pulsar_actors as pulsar
from pulsar_actors.broker.embedded import EmbeddedBroker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.runtime import tcp
from pulsar_actors.runtime.tcp import TcpTransport
from pulsar_actors.simulation.connection import NetworkConditions
from pulsar_actors.testing import Simulation
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.support.certificates import LONG_AGO, Authority, Files
from tests.support.life import (
    MILLISECONDS,
    SOON,
    InThread,
    client_of,
    closed_port,
    full_backlog,
    until,
    works,
)
from tests.support.relay import Relay

pytestmark = pytest.mark.usefixtures("clean")

SECRET = b"a secret of the tests"


@pytest.fixture
def broker(clean: None) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker() as broker:
        yield broker


@contextlib.contextmanager
def relayed(broker: EmbeddedBroker) -> Iterator[Relay]:
    """Give a way to the broker that lookups lead to as well."""
    with Relay(broker.service_url) as relay:
        broker.call(lambda inside: setattr(inside.nodes[0], "service_url", relay.service_url))
        yield relay


# How many there are.


@pytest.mark.shows("Connection sharing")
def test_producers_and_consumers_share_one_connection(broker: EmbeddedBroker) -> None:
    with relayed(broker) as relay, client_of(relay.service_url) as client:
        kept = [client.create_producer(f"t{number}") for number in range(5)]
        kept += [client.subscribe(f"t{number}", "s") for number in range(5)]  # type: ignore[misc]
        kept += [client.create_reader("t0", pulsar.MessageId.earliest)]  # type: ignore[list-item]
        assert relay.connections == client.stats().connections == 1


@pytest.mark.shows("ClientConfiguration", "connectionsPerBroker")
@pytest.mark.parametrize("io_threads", [1, 3])
def test_there_are_as_many_connections_as_asked_for(broker: EmbeddedBroker, io_threads: int) -> None:
    with (
        relayed(broker) as relay,
        client_of(relay.service_url, connections_per_broker=3, io_threads=io_threads) as client,
    ):
        kept = [client.create_producer(f"t{number}") for number in range(9)]
        assert relay.connections == client.stats().connections == 3
        for producer in kept:
            producer.send(b"x")


@pytest.mark.parametrize("partitions", [1, 3])
def test_partitions_use_as_many_connections_as_asked_for(partitions: int) -> None:
    with Simulation() as simulation:
        client = simulation.client(connections_per_broker=4)
        for number in range(4):
            simulation.broker.create_topic(f"t{number}", partitions)
        kept = [client.create_producer(f"t{number}") for number in range(4)]
        assert client.stats().connections == 4
        for producer in kept:
            producer.send(b"x")


def test_a_connection_that_nobody_uses_is_closed_and_made_anew_when_needed() -> None:
    with Simulation() as simulation:
        client = simulation.client(connection_max_idle_seconds=0.4, operation_timeout_seconds=0.4)

        def dialled() -> int:
            return sum(change.event == "dial" for change in client.history())

        client.create_producer("t").close()
        assert client.stats().connections == 1
        simulation.sleep(1)
        assert client.stats().connections == 0
        producer = client.create_producer("t")
        assert dialled() == 2
        simulation.sleep(1)  # longer than any idle connection lives
        assert client.stats().connections == 1
        producer.send(b"x")
        assert dialled() == 2


def test_idle_connections_stay_if_that_is_wanted(broker: EmbeddedBroker) -> None:
    with client_of(broker.service_url, connection_max_idle_seconds=0, operation_timeout_seconds=5) as client:
        client.create_producer("t").close()
        assert not threading.Event().wait(0.5)
        assert client.stats().connections == 1
        works(client)


@pytest.mark.shows("ClientConfiguration", "useTcpNoDelay")
@pytest.mark.parametrize("no_delay", [True, False])
def test_small_writes_wait_for_others_only_if_that_is_wanted(broker: EmbeddedBroker, *, no_delay: bool) -> None:
    port = int(broker.service_url.rpartition(":")[2])
    with client_of(broker.service_url, tcp_no_delay=no_delay) as client:
        works(client)
        opened = [each._socket for each in gc.get_objects() if type(each) is TcpTransport]
        sockets = [each for each in opened if isinstance(each, socket.socket) and each.fileno() >= 0]
        (ours,) = (each for each in sockets if each.getpeername()[1] == port)
        assert bool(ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)) == no_delay


# Which host.


def host_of(broker: EmbeddedBroker) -> str:
    return broker.service_url.removeprefix("pulsar://")


def test_a_host_that_is_down_is_passed_over(broker: EmbeddedBroker) -> None:
    with closed_port() as down:
        hosts = [down, broker.service_url]
        for order in (hosts, hosts[::-1]):
            url = "pulsar://" + ",".join(host.removeprefix("pulsar://") for host in order)
            with client_of(url) as client:
                works(client)


def test_a_name_with_an_address_that_says_nothing_is_dialled_at_another(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_backlog() as silent:
        ports = [int(url.rpartition(":")[2]) for url in (silent, broker.service_url)]
        addresses = [(socket.AF_INET, ("127.0.0.1", port)) for port in ports]
        monkeypatch.setattr(tcp, "_resolve", lambda host, port: list(addresses))
        with client_of("pulsar://brokers.example:6650", connection_timeout_ms=2000) as client:
            works(client)


def refuse(broker: EmbeddedBroker, kind: str) -> None:
    broker.faults.on(kind, times=None).refuse("ServiceNotReady", "the metadata store is away")


def stay_silent(broker: EmbeddedBroker, kind: str) -> None:
    broker.faults.on(kind, times=None).drop()


@pytest.mark.parametrize("fail", [refuse, stay_silent])
@pytest.mark.parametrize("first", [True, False])
def test_lookups_go_to_the_next_host_if_one_answers_pings_but_no_lookups(
    broker: EmbeddedBroker, fail: Callable[[EmbeddedBroker, str], None], *, first: bool
) -> None:
    with EmbeddedBroker() as other:
        for kind in ("lookup", "partitioned_metadata"):
            fail(other, kind)
        hosts = [other, broker] if first else [broker, other]
        with client_of(f"{hosts[0].service_url},{host_of(hosts[1])}", operation_timeout_seconds=2) as client:
            assert client.get_topic_partitions("t") == ["persistent://public/default/t"]
            works(client)


def test_lookups_that_every_host_refuses_use_one_connection_to_each(broker: EmbeddedBroker) -> None:
    dialled = list[object]()

    def note(seen: Any) -> None:
        if isinstance(seen.command, pb.CommandConnect):
            dialled.append(seen)

    with EmbeddedBroker() as other:
        for each in (broker, other):
            refuse(each, "partitioned_metadata")
            each.faults.control(note)
        with client_of(f"{broker.service_url},{host_of(other)}", operation_timeout_seconds=1) as client:
            asking = [InThread(lambda: client.get_topic_partitions("t")) for _ in range(10)]
            assert all(isinstance(each.error(), pulsar.Timeout) for each in asking)
            assert client.stats().connections == 2
    assert len(dialled) == 2


def test_lookups_use_one_connection_as_long_as_its_host_serves_them(broker: EmbeddedBroker) -> None:
    with EmbeddedBroker() as other, client_of(f"{broker.service_url},{host_of(other)}") as client:
        for number in range(10):
            client.get_topic_partitions(f"t{number}")
        assert client.stats().connections == 1


def test_a_host_that_does_not_answer_is_left_after_the_connection_timeout(broker: EmbeddedBroker) -> None:
    with full_backlog() as silent:
        url = f"{silent},{broker.service_url.removeprefix('pulsar://')}"
        with client_of(url, connection_timeout_ms=3000) as client:
            for _ in range(2):  # whichever is tried first
                works(client)
                broker.cut_connections()


@pytest.mark.parametrize("call", ["create_producer", "subscribe", "create_reader", "get_topic_partitions"])
def test_if_no_host_answers_within_the_connection_timeout_a_call_says_so_at_once(call: str) -> None:
    arguments = {"subscribe": ("t", "s"), "create_reader": ("t", pulsar.MessageId.earliest)}.get(call, ("t",))
    with full_backlog() as silent, full_backlog() as other:
        url = f"{silent},{other.removeprefix('pulsar://')}"
        with client_of(url, connection_timeout_ms=200, operation_timeout_seconds=60) as client:
            asking = InThread(lambda: getattr(client, call)(*arguments))
            error = asking.error()  # waits for much less than the operation timeout
    assert isinstance(error, pulsar.ConnectTimeout)
    assert isinstance(error, pulsar.ConnectError)
    assert all(host.removeprefix("pulsar://") in str(error) for host in url.split(","))
    assert "within 0.2 s: still DIALING" in str(error)


@pytest.fixture
def hanging_name(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give a name that hangs in the name server until the end of the test."""
    name, over, resolve = "hangs.invalid", threading.Event(), socket.getaddrinfo

    def hang(host: Any, *arguments: Any, flags: int = 0, **named: Any) -> Any:
        if host == name.encode() and not flags & socket.AI_NUMERICHOST:
            assert over.wait(3 * SOON)
        return resolve(host, *arguments, flags=flags, **named)

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    yield name
    over.set()


def test_a_name_that_hangs_takes_the_connection_timeout_and_holds_up_no_other_name(hanging_name: str) -> None:
    with EmbeddedBroker(host="localhost") as broker:
        good = broker.service_url.removeprefix("pulsar://")
        assert good.startswith("localhost:")
        for hosts in (f"{hanging_name},{good}", f"{good},{hanging_name}"):
            with client_of(f"pulsar://{hosts}", connection_timeout_ms=200) as client:
                InThread(lambda client=client: client.get_topic_partitions("t")).result()


def test_a_name_that_hangs_and_no_other_is_a_host_that_does_not_answer(hanging_name: str) -> None:
    with client_of(f"pulsar://{hanging_name}", connection_timeout_ms=200, operation_timeout_seconds=60) as client:
        error = InThread(lambda: client.get_topic_partitions("t")).error()
    assert isinstance(error, pulsar.ConnectTimeout)


def test_a_failover_leaves_a_name_that_hangs_for_another_name(hanging_name: str) -> None:
    with EmbeddedBroker(host="localhost") as broker:
        clusters = pulsar.ServiceInfo(f"pulsar://{hanging_name}"), [pulsar.ServiceInfo(broker.service_url)]
        failover = pulsar.AutoClusterFailover(*clusters, check_interval_ms=100)
        with contextlib.closing(pulsar.Client(failover, connection_timeout_ms=200)) as client:
            until(lambda: client.get_service_info().service_url == broker.service_url)
            InThread(lambda: client.get_topic_partitions("t")).result()


def test_a_service_that_has_answered_before_is_waited_for_when_its_hosts_say_nothing() -> None:
    with Simulation() as simulation:
        client = simulation.client(connection_timeout_ms=100, operation_timeout_seconds=60)
        client.create_producer("t").send(b"x")
        frozen = simulation.broker.faults.on("connect", times=None).drop()
        simulation.broker.cut_connections()
        asking = simulation.start(client.get_topic_partitions, "t")
        simulation.until(lambda: frozen.happened >= 3)
        frozen.remove()
        simulation.until(lambda: asking.ended)
        assert asking.result() == ["persistent://public/default/t"]


def test_a_broker_that_does_not_answer_may_be_replaced_and_is_looked_up_again(broker: EmbeddedBroker) -> None:
    with full_backlog() as silent:
        there = pb.CommandLookupTopicResponse(
            response=pb.CommandLookupTopicResponse.Connect, brokerServiceUrl=silent, authoritative=True
        )
        fault = broker.faults.on(pb.CommandLookupTopic, times=1).answer(there)
        with client_of(broker.service_url, connection_timeout_ms=3000) as client:
            works(client)
        assert fault.happened == 1


def test_a_host_that_refuses_may_be_starting_and_is_tried_again() -> None:
    with closed_port() as starting, full_backlog() as silent:
        url = f"{silent},{starting.removeprefix('pulsar://')}"
        with (
            client_of(url, connection_timeout_ms=200, operation_timeout_seconds=1) as client,
            pytest.raises(pulsar.Timeout, match="the last failure was: no connection "),
        ):
            client.create_producer("t")


def test_a_name_that_does_not_exist_is_said_to_be_so() -> None:
    with (
        client_of("pulsar://nowhere.invalid:6650", operation_timeout_seconds=3) as client,
        pytest.raises(pulsar.PulsarException, match=r"nowhere\.invalid"),
    ):
        client.create_producer("t")


def test_that_nobody_listens_is_said_with_the_address() -> None:
    with (
        closed_port() as service_url,
        client_of(service_url, operation_timeout_seconds=3) as client,
        pytest.raises(pulsar.PulsarException, match=rf"127\.0\.0\.1:{service_url.rpartition(':')[2]}.*refused"),
    ):
        client.create_producer("t")


# How long things take.


@pytest.mark.shows("Keep alive")
@pytest.mark.shows("Keep alive", "Ping")
def test_a_broker_that_answers_no_ping_is_left_after_two_intervals(broker: EmbeddedBroker) -> None:
    with relayed(broker) as relay, client_of(relay.service_url, keep_alive_interval_seconds=0.3) as client:
        producer = client.create_producer("t")
        fault = broker.faults.on(pb.CommandPing, times=None).drop()
        fault.wait(1, SOON)
        until(lambda: producer.stats().reconnects >= 1)
        fault.remove()
        producer.send(b"x")
        error = producer.stats().last_error
        assert "silent" in error


@pytest.mark.shows("Keep alive")
@pytest.mark.shows("Keep alive", "Ping", "Pong")
def test_a_broker_that_answers_pings_is_kept() -> None:
    with Simulation() as simulation:
        client = simulation.client(keep_alive_interval_seconds=0.5)
        producer = client.create_producer("t")
        pings = simulation.broker.faults.on("ping", nth=3).delay(0)
        simulation.until(lambda: pings.happened)
        simulation.sleep(1)
        assert producer.stats().reconnects == 0
        producer.send(b"x")


SLOW_LINK = NetworkConditions(latency=1.0, smallest_window=1024, largest_window=1024)
"""A network with about 2 KiB a second in each direction."""


@pytest.mark.shows("Keep alive")
@pytest.mark.parametrize("payloads", [[b"x" * 100_000], [b"x" * 1000] * 100], ids=["a large message", "many messages"])
def test_a_connection_with_traffic_is_kept_though_the_pong_comes_late(payloads: list[bytes]) -> None:
    """The PING waits behind what is sent, or the PONG behind what is received."""
    with Simulation(network=SLOW_LINK) as simulation:
        client = simulation.client(keep_alive_interval_seconds=5)
        producer = client.create_producer("t", send_timeout_millis=0, batching_enabled=False)
        assert producer.send_many(payloads).result() == len(payloads)
        assert producer.stats().reconnects == 0
        reader = client.create_reader("t", pulsar.MessageId.earliest)
        assert [reader.read_next().data() for _ in payloads] == payloads
        assert reader.stats().reconnects == 0


@pytest.mark.shows("Keep alive")
def test_a_broker_that_says_nothing_any_longer_is_left_after_two_intervals() -> None:
    """The connection stays open, with messages on the way to the broker, which takes none of them."""
    with Simulation() as simulation:
        client = simulation.client(keep_alive_interval_seconds=5)
        producer = client.create_producer("t")
        producer.send(b"x")
        fault = simulation.broker.faults.on(pb.CommandSend).stall()
        begin = simulation.now
        sent = producer.send_many([b"x" * 100_000] * 100)
        simulation.until(lambda: producer.stats().reconnects, timeout=15)
        assert simulation.now - begin < 12
        assert fault.happened == 1
        assert sent.result() == 100


def test_a_connection_that_stands_still_is_left_and_traffic_goes_on_elsewhere(broker: EmbeddedBroker) -> None:
    with Relay(broker.service_url) as first, relayed(broker) as second:
        broker.call(lambda inside: setattr(inside.nodes[0], "service_url", first.service_url))
        with client_of(second.service_url, keep_alive_interval_seconds=0.2) as client:
            producer, consumer = client.create_producer("t"), client.subscribe("t", "s")
            broker.call(lambda inside: setattr(inside.nodes[0], "service_url", second.service_url))
            first.stall()
            began = time.monotonic()
            producer.send(b"x")
            assert consumer.receive(MILLISECONDS).data() == b"x"
            assert time.monotonic() - began < SOON


REQUESTS: dict[str, tuple[Any, Any]] = {
    "lookup": (pb.CommandLookupTopic, lambda client, _: client.create_producer("u")),
    "create_producer": (pb.CommandProducer, lambda client, _: client.create_producer("u")),
    "subscribe": (pb.CommandSubscribe, lambda client, _: client.subscribe("u", "s")),
    "seek": (pb.CommandSeek, lambda _, consumer: consumer.seek(pulsar.MessageId.earliest)),
    "get_last_message_id": (pb.CommandGetLastMessageId, lambda _, consumer: consumer.get_last_message_id()),
}


@pytest.mark.parametrize("what", REQUESTS)
def test_a_request_without_an_answer_fails_when_its_time_is_up(broker: EmbeddedBroker, what: str) -> None:
    command, call = REQUESTS[what]
    with client_of(broker.service_url, operation_timeout_seconds=3) as client:
        consumer = client.subscribe("t", "s")
        broker.faults.on(command, times=None).drop()
        began = time.monotonic()
        assert isinstance(InThread(lambda: call(client, consumer)).error(), pulsar.Timeout)
        assert time.monotonic() - began > 2.9


@pytest.mark.shows("Client library", "backoff")
def test_pauses_between_attempts_are_each_twice_the_one_before() -> None:
    with Simulation() as simulation:
        simulation.broker.faults.on_accept(times=None).hang_up()
        client = simulation.client(
            operation_timeout_seconds=30, initial_backoff_interval_ms=100, max_backoff_interval_ms=60_000
        )
        with pytest.raises(pulsar.Timeout):
            client.create_producer("t")
        dialled = [change.time for change in client.history() if change.event == "dial"]
    pauses = [later - earlier for earlier, later in pairwise(dialled)]
    assert len(pauses) == 8
    assert pauses[0] == pytest.approx(0.1, rel=0.15)
    assert all(longer / pause == pytest.approx(2, rel=0.15) for pause, longer in pairwise(pauses))


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda client: client.create_producer("t"), id="lookup"),
        pytest.param(lambda client: client.subscribe(re.compile("public/default/nothing.*"), "s"), id="watcher"),
    ],
)
def test_no_pause_is_longer_than_the_longest_that_is_set(make: Callable[[pulsar.Client], object]) -> None:
    with Simulation() as simulation:
        client = simulation.client(initial_backoff_interval_ms=100, max_backoff_interval_ms=500)
        kept = make(client)
        simulation.broker.faults.on_accept(times=None).hang_up()
        simulation.broker.cut_connections()
        simulation.sleep(120)
        dialled = [change.time for change in client.history() if change.event == "dial"]
        assert kept is not None
    pauses = [later - earlier for earlier, later in pairwise(dialled)]
    assert len(pauses) > 10
    assert max(pauses) == pytest.approx(0.5, rel=0.15)


def test_a_lookup_that_is_tried_again_and_again_does_not_keep_others_from_asking() -> None:
    with Simulation() as simulation:
        client = simulation.client(concurrent_lookup_requests=1, operation_timeout_seconds=30)
        refused = simulation.broker.faults.on("lookup", times=None, when=lambda command: command.topic.endswith("bad"))
        refused.refuse("ServiceNotReady", "later")
        failed = simulation.start(client.create_producer, "bad")
        simulation.sleep(1.0)
        began = simulation.now
        client.create_producer("good")
        assert simulation.now - began < 1.0
        simulation.until(lambda: failed.ended)
        with pytest.raises(pulsar.Timeout):
            failed.result()


def test_pauses_are_short_again_after_a_success(broker: EmbeddedBroker) -> None:
    with client_of(broker.service_url, initial_backoff_interval_ms=50) as client:
        producer = client.create_producer("t")
        for reconnects in range(1, 11):  # the tenth pause would be longer than `until` waits
            broker.cut_connections()
            until(lambda wanted=reconnects: producer.stats().reconnects == wanted)
            producer.send(b"x")


def test_many_producers_come_back_after_a_cut(broker: EmbeddedBroker) -> None:
    with client_of(broker.service_url, initial_backoff_interval_ms=10, io_threads=2) as client:
        producers = [client.create_producer(f"t{number % 10}") for number in range(100)]
        broker.cut_connections()
        for producer in producers:
            producer.send(b"x")
        assert client.stats().connections == 1


def test_while_one_producer_reconnects_and_waits_for_a_name_server_others_of_its_loop_go_on(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer, resolve = threading.Event(), threading.Event(), socket.getaddrinfo

    def answers_late(host: Any, *rest: Any, **more: Any) -> Any:
        if host != b"slow.example":
            return resolve(host, *rest, **more)
        if more.get("flags"):
            raise socket.gaierror
        asked.set()
        answer.wait(SOON)
        return resolve("127.0.0.1", *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answers_late)
    second = broker.add_listener()
    far = second.service_url.replace("127.0.0.1", "slow.example")
    broker.call(lambda _: setattr(second, "service_url", far))
    with client_of(broker.service_url, io_threads=1) as client:
        stays, moves = client.create_producer("stays"), client.create_producer("moves")
        broker.assign("moves", second)
        assert asked.wait(SOON)
        began = time.monotonic()
        for _ in range(20):
            stays.send(b"x")
        assert time.monotonic() - began < SOON / 2
        assert not moves.is_connected()
        answer.set()
        moves.send(b"x")


# TLS.


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@contextlib.contextmanager
def tls_broker(authority: Authority, *names: str, **options: Any) -> Iterator[EmbeddedBroker]:
    files = authority.certify(names or ("localhost", "127.0.0.1"), **options)
    with EmbeddedBroker(certificate_file=files.certificate, private_key_file=files.key) as broker:
        yield broker


def test_everything_works_over_tls(authority: Authority) -> None:
    with (
        tls_broker(authority) as broker,
        client_of(broker.service_url_tls, tls_trust_certs_file_path=authority.file) as client,
    ):
        consumer, producer = client.subscribe("t", "s"), client.create_producer("t", max_pending_messages=0)
        large = [bytes([number]) * 4_000_000 for number in range(5)]
        sent = [producer.send_async(data) for data in large]
        assert [consumer.receive(MILLISECONDS).data() for _ in large] == large
        assert None not in [future and future.result(SOON) for future in sent]
        broker.cut_connections()
        producer.send(b"after a cut")
        received = consumer.receive(MILLISECONDS).data()
        while received != b"after a cut":  # what was not acknowledged comes again
            received = consumer.receive(MILLISECONDS).data()


def test_what_was_connected_waits_for_a_certificate_to_be_renewed(authority: Authority) -> None:
    def broker_with(files: Files, port: int = 0) -> EmbeddedBroker:
        return EmbeddedBroker(certificate_file=files.certificate, private_key_file=files.key, tls_port=port)

    with contextlib.ExitStack() as stack:
        with broker_with(authority.certify()) as broker:
            url = broker.service_url_tls
            client = stack.enter_context(client_of(url, tls_trust_certs_file_path=authority.file))
            producer = client.create_producer("t")
        port = int(url.rpartition(":")[2])
        with broker_with(authority.certify(valid=LONG_AGO), port):
            until(lambda: "expired" in (producer.stats().last_error or ""))
        with broker_with(authority.certify(), port):
            producer.send(b"after it was renewed")
            client.close()


def test_a_certificate_that_is_refused_is_taken_where_the_user_says_so(authority: Authority) -> None:
    with (
        tls_broker(authority, "elsewhere.example") as broker,
        client_of(broker.service_url_tls, tls_allow_insecure_connection=True) as client,
    ):
        works(client)
    with (
        tls_broker(authority, "elsewhere.example") as broker,
        client_of(
            broker.service_url_tls, tls_validate_hostname=False, tls_trust_certs_file_path=authority.file
        ) as client,
    ):
        works(client)


# Tokens.


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(SECRET)


@pytest.mark.shows("Connection establishment", "auth_method_name", "auth_data")
def test_a_good_token_lets_in_and_a_bad_one_is_refused_at_once(tokens: Tokens) -> None:
    with EmbeddedBroker(tokens=tokens) as broker:
        with client_of(broker.service_url, authentication=pulsar.AuthenticationToken(tokens.issue("me"))) as client:
            works(client)
        forged = Tokens(b"another secret").issue("me")
        for authentication in (None, pulsar.AuthenticationToken(forged)):
            with client_of(broker.service_url, authentication=authentication) as client:
                error = InThread(lambda client=client: client.create_producer("t")).error()
                assert isinstance(error, pulsar.AuthenticationError)
                assert forged not in str(error)


# A peer that does not read.


def test_what_a_broker_does_not_read_costs_no_more_than_what_is_pending(broker: EmbeddedBroker) -> None:
    size, pending = 500_000, 20
    with relayed(broker) as relay, client_of(relay.service_url) as client:
        producer = client.create_producer("t", max_pending_messages=pending, send_timeout_millis=300)
        relay.stall()
        tracemalloc.start()
        try:
            for _ in range(6):
                futures = [producer.send_async(bytes(size)) for _ in range(pending)]
                for future in futures:
                    assert isinstance(future.exception(SOON), pulsar.PulsarException)
                del futures, future
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        client.shutdown()
        assert held < 4_000_000
