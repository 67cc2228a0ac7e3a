import logging
from itertools import permutations
from typing import Any

import pytest

from pulsar_actors import exceptions
from pulsar_actors.machines.client_close import CloseClient, ShutDownClient
from pulsar_actors.machines.connection_commands import CONSUMER, PRODUCER, WATCHER
from pulsar_actors.machines.connection_handler_events import EndAtOnce
from pulsar_actors.machines.lookup import SERVICE_URL
from pulsar_actors.machines.lookup_events import AssignedBroker, LookupTarget
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.runtime import lookup_actor
from pulsar_actors.runtime.actor import ActorDied, ActorRef, tell
from pulsar_actors.runtime.client_actor import ClientActor, ClientSettings, Registrations, UseService
from pulsar_actors.runtime.connection_actor import ServiceAccess
from pulsar_actors.runtime.connection_pool import ConnectionPoolSettings
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.handle_link import ClientCounters
from pulsar_actors.runtime.http_client import HttpClient
from pulsar_actors.runtime.messages import (
    ActorEnded,
    ActorStarted,
    AttachHandler,
    BrokerFound,
    CloseHandle,
    ConnectionAssigned,
    ConnectionReady,
    ConnectionUnavailable,
    FindBroker,
    HandlerRef,
    ReplyTo,
)
from pulsar_actors.wire.frames import FrameReader, decode_command, encode_command
from pulsar_actors.wire.PulsarApi_pb2 import CommandConnected, CommandPartitionedTopicMetadata, CommandPong
from pulsar_actors.wire.service_url import ServiceUrl
from tests.support.manual_loop import Line, ManualLoop, RecordingActors, actor_of, of_kind

NO_CONTEXT: Any = None
HOW_MANY = CommandPartitionedTopicMetadata(topic="t", request_id=0)
BROKER = LookupTarget("pulsar://b:6650", "pulsar://b:6650")
BEHIND_PROXY = LookupTarget("pulsar://b:6650", None)


class Bench:
    """A guardian, with loops and a network in hand."""

    def __init__(self, loops: int = 1, **settings: Any) -> None:
        self.loops = [ManualLoop() for _ in range(loops)]
        self.loop = self.loops[0]
        self.actors = RecordingActors(self.loop)
        self.counters = ClientCounters()
        made = {
            "service_url": ServiceUrl.parse("pulsar://a:6650,a2:6651"),
            "pool_settings": ConnectionPoolSettings("test"),
            "lookup": lookup_actor.LookupSettings(
                30.0, listener_name=None, at_once=10, new_backoff=lambda loop: Backoff(loop.chance)
            ),
            "access": ServiceAccess(lambda _: ("none", b""), NO_CONTEXT, HttpClient(NO_CONTEXT)),
            "counters": self.counters,
        }
        self.actor = ClientActor.start(self.loops, ClientSettings(**{**made, **settings}))
        self.numbers = 0
        self.run()

    def run(self) -> None:
        while any(loop.posted for loop in self.loops):
            for loop in self.loops:
                loop.run()

    def pass_time(self, seconds: float) -> None:
        for loop in self.loops:
            loop.pass_time(seconds)
        self.run()

    def tell(self, *messages: object) -> None:
        for message in messages:
            tell(self.actor, message)
        self.run()

    @property
    def lines(self) -> list[Line]:
        return [line for loop in self.loops for line in loop.lines]

    def member(self) -> HandlerRef:
        self.numbers += 1
        return HandlerRef(PRODUCER, self.numbers, self.actors.make(), self.numbers)

    def heard(self, who: ActorRef | HandlerRef) -> list[Any]:
        return self.actors.heard(who.address if isinstance(who, HandlerRef) else who)

    def attach(self, broker: LookupTarget | AssignedBroker = BROKER, slot: int = 0) -> ActorRef:
        """Have a member sent to a connection, and tell to which."""
        member = self.member()
        self.tell(AttachHandler(broker, slot, member))
        ((joining),) = of_kind(ConnectionAssigned, self.heard(member))
        assert isinstance(joining, ConnectionAssigned)
        return joining.connection

    def refused(self, broker: LookupTarget | AssignedBroker) -> Any:
        """Have a member sent to a connection that there cannot be, and tell what it hears."""
        member = self.member()
        self.tell(AttachHandler(broker, 0, member))
        (unbound,) = of_kind(ConnectionUnavailable, self.heard(member))
        return unbound

    def reach(self, target: LookupTarget, cluster_url: str | None = None, instead_of: ActorRef | None = None) -> Any:
        asker = self.actors.make()
        self.tell(lookup_actor.RequestConnection(target, cluster_url, ReplyTo(asker, "q"), instead_of))
        ((reached),) = self.heard(asker)
        assert isinstance(reached, lookup_actor.ConnectionFound)
        return reached.outcome

    def connect(self, line: Line) -> str:
        """Let a connection come to be, and tell which broker it asks a proxy for."""
        line.owner.opened()
        self.run()
        for loop in self.loops:
            loop.run_blocking_calls()
        (frame,) = FrameReader().feed(bytes(line.written))
        line.written.clear()
        connect: Any = decode_command(frame.command)
        line.owner.received(
            encode_command(CommandConnected(server_version="b", protocol_version=21, max_message_size=1000))
        )
        self.run()
        return str(connect.proxy_to_broker_url)

    def handle(self) -> ActorRef:
        """Start an actor as that of a producer starts, and give its address."""
        handle = self.actors.make()
        self.tell(ActorStarted(handle))
        return handle

    def close(self, how: type[CloseClient | ShutDownClient] = CloseClient) -> SlimFuture[None]:
        done: SlimFuture[None] = SlimFuture()
        self.tell(how(done))
        return done


