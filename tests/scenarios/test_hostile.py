"""A broker that talks out of turn, answers something else, or refuses for any reason, and credentials that come and go.

What such a broker says need not be true, so nothing is compared with what it has. But whatever it says, no call hangs,
no machine meets what it has no row for, and when the broker and the credentials are well again, so is all the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

from google.protobuf.message import Message

from pulsar_actors.broker import tokens
from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.client.authentication import AuthenticationToken
from pulsar_actors.client.client import Client
from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo
from pulsar_actors.simulation.connection import CALM, NetworkConditions
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import EPOCH_MS, World
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.scenarios.keys import Keys
from tests.scenarios.rare_events import HERE, NOWHERE, SECURE, RareEvents
from tests.scenarios.scene import CHANGEABLE, NAMESPACE, PARTS, PATIENCE, TOPIC, Scene, play
from tests.scenarios.strangers import Stranger
from tests.scenarios.troubles import Troubles
from tests.scenarios.users import User
from tests.support.certificates import Authority

KEYS = Keys()
TOKENS = Tokens(b"a secret of the simulation")
ERRORS = tuple(pb.ServerError.values())
LOOKUP = pb.CommandLookupTopicResponse
TXN = (pb.CommandNewTxnResponse, pb.CommandAddPartitionToTxnResponse, pb.CommandEndTxnResponse)
REFUSABLE = (
    pb.CommandConnect, pb.CommandLookupTopic, pb.CommandPartitionedTopicMetadata, pb.CommandProducer,
    pb.CommandSubscribe, pb.CommandSend, pb.CommandSeek, pb.CommandUnsubscribe, pb.CommandGetLastMessageId,
    pb.CommandGetTopicsOfNamespace, pb.CommandConsumerStats, pb.CommandNewTxn, pb.CommandAddPartitionToTxn,
    pb.CommandAddSubscriptionToTxn, pb.CommandEndTxn, pb.CommandCloseProducer, pb.CommandCloseConsumer,
)  # fmt: skip
ANY_OF_CLIENTS = (
    *REFUSABLE, pb.CommandFlow, pb.CommandAck, pb.CommandWatchTopicList, pb.CommandTcClientConnectRequest,
    pb.CommandPing, pb.CommandAuthResponse, pb.CommandRedeliverUnacknowledgedMessages,
)  # fmt: skip


def said(dice: Dice) -> Message:
    """Make something that a broker may say. Ids that are left out are those of what it answers."""
    error = ERRORS[dice.below(len(ERRORS))]
    where = (HERE, NOWHERE)[dice.below(2)]
    makers: tuple[Callable[[], Message], ...] = (
        lambda: pb.CommandConnected(server_version="other", protocol_version=dice.below(22)),
        lambda: pb.CommandAuthChallenge(challenge=pb.AuthData(auth_method_name="token", auth_data=b"again")),
        lambda: pb.CommandError(error=error, message="so it is"),
        pb.CommandSuccess,
        lambda: pb.CommandProducerSuccess(producer_name="other", producer_ready=dice.happens(0.7)),
        pb.CommandSendReceipt,
        lambda: pb.CommandSendError(error=error, message="so it is"),
        pb.CommandCloseProducer,
        pb.CommandCloseConsumer,
        pb.CommandPing,
        pb.CommandPong,
        pb.CommandReachedEndOfTopic,
        lambda: pb.CommandTopicMigrated(
            resource_id=dice.below(5), resource_type=dice.below(2), brokerServiceUrl=(where, "")[dice.below(2)]
        ),
        lambda: pb.CommandActiveConsumerChange(is_active=dice.happens(0.5)),
        lambda: pb.CommandAckResponse(error=error, message="so it is"),
        lambda: LOOKUP(response=LOOKUP.LookupType.Redirect, brokerServiceUrl=where, authoritative=dice.happens(0.5)),
        lambda: LOOKUP(response=LOOKUP.LookupType.Connect, brokerServiceUrl=where),
        lambda: LOOKUP(response=LOOKUP.LookupType.Failed, error=error, message="so it is"),
        lambda: pb.CommandPartitionedTopicMetadataResponse(partitions=dice.below(3)),
        lambda: pb.CommandGetTopicsOfNamespaceResponse(topics=[TOPIC], filtered=dice.happens(0.5)),
        lambda: pb.CommandWatchTopicUpdate(new_topics=[TOPIC], deleted_topics=[f"{TOPIC}-2"], topics_hash="x"),
        *(lambda kind=kind: kind(error=error, message="so it is") for kind in TXN),
    )
    return makers[dice.below(len(makers))]()


def completed(answer: Message, kind: type[Message], dice: Dice) -> Message:
    """Fill in the ids that the answer must have, and what it answers has not."""
    for field in answer.DESCRIPTOR.fields:
        is_there = answer.HasField(field.name) if field.has_presence else True
        if field.is_required and not is_there and field.name not in kind.DESCRIPTOR.fields_by_name:
            if field.message_type is None:
                setattr(answer, field.name, dice.below(5))
            else:
                getattr(answer, field.name).CopyFrom(pb.MessageIdData(ledgerId=dice.below(5), entryId=dice.below(5)))
    return answer


class Hostility:
    """What the broker says and refuses, at moments of its own, until `until`."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._dice = dice = Dice(scene.world.seed, "hostility")
        self.until = 0.0
        rare = RareEvents(scene, dice)
        for _ in range(1 + dice.below(8)):
            at = 10.0 ** (dice.chance() * 4 - 3)
            self.until = max(self.until, at)
            ways = (self._refuse, self._answer, rare.happen, rare.happen, rare.happen)
            scene.world.after(at, ways[dice.below(len(ways))])

    def _answer(self) -> None:
        dice, faults = self._dice, self._faults
        kind = ANY_OF_CLIENTS[dice.below(len(ANY_OF_CLIENTS))]
        answers = [completed(said(dice), kind, dice) for _ in range(1 + dice.below(2))]
        faults.on(kind, nth=1 + dice.below(3), times=1 + dice.below(3)).answer(*answers)
        self._scene.world.note(f"HOSTILE {kind.__name__} gets {[type(each).__name__ for each in answers]}")

    def _refuse(self) -> None:
        dice, faults = self._dice, self._faults
        kind = REFUSABLE[dice.below(len(REFUSABLE))]
        error = ERRORS[dice.below(len(ERRORS))]
        faults.on(kind, nth=1 + dice.below(3), times=1 + dice.below(3)).refuse(error, "so it is")
        self._scene.world.note(f"HOSTILE {kind.__name__} is refused with {pb.ServerError.Name(error)}")

    @property
    def _faults(self) -> Any:
        assert self._scene.broker is not None
        return self._scene.broker.faults


