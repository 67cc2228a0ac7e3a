"""A broker that talks out of turn, answers something else, or refuses for any reason, and credentials that come and go.

What such a broker says need not be true, so nothing is compared with what it has. But whatever it says, no call hangs,
no machine meets what it has no row for, and when the broker and the credentials are well again, so is all the rest.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

from google.protobuf.message import Message

from pulsar_actors.broker import tokens
from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.tokens import Tokens
from pulsar_actors.client.authentication import AuthenticationToken
from pulsar_actors.client.client import Client
from pulsar_actors.client.enums import ConsumerType
from pulsar_actors.client.message_id import MessageId
from pulsar_actors.client.service_info import AutoClusterFailover, ServiceInfo
from pulsar_actors.exceptions import InternalError, PulsarException
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.simulation.world import EPOCH_MS, World
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.scenarios.scene import NAMESPACE, PARTS, PATIENCE, SUBSCRIPTION, TOPIC, Scene, play
from tests.scenarios.troubles import Troubles

HERE = "pulsar://broker:6650"
NOWHERE = "pulsar://nowhere:1"
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
        for _ in range(1 + dice.below(8)):
            at = 10.0 ** (dice.chance() * 4 - 3)
            self.until = max(self.until, at)
            scene.world.after(at, self._refuse if dice.happens(0.4) else self._answer)

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


class User:
    """Uses a client for whatever it offers, and takes every error but one of ours."""

    def __init__(self, scene: Scene, client: Client, number: int) -> None:
        self._scene = scene
        self._client = client
        self._dice = Dice(scene.world.seed, f"user {number}")
        self.caller = scene.world.spawn(self._run, f"user {number}")

    def _run(self) -> None:
        uses = (self._produce, self._consume, self._read, self._gather, self._ask, self._work, self._view)
        while not self._scene.is_calm:
            self._try(uses[self._dice.below(len(uses))])
            self._scene.sleep(10.0 ** (self._dice.chance() * 3 - 3))

    def _try(self, call: Any) -> None:
        try:
            call()
        except InternalError:
            raise
        except PulsarException as error:
            self._scene.world.note(f"{call.__name__}: {error!r}")

    def _topic(self) -> str:
        return str(PARTS) if self._dice.happens(0.3) else TOPIC

    def _produce(self) -> None:
        batching = self._dice.happens(0.5)
        producer = self._client.create_producer(self._topic(), batching_enabled=batching, send_timeout_millis=3000)
        try:
            for _ in range(1 + self._dice.below(5)):
                producer.send_async(b"x")
            producer.flush()
        finally:
            self._try(producer.close)

    def _consume(self) -> None:
        kind = tuple(ConsumerType)[self._dice.below(len(ConsumerType))]
        consumer = self._client.subscribe(
            self._topic(), SUBSCRIPTION, consumer_type=kind, ack_receipt_enabled=self._dice.happens(0.5)
        )
        try:
            with suppress(PulsarException):
                message = consumer.receive(300)
                (consumer.acknowledge if self._dice.happens(0.7) else consumer.negative_acknowledge)(message)
            what: tuple[Callable[[], object], ...] = (
                lambda: consumer.seek(MessageId.earliest),
                consumer.get_last_message_id,
                consumer.get_broker_consumer_stats,
                consumer.unsubscribe,
                consumer.redeliver_unacknowledged_messages,
                lambda: None,
            )
            self._try(what[self._dice.below(len(what))])
        finally:
            self._try(consumer.close)

    def _read(self) -> None:
        reader = self._client.create_reader(self._topic(), MessageId.earliest)
        try:
            if reader.has_message_available():
                reader.read_next(300)
        finally:
            self._try(reader.close)

    def _gather(self) -> None:
        pattern = re.compile(f"{NAMESPACE}/.*")
        consumer = self._client.subscribe(pattern, "all", ConsumerType.Shared, pattern_auto_discovery_period=1)
        self._scene.sleep(2 * self._dice.chance())
        self._try(consumer.close)

    def _ask(self) -> None:
        self._client.get_topic_partitions(self._topic())

    def _work(self) -> None:
        transaction = self._client.new_transaction(timedelta(seconds=10))
        producer = self._client.create_producer(TOPIC)
        try:
            producer.send(b"x", transaction=transaction)
            (transaction.commit if self._dice.happens(0.7) else transaction.abort)()
        finally:
            self._try(producer.close)

    def _view(self) -> None:
        self._client.create_table_view(TOPIC).close()


def client_of(scene: Scene) -> Client:
    """Make a client of the broker, or one that goes to another port of it when this one does not answer."""
    authentication = AuthenticationToken(Wallet(scene))
    if scene.dice.happens(0.6):
        return scene.client(authentication=authentication)
    scene.have_broker(Broker.add_listener)
    assert scene.broker is not None
    primary, other = (ServiceInfo(url, authentication) for url in (HERE, scene.broker.nodes[-1].service_url))
    quick = {"check_interval_ms": 300, "failover_threshold": 1, "switch_back_threshold": 1}
    return scene.client(service_url=AutoClusterFailover(primary, [other], **quick))


def become_well(scene: Scene) -> None:
    """Have a good broker in place of this one: permits that it swallowed are never asked for again otherwise."""
    scene.calm()
    scene.on_broker(Broker.cut_connections)


def hostile(scene: Scene) -> None:
    world = scene.world
    with tokens_of(world):
        scene.have_broker(lambda broker: broker.cluster.create_partitioned(PARTS, 2))
        clients = [client_of(scene) for _ in range(2)]
        users = [User(scene, clients[number % 2], number) for number in range(1 + scene.dice.below(4))]
        calm = max(Hostility(scene).until, Troubles(scene, 3, loses_receipts=True, refuses_for_good=True).until) + 5.0
        world.after(calm, lambda: become_well(scene))
        world.run(until=lambda: scene.is_calm and all(user.caller.ended for user in users), limit=calm + 4 * PATIENCE)
        for user in users:
            user.caller.result()
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


def test_whatever_a_broker_says_no_call_hangs_and_all_is_well_again_when_it_is() -> None:
    play(40, hostile, tokens=TOKENS)