@pytest.fixture
def bench() -> Bench:
    return Bench()


# Connections.


def test_members_of_one_broker_and_slot_share_a_connection(bench: Bench) -> None:
    first = bench.attach()
    assert bench.attach() is first
    assert bench.attach(slot=1) is not first
    assert bench.attach(LookupTarget("pulsar://c:6650", "pulsar://c:6650")) is not first
    assert bench.attach(AssignedBroker("pulsar://b:6650")) is first, "a broker that names another gives a URL only"
    assert bench.counters.connections == 3
    assert {(line.host, line.port) for line in bench.lines} == {("b", 6650), ("c", 6650)}


def test_a_member_hears_of_its_connection_before_it_hears_from_it(bench: Bench) -> None:
    connection = bench.attach()
    bench.connect(bench.lines[0])
    member = bench.member()
    bench.tell(AttachHandler(BROKER, 0, member))
    assert bench.heard(member) == [
        ConnectionAssigned(member.number, connection),
        ConnectionReady(member.number, connection, 1000),
    ]


def test_the_service_url_is_dialled_beginning_with_another_host_each_time(bench: Bench) -> None:
    bench.reach(LookupTarget(None, None))
    bench.attach(BEHIND_PROXY)
    assert [line.host for line in bench.lines] in (["a", "a2"], ["a2", "a"])


def test_lookups_leave_a_host_that_did_not_serve_them_once_and_each_host_has_one_connection(bench: Bench) -> None:
    first = bench.reach(SERVICE_URL)
    bench.connect(bench.lines[-1])
    second = bench.reach(SERVICE_URL, instead_of=first)
    assert [line.host for line in bench.lines] == ["a2", "a"]
    assert bench.reach(SERVICE_URL, instead_of=first) is second, "a lookup that was made at the same time"
    bench.connect(bench.lines[-1])
    assert bench.reach(SERVICE_URL) is second, "the next lookup"
    for _ in range(3):
        assert bench.reach(SERVICE_URL, instead_of=second) is first
        assert bench.reach(SERVICE_URL, instead_of=first) is second
    assert len(bench.lines) == 2


def test_watchers_leave_a_host_that_did_not_serve_them(bench: Bench) -> None:
    first, member = bench.attach(SERVICE_URL, slot=1), bench.member()
    bench.tell(AttachHandler(SERVICE_URL, 1, member, first))
    assert [line.host for line in bench.lines] == ["a2", "a"]


def test_a_host_that_is_down_when_another_was_left_does_not_get_the_other_a_second_connection(bench: Bench) -> None:
    first = bench.reach(SERVICE_URL)
    bench.connect(bench.lines[-1])
    bench.reach(SERVICE_URL, instead_of=first)
    bench.lines[-1].owner.lost("refused")
    bench.run()
    assert [line.host for line in bench.lines] == ["a2", "a"]
    assert bench.reach(SERVICE_URL) is first


