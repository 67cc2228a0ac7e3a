"""What a broker seldom does, or never: it hands a topic over, ends it, lets it migrate, forgets, or answers late.

Each of these is done to the next command of some kinds, or to a few of them. They fit the command: what does not fit is
in `test_hostile.py`.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from google.protobuf.message import Message

from pulsar_actors.broker.broker import Broker
from pulsar_actors.broker.fault_rules import Action, Answer, Delay, Drop, InterceptedCommand, Refuse
from pulsar_actors.broker.faults import Faults
from pulsar_actors.broker.model.interfaces import Refusal
from pulsar_actors.simulation.scheduler import Dice
from pulsar_actors.wire import PulsarApi_pb2 as pb
from tests.scenarios.scene import NAMESPACE, OPERATION_TIMEOUT, Scene, focused

HERE = "pulsar://broker:6650"
NOWHERE = "pulsar://nowhere:1"
SECURE = "pulsar+ssl://broker:6651"

OF_PRODUCERS = (pb.CommandProducer, pb.CommandSend, pb.CommandCloseProducer)
OF_CONSUMERS = (
    pb.CommandSubscribe, pb.CommandFlow, pb.CommandAck, pb.CommandSeek, pb.CommandUnsubscribe,
    pb.CommandGetLastMessageId, pb.CommandCloseConsumer, pb.CommandRedeliverUnacknowledgedMessages,
)  # fmt: skip
CLOSES = (pb.CommandCloseProducer, pb.CommandCloseConsumer)
CALLS = (pb.CommandSeek, pb.CommandUnsubscribe, pb.CommandGetLastMessageId, pb.CommandConsumerStats)
ANSWERS = (
    pb.CommandSuccess, pb.CommandProducerSuccess, pb.CommandAckResponse, pb.CommandGetLastMessageIdResponse,
    pb.CommandLookupTopicResponse, pb.CommandEndTxnResponse, pb.CommandNewTxnResponse, pb.CommandSendReceipt,
    pb.CommandPartitionedTopicMetadataResponse, pb.CommandGetTopicsOfNamespaceResponse,
    pb.CommandTcClientConnectResponse,
)  # fmt: skip
ENDS = (
    pb.ServerError.TopicTerminatedError, pb.ServerError.ProducerFenced, pb.ServerError.NotAllowedError,
    pb.ServerError.ChecksumError, pb.ServerError.PersistenceError,
)  # fmt: skip
FORGETS = (pb.ServerError.ConsumerNotFound, pb.ServerError.NotAllowedError, pb.ServerError.UnknownError)
LOOKUP = pb.CommandLookupTopicResponse


class RareEvents:
    """Sets them, for `happen`."""

    def __init__(self, scene: Scene, dice: Dice) -> None:
        self._scene = scene
        self._dice = dice
        events: list[Callable[[], object]] = [
            self._hand_over, self._hand_over, self._migrate, self._end_topics, self._refuse_sends, self._skip_receipts,
            self._leave_closes, self._hand_over_while_closing, self._hand_over_while_seeking, self._create_late,
            self._leave_creations, self._answer_late, self._forget_consumers, self._leave_calls, self._leave_calls,
            self._redirect, self._answer_lookups, self._refuse_lookups,
            self._challenge_again, self._talk_garbage, self._end_transactions, self._forbid, self._delete_topics,
            self._spoil_entries, self._refuse_start, self._end_of_topic, self._be_old, self._refuse_subscriptions,
            self._queue_twice, self._migrate_after_seek, self._forget_unsubscribing, self._spoil_and_close,
        ]  # fmt: skip
        self._events = focused(dice, events)

    def happen(self) -> None:
        """Let one of them happen."""
        event = self._events[self._dice.below(len(self._events))]
        self._scene.world.note(f"RARE {event.__name__}")
        event()

    def leave_unanswered(self) -> None:
        """Leave something without an answer, or with one that comes late."""
        ways = (
            self._leave_closes, self._leave_creations, self._leave_creations, self._leave_calls, self._leave_calls,
            self._create_late, self._answer_late,
        )  # fmt: skip
        self._one(ways)()

    def _to(self, kinds: Sequence[type[Message]], action: Callable[[Any], Action], times: int = 1) -> None:
        """Do it to the next commands of these kinds, so many. Some of them come before."""
        skipped, left = self._dice.below(3), times

        def control(seen: InterceptedCommand) -> Action | None:
            nonlocal skipped, left
            if type(seen.command) not in kinds or not left:
                return None
            if skipped:
                skipped -= 1
                return None
            left -= 1
            return action(seen.command)

        self._faults.control(control)

    @property
    def _faults(self) -> Faults:
        assert self._scene.broker is not None
        return self._scene.broker.faults

    def _one(self, of: Sequence[Any]) -> Any:
        return of[self._dice.below(len(of))]

    def _some(self, kinds: Sequence[type[Message]]) -> Sequence[type[Message]]:
        return kinds if self._dice.happens(0.5) else (self._one(kinds),)

    def _url(self) -> str:
        urls = [HERE, NOWHERE, SECURE, ""]
        assert self._scene.broker is not None
        return str(self._one([*urls, *(node.service_url for node in self._scene.broker.nodes)]))

    # Producers and consumers.

    def _hand_over(self) -> None:
        kinds, url = self._some((*OF_PRODUCERS, *OF_CONSUMERS)), self._url()
        self._to(kinds, lambda command: Answer((closed(command, url),)), 1 + self._dice.below(3))

    def _migrate(self) -> None:
        kinds, url = self._some((*OF_PRODUCERS, *OF_CONSUMERS)), self._url()
        self._to(kinds, lambda command: Answer((migrated(command, url),)), 1 + self._dice.below(3))

    def _end_topics(self) -> None:
        error = self._one(ENDS)
        self._to((pb.CommandProducer,), lambda _: Refuse(error, "so it is"), 1 + self._dice.below(2))

    def _refuse_sends(self) -> None:
        error = self._one(ENDS)
        skips = 1000 if self._dice.happens(0.3) else 0

        def refused(command: Any) -> Action:
            number = command.sequence_id + skips
            return Answer(
                (pb.CommandSendError(producer_id=command.producer_id, sequence_id=number, error=error, message="so"),)
            )

        self._to((pb.CommandSend,), refused, 1 + self._dice.below(3))

    def _skip_receipts(self) -> None:
        """While a producer closes, confirm or refuse something that is not the first it waits for, or hand it over."""
        number, error, url = self._dice.below(4), self._one(ENDS), self._url()

        def said(command: Any) -> Action:
            producer = command.producer_id
            receipt = pb.CommandSendReceipt(
                producer_id=producer, sequence_id=number, message_id=pb.MessageIdData(ledgerId=1, entryId=number)
            )
            refusal = pb.CommandSendError(producer_id=producer, sequence_id=number, error=error, message="so")
            return Answer((self._one((receipt, refusal, closed(command, url))),))

        self._to((pb.CommandSend,), lambda _: Drop(), 2)
        self._to((pb.CommandCloseProducer,), said)

    def _leave_closes(self) -> None:
        self._to(CLOSES, lambda _: Drop(), 1 + self._dice.below(8))

    def _hand_over_while_closing(self) -> None:
        """Leave a creation without an answer, so that it is closed, and say meanwhile where its topic is."""
        url, both = self._url(), self._dice.happens(0.5)
        make = closed if self._dice.happens(0.5) else migrated
        self._to((pb.CommandProducerSuccess, pb.CommandSuccess), lambda _: Drop(), 1 + self._dice.below(2))

        def said(command: Any) -> Action:
            done = (pb.CommandSuccess(request_id=command.request_id),) if both else ()
            return Answer((make(command, url), *done))

        self._to(CLOSES, said, 1 + self._dice.below(2))

    def _hand_over_while_seeking(self) -> None:
        """Close a consumer for its seek, and say before the answer, or instead of it, where its topic is."""
        url, error = self._url(), self._one(FORGETS)
        make = closed if self._dice.happens(0.5) else migrated
        answers: tuple[tuple[Message, ...], ...] = (
            (), (pb.CommandSuccess(),), (pb.CommandError(error=error, message="so it is"),)
        )  # fmt: skip
        done = self._one(answers)

        def said(command: Any) -> Action:
            return Answer((closed(command, ""), make(command, url), *done))

        self._to((pb.CommandSeek,), said, 1 + self._dice.below(2))

    def _migrate_after_seek(self) -> None:
        """Close a consumer for its seek, or forget it, and say that its topic has migrated when it subscribes again."""
        url, is_done = self._url(), self._dice.happens(0.5)
        sought: list[int] = []

        def said(command: Any) -> Action:
            sought.append(command.consumer_id)
            if is_done:
                return Answer((closed(command, ""), pb.CommandSuccess(request_id=command.request_id)))
            return Refuse(pb.ServerError.ConsumerNotFound, "so it is")

        def subscribed(seen: InterceptedCommand) -> Action | None:
            command: Any = seen.command
            if not isinstance(command, pb.CommandSubscribe) or command.consumer_id not in sought:
                return None
            sought.clear()
            return Answer((migrated(command, url),))

        self._to((pb.CommandSeek,), said)
        self._faults.control(subscribed)

    def _leave_creations(self) -> None:
        """Hand producers and consumers over, and let nobody answer when they come again, nor when they give it up."""
        self._hand_over()
        self._to((pb.CommandProducer, pb.CommandSubscribe), lambda _: Drop(), 1 + self._dice.below(4))
        self._leave_closes()

    def _create_late(self) -> None:
        seconds = OPERATION_TIMEOUT * (0.9 + self._dice.chance())
        self._to((pb.CommandProducerSuccess, pb.CommandSuccess), lambda _: Delay(seconds), 1 + self._dice.below(2))
        if self._dice.happens(0.5):
            self._leave_closes()

    def _answer_late(self) -> None:
        seconds = OPERATION_TIMEOUT * 1.5 * self._dice.chance()
        self._to(self._some(ANSWERS), lambda _: Delay(seconds), 1 + self._dice.below(2))

    def _forget_consumers(self) -> None:
        error = self._one(FORGETS)
        self._to(self._some(CALLS), lambda _: Refuse(error, "so it is"), 1 + self._dice.below(3))

    def _forget_unsubscribing(self) -> None:
        faults = self._faults.on(pb.CommandUnsubscribe, times=1 + self._dice.below(3))
        faults.refuse(self._one((pb.ServerError.ConsumerNotFound, pb.ServerError.SubscriptionNotFound)), "so it is")

    def _leave_calls(self) -> None:
        kinds, times = self._some(CALLS), 1 + self._dice.below(3)
        if self._dice.happens(0.5):
            seconds = OPERATION_TIMEOUT * (1.0 + self._dice.chance())
            self._to(kinds, lambda _: Delay(seconds), times)
        else:
            self._to(kinds, lambda _: Drop(), times)

    def _refuse_start(self) -> None:
        error = self._one((*FORGETS, pb.ServerError.MetadataError, pb.ServerError.ServiceNotReady))
        self._to((pb.CommandGetLastMessageId,), lambda _: Refuse(error, "so it is"), 1 + self._dice.below(3))

    def _end_of_topic(self) -> None:
        self._to(
            (pb.CommandFlow,), lambda command: Answer((pb.CommandReachedEndOfTopic(consumer_id=command.consumer_id),))
        )

    def _refuse_subscriptions(self) -> None:
        error = self._one((pb.ServerError.TopicNotFound, pb.ServerError.AuthorizationError))
        self._to((pb.CommandSubscribe,), lambda _: Refuse(error, "so it is"), self._one((1, 4, 12)))

    def _queue_twice(self) -> None:
        def queued(command: Any) -> Action:
            success = pb.CommandProducerSuccess(
                request_id=command.request_id, producer_name="queued", producer_ready=False
            )
            return Answer((success, success))

        self._to((pb.CommandProducer,), queued)

    # Lookups, connections and transactions.

    def _be_old(self) -> None:
        """Say that it is an older broker, or leave out what older ones do not send."""
        version = self._dice.below(15)
        old = pb.CommandConnected(server_version="old", protocol_version=version)
        if self._dice.happens(0.5):
            self._to((pb.CommandConnected,), lambda _: Answer((old,)), 3)
        else:
            self._to((pb.CommandGetLastMessageIdResponse,), without_position, 3)

    def _redirect(self) -> None:
        url, authoritative = self._url(), self._dice.happens(0.5)
        answer = LOOKUP(response=LOOKUP.LookupType.Redirect, brokerServiceUrl=url, authoritative=authoritative)
        self._to((pb.CommandLookupTopic,), lambda _: Answer((answer,)), self._one((1, 2, 60)))

    def _answer_lookups(self) -> None:
        answer = LOOKUP(response=LOOKUP.LookupType.Connect)
        if self._dice.happens(0.7):
            answer.brokerServiceUrl = self._url()
        partitions = pb.CommandPartitionedTopicMetadataResponse(
            request_id=0, partitions=self._one((1, 2**31)), response=pb.CommandPartitionedTopicMetadataResponse.Success
        )
        partitions.ClearField("request_id")
        if self._dice.happens(0.5):
            self._to((pb.CommandLookupTopic,), lambda _: Answer((answer,)), 1 + self._dice.below(2))
        else:
            self._to((pb.CommandPartitionedTopicMetadata,), lambda _: Answer((partitions,)))

    def _refuse_lookups(self) -> None:
        errors = (pb.ServerError.TooManyRequests, pb.ServerError.AuthorizationError, pb.ServerError.TopicNotFound)
        error = self._one(errors)
        kinds = (pb.CommandLookupTopic, pb.CommandPartitionedTopicMetadata)
        self._to(kinds, lambda _: Refuse(error, "so it is"), self._one((1, 9)))

    def _challenge_again(self) -> None:
        challenge = pb.CommandAuthChallenge(challenge=pb.AuthData(auth_method_name="token", auth_data=b"again"))
        times = 1 + self._dice.below(3)
        self._to((self._one((pb.CommandConnect, pb.CommandLookupTopic)),), lambda _: Answer((challenge,) * times))

    def _talk_garbage(self) -> None:
        self._scene.on_broker(self._say_garbage)

    def _say_garbage(self, broker: Broker) -> None:
        peers = [end.peer for end in self._scene.world.faults.connections]
        ends = [end for end in peers if end.loop is self._scene.loop and end.is_open]
        if ends:
            self._one(ends).send([bytes(self._dice.below(256) for _ in range(1 + self._dice.below(40)))])

    def _end_transactions(self) -> None:
        kind = self._one((pb.CommandNewTxn, pb.CommandAddPartitionToTxn, pb.CommandEndTxn))
        errors = (
            pb.ServerError.TransactionNotFound,
            pb.ServerError.InvalidTxnStatus,
            pb.ServerError.TransactionConflict,
        )
        error, status = self._one(errors), self._one(("COMMITTING", "COMMITTED", "ABORTING", "ABORTED"))
        text = self._one(("so it is", f"expected OPEN status, but it is in {status} status"))
        self._to((kind,), lambda _: Refuse(error, text), 1 + self._dice.below(2))

    def _forbid(self) -> None:
        kind = self._one((pb.CommandTcClientConnectRequest, pb.CommandWatchTopicList, pb.CommandGetTopicsOfNamespace))
        error = self._one((pb.ServerError.NotAllowedError, pb.ServerError.AuthorizationError))
        self._to((kind,), lambda _: Refuse(error, "so it is"), 1 + self._dice.below(2))

    def _delete_topics(self) -> None:
        self._scene.on_broker(self._delete_one)

    def _delete_one(self, broker: Broker) -> None:
        topics = list(broker.cluster.namespace(NAMESPACE).topics.values())
        if topics:
            name = topics[self._dice.below(len(topics))].name
            with suppress(Refusal):  # a partition goes only with the others
                broker.cluster.delete_topic(name, force=True)

    def _spoil_entries(self) -> None:
        """Change a byte of something that is stored, so that its checksum is wrong."""
        self._scene.on_broker(self._spoil_one)

    def _spoil_and_close(self) -> None:
        """Spoil what is being sent, and close its consumer, or have it seek, before it can say so."""
        ways: tuple[Callable[[], object], ...] = (
            self._scene.world.faults.cut, self._hand_over, lambda: self._scene.on_broker(self._unload),
        )  # fmt: skip
        for _ in range(1 + self._dice.below(4)):
            self._scene.world.after(self._dice.chance(), self._spoil_entries)
            self._scene.world.after(self._dice.chance(), self._one(ways))

    def _unload(self, broker: Broker) -> None:
        for topic in list(broker.cluster.namespace(NAMESPACE).topics.values()):
            topic.unload()

    def _spoil_one(self, broker: Broker) -> None:
        for topic in broker.cluster.namespace(NAMESPACE).topics.values():
            ledger = topic.managed_ledger
            if ledger.end > ledger.base:
                entry = ledger.entry(ledger.base + self._dice.below(ledger.end - ledger.base))
                data = bytearray(entry.data)
                data[-1 - self._dice.below(len(data))] ^= 1 + self._dice.below(255)
                entry.data = bytes(data)


def closed(command: Any, url: str) -> Message:
    """Say that a producer or consumer is closed, and where its topic is now, if anywhere is told."""
    if hasattr(command, "producer_id"):
        said: Any = pb.CommandCloseProducer(producer_id=command.producer_id, request_id=0)
    else:
        said = pb.CommandCloseConsumer(consumer_id=command.consumer_id, request_id=0)
    if url:
        said.assignedBrokerServiceUrl = url
    return said  # type: ignore[no-any-return]


def without_position(command: Any) -> Action:
    """Answer without the position of the subscription, as older brokers do."""
    last = pb.CommandGetLastMessageIdResponse()
    last.CopyFrom(command)
    last.ClearField("consumer_mark_delete_position")
    return Answer((last,))


def migrated(command: Any, url: str) -> Message:
    """Say that the topic of a producer or consumer has migrated to another cluster."""
    kind, number = pb.CommandTopicMigrated.ResourceType.Consumer, getattr(command, "consumer_id", 0)
    if hasattr(command, "producer_id"):
        kind, number = pb.CommandTopicMigrated.ResourceType.Producer, command.producer_id
    return pb.CommandTopicMigrated(resource_id=number, resource_type=kind, brokerServiceUrl=url)
