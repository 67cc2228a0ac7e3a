"""The base classes of the actors behind handles: of all handles, and of producers and consumers of one topic.

A *handle* is the object that a user holds. A *handler* is a producer or consumer of one topic, which is registered with
one broker at a time. `CloseableActor` is the base of all actors behind handles, also of those for several topics: it
completes the creation and the end of the handle.

`HandlerActor` is the base of the actors of handlers. It performs the effects of its machine that look up a broker,
attach to a connection and send requests, and feeds the machine the commands and answers of the broker as events. Each
event carries the number of its attachment or request, and the machine drops those of earlier ones. The actor itself
keeps only the connection of the current attachment: one that is assigned late is left at once.
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from google.protobuf.message import Message

from pulsar_actors.exceptions import (
    AlreadyClosed,
    BrokerRefusal,
    InternalError,
    InvalidArgument,
    PulsarException,
    Timeout,
)
from pulsar_actors.machines.connection_events import AbortConnection, RemoveHandler, SendRequest
from pulsar_actors.machines.connection_handler import ConnectionHandler
from pulsar_actors.machines.connection_handler_events import (
    AskToClose,
    Attach,
    BrokerClosed,
    Close,
    CloseAnswered,
    CloseTimedOut,
    Detach,
    Detached,
    DropConnection,
    EndAtOnce,
    Fail,
    FirstCreationFailed,
    HandleEnded,
    LookedUp,
    LookUp,
    LookupAttemptFailed,
    LookupFailed,
    Open,
    TopicMigrated,
    WrongAnswer,
)
from pulsar_actors.machines.handle_lifetime import (
    EndMachine,
    HandleLifetime,
    HandleNotCreated,
    HandleReleased,
    MachineEnded,
    Retire,
)
from pulsar_actors.machines.lookup_events import AssignedBroker, LookupTarget
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, MachineActor, tell
from pulsar_actors.runtime.future import copy_error, is_slim_future, settle
from pulsar_actors.runtime.handle_link import HandleLink
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.messages import (
    ActorEnded,
    ActorStarted,
    AttachHandler,
    BrokerFound,
    CloseHandle,
    CommandsReceived,
    ConnectionAssigned,
    ConnectionReady,
    ConnectionUnavailable,
    FindBroker,
    HandlerRef,
    LookupRetrying,
    Registration,
    ReplyTo,
    RequestAnswered,
)
from pulsar_actors.runtime.state_changes import add_note, read
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandSuccess,
    CommandTopicMigrated,
)

M = TypeVar("M", bound=StateMachine)
E = TypeVar("E", bound=Exception)


class CloseableActor(MachineActor[M]):
    """The actor of a producer, a consumer, or a set of them. `machines/handle_lifetime.py` decides when it ends."""

    def __init__(self, registration: Registration, link: HandleLink) -> None:
        super().__init__(registration.loop, registration.guardian)
        self.pending_calls = link.pending_calls
        self.created = link.created
        self.ended = link.ended
        self._lifetime: HandleLifetime | None = None  # made when it changes: it would be a fortieth of an idle producer

    @property
    def name_in_errors(self) -> str:
        """The name of the handle in errors."""
        raise NotImplementedError

    @property
    def has_messages(self) -> bool:
        """True if messages wait to be sent."""
        return False

    def on_start(self) -> None:
        """Register with the guardian, which ends this actor with the client, and open the machine."""
        self.tell_guardian(ActorStarted(self.actor_ref, has_messages=self.has_messages))
        self.feed(Open())

    def end(self, error: PulsarException) -> None:
        """Fail the calls of the handle, and refuse further calls."""
        self.pending_calls.end(error)

    def release(self, request: Close | EndAtOnce) -> None:
        """Close, or end at once, as requested by the guardian or the handle."""
        self._advance(HandleReleased(request))

    def abandon(self, bug: InternalError) -> None:
        """Fail all calls, and end."""
        self.end(bug)
        settle(self.created, bug)
        self.retire()

    def retire(self) -> None:
        """Complete the call that closed the handle, and end."""
        settle(self.ended, None)
        self.tell_guardian(ActorEnded(self.actor_ref))
        self.finish()

    def _advance(self, event: HandleReleased | HandleNotCreated | MachineEnded) -> None:
        if self._lifetime is None:
            self._lifetime = HandleLifetime(self.machine)
        for effect in self.handled(str(self), self._lifetime, event):
            if isinstance(effect, EndMachine):
                self.feed(effect.request)
            elif isinstance(effect, Retire):
                self.retire()

    # One method for each effect.

    def _fail_creation(self, effect: FirstCreationFailed) -> None:
        self._advance(HandleNotCreated())
        settle(self.created, self._noted(effect.error))

    def _fail(self, effect: Fail) -> None:
        assert is_slim_future(effect.token)  # noqa: S101 - the token of a call
        self.pending_calls.fail(effect.token, effect.error)

    def _ended(self, effect: HandleEnded) -> None:
        error = effect.error or AlreadyClosed(f"{self.name_in_errors} is closed")
        self.end(error if isinstance(error, AlreadyClosed) else self._noted(error))
        self._advance(MachineEnded())

    def _noted(self, error: E) -> E:
        """Copy an error, which others may have, too, and add what led to it."""
        return add_note(copy_error(error), read(self.histories(), self.loop))

    PERFORMS: ClassVar = {FirstCreationFailed: _fail_creation, Fail: _fail, HandleEnded: _ended}


class Outcomes(NamedTuple):
    """The events that the answer to a request becomes. `success` is the class of the command that means success."""

    done: Callable[[int, Any], object]
    refused: Callable[[int, BrokerRefusal | InvalidArgument], object]
    timed_out: Callable[[int, Timeout], object]
    success: type[Message] = CommandSuccess


def by_attempt(event: Callable[[int], object]) -> Callable[[int, object], object]:
    """Return a function that makes an event of the attempt's number, and ignores the content of the answer."""

    def made(attempt: int, _: object) -> object:
        return event(attempt)

    return made