class Wallet:
    """Gives a client its tokens: good ones, some of which expire soon; until it is calm also wrong ones, or none."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._dice = Dice(scene.world.seed, "wallet")

    def __call__(self) -> str:
        if self._scene.is_calm or self._dice.happens(0.7):
            return TOKENS.issue("me", lifetime_seconds=None if self._dice.happens(0.5) else 3.0)
        if self._dice.happens(0.5):
            raise OSError("the wallet is lost")
        return Tokens(b"another").issue("me")


@contextmanager
def tokens_of(world: World) -> Iterator[None]:
    """Have tokens expire by the clock of the world."""
    with mock.patch.object(tokens, "time", SimpleNamespace(time=lambda: EPOCH_MS / 1000 + world.now)):
        yield


def client_at(scene: Scene, authority: str, url: str, **options: Any) -> Client:
    """Make a client of this service URL."""
    authentication = AuthenticationToken(Wallet(scene))
    return scene.client(authentication=authentication, service_url=url, tls_trust_certs_file_path=authority, **options)


def client_of(scene: Scene, authority: str) -> Client:
    """Make a client of the broker, on one of the ways to it."""
    dice, authentication = scene.dice, AuthenticationToken(Wallet(scene))
    ways: dict[str, Any] = {}
    if dice.happens(0.3):
        ways["concurrent_lookup_requests"] = 1
    urls = (HERE, HERE, f"pulsar://nowhere:1,{HERE.removeprefix('pulsar://')}", SECURE)
    if dice.happens(0.7):
        return client_at(scene, authority, urls[dice.below(len(urls))], **ways)
    scene.have_broker(Broker.add_listener)
    assert scene.broker is not None
    urls = (HERE, *((NOWHERE,) if dice.happens(0.5) else ()), scene.broker.nodes[-1].service_url)
    primary, *others = (ServiceInfo(each, authentication) for each in urls)
    quick = {"check_interval_ms": 300, "failover_threshold": 1, "switch_back_threshold": 1 + dice.below(2)}
    return scene.client(service_url=AutoClusterFailover(primary, others, **quick))


def become_well(scene: Scene) -> None:
    """Have a good broker in place of this one: permits that it swallowed are never asked for again otherwise."""
    scene.calm()
    scene.on_broker(Broker.cut_connections)


def hostile(scene: Scene, authorities: Sequence[str]) -> None:
    world = scene.world
    with tokens_of(world):
        scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 2))
        clients = [client_of(scene, authorities[0]) for _ in range(2)]
        users = [User(scene, clients[number % 2], number, KEYS) for number in range(1 + scene.dice.below(4))]
        if scene.dice.happens(0.2):  # one that trusts nobody who is there, and never comes through
            users.append(User(scene, client_at(scene, authorities[1], SECURE), 9, KEYS))
        stranger = Stranger(scene, TOKENS)
        more = 30.0 if scene.dice.happens(0.2) else 5.0  # so that operations time out
        calm = (
            max(
                stranger.until,
                Hostility(scene).until,
                Troubles(scene, 3, loses_receipts=True, refuses_for_good=True).until,
            )
            + more
        )
        world.after(calm, lambda: become_well(scene))
        world.run(
            until=lambda: scene.is_calm and all(caller.ended for user in users for caller in user.callers),
            limit=calm + 4 * PATIENCE,
        )
        for user in users:
            for caller in user.callers:
                caller.result()
        stranger.close()
        for client in clients:
            caller = world.spawn(lambda client=client: works(scene, client))  # type: ignore[misc]
            world.run(until=lambda caller=caller: caller.ended, limit=2 * PATIENCE)  # type: ignore[misc]
            caller.result()
        scene.end()


def works(scene: Scene, client: Client) -> None:
    """See that a client can send and receive."""
    topic = f"persistent://{NAMESPACE}/new-{scene.dice.below(10**9)}"
    consumer = scene.insist(lambda: client.subscribe(topic, "s"))
    producer = scene.insist(lambda: client.create_producer(topic))
    producer.send(b"well again")
    assert consumer.receive(int(PATIENCE * 1000)).data() == b"well again"
    producer.close()
    consumer.close()


def play_with(authorities: Sequence[Authority], seeds: int, conditions: NetworkConditions) -> None:
    files = authorities[0].certify(("broker",), signatures_of_one_size=True)
    trusted = [each.file for each in authorities]
    play(seeds, lambda scene: hostile(scene, trusted), conditions, tokens=TOKENS, certificate=files)


def test_whatever_a_broker_says_no_call_hangs_and_all_is_well_again_when_it_is(authorities: list[Authority]) -> None:
    play_with(authorities, 30, CHANGEABLE)


def test_whatever_a_broker_says_no_call_hangs_on_connections_that_last_for_longer_than_calls_wait(
    authorities: list[Authority],
) -> None:
    play_with(authorities, 20, CALM)
