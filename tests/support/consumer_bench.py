"""A consumer's state machine for tests, with chosen trackers. Tests feed it events and check its effects."""

from typing import Any

from pulsar_actors.exceptions import BrokerRefusal, ConnectionLost
from pulsar_actors.machines.connection_handler_events import Detached, LookedUp, Open, RequestTimedOut, RetryDue
from pulsar_actors.machines.consumer import ConsumerMachine, ConsumerSettings, State
from pulsar_actors.machines.consumer_events import (
    Acknowledge,
    ConsumerAttached,
    MessagesArrived,
    QueueEntries,
    Seek,
    SendConsumerCommand,
    Subscribed,
)
from pulsar_actors.machines.consumer_trackers import ConsumerTrackers
from pulsar_actors.machines.incoming_entries import DeliveredEntry, IncomingEntry
from pulsar_actors.machines.trackers.ack_grouping_tracker import AckGroupingTracker
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.chunked_messages import ChunkedMessages
from pulsar_actors.machines.trackers.dead_letters import DeadLetters
from pulsar_actors.machines.trackers.flow_permits import FlowPermits
from pulsar_actors.machines.trackers.negative_acks_tracker import NegativeAcksTracker, RedeliveryDelay
from pulsar_actors.machines.trackers.start_message_id import StartMessageId
from pulsar_actors.machines.trackers.transactional_acks import TransactionalAcks
from pulsar_actors.machines.trackers.unacked_message_tracker import UnackedMessageTracker
from pulsar_actors.machines.trackers.undecryptable_entries import UndecryptableEntries
from pulsar_actors.wire.entries import encode_entry
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandMessage,
    CommandSubscribe,
    CommandTopicMigrated,
    MessageIdData,
    MessageMetadata,
)
from tests.machines.driven import Driven

NOW_MS = 1_000_000
MAX_MESSAGE_SIZE = 1000
LOST = ConnectionLost("reset")
NOT_READY = BrokerRefusal("ServiceNotReady", "starting")
CLOSE = CommandCloseConsumer(consumer_id=7, request_id=2**64 - 1)
MOVE = CommandCloseConsumer(
    consumer_id=7,
    request_id=2**64 - 1,
    assignedBrokerServiceUrl="pulsar://b",
    assignedBrokerServiceUrlTls="pulsar+ssl://b",
)
MIGRATE = CommandTopicMigrated(
    resource_id=7, resource_type=CommandTopicMigrated.Consumer, brokerServiceUrl="pulsar://c"
)
SUBSCRIBE = CommandSubscribe(topic="t", subscription="s", subType=CommandSubscribe.Shared, consumer_id=7, request_id=0)


def trackers(  # noqa: PLR0913 - what a user may choose
    *,
    queue_size: int = 4,
    ordered: bool = False,
    receipts: bool = False,
    ack_timeout: float | None = None,
    max_redeliver_count: int | None = None,
    start: StartMessageId | None = None,
    persistent: bool = True,
) -> ConsumerTrackers:
    chunks = ChunkedMessages(max_size=100, max_pending=2, ordered=ordered)
    dead: DeadLetters[DeliveredEntry] | None = None if max_redeliver_count is None else DeadLetters(max_redeliver_count)
    return ConsumerTrackers(
        permits=FlowPermits(queue_size),
        ack_grouping=AckGroupingTracker(chunks, receipts=receipts),
        negative_acks=NegativeAcksTracker(ordered=ordered, delay=RedeliveryDelay(1.0), persistent=persistent),
        chunks=chunks,
        start=start or StartMessageId(),
        transactional_acks=TransactionalAcks(),
        unacked_messages=None if ack_timeout is None else UnackedMessageTracker(ack_timeout),
        dead_letters=dead,
        undecryptable=None if ack_timeout is None else UndecryptableEntries(ack_timeout),
    )


def consumer(
    machine: type[ConsumerMachine] = ConsumerMachine,
    *,
    persistent: bool = True,
    is_reader: bool = False,
    **options: Any,
) -> ConsumerMachine:
    settings = ConsumerSettings(SUBSCRIBE, persistent=persistent, is_reader=is_reader)
    return machine(settings, trackers(persistent=persistent, **options), Backoff(lambda: 0.0))


