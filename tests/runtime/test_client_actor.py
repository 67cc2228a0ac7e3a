import logging
from typing import Any

import pytest
from loop_in_hand import Confidants, Line, LoopInHand, actor_of, of_kind

from pulsar_actors.exceptions import (
    AlreadyClosed,
    ConnectError,
    ConnectionLost,
    InternalError,
    InvalidUrl,
    OperationNotSupported,
)
from pulsar_actors.machines.binding_events import EndAtOnce
from pulsar_actors.machines.lookup import SERVICE_URL
from pulsar_actors.machines.lookup_events import Target
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_messages import (
    AttachMember,
    BrokerFound,
    CloseHandle,
    FindBroker,
    Joining,
    Place,
    Retired,
)
from pulsar_actors.runtime.client_actor import Admit, ClientActor, ClientSettings, CloseAll, ShutDown, UseService
from pulsar_actors.runtime.connection_actor import Entrance
from pulsar_actors.runtime.connections import Manner
from pulsar_actors.runtime.future import SlimFuture
from pulsar_actors.runtime.http import Http
from pulsar_actors.runtime.lookup_actor import LookupActor, LookupSettings, Question, Reach, Reached
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import PRODUCER, Bound, Member, Token, Unbound
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.wire.commands import decode_command, encode_command
from pulsar_actors.wire.frames import FrameReader
from pulsar_actors.wire.PulsarApi_pb2 import CommandConnected, CommandPartitionedTopicMetadata, CommandPong
from pulsar_actors.wire.service_url import ServiceUrl

NO_CONTEXT: Any = None
HOW_MANY = CommandPartitionedTopicMetadata(topic="t", request_id=0)
BROKER = Target("pulsar://b:6650", "pulsar://b:6650")
BEHIND_PROXY = Target("pulsar://b:6650", None)