CLOSE_TIMEOUT = 30.0
"""The timeout in seconds of the close command of an actor that has failed; nobody waits for its answer."""

B = TypeVar("B", bound=ConnectionHandler)


class HandlerActor(CloseableActor[B]):
    """The actor of a producer or a consumer of one topic: one broker at a time serves it."""

    OUTCOMES: ClassVar[dict[type, Outcomes]] = {
        # A broker refuses to close what it does not have, so a refusal is an answer, too.
        AskToClose: Outcomes(by_attempt(CloseAnswered), by_attempt(CloseAnswered), by_attempt(CloseTimedOut)),
    }

    def __init__(self, registration: Registration, link: HandleLink) -> None:
        super().__init__(registration, link)
        self.counters = link.counters
        self._registration = registration
        self._connection: ActorRef | None = None
        self._attachment: int | None = None

    def __str__(self) -> str:
        return f"the {self._registration.kind} {self._registration.id} on {self.machine.topic}"

    @property
    def name_in_errors(self) -> str:
        """The name of the handle in errors."""
        return f"the {self._registration.kind}"

    def receive(self, message: object) -> None:  # noqa: C901 - one line for each message
        """Handle messages of the guardian, the connection and the handle."""
        if type(message) is CommandsReceived:  # the most frequent one: `match` would look up its fields by name
            self.handle_commands(*message)
            return
        match message:
            case RequestAnswered(question, answer):
                self.answered(question, answer)
            case LookupRetrying(question, error):
                self.counters.last_error = error
                self.feed(LookupAttemptFailed(question, error))
            case BrokerFound(question, outcome):
                self._broker_found(question, outcome)
            case ConnectionAssigned(number, connection):
                self._connection_assigned(number, connection)
            case ConnectionReady(number):
                if number == self._attachment:
                    LOG.info("%s has a connection to its broker", self, about=self.log_fields())
                    self.counters.attachments += 1
                    self.attached(message)
            case ConnectionUnavailable(number, error):
                self._connection_unavailable(number, error)
            case CloseHandle():
                self.before_closing()
                self.release(Close())
            case EndAtOnce():
                self.release(message)
            case _:
                self.call(message)

    def handle_commands(self, number: int, commands: tuple[tuple[Any, bytes], ...]) -> None:
        """Handle commands of the broker, each with its entry."""
        raise NotImplementedError

    def attached(self, message: ConnectionReady) -> None:
        """Feed the machine the new connection: it creates the producer or the consumer there."""
        raise NotImplementedError

    def call(self, message: Any) -> None:  # noqa: ANN401 - each kind has its own
        """Handle a request of a caller."""
        raise NotImplementedError

    def before_closing(self) -> None:
        """Feed the machine what callers have enqueued, before it closes."""

    def abandon(self, bug: InternalError) -> None:
        """Fail all calls, and end. The connection stays open, so the broker is sent a close command."""
        self._send_close()
        self._leave()
        super().abandon(bug)

    def missed(self, message: object) -> None:
        """Leave a connection that was assigned after the end."""
        if isinstance(message, ConnectionAssigned):
            tell(message.connection, RemoveHandler(self._handler_ref(message.number)))

    def ask(self, effect: Any, number: int) -> None:  # noqa: ANN401 - one of the Ask effects
        """Send a request to the broker. The class of the effect decides which event the answer becomes."""
        self.tell_connection(
            SendRequest(effect.command, ReplyTo(self.actor_ref, (type(effect), number)), effect.timeout)
        )

    def tell_connection(self, message: object) -> None:
        """Send a message to the connection, if there is one."""
        if self._connection is not None:
            tell(self._connection, message)

    def handle_close_command(self, number: int, command: Any) -> None:  # noqa: ANN401 - any command
        """Handle the commands with which a broker ends both producers and consumers."""
        if isinstance(command, (CommandCloseProducer, CommandCloseConsumer)):
            self.feed(BrokerClosed(number, command))
        elif isinstance(command, CommandTopicMigrated):
            self.feed(TopicMigrated(number, command))

    def answered(self, question: Any, answer: Any) -> None:  # noqa: ANN401 - any question and its answer
        """Feed the machine the event that the answer becomes."""
        kind, number = question
        outcomes = self.OUTCOMES[kind]
        if isinstance(answer, (BrokerRefusal, InvalidArgument)):  # InvalidArgument: too large to be sent
            self.counters.last_error = answer
            self.feed(outcomes.refused(number, answer))
        elif isinstance(answer, Timeout):
            self.counters.last_error = answer
            self.feed(outcomes.timed_out(number, answer))
        elif isinstance(answer, outcomes.success):
            self.feed(outcomes.done(number, answer))
        elif not isinstance(answer, PulsarException):  # a lost connection comes as `ConnectionUnavailable`
            self.feed(WrongAnswer(kind, answer))

    def _broker_found(self, question: int, outcome: LookupTarget | PulsarException) -> None:
        if isinstance(outcome, PulsarException):
            self.counters.last_error = outcome
            self.feed(LookupFailed(question, outcome))
        else:
            self.feed(LookedUp(question, outcome, outcome.home, outcome.physical is None, outcome.tls))

    def _connection_assigned(self, number: int, connection: ActorRef) -> None:
        if number == self._attachment:
            self._connection = connection
        else:
            tell(connection, RemoveHandler(self._handler_ref(number)))

    def _connection_unavailable(self, number: int, error: PulsarException) -> None:
        if number == self._attachment:
            self._connection = None
            self._attachment = None
            self.counters.last_error = error
            LOG.info("%s has no connection to its broker: %s", self, error, about=self.log_fields())
            self.feed(Detached(number, error))

    def _handler_ref(self, number: int) -> HandlerRef:
        return HandlerRef(self._registration.kind, self._registration.id, self.actor_ref, number)

    def _send_close(self) -> None:
        if self._connection is not None:
            command = self.machine.close_request()
            tell(self._connection, SendRequest(command, ReplyTo(self.actor_ref, None), CLOSE_TIMEOUT))

    def _leave(self) -> None:
        if self._connection is not None and self._attachment is not None:
            tell(self._connection, RemoveHandler(self._handler_ref(self._attachment)))
        self._connection = None
        self._attachment = None

    # One method for each effect.

    def _look_up(self, effect: LookUp) -> None:
        asker = ReplyTo(self.actor_ref, effect.attempt)
        self.tell_guardian(FindBroker(effect.topic, effect.cluster_url, asker))

    def _attach(self, effect: Attach) -> None:
        broker = effect.broker
        assert isinstance(broker, (LookupTarget, AssignedBroker))  # noqa: S101 - what lookups and brokers give
        self._attachment = effect.connection
        self.tell_guardian(AttachHandler(broker, self._registration.slot, self._handler_ref(effect.connection)))

    def _detach(self, effect: Detach) -> None:
        self._leave()

    def _drop(self, effect: DropConnection) -> None:
        self.counters.last_error = effect.error
        self.tell_connection(AbortConnection(effect.error))

    def ask_attempt(self, effect: Any) -> None:  # noqa: ANN401 - one of the Ask effects that have an attempt
        """Send a request that carries the number of the attempt."""
        self.ask(effect, effect.attempt)

    PERFORMS: ClassVar = {
        **CloseableActor.PERFORMS,
        LookUp: _look_up,
        Attach: _attach,
        Detach: _detach,
        DropConnection: _drop,
        AskToClose: ask_attempt,
    }