def test_a_host_is_left_that_was_dialled_after_another_that_was_down() -> None:
    bench = Bench(service_url=ServiceUrl.parse("pulsar://a,b,c"))
    first = bench.reach(SERVICE_URL)
    bench.lines[-1].owner.lost("refused")
    bench.run()
    bench.connect(bench.lines[-1])
    bench.reach(SERVICE_URL, instead_of=first)
    assert [line.host for line in bench.lines] == ["b", "c", "a"]


@pytest.mark.parametrize("broker", [BROKER, BEHIND_PROXY])
def test_the_connection_to_a_broker_is_not_left(bench: Bench, broker: LookupTarget) -> None:
    first = bench.attach(broker)
    assert bench.reach(broker, instead_of=first) is first


def test_through_a_proxy_each_broker_has_a_connection_of_its_own(bench: Bench) -> None:
    first = bench.attach(BEHIND_PROXY)
    second = bench.attach(LookupTarget("pulsar://c:6650", None))
    plain = bench.reach(LookupTarget(None, None))
    assert len({first, second, plain}) == 3
    assert [bench.connect(line) for line in bench.lines] == ["b:6650", "c:6650", ""]


def test_an_assigned_broker_is_reached_through_the_proxy_that_its_handler_came_through(bench: Bench) -> None:
    bench.attach(AssignedBroker("pulsar://c:6650", proxied=True))
    assert bench.lines[-1].host in {"a", "a2"}, "the hosts of the service URL"
    assert bench.connect(bench.lines[-1]) == "c:6650"
    bench.attach(AssignedBroker("pulsar://d:6650", proxied=True, cluster="pulsar://other:6650"))
    assert bench.lines[-1].host == "other", "the proxy of the cluster that the topic has migrated to"
    bench.attach(AssignedBroker("pulsar://c:6650"))
    assert bench.lines[-1].host == "c", "without a proxy"


def test_a_lookup_and_a_member_share_the_connection_to_a_broker(bench: Bench) -> None:
    assert bench.reach(BROKER) is bench.attach()


def test_another_cluster_is_reached_by_its_own_url(bench: Bench) -> None:
    bench.reach(LookupTarget(None, None), "pulsar://other:6650")
    assert bench.lines[0].host == "other"


def test_a_url_that_makes_no_sense_is_refused_to_who_brought_it(bench: Bench) -> None:
    unbound = bench.refused(AssignedBroker("pulsar://"))
    assert isinstance(unbound.error, exceptions.InvalidUrl)
    assert isinstance(bench.reach(LookupTarget("x://", "x://")), exceptions.InvalidUrl)


def test_connections_are_spread_over_the_loops() -> None:
    bench = Bench(loops=2)
    for slot in range(4):
        bench.attach(slot=slot)
    assert [len(loop.lines) for loop in bench.loops] == [2, 2]


def test_a_connection_that_has_ended_is_not_given_to_anybody_else(bench: Bench) -> None:
    first = bench.attach()
    bench.lines[0].owner.lost("refused")
    bench.run()
    assert bench.counters.connections == 0
    assert bench.attach() is not first
    assert bench.counters.connections == 1


def test_a_connection_that_nobody_uses_ends_after_a_while(bench: Bench) -> None:
    member = bench.member()
    bench.tell(AttachHandler(BROKER, 0, member))
    idle = bench.reach(LookupTarget(None, None))
    for line in bench.lines:
        bench.connect(line)
    for _ in range(5):
        bench.pass_time(20.0)
        for line in bench.lines:
            if not line.closed:
                line.owner.received(encode_command(CommandPong()))
    assert not idle.is_alive()
    assert bench.counters.connections == 1
    assert bench.attach() is of_kind(ConnectionAssigned, bench.heard(member))[0].connection, (
        "it was used, and is found again"
    )


