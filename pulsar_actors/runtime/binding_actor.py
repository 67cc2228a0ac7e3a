"""What the actors of producers and consumers share: how they carry out what binds them to a broker.

The machine says look up, attach, ask; this asks the guardian and the connection, and turns what they answer into the
machine's events. What belongs to an earlier attachment is dropped here, by its number; what answers an earlier
question, by the machine.
"""

from typing import Any, ClassVar, TypeVar

from pulsar_actors.exceptions import BrokerRefusal, InternalError, InvalidArgument, PulsarException, Timeout
from pulsar_actors.machines.binding import Binding
from pulsar_actors.machines.binding_events import (
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
    LookedUp,
    LookUp,
    LookupFailed,
    LookupStumbled,
    Migrated,
    Misanswered,
)
from pulsar_actors.machines.connection_events import Ask, Drop, Leave
from pulsar_actors.machines.lookup_events import Target
from pulsar_actors.runtime.actor import Address, tell
from pulsar_actors.runtime.binding_messages import (
    AttachMember,
    BrokerFound,
    CloseHandle,
    FindBroker,
    Joining,
    Place,
    StillLooking,
)
from pulsar_actors.runtime.held_actor import HeldActor
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import Bound, Heard, Member, Replied, Token, Unbound
from pulsar_actors.runtime.outcomes import Outcomes, by_attempt
from pulsar_actors.runtime.ties import Ties
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandCloseConsumer,
    CommandCloseProducer,
    CommandTopicMigrated,
)

GOODBYE = 30.0
"""Seconds in which a broker may answer a close of which nobody awaits the answer."""

B = TypeVar("B", bound=Binding)