class Bench:
    """A guardian, with loops and a network in hand."""

    def __init__(self, loops: int = 1, **settings: Any) -> None:
        self.loops = [LoopInHand() for _ in range(loops)]
        self.loop = self.loops[0]
        self.confidants = Confidants(self.loop)
        self.tally = Tally()
        made = {
            "service_url": ServiceUrl.parse("pulsar://a:6650,a2:6651"),
            "manner": Manner("test"),
            "lookup": LookupSettings(30.0, listener_name=None, at_once=10),
            "entrance": Entrance(lambda _: ("none", b""), NO_CONTEXT, Http(NO_CONTEXT)),
            "tally": self.tally,
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

    def member(self) -> Member:
        self.numbers += 1
        return Member(PRODUCER, self.numbers, self.confidants.make(), self.numbers)

    def heard(self, who: Address | Member) -> list[Any]:
        return self.confidants.heard(who.address if isinstance(who, Member) else who)

    def attach(self, broker: Target | str = BROKER, slot: int = 0) -> Address:
        """Have a member sent to a connection, and tell to which."""
        member = self.member()
        self.tell(AttachMember(broker, slot, member))
        ((joining),) = of_kind(Joining, self.heard(member))
        assert isinstance(joining, Joining)
        return joining.connection

    def reach(self, target: Target, cluster_url: str | None = None) -> Any:
        asker = self.confidants.make()
        self.tell(Reach(target, cluster_url, Token(asker, "q")))
        ((reached),) = self.heard(asker)
        assert isinstance(reached, Reached)
        return reached.outcome

    def connect(self, line: Line) -> str:
        """Let a connection come to be, and tell which broker it asks a proxy for."""
        line.owner.opened()
        self.run()
        for loop in self.loops:
            loop.do_errands()
        (frame,) = FrameReader().feed(bytes(line.written))
        line.written.clear()
        connect: Any = decode_command(frame.command)
        line.owner.received(
            encode_command(CommandConnected(server_version="b", protocol_version=21, max_message_size=1000))
        )
        self.run()
        return str(connect.proxy_to_broker_url)

    def admit(self, kind: str = PRODUCER) -> tuple[Address, Place, Loop]:
        made: list[Any] = []

        def make(loop: Loop, place: Place) -> Address:
            made.extend([self.confidants.make(), place, loop])
            return made[0]  # type: ignore[no-any-return]

        self.tell(Admit(kind, make, made.append))
        handle, place, loop = made
        return handle, place, loop

    def close(self, how: type[CloseAll | ShutDown] = CloseAll) -> SlimFuture[None]:
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
    assert bench.attach(Target("pulsar://c:6650", "pulsar://c:6650")) is not first
    assert bench.attach("pulsar://b:6650") is first, "a broker that names another gives a URL only"
    assert bench.tally.connections == 3
    assert {(line.host, line.port) for line in bench.lines} == {("b", 6650), ("c", 6650)}


def test_a_member_hears_of_its_connection_before_it_hears_from_it(bench: Bench) -> None:
    connection = bench.attach()
    bench.connect(bench.lines[0])
    member = bench.member()
    bench.tell(AttachMember(BROKER, 0, member))
    assert bench.heard(member) == [
        Joining(member.number, connection),
        Bound(member.number, connection, 1000),
    ]


def test_the_service_url_is_dialled_beginning_with_another_host_each_time(bench: Bench) -> None:
    bench.reach(Target(None, None))
    bench.attach(BEHIND_PROXY)
    assert [line.host for line in bench.lines] in (["a", "a2"], ["a2", "a"])


def test_through_a_proxy_each_broker_has_a_connection_of_its_own(bench: Bench) -> None:
    first = bench.attach(BEHIND_PROXY)
    second = bench.attach(Target("pulsar://c:6650", None))
    plain = bench.reach(Target(None, None))
    assert len({first, second, plain}) == 3
    assert [bench.connect(line) for line in bench.lines] == ["b:6650", "c:6650", ""]


def test_a_lookup_and_a_member_share_the_connection_to_a_broker(bench: Bench) -> None:
    assert bench.reach(BROKER) is bench.attach()


def test_another_cluster_is_reached_by_its_own_url(bench: Bench) -> None:
    bench.reach(Target(None, None), "pulsar://other:6650")
    assert bench.lines[0].host == "other"


def test_a_url_that_makes_no_sense_is_refused_to_who_brought_it(bench: Bench) -> None:
    member = bench.member()
    bench.tell(AttachMember("pulsar://", 0, member))
    ((unbound),) = bench.heard(member)
    assert isinstance(unbound, Unbound)
    assert isinstance(unbound.error, InvalidUrl)
    assert isinstance(bench.reach(Target("x://", "x://")), InvalidUrl)


def test_connections_are_spread_over_the_loops() -> None:
    bench = Bench(loops=2)
    for slot in range(4):
        bench.attach(slot=slot)
    assert [len(loop.lines) for loop in bench.loops] == [2, 2]


def test_a_connection_that_has_ended_is_not_given_to_anybody_else(bench: Bench) -> None:
    first = bench.attach()
    bench.lines[0].owner.lost("refused")
    bench.run()
    assert bench.tally.connections == 0
    assert bench.attach() is not first
    assert bench.tally.connections == 1


def test_a_connection_that_nobody_uses_ends_after_a_while(bench: Bench) -> None:
    member = bench.member()
    bench.tell(AttachMember(BROKER, 0, member))
    idle = bench.reach(Target(None, None))
    for line in bench.lines:
        bench.connect(line)
    for _ in range(5):
        bench.pass_time(20.0)
        for line in bench.lines:
            if not line.closed:
                line.owner.received(encode_command(CommandPong()))
    assert not idle.is_alive()
    assert bench.tally.connections == 1
    assert bench.attach() is of_kind(Joining, bench.heard(member))[0].connection, "it was used, and is found again"


def test_a_connection_that_dies_of_a_bug_is_replaced(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    member = bench.member()
    bench.tell(AttachMember(BROKER, 0, member))
    ((joining),) = bench.heard(member)
    with caplog.at_level(logging.ERROR, "pulsar_actors"):
        tell(joining.connection, KeyError("no event"))
        bench.run()
    assert of_kind(Unbound, bench.heard(member))
    assert bench.attach() is not joining.connection
    assert bench.tally.connections == 1


# Lookups.


def test_lookups_have_an_actor_and_another_one_when_that_has_died(bench: Bench) -> None:
    answers: list[Any] = []
    bench.tell(Question(HOW_MANY, answers.append))
    first = actor_of(bench.actor)._lookup
    assert isinstance(actor_of(first), LookupActor)
    tell(first, Question("no command", answers.append))  # type: ignore[arg-type]
    bench.run()
    bench.connect(bench.lines[0])
    assert [type(answer) for answer in answers] == [InternalError, InternalError]
    asker = bench.confidants.make()
    bench.tell(FindBroker("t", None, Token(asker, 1)))
    assert actor_of(bench.actor)._lookup is not first
    assert bench.tally.lookups == 1


# Producers and consumers.


def test_each_has_an_id_of_its_own_and_they_are_spread_over_loops_and_slots() -> None:
    bench = Bench(loops=2, connections_per_broker=3)
    places = [bench.admit()[1] for _ in range(6)]
    assert len({place.id for place in places}) == 6
    assert sorted(place.slot for place in places) == [0, 0, 1, 1, 2, 2]
    assert all(place.guardian is bench.actor for place in places)
    loops = [bench.admit()[2] for _ in range(4)]
    assert [loops.count(loop) for loop in bench.loops] == [2, 2]


def test_a_bug_in_the_making_is_refused_by_its_name_and_the_guardian_goes_on(bench: Bench) -> None:
    refusals: list[Any] = []

    def make(loop: Loop, place: Place) -> Address:
        raise KeyError("planted")

    bench.tell(Admit(PRODUCER, make, refusals.append))
    assert isinstance(refusals[0], InternalError)
    assert "planted" in str(refusals[0])
    assert bench.admit()


# The end.


def test_a_client_with_nothing_closes_at_once(bench: Bench) -> None:
    assert bench.close().result(0) is None
    assert not bench.actor.is_alive()


def test_first_the_handles_then_the_connections_then_it_is_over(bench: Bench) -> None:
    handle, _, _ = bench.admit()
    bench.attach()
    bench.connect(bench.lines[0])
    done = bench.close()
    assert bench.heard(handle) == [CloseHandle()]
    assert not bench.lines[0].closed
    assert not done.done()
    bench.tell(Retired(handle))
    assert bench.lines[0].closed
    assert done.result(0) is None
    assert bench.tally.connections == 0


def test_everybody_who_closes_hears_of_the_end_and_handles_are_told_once(bench: Bench) -> None:
    handle, _, _ = bench.admit()
    first, second = bench.close(), bench.close()
    assert bench.heard(handle) == [CloseHandle()]
    bench.tell(Retired(handle))
    assert first.done()
    assert second.done()
    assert bench.close().result(0) is None, "also who comes when it is over"
    assert bench.close(ShutDown).result(0) is None


def test_a_shutdown_ends_the_handles_at_once_and_lets_connections_go(bench: Bench) -> None:
    handle, _, _ = bench.admit()
    bench.attach()
    done = bench.close(ShutDown)
    end, _ = bench.heard(handle)
    assert isinstance(end, EndAtOnce)
    assert isinstance(end.error, AlreadyClosed)
    bench.tell(Retired(handle))
    assert done.done()


def test_a_shutdown_hurries_a_close_that_is_under_way(bench: Bench) -> None:
    handle, _, _ = bench.admit()
    first = bench.close()
    bench.close(ShutDown)
    assert len(of_kind(EndAtOnce, bench.heard(handle))) == 1
    bench.tell(Retired(handle))
    assert first.done()


def test_while_it_closes_nothing_new_begins_and_every_question_is_answered(bench: Bench) -> None:
    answers: list[Any] = []
    bench.tell(Question(HOW_MANY, answers.append))
    handle, _, _ = bench.admit()
    bench.close()
    assert isinstance(answers[0], AlreadyClosed)
    refusals: list[Any] = []
    asker = bench.confidants.make()
    bench.tell(
        Admit(PRODUCER, lambda *_: handle, refusals.append),
        Question(HOW_MANY, answers.append),
        FindBroker("t", None, Token(asker, 5)),
    )
    assert [type(one) for one in (refusals[0], answers[1])] == [AlreadyClosed, AlreadyClosed]
    ((found),) = bench.heard(asker)
    assert isinstance(found, BrokerFound)
    assert isinstance(found.outcome, AlreadyClosed)


def test_a_handle_that_dies_of_a_bug_does_not_keep_the_client_open(bench: Bench) -> None:
    class Handle(type(actor_of(bench.confidants.make()))):  # type: ignore[misc]
        def receive(self, message: object) -> None:
            raise KeyError("planted")

    def make(loop: Loop, place: Place) -> Address:
        handle = Handle(loop, [])
        handle.guardian = place.guardian
        address: Address = handle.actor_ref
        return address

    bench.tell(Admit(PRODUCER, make, print))
    assert bench.close().done()


def test_after_the_end_everything_is_answered(bench: Bench) -> None:
    bench.close()
    member, asker = bench.member(), bench.confidants.make()
    answers: list[Any] = []
    bench.tell(
        AttachMember(BROKER, 0, member),
        Reach(BROKER, None, Token(asker, "q")),
        FindBroker("t", None, Token(asker, 1)),
        Question(HOW_MANY, answers.append),
        Admit(PRODUCER, lambda *_: bench.actor, answers.append),
        Retired(asker),
    )
    assert isinstance(bench.heard(member)[0].error, AlreadyClosed)
    assert [type(one.outcome) for one in bench.heard(asker)] == [AlreadyClosed, AlreadyClosed]
    assert [type(answer) for answer in answers] == [AlreadyClosed, AlreadyClosed]


def test_without_its_guardian_a_client_ends_and_every_error_names_the_bug(bench: Bench) -> None:
    handle, _, _ = bench.admit()
    answers: list[Any] = []
    bench.tell(Question(HOW_MANY, answers.append))
    done = bench.close()
    bench.tell("not a message for it")
    assert isinstance(done.exception(0), InternalError)
    end = of_kind(EndAtOnce, bench.heard(handle))[0]
    assert isinstance(end.error, InternalError)
    assert len(answers) == 1
    assert all(line.closed for line in bench.lines)
    refusals: list[Any] = []
    bench.tell(Admit(PRODUCER, lambda *_: handle, refusals.append))
    assert isinstance(refusals[0], InternalError)
    assert "does not take" in str(refusals[0])


def test_a_guardian_that_dies_without_lookups_or_connections_has_nobody_to_end(bench: Bench) -> None:
    bench.tell("not a message for it")
    assert not bench.actor.is_alive()
    assert bench.close().done(), "and closing the client still works"


# Another cluster.


def moved(url: str) -> UseService:
    return UseService(ServiceUrl.parse(url), Entrance(lambda _: ("none", b""), NO_CONTEXT, Http(NO_CONTEXT)))


def test_when_the_client_goes_elsewhere_connections_end_as_if_lost_and_new_ones_lead_there(bench: Bench) -> None:
    connection = bench.reach(SERVICE_URL)
    member = bench.member()
    bench.tell(AttachMember(SERVICE_URL, 0, member))
    bench.connect(bench.lines[0])
    bench.tell(moved("pulsar://n:7000"))
    (unbound,) = of_kind(Unbound, bench.heard(member))
    assert isinstance(unbound.error, ConnectionLost)
    assert bench.reach(SERVICE_URL) != connection
    assert (bench.lines[-1].host, bench.lines[-1].port) == ("n", 7000)


def test_a_connection_in_the_making_ends_as_well(bench: Bench) -> None:
    member = bench.member()
    bench.tell(AttachMember(SERVICE_URL, 0, member), moved("pulsar://n:7000"))
    (unbound,) = of_kind(Unbound, bench.heard(member))
    assert isinstance(unbound.error, ConnectError)


def test_what_was_found_before_leads_nowhere_after(bench: Bench) -> None:
    bench.tell(moved("pulsar://n:7000"))
    member = bench.member()
    bench.tell(AttachMember(BROKER, 0, member))
    (unbound,) = of_kind(Unbound, bench.heard(member))
    assert "another cluster" in str(unbound.error)
    assert bench.attach(BROKER._replace(service=1))


@pytest.mark.parametrize(("url", "broker"), [("pulsar://n", "pulsar+ssl://b"), ("pulsar+ssl://n", "pulsar://b")])
def test_a_broker_is_encrypted_as_the_service_url_is(bench: Bench, url: str, broker: str) -> None:
    bench.tell(moved(url))
    member = bench.member()
    bench.tell(AttachMember(broker, 0, member))
    (unbound,) = of_kind(Unbound, bench.heard(member))
    assert "encrypted, unlike the service URL" in str(unbound.error)


def test_lookups_hear_of_it(bench: Bench) -> None:
    bench.tell(Question(HOW_MANY, lambda _: None))
    bench.tell(moved("pulsar://n:7000"))
    assert bench.lines[-1].host == "n"


def test_where_topics_are_looked_up_over_http_nobody_is_connected_to() -> None:
    bench = Bench(service_url=ServiceUrl.parse("http://a:8080"))
    assert isinstance(bench.reach(SERVICE_URL), OperationNotSupported)
    assert bench.attach()


def test_a_broker_of_another_cluster_that_names_itself_alone_is_reached_by_the_url_of_that_cluster(
    bench: Bench,
) -> None:
    bench.attach(Target("pulsar://n:7000", None, cluster="pulsar://n:7000"))
    assert (bench.lines[-1].host, bench.lines[-1].port) == ("n", 7000)