def test_a_connection_that_dies_of_a_bug_is_replaced(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    member = bench.member()
    bench.tell(AttachHandler(BROKER, 0, member))
    ((joining),) = bench.heard(member)
    with caplog.at_level(logging.ERROR, "pulsar_actors"):
        tell(joining.connection, KeyError("no event"))
        bench.run()
    assert of_kind(ConnectionUnavailable, bench.heard(member))
    assert bench.attach() is not joining.connection
    assert bench.counters.connections == 1


# Lookups.


def test_lookups_have_an_actor_and_another_one_when_that_has_died(bench: Bench) -> None:
    answers: list[Any] = []
    bench.tell(lookup_actor.BrokerQuery(HOW_MANY, answers.append))
    first = actor_of(bench.actor)._lookup
    assert isinstance(actor_of(first), lookup_actor.LookupActor)
    tell(first, lookup_actor.BrokerQuery("no command", answers.append))  # type: ignore[arg-type]
    bench.run()
    bench.connect(bench.lines[0])
    assert [type(answer) for answer in answers] == [exceptions.InternalError, exceptions.InternalError]
    asker = bench.actors.make()
    bench.tell(FindBroker("t", None, ReplyTo(asker, 1)), FindBroker("t", None, ReplyTo(asker, 2)))
    assert actor_of(bench.actor)._lookup is not first
    assert bench.counters.lookups == 2


# Producers and consumers.


def test_each_has_an_id_of_its_own_and_they_are_spread_over_loops_and_slots() -> None:
    bench = Bench(loops=2)
    registrations = Registrations(bench.actor, bench.loops, 3)
    given = [registrations.new(PRODUCER) for _ in range(6)]
    assert len({each.id for each in given}) == 6
    assert sorted(each.slot for each in given) == [0, 0, 1, 1, 2, 2]
    assert [[each.loop for each in given].count(loop) for loop in bench.loops] == [3, 3]
    assert {(each.kind, each.guardian) for each in given} == {(PRODUCER, bench.actor)}


@pytest.mark.parametrize("kind", ["topic set", WATCHER])
def test_whatever_is_made_between_them_hardly_uses_a_connection_and_takes_no_turn_of_theirs(kind: str) -> None:
    bench = Bench(loops=2)
    registrations = Registrations(bench.actor, bench.loops, 2)
    given = [registrations.new(each) for _ in range(3) for each in (kind, PRODUCER, kind, CONSUMER)]
    assert len({each.id for each in given}) == 12
    for some in (given[::2], given[1::2]):
        assert sorted(each.slot for each in some) == [0, 0, 0, 1, 1, 1]
        assert [[each.loop for each in some].count(loop) for loop in bench.loops] == [3, 3]


# The end.


def test_first_the_handles_then_the_connections_then_it_is_over(bench: Bench) -> None:
    handle = bench.handle()
    bench.attach()
    bench.connect(bench.lines[0])
    done = bench.close()
    assert bench.heard(handle) == [CloseHandle()]
    assert not bench.lines[0].closed
    assert not done.done()
    bench.tell(ActorEnded(handle))
    assert bench.lines[0].closed
    assert done.result(0) is None
    assert bench.counters.connections == 0


@pytest.mark.parametrize("order", list(permutations(["producer", "consumer", "lookups", "connection"])), ids="-".join)
def test_connections_outlast_producers_and_consumers_in_whatever_order_actors_end(order: tuple[str, ...]) -> None:
    bench = Bench()
    handles = {"producer": bench.handle(), "consumer": bench.handle()}
    bench.tell(lookup_actor.BrokerQuery(HOW_MANY, lambda _: None))
    bench.attach()
    bench.attach(slot=1)
    for line in bench.lines:
        bench.connect(line)
    lookups = actor_of(bench.actor)._lookup
    done = bench.close()
    for what in order:
        match what:
            case "connection":
                bench.lines[0].owner.lost("cut")
                bench.run()
            case "lookups":
                bench.tell(ActorDied(lookups, exceptions.InternalError("planted")))
            case _:
                bench.tell(ActorEnded(handles.pop(what)))
        assert done.done() == (not handles)
        assert all(line.closed for line in bench.lines[1:]) == (not handles)
    assert bench.counters.connections == 0


def test_everybody_who_closes_hears_of_the_end_and_handles_are_told_once(bench: Bench) -> None:
    handle = bench.handle()
    first, second = bench.close(), bench.close()
    assert bench.heard(handle) == [CloseHandle()]
    bench.tell(ActorEnded(handle))
    assert first.done()
    assert second.done()
    assert bench.close().result(0) is None, "also who comes when it is over"
    assert bench.close(ShutDownClient).result(0) is None


def test_a_shutdown_ends_the_handles_at_once_and_lets_connections_go(bench: Bench) -> None:
    handle = bench.handle()
    bench.attach()
    done = bench.close(ShutDownClient)
    (end,) = bench.heard(handle)
    assert isinstance(end, EndAtOnce)
    assert isinstance(end.error, exceptions.AlreadyClosed)
    bench.tell(ActorEnded(handle))
    assert done.done()


def test_a_shutdown_hurries_a_close_that_is_under_way(bench: Bench) -> None:
    handle = bench.handle()
    first = bench.close()
    bench.close(ShutDownClient)
    assert len(of_kind(EndAtOnce, bench.heard(handle))) == 1
    bench.tell(ActorEnded(handle))
    assert first.done()


def test_while_it_closes_nothing_new_begins_and_every_question_is_answered(bench: Bench) -> None:
    answers: list[Any] = []
    bench.tell(lookup_actor.BrokerQuery(HOW_MANY, answers.append))
    bench.handle()
    bench.close()
    assert isinstance(answers[0], exceptions.AlreadyClosed)
    bench.tell(lookup_actor.BrokerQuery(HOW_MANY, answers.append))
    assert isinstance(answers[1], exceptions.AlreadyClosed)


def test_while_it_closes_a_handle_that_is_left_finds_its_broker_until_it_ends(bench: Bench) -> None:
    handle, asker = bench.handle(), bench.actors.make()
    bench.tell(FindBroker("t", None, ReplyTo(asker, 1)))
    bench.close()
    bench.tell(FindBroker("t", None, ReplyTo(asker, 2)))
    assert bench.heard(asker) == []
    assert bench.counters.lookups == 2
    bench.tell(ActorEnded(handle))
    found = bench.heard(asker)
    assert {one.request for one in found} == {1, 2}
    assert all(isinstance(one, BrokerFound) for one in found)
    assert all(isinstance(one.outcome, exceptions.AlreadyClosed) for one in found)


def test_a_shutdown_during_a_close_ends_lookups_and_handles_at_once(bench: Bench) -> None:
    handle, asker = bench.handle(), bench.actors.make()
    bench.close()
    bench.tell(FindBroker("t", None, ReplyTo(asker, 1)))
    bench.close(ShutDownClient)
    ((found),) = bench.heard(asker)
    assert isinstance(found.outcome, exceptions.AlreadyClosed)
    assert [type(told) for told in bench.heard(handle)] == [CloseHandle, EndAtOnce]
    bench.tell(FindBroker("t", None, ReplyTo(asker, 2)))
    ((refused),) = bench.heard(asker)
    assert isinstance(refused.outcome, exceptions.AlreadyClosed)


def test_a_handle_that_dies_of_a_bug_does_not_keep_the_client_open(bench: Bench) -> None:
    class Handle(type(actor_of(bench.actors.make()))):  # type: ignore[misc]
        def receive(self, message: object) -> None:
            raise KeyError("planted")

    handle = Handle(bench.loop, [])
    handle.guardian = bench.actor
    bench.tell(ActorStarted(handle.actor_ref))
    assert bench.close().done()


def test_after_the_end_everything_is_answered(bench: Bench) -> None:
    bench.close()
    member, asker = bench.member(), bench.actors.make()
    answers: list[Any] = []
    bench.tell(
        AttachHandler(BROKER, 0, member),
        lookup_actor.RequestConnection(BROKER, None, ReplyTo(asker, "q")),
        FindBroker("t", None, ReplyTo(asker, 1)),
        lookup_actor.BrokerQuery(HOW_MANY, answers.append),
        ActorEnded(asker),
    )
    assert isinstance(bench.heard(member)[0].error, exceptions.AlreadyClosed)
    assert [type(one.outcome) for one in bench.heard(asker)] == [exceptions.AlreadyClosed, exceptions.AlreadyClosed]
    assert isinstance(answers[0], exceptions.AlreadyClosed)
    assert [type(told.error) for told in bench.heard(bench.handle())] == [exceptions.AlreadyClosed]


def test_what_starts_while_the_client_closes_is_ended_at_once_and_waited_for(bench: Bench) -> None:
    first = bench.handle()
    done = bench.close()
    late = bench.handle()
    ((end),) = bench.heard(late)
    assert isinstance(end, EndAtOnce)
    assert (type(end.error), str(end.error)) == (exceptions.AlreadyClosed, "the client is closed")
    bench.tell(ActorEnded(first))
    assert not done.done()
    bench.tell(ActorEnded(late))
    assert done.done()


def test_a_producer_with_messages_that_starts_while_the_client_closes_is_closed_and_waited_for(bench: Bench) -> None:
    first = bench.handle()
    done = bench.close()
    late = bench.actors.make()
    bench.tell(ActorStarted(late, has_messages=True), ActorEnded(first))
    assert bench.heard(late) == [CloseHandle()]
    assert not done.done()
    bench.tell(ActorEnded(late))
    assert done.done()


def test_without_its_guardian_a_client_ends_and_every_error_names_the_bug(bench: Bench) -> None:
    handle = bench.handle()
    answers: list[Any] = []
    bench.tell(lookup_actor.BrokerQuery(HOW_MANY, answers.append))
    done = bench.close()
    bench.tell("not a message for it")
    assert isinstance(done.exception(0), exceptions.InternalError)
    end = of_kind(EndAtOnce, bench.heard(handle))[0]
    assert isinstance(end.error, exceptions.InternalError)
    assert len(answers) == 1
    assert all(line.closed for line in bench.lines)
    ((late),) = bench.heard(bench.handle())
    assert isinstance(late.error, exceptions.InternalError)
    assert "does not take" in str(late.error)


def test_a_guardian_that_dies_without_lookups_or_connections_has_nobody_to_end(bench: Bench) -> None:
    bench.tell("not a message for it")
    assert not bench.actor.is_alive()
    assert bench.close().done(), "and closing the client still works"


# Another cluster.


def moved(url: str) -> UseService:
    return UseService(ServiceUrl.parse(url), ServiceAccess(lambda _: ("none", b""), NO_CONTEXT, HttpClient(NO_CONTEXT)))


def test_when_the_client_goes_elsewhere_connections_end_as_if_lost_and_new_ones_lead_there(bench: Bench) -> None:
    connection = bench.reach(SERVICE_URL)
    member = bench.member()
    bench.tell(AttachHandler(SERVICE_URL, 0, member))
    bench.connect(bench.lines[0])
    bench.tell(moved("pulsar://n:7000"))
    (unbound,) = of_kind(ConnectionUnavailable, bench.heard(member))
    assert isinstance(unbound.error, exceptions.ConnectionLost)
    assert bench.reach(SERVICE_URL) != connection
    assert (bench.lines[-1].host, bench.lines[-1].port) == ("n", 7000)


def test_a_connection_in_the_making_ends_as_well(bench: Bench) -> None:
    member = bench.member()
    bench.tell(AttachHandler(SERVICE_URL, 0, member), moved("pulsar://n:7000"))
    (unbound,) = of_kind(ConnectionUnavailable, bench.heard(member))
    assert isinstance(unbound.error, exceptions.ConnectError)


def test_what_was_found_before_leads_nowhere_after(bench: Bench) -> None:
    bench.tell(moved("pulsar://n:7000"))
    unbound = bench.refused(BROKER)
    assert "another cluster" in str(unbound.error)
    assert bench.attach(BROKER._replace(service=1))


@pytest.mark.parametrize(("url", "broker"), [("pulsar://n", "pulsar+ssl://b"), ("pulsar+ssl://n", "pulsar://b")])
def test_a_broker_is_encrypted_as_the_service_url_is(bench: Bench, url: str, broker: str) -> None:
    bench.tell(moved(url))
    unbound = bench.refused(AssignedBroker(broker))
    assert "encrypted, unlike the service URL" in str(unbound.error)


@pytest.mark.parametrize(("url", "cluster"), [("pulsar://n", "pulsar+ssl://o"), ("pulsar+ssl://n", "pulsar://o")])
def test_a_cluster_that_a_topic_has_migrated_to_is_encrypted_as_the_service_url_is(
    bench: Bench, url: str, cluster: str
) -> None:
    bench.tell(moved(url))
    error = bench.reach(SERVICE_URL, cluster)
    assert isinstance(error, exceptions.ConnectError)
    assert "encrypted, unlike the service URL" in str(error)
    assert bench.lines == []


def test_lookups_hear_of_it(bench: Bench) -> None:
    bench.tell(lookup_actor.BrokerQuery(HOW_MANY, lambda _: None))
    bench.tell(moved("pulsar://n:7000"))
    assert bench.lines[-1].host == "n"


def test_where_topics_are_looked_up_over_http_nobody_is_connected_to() -> None:
    bench = Bench(service_url=ServiceUrl.parse("http://a:8080"))
    assert isinstance(bench.reach(SERVICE_URL), exceptions.OperationNotSupported)
    assert bench.attach()


def test_a_broker_of_another_cluster_that_names_itself_alone_is_reached_by_the_url_of_that_cluster(
    bench: Bench,
) -> None:
    bench.attach(LookupTarget("pulsar://n:7000", None, cluster="pulsar://n:7000"))
    assert (bench.lines[-1].host, bench.lines[-1].port) == ("n", 7000)
