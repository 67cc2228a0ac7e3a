"""An actor of a producer or a consumer, and a producer's, with everybody around it played by a test."""

from collections.abc import Sequence
from typing import Any, cast

from pulsar_actors.exceptions import ConnectionLost
from pulsar_actors.machines.connection_events import SendRequest
from pulsar_actors.machines.lookup_events import LookupTarget
from pulsar_actors.machines.producer import ProducerMachine, ProducerSettings
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.batching import BatchLimits
from pulsar_actors.machines.trackers.pending_messages import PendingMessages, SendQuota
from pulsar_actors.machines.trackers.producer_identity import SequenceIds
from pulsar_actors.runtime import messages
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.batch_builder import BatchBuilderSettings, PackedMessages
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.loop import THREADS, Interleaving
from pulsar_actors.runtime.producer_actor import MessagesEnqueued, ProducerActor
from pulsar_actors.runtime.send_queue import MessageHeader, SendOutcome, SendQueue, SentTo, UnbatchableOptions
from pulsar_actors.wire import PulsarApi_pb2 as pb
from pulsar_actors.wire.entries import Entry, decode_entry
from pulsar_actors.wire.frames import FrameReader, decode_command
from tests.support.manual_loop import ActorBench, actor_of, of_kind

BROKER = LookupTarget("pulsar://b:6650", "pulsar://b:6650")
LOST = ConnectionLost("reset")
MAX_MESSAGE_SIZE = 10_000


class HandlerBench(ActorBench):
    """The guardian, the lookup and the connection of one actor; `registration` is what it is made with."""

    kind = ""

    def __init__(self) -> None:
        super().__init__()
        self.connection = self.actors.make()
        self.registration = messages.Registration(self.kind, 7, self.guardian, 1, self.loop)
        self.link = HandleLink()
        self.number = 0

    def to_connection(self) -> list[Any]:
        return self.actors.heard(self.connection)

    def find(self, outcome: LookupTarget | Exception = BROKER) -> None:
        """Answer the lookup that is on its way."""
        ((find),) = of_kind(messages.FindBroker, self.to_guardian())
        self.tell(messages.BrokerFound(find.reply_to.request, outcome))

    def join(self) -> messages.AttachHandler:
        """Give it a connection; that it can be used is not said yet."""
        ((attach),) = of_kind(messages.AttachHandler, self.to_guardian())
        assert isinstance(attach, messages.AttachHandler)
        self.number = attach.handler.number
        self.tell(messages.ConnectionAssigned(self.number, self.connection))
        return attach

    def bind(self) -> None:
        self.tell(messages.ConnectionReady(self.number, self.connection, MAX_MESSAGE_SIZE))

    def attach(self) -> SendRequest:
        """Take it to where it asks the broker for itself."""
        self.find()
        self.join()
        self.bind()
        return self.asked()

    def asked(self) -> SendRequest:
        ((ask),) = of_kind(SendRequest, self.to_connection())
        assert isinstance(ask, SendRequest)
        return ask

    def reply(self, ask: SendRequest, answer: Any) -> None:
        token: Any = ask.token
        self.tell(messages.RequestAnswered(token.request, answer))

    def hears(self, *commands: Any, number: int | None = None) -> None:
        """Have the broker say these in one read."""
        spoken = tuple(command if isinstance(command, tuple) else (command, b"") for command in commands)
        self.tell(messages.CommandsReceived(self.number if number is None else number, spoken))

    def lose(self) -> None:
        self.tell(messages.ConnectionUnavailable(self.number, LOST))


MANNER = BatchBuilderSettings(pb.CompressionType.NONE, 30.0, by_key=False, in_chunks=False)


class ProducerBench(HandlerBench):
    """One producer: `limits` are those of its batches, and `told` is what its senders were told."""

    kind = "producer"

    def __init__(
        self,
        limits: BatchLimits | None = None,
        batch_settings: BatchBuilderSettings = MANNER,
        places: int = 0,
        interleaving: Interleaving = THREADS,
    ) -> None:
        super().__init__()
        self.told: list[tuple[bytes, SentTo | Exception]] = []
        pending: PendingMessages[Any] = PendingMessages(SendQuota(places), SendQuota(0))
        command = pb.CommandProducer(topic="persistent://public/default/t", producer_id=7, request_id=0)
        settings = ProducerSettings(command, PackedMessages.is_intact, PackedMessages.largest_entry)
        self.machine = ProducerMachine(settings, pending, SequenceIds(None), Backoff(self.loop.chance))
        self.send_queue = SendQueue(pending, limits, self._report, interleaving)
        self.actor = ProducerActor.start(self.registration, self.link, self.machine, self.send_queue, batch_settings)
        self.loop.run()

    def _report(self, ended: Sequence[SendOutcome]) -> None:
        self.told += [(cast("bytes", reply), outcome) for replies, outcome in ended for reply in replies]

    def member(self) -> messages.HandlerRef:
        return messages.HandlerRef("producer", 7, self.actor, self.number)

    def success(self, **more: Any) -> pb.CommandProducerSuccess:
        return pb.CommandProducerSuccess(**{"request_id": 1, "producer_name": "the producer", **more})

    def create(self) -> None:
        self.reply(self.attach(), self.success())

    def put(self, payload: bytes = b"payload", alone: UnbatchableOptions | None = None, **said: Any) -> None:
        """Leave a message as a caller does, who wants its payload back."""
        tag: object = payload
        if said or alone:
            tag = MessageHeader.of(pb.SingleMessageMetadata(payload_size=len(payload), **said), alone, payload)
        if self.send_queue.put(payload, tag):
            tell(self.actor, MessagesEnqueued())

    def send(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.put(payload)
        self.loop.run()

    def written(self) -> list[tuple[pb.CommandSend, Entry]]:
        """What the broker gets, once the socket takes it."""
        found: list[Any] = []
        for shipped in self.to_connection():
            data = b"".join(buffer for outgoing in getattr(shipped, "frames", ()) for buffer in outgoing.buffers())
            frames = FrameReader().feed(data)
            found += [(decode_command(frame.command), decode_entry(frame.rest)) for frame in frames]
        return found

    def receipt(self, sequence_id: int, entry_id: int = 1) -> pb.CommandSendReceipt:
        return pb.CommandSendReceipt(
            producer_id=7, sequence_id=sequence_id, message_id=pb.MessageIdData(ledgerId=1, entryId=entry_id)
        )

    @property
    def inside(self) -> Any:
        return actor_of(self.actor)
