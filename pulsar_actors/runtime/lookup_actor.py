"""The actor that asks about topics, for one client: each question is a machine of its own, and all share the turns.

Producers and consumers ask who serves their topic; callers ask how many partitions it has, or which topics there are.
A question to the service URL goes to one of its hosts; a redirect names another broker.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from pulsar_actors.exceptions import AlreadyClosed, InternalError, PulsarException
from pulsar_actors.machines.chart import Event
from pulsar_actors.machines.connection_events import Ask
from pulsar_actors.machines.ledgers.turns import Turn, Turns
from pulsar_actors.machines.lookup import Lookup
from pulsar_actors.machines.lookup_events import (
    Answered,
    Attached,
    AttachFailed,
    AttachTo,
    Begin,
    Cancel,
    Found,
    GiveTurn,
    Inquire,
    NotFound,
    Queue,
    Refused,
    TakeTurn,
    Target,
    TurnAway,
)
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.runtime.actor import Address, LoopActor, tell
from pulsar_actors.runtime.binding_messages import BrokerFound, FindBroker
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import Replied, Token
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.wire.PulsarApi_pb2 import CommandLookupTopic


class LookupSettings(NamedTuple):
    """What all questions have in common."""

    timeout: float
    tls: bool
    listener_name: str | None
    at_once: int


class Question(NamedTuple):
    """From a caller: ask a broker this. `answered` gets the answer or an error, on the loop."""

    command: Message
    answered: Callable[[Any], None]


class EndLookups(NamedTuple):
    """From the guardian: answer everybody that the client is closed, and go."""


class Reach(NamedTuple):
    """To the guardian: give a connection to this broker, in this cluster if one is named."""

    target: Target
    cluster_url: str | None
    asker: Token


class Reached(NamedTuple):
    """The answer: a connection, which may still be in the making, or why there is none."""

    question: int
    outcome: Address | PulsarException


class Inquiry:
    """One question on its way."""

    __slots__ = ("answered", "cluster_url", "connection", "machine")

    def __init__(self, machine: Lookup, cluster_url: str | None, answered: Callable[[Any], None]) -> None:
        self.machine = machine
        self.cluster_url = cluster_url
        self.answered = answered
        self.connection: Address | None = None


class LookupActor(LoopActor):
    """All questions of one client."""

    def __init__(self, loop: Loop, guardian: Address, settings: LookupSettings, tally: Tally) -> None:
        super().__init__(loop, guardian)
        self._settings = settings
        self._tally = tally
        self._turns: Turns[int] = Turns(settings.at_once)
        self._inquiries: dict[int, Inquiry] = {}
        self._serial = 0

    def receive(self, message: object) -> None:
        """Take questions, and what comes of them."""
        match message:
            case FindBroker(topic, cluster_url, asker):
                self._find_broker(topic, cluster_url, asker)
            case Question(command, answered):
                self._begin(command, None, answered)
            case Reached(question, outcome):
                self._reached(question, outcome)
            case Replied(question, answer):
                failed = isinstance(answer, PulsarException)
                self._feed(question, Refused(answer) if failed else Answered(answer))
            case EndLookups():
                self._end_all()
            case _:
                raise InternalError(f"lookups do not take {message!r}")

    def abandon(self, bug: InternalError) -> None:
        """Answer every question with the bug."""
        inquiries, self._inquiries = self._inquiries, {}
        self._tally.lookups -= len(inquiries)
        for inquiry in inquiries.values():
            inquiry.answered(bug)

    def missed(self, message: object) -> None:
        """Answer a question that came too late."""
        error = self.bug or AlreadyClosed("the client is closed")
        match message:
            case FindBroker(_, _, asker):
                tell(asker.address, BrokerFound(asker.question, error))
            case Question(_, answered):
                answered(error)
            case _:
                pass

    def _find_broker(self, topic: str, cluster_url: str | None, asker: Token) -> None:
        command = CommandLookupTopic(topic=topic, request_id=0)
        if self._settings.listener_name:
            command.advertised_listener_name = self._settings.listener_name

        def answered(outcome: Any) -> None:  # noqa: ANN401 - a target or an error
            tell(asker.address, BrokerFound(asker.question, outcome))

        self._begin(command, cluster_url, answered)

    def _begin(self, command: Message, cluster_url: str | None, answered: Callable[[Any], None]) -> None:
        settings = self._settings
        machine = Lookup(command, tls=settings.tls, jitter=self.loop.chance, timeout=settings.timeout)
        self._serial += 1
        self._tally.lookups += 1
        self._inquiries[self._serial] = Inquiry(machine, cluster_url, answered)
        self._feed(self._serial, Queue())

    def _reached(self, question: int, outcome: Address | PulsarException) -> None:
        inquiry = self._inquiries.get(question)
        if isinstance(outcome, PulsarException):
            self._feed(question, AttachFailed(outcome))
        elif inquiry is not None:
            inquiry.connection = outcome
            self._feed(question, Attached())

    def _end_all(self) -> None:
        for question in list(self._inquiries):
            self._feed(question, Cancel())
        self.finish()

    def _feed(self, question: int, event: Event) -> None:
        inquiry = self._inquiries.get(question)
        if inquiry is None:
            return
        for effect in inquiry.machine.handle(event, self.loop.now()):
            self._perform(question, inquiry, effect)

    def _perform(self, question: int, inquiry: Inquiry, effect: object) -> None:
        match effect:
            case StartTimer(event, delay):
                self.later(delay, self._feed_due, (question, event))
            case TakeTurn():
                self._take_turn(question)
            case GiveTurn():
                self._pass_turn_on()
            case AttachTo(target):
                self._reach(target, question, inquiry)
            case Inquire(command, timeout):
                self._inquire(Ask(command, Token(self.actor_ref, question), timeout), inquiry)
            case Found(command, target):
                self._end(question, command if target is None else target)
            case NotFound(error):
                self._end(question, error)
            case _:
                raise InternalError(f"nobody performs {effect!r}")

    def _feed_due(self, due: tuple[int, Event]) -> None:
        self._feed(*due)

    def _take_turn(self, question: int) -> None:
        turn = self._turns.take(question)
        if turn is not Turn.LATER:
            self._feed(question, Begin() if turn is Turn.NOW else TurnAway())

    def _pass_turn_on(self) -> None:
        following = self._turns.give_back()
        while following is not None and following not in self._inquiries:  # it has ended in the line
            following = self._turns.give_back()
        if following is not None:
            self._feed(following, Begin())

    def _reach(self, target: Target, question: int, inquiry: Inquiry) -> None:
        self.tell_guardian(Reach(target, inquiry.cluster_url, Token(self.actor_ref, question)))

    def _inquire(self, question: Ask, inquiry: Inquiry) -> None:
        assert inquiry.connection is not None  # noqa: S101 - the machine has heard that it is there
        tell(inquiry.connection, question)

    def _end(self, question: int, outcome: object) -> None:
        inquiry = self._inquiries.pop(question)
        self._tally.lookups -= 1
        inquiry.answered(outcome)