def incoming(  # noqa: PLR0913 - what a delivery says of itself
    entry_id: int,
    batch: int | None = None,
    *,
    count: int = 0,
    epoch: int | None = None,
    ack_set: list[int] | None = None,
    broken: bool = False,
    payload: bytes | None = None,
    published: int = NOW_MS,
    **metadata: Any,
) -> IncomingEntry:
    """Return the event for a message, or for a batch whose payload is never decoded here."""
    meta = MessageMetadata(producer_name="p", sequence_id=0, publish_time=published, **metadata)
    if batch is not None:
        meta.num_messages_in_batch = batch
    data = bytearray(b"".join(encode_entry(meta, b"payload" * min(batch or 1, 100) if payload is None else payload)))
    if broken:
        data[-1] ^= 1
    message_id = MessageIdData(ledgerId=1, entryId=entry_id)
    command = CommandMessage(consumer_id=7, message_id=message_id, redelivery_count=count, consumer_epoch=epoch)
    command.ack_set.extend(ack_set or [])
    return command, bytes(data)


class Subscriber(Driven):
    """A consumer's machine, and the id of its last request."""

    def __init__(self, *events: Any, **options: Any) -> None:
        self.attempt = 0
        super().__init__(consumer(**options), *events)

    @property
    def generation(self) -> Any:
        return self.machine.messages.generation

    @property
    def connection(self) -> int:
        return int(self.machine.connection)

    def tell(self, *events: Any) -> list[Any]:
        for event in events:
            super().tell(event)
            self.attempt = max([self.attempt, *(getattr(effect, "attempt", 0) for effect in self.effects)])
        return self.effects

    def said(self, command: type) -> list[Any]:
        """Return the commands of one kind that the machine sent to the broker."""
        return [tell.command for tell in self.did(SendConsumerCommand) if isinstance(tell.command, command)]

    def attach(self, opened: Any = None, connection_id: str = "first", *, tls: bool = False) -> list[Any]:
        self.tell(LookedUp(self.attempt, "broker", tls=tls))
        return self.tell(ConsumerAttached(self.connection, opened, MAX_MESSAGE_SIZE, NOW_MS, connection_id))

    def subscribe(self, opened: Any = None, *, tls: bool = False) -> list[Any]:
        self.attach(opened, tls=tls)
        return self.tell(Subscribed(self.attempt))

    def receive(self, *messages: IncomingEntry, now_ms: int = NOW_MS) -> list[Any]:
        return self.tell(MessagesArrived(self.connection, messages, now_ms))


def ready(*, tls: bool = False, **options: Any) -> Subscriber:
    driven = Subscriber(Open(), **options)
    driven.subscribe(tls=tls)
    return driven


def seeking(**options: Any) -> Subscriber:
    driven = ready(**options)
    driven.receive(incoming(5), incoming(6))
    acknowledge(driven, plain(5))
    driven.tell(Seek("seek", plain(3)))
    return driven


def rebinding(state: State, **options: Any) -> Subscriber:
    """Return a consumer that has lost its binding and is about to get the next one."""
    driven = ready(**options)
    driven.tell(Detached(1, LOST))
    if state is State.WAITING:
        return driven
    driven.fire(RetryDue)
    if state is not State.LOOKING_UP:
        driven.attach()
    if state is State.CLOSE_PENDING:
        driven.tell(RequestTimedOut(driven.attempt))
    assert driven.machine.state is state
    return driven


def plain(entry: int) -> MessageId:
    return MessageId(1, entry)


def flows(driven: Subscriber) -> list[int]:
    return [flow.messagePermits for flow in driven.said(CommandFlow)]


def entries(driven: Subscriber) -> list[int]:
    return [one.message_id.entry_id for handed in driven.did(QueueEntries) for one in handed.entries]


def acked(command: CommandAck) -> list[int]:
    return [one.entryId for one in command.message_id]


def acknowledge(driven: Subscriber, *ids: MessageId, token: object = None) -> list[Any]:
    return driven.tell(Acknowledge(driven.generation, ids, None if token is None else (token,) * len(ids)))