class BindingActor(HeldActor[B]):
    """A producer or a consumer."""

    OUTCOMES: ClassVar[dict[type, Outcomes]] = {
        AskToClose: Outcomes(by_attempt(CloseAnswered), by_attempt(CloseAnswered), by_attempt(CloseTimedOut)),
    }

    def __init__(self, loop: Loop, place: Place, ties: Ties) -> None:
        super().__init__(loop, place, ties)
        self.vitals = ties.vitals
        self._place = place
        self._connection: Address | None = None
        self._attaching: int | None = None

    def __str__(self) -> str:
        return f"the {self._place.kind} {self._place.id} on {self.machine.topic}"

    @property
    def called(self) -> str:
        """What it is, in errors."""
        return f"the {self._place.kind}"

    def receive(self, message: object) -> None:  # noqa: C901 - one line for each message
        """Take what the others say."""
        match message:
            case Heard(number, commands):
                if number == self.machine.connection:
                    self.hear(commands)
            case Replied(question, answer):
                self.answered(question, answer)
            case StillLooking(question, error):
                self.vitals.last_error = error
                self.feed(LookupStumbled(question, error))
            case BrokerFound(question, outcome):
                self._found(question, outcome)
            case Joining(number, connection):
                self._join(number, connection)
            case Bound(number):
                if number == self._attaching:
                    LOG.info("%s has a connection to its broker", self)
                    self.vitals.attachments += 1
                    self.bound(message)
            case Unbound(number, error):
                self._unbound(number, error)
            case CloseHandle():
                self.before_closing()
                self.end_by(Close())
            case EndAtOnce():
                self.end_by(message)
            case _:
                self.call(message)

    def hear(self, commands: tuple[tuple[Any, memoryview], ...]) -> None:
        """Take what the broker says to this producer or consumer."""
        raise NotImplementedError

    def bound(self, message: Bound) -> None:
        """Note what the connection allows, and begin to use it."""
        raise NotImplementedError

    def call(self, message: Any) -> None:  # noqa: ANN401 - each kind has its own
        """Take what callers ask for."""
        raise NotImplementedError

    def before_closing(self) -> None:
        """Hand the machine what callers have left here."""

    def abandon(self, bug: InternalError) -> None:
        """Fail everything, and go. The connection goes on, so the broker is told."""
        self._say_goodbye()
        self._leave()
        super().abandon(bug)

    def missed(self, message: object) -> None:
        """Leave a connection that was found too late."""
        if isinstance(message, Joining):
            tell(message.connection, Leave(self._member(message.number)))

    def ask(self, effect: Any, number: int) -> None:  # noqa: ANN401 - one of the Ask effects
        """Ask the broker; the answer becomes an event by the effect's class, and carries the number."""
        self.say(Ask(effect.command, Token(self.actor_ref, (type(effect), number)), effect.timeout))

    def say(self, message: object) -> None:
        """Tell the connection something, if there is one."""
        if self._connection is not None:
            tell(self._connection, message)

    def hear_closing(self, command: Any) -> None:  # noqa: ANN401 - any command
        """Take what the broker says to producers and consumers alike."""
        number = self.machine.connection
        if isinstance(command, (CommandCloseProducer, CommandCloseConsumer)):
            self.feed(BrokerClosed(number, command))
        elif isinstance(command, CommandTopicMigrated):
            self.feed(Migrated(number, command))

    def answered(self, question: Any, answer: Any) -> None:  # noqa: ANN401 - any question and its answer
        """Make it the event that the machine waits for."""
        kind, number = question
        outcomes = self.OUTCOMES[kind]
        if isinstance(answer, (BrokerRefusal, InvalidArgument)):  # by the broker, or for being too large for it
            self.vitals.last_error = answer
            self.feed(outcomes.refused(number, answer))
        elif isinstance(answer, Timeout):
            self.vitals.last_error = answer
            self.feed(outcomes.timed_out(number, answer))
        elif isinstance(answer, outcomes.answer):
            self.feed(outcomes.done(number, answer))
        elif not isinstance(answer, PulsarException):  # the end of a connection is told as `Unbound`
            self.feed(Misanswered(kind, answer))

    def _found(self, question: int, outcome: Target | PulsarException) -> None:
        if isinstance(outcome, PulsarException):
            self.vitals.last_error = outcome
            self.feed(LookupFailed(question, outcome))
        else:
            self.feed(LookedUp(question, outcome))

    def _join(self, number: int, connection: Address) -> None:
        if number == self._attaching:
            self._connection = connection
        else:
            tell(connection, Leave(self._member(number)))

    def _unbound(self, number: int, error: PulsarException) -> None:
        if number == self._attaching:
            self._connection = None
            self._attaching = None
            self.vitals.last_error = error
            LOG.info("%s has no connection to its broker: %s", self, error)
            self.feed(Detached(number, error))

    def _member(self, number: int) -> Member:
        return Member(self._place.kind, self._place.id, self.actor_ref, number)

    def _say_goodbye(self) -> None:
        if self._connection is not None:
            command = self.machine.close_request()
            tell(self._connection, Ask(command, Token(self.actor_ref, None), GOODBYE))

    def _leave(self) -> None:
        if self._connection is not None and self._attaching is not None:
            tell(self._connection, Leave(self._member(self._attaching)))
        self._connection = None
        self._attaching = None

    # One method for each effect.

    def _look_up(self, effect: LookUp) -> None:
        asker = Token(self.actor_ref, effect.attempt)
        self.tell_guardian(FindBroker(effect.topic, effect.cluster_url, asker))

    def _attach(self, effect: Attach) -> None:
        broker = effect.broker
        assert isinstance(broker, (Target, str))  # noqa: S101 - what lookups and brokers give
        self._attaching = effect.connection
        self.tell_guardian(AttachMember(broker, self._place.slot, self._member(effect.connection)))

    def _detach(self, effect: Detach) -> None:
        self._leave()

    def _drop(self, effect: DropConnection) -> None:
        self.vitals.last_error = effect.error
        self.say(Drop(effect.error))

    def ask_attempt(self, effect: Any) -> None:  # noqa: ANN401 - one of the Ask effects that have an attempt
        """Ask, by the number of the attempt."""
        self.ask(effect, effect.attempt)

    PERFORMS: ClassVar = {
        **HeldActor.PERFORMS,
        LookUp: _look_up,
        Attach: _attach,
        Detach: _detach,
        DropConnection: _drop,
        AskToClose: ask_attempt,
    }
