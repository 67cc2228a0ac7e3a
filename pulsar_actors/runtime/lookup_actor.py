"""The actor that asks about topics, for one client: each question is a machine of its own, and all share the turns.

Producers and consumers ask who serves their topic; callers ask how many partitions it has, or which topics there are.
A question to the service URL goes to one of its hosts; a redirect names another broker. Where the service URL is one of
HTTP there is no connection to be had: the question is asked off the loop, and comes back with its answer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from google.protobuf.message import Message

from pulsar_actors.exceptions import AlreadyClosed, InternalError, PulsarException, Timeout
from pulsar_actors.machines.chart import Event
from pulsar_actors.machines.connection_events import Ask
from pulsar_actors.machines.ledgers.turns import Turn, Turns
from pulsar_actors.machines.lookup import SERVICE_URL, Lookup
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
    Redirected,
    Refused,
    ServiceChanged,
    Stumbled,
    TakeTurn,
    Target,
    TurnAway,
)
from pulsar_actors.machines.timers import StartTimer
from pulsar_actors.runtime.actor import Address, LoopActor, tell
from pulsar_actors.runtime.binding_messages import BrokerFound, FindBroker, StillLooking
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import Replied, Token
from pulsar_actors.runtime.service import Service
from pulsar_actors.runtime.tally import Tally
from pulsar_actors.wire.PulsarApi_pb2 import CommandLookupTopic
from pulsar_actors.wire.service_url import ServiceUrl


class LookupSettings(NamedTuple):
    """What all questions have in common."""

    timeout: float
    listener_name: str | None
    at_once: int


class Question(NamedTuple):
    """From a caller: ask a broker this. `answered` gets the answer or an error, on the loop."""

    command: Message
    answered: Callable[[Any], None]


class ChangeService(NamedTuple):
    """From the guardian: ask there from now on."""

    service: Service


class EndLookups(NamedTuple):
    """From the guardian: answer everybody that the client is closed, and go."""


class Reach(NamedTuple):
    """To the guardian: give a connection to this broker, in this cluster if one is named."""

    target: Target
    cluster_url: str | None
    asker: Token


class Asked(NamedTuple):
    """Which question, and which of its steps, an answer is for."""

    question: int
    step: int


class Reached(NamedTuple):
    """The answer: a connection, which may still be in the making, or why there is none."""

    question: Asked
    outcome: Address | PulsarException


class Asker(NamedTuple):
    """Who wants to know: told of each failure that is tried again, and at last of the answer or an error."""

    answered: Callable[[Any], None]
    stumbled: Callable[[PulsarException], None] = lambda _: None


class Inquiry:
    """One question on its way."""

    __slots__ = ("address", "asker", "cluster_url", "connection", "machine", "service", "step")

    def __init__(self, machine: Lookup, service: Service, cluster_url: str | None, asker: Asker) -> None:
        self.machine = machine
        self.service = service
        self.cluster_url = cluster_url
        self.asker = asker
        self.connection: Address | None = None
        self.address: str | None = None  # of a redirect over HTTP
        self.step = 0  # how often somebody was to be asked; answers to an earlier step are of no use

    @property
    def is_over_http(self) -> bool:
        """Whether it travels so: a topic that has moved to another cluster has a broker of that to ask."""
        return self.service.url.is_http and self.cluster_url is None


class LookupActor(LoopActor):
    """All questions of one client."""

    def __init__(self, loop: Loop, guardian: Address, settings: LookupSettings, service: Service, tally: Tally) -> None:
        super().__init__(loop, guardian)
        self._settings = settings
        self._service = service
        self._turn = 0
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
                self._begin(command, None, Asker(answered))
            case Reached(asked, outcome):
                self._reached(asked, outcome)
            case Replied(asked, answer):
                failed = isinstance(answer, PulsarException)
                self._feed_if_current(asked, Refused(answer) if failed else Answered(answer))
            case ChangeService(service):
                self._change_service(service)
            case EndLookups():
                self._end_all()
            case _:
                raise InternalError(f"lookups do not take {message!r}")

    def abandon(self, bug: InternalError) -> None:
        """Answer every question with the bug."""
        inquiries, self._inquiries = self._inquiries, {}
        self._tally.lookups -= len(inquiries)
        for inquiry in inquiries.values():
            inquiry.asker.answered(bug)

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

        def stumbled(error: PulsarException) -> None:
            tell(asker.address, StillLooking(asker.question, error))

        self._begin(command, cluster_url, Asker(answered, stumbled))

    def _begin(self, command: Message, cluster_url: str | None, asker: Asker) -> None:
        settings = self._settings
        machine = Lookup(command, tls=self._service.url.is_tls, jitter=self.loop.chance, timeout=settings.timeout)
        self._serial += 1
        self._tally.lookups += 1
        self._inquiries[self._serial] = Inquiry(machine, self._service, cluster_url, asker)
        self._feed(self._serial, Queue())

    def _reached(self, asked: Asked, outcome: Address | PulsarException) -> None:
        inquiry = self._inquiries.get(asked.question)
        if isinstance(outcome, PulsarException):
            self._feed_if_current(asked, AttachFailed(outcome))
        elif inquiry is not None:
            inquiry.connection = outcome
            self._feed_if_current(asked, Attached())

    def _change_service(self, service: Service) -> None:
        self._service = service
        for question, inquiry in list(self._inquiries.items()):
            inquiry.service = service
            self._feed(question, ServiceChanged(service.url.is_tls))

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
                self._inquire(command, timeout, question, inquiry)
            case Stumbled(error):
                inquiry.asker.stumbled(error)
            case Found(command, target):
                number = inquiry.service.number
                found = target and target._replace(service=number, cluster=inquiry.cluster_url)
                self._end(question, found or command)
            case NotFound(error):
                self._end(question, error)
            case _:
                raise InternalError(f"nobody performs {effect!r}")

    def _feed_if_current(self, asked: Asked, event: Event) -> None:
        inquiry = self._inquiries.get(asked.question)
        if inquiry is not None and inquiry.step == asked.step:
            self._feed(asked.question, event)

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
        inquiry.step += 1
        if inquiry.is_over_http:
            inquiry.address = target.physical
            self._feed(question, Attached())
        else:
            asked = Asked(question, inquiry.step)
            named = target if target == SERVICE_URL else target._replace(service=inquiry.service.number)
            self.tell_guardian(Reach(named, inquiry.cluster_url, Token(self.actor_ref, asked)))

    def _inquire(self, command: Message, timeout: float, question: int, inquiry: Inquiry) -> None:
        asked = Asked(question, inquiry.step)
        if inquiry.is_over_http:
            from pulsar_actors.runtime.http_lookup import HttpLookup  # noqa: PLC0415 - few clients ask that way

            lookup = HttpLookup(command, self._hosts_in_turn(inquiry.service.url), inquiry.address, timeout)
            entrance = inquiry.service.entrance
            self.off_loop(lambda: lookup.ask(entrance), lambda came: self._answered(asked, came), timeout=timeout)
        else:
            assert inquiry.connection is not None  # noqa: S101 - the machine has heard that it is there
            tell(inquiry.connection, Ask(command, Token(self.actor_ref, asked), timeout))

    def _hosts_in_turn(self, url: ServiceUrl) -> ServiceUrl:
        """Begin with another host each time."""
        self._turn = (self._turn + 1) % len(url.hosts)
        return url._replace(hosts=url.hosts[self._turn :] + url.hosts[: self._turn])

    def _answered(self, asked: Asked, came: Answered | Redirected | Exception) -> None:
        match came:
            case PulsarException():
                self._feed_if_current(asked, Refused(came))
            case TimeoutError():
                self._feed_if_current(asked, Refused(Timeout(f"nobody has answered over HTTP: {came}")))
            case Exception():
                raise came
            case _:
                self._feed_if_current(asked, came)

    def _end(self, question: int, outcome: object) -> None:
        inquiry = self._inquiries.pop(question)
        self._tally.lookups -= 1
        inquiry.asker.answered(outcome)
