"""The lookup actor of a client: it finds the brokers of topics, and asks brokers about topics.

Producers and consumers look up the broker of their topic; callers ask for the number of partitions, or for the topics
of a namespace. Each lookup is a state machine of its own, and all share a limit of concurrent requests. A request to
the service URL goes to one of its hosts; a redirect names another broker. If the service URL is `http` or `https`, no
connection is used: HTTP requests run off the loop, a few at once, and their outcomes come back to the loop.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from google.protobuf.message import Message

from pulsar_actors.exceptions import AlreadyClosed, InternalError, PulsarException, Timeout
from pulsar_actors.machines.chart import Event
from pulsar_actors.machines.connection_events import SendRequest
from pulsar_actors.machines.lookup import SERVICE_URL, LookupLimiter, LookupMachine, LookupPermit
from pulsar_actors.machines.lookup_events import (
    MIGRATED,
    AcquireLookupPermit,
    AttachTo,
    AttemptFailed,
    Cancel,
    Enqueue,
    Found,
    LookupAnswered,
    LookupAttached,
    LookupPermitDenied,
    LookupPermitGranted,
    LookupRefused,
    LookupTarget,
    NotFound,
    Redirected,
    ReleaseLookupPermit,
    SendLookup,
    ServiceChanged,
)
from pulsar_actors.machines.machine_history import MOST_ENDED, MachineHistory
from pulsar_actors.machines.state_machine import StartTimer, StateMachine
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, LoopActor, tell
from pulsar_actors.runtime.connection_pool import Service
from pulsar_actors.runtime.handle_link import ClientCounters
from pulsar_actors.runtime.http_client import MOST_AT_ONCE
from pulsar_actors.runtime.http_turns import HttpTurns
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.messages import BrokerFound, FindBroker, LookupRetrying, ReplyTo, RequestAnswered
from pulsar_actors.runtime.observer import ClientObserver, LookupEnded
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandGetSchema,
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
)
from pulsar_actors.wire.service_url import ServiceUrl


class LookupSettings(NamedTuple):
    """The settings of all lookups."""

    timeout: float
    listener_name: str | None
    at_once: int
    new_backoff: Callable[[Loop], Backoff]
    service_can_change: bool = False


class BrokerQuery(NamedTuple):
    """From a caller: send a command to a broker. `answered` is called on the loop with the answer or an error."""

    command: Message
    answered: Callable[[Any], None]


class ChangeService(NamedTuple):
    """From the guardian: use this service from now on."""

    service: Service


class EndQueries(NamedTuple):
    """From the guardian: fail all but the lookups of producers and consumers, since the client closes."""


class EndLookups(NamedTuple):
    """From the guardian: fail all lookups, since the client is closed, and end."""


class RequestConnection(NamedTuple):
    """To the guardian: find or open a connection to this broker, in this cluster if one is named.

    `instead_of` is one to the service URL whose host did not serve the lookup.
    """

    target: LookupTarget
    cluster_url: str | None
    reply_to: ReplyTo
    instead_of: ActorRef | None = None


class LookupStep(NamedTuple):
    """A step of a lookup. The answer to the step repeats it, so that a stale answer is recognised."""

    lookup_id: int
    number: int


class ConnectionFound(NamedTuple):
    """From the guardian: a connection, which may still be opening, or why there is none."""

    step: LookupStep
    outcome: ActorRef | PulsarException


class QueuedRequest(NamedTuple):
    """A request over HTTP that waits for its turn, and the time when it must be answered."""

    command: Message
    deadline: float


class LookupCallbacks(NamedTuple):
    """The callbacks of a lookup: for the answer or the last error, and for each failed attempt that is retried."""

    answered: Callable[[Any], None]
    attempt_failed: Callable[[PulsarException], None] = lambda _: None


KINDS: Final[Mapping[type[Message], str]] = {
    CommandLookupTopic: "topic",
    CommandPartitionedTopicMetadata: "metadata",
    CommandGetSchema: "schema",
    CommandGetTopicsOfNamespace: "list-topics",
}
"""The kinds of lookups that observers are told of, by command. Other requests are left out."""


class PendingLookup:
    """A lookup that has not been answered."""

    __slots__ = (
        "_cluster_url",
        "address",
        "asked_first",
        "began",
        "callbacks",
        "command",
        "connection",
        "machine",
        "name",
        "service",
        "step",
    )

    def __init__(  # noqa: PLR0913 - all that is known of it
        self,
        name: str,
        command: Message,
        began: float,
        machine: LookupMachine,
        service: Service,
        cluster_url: str | None,
        callbacks: LookupCallbacks,
    ) -> None:
        self.name = name
        self.command = command
        self.began = began
        self.machine = machine
        self.service = service
        self._cluster_url = cluster_url
        self.callbacks = callbacks
        self.connection: ActorRef | None = None
        self.asked_first: ActorRef | None = None  # in this try: the connection to the service URL
        self.address: str | None = None  # the address of a redirect over HTTP
        self.step = 0  # counts requests for connections; answers to an earlier step are stale

    @property
    def cluster_url(self) -> str | None:
        """The service URL of the cluster that the topic has migrated to; None if it has not.

        An address that is encrypted although the client's service URL is not, or the other way round, counts as
        missing: the client may have gone to another service since. Its own is asked then.
        """
        url = self._cluster_url
        return url if url is not None and ServiceUrl.parse(url).is_tls == self.service.url.is_tls else None

    @property
    def hosts(self) -> int:
        """The number of hosts that can be asked, each with a request of its own. One over HTTP goes to all in turn."""
        if self.is_over_http:
            return 1
        url = self.service.url if self.cluster_url is None else ServiceUrl.parse(self.cluster_url)
        return len(url.hosts)

    @property
    def is_over_http(self) -> bool:
        """True if the lookup goes over HTTP.

        A topic that has moved to another cluster is looked up at a broker there.
        """
        return self.service.url.is_http and self.cluster_url is None


class LookupActor(LoopActor):
    """The lookups of one client."""

    def __init__(
        self, loop: Loop, guardian: ActorRef, settings: LookupSettings, service: Service, counters: ClientCounters
    ) -> None:
        super().__init__(loop, guardian)
        self._settings = settings
        self._service = service
        self._first_host = 0
        self._http_turns: HttpTurns[QueuedRequest] = HttpTurns(min(MOST_AT_ONCE, settings.at_once))
        self._has_answered_over_http = False
        self._counters = counters
        self._limiter: LookupLimiter[int] = LookupLimiter(settings.at_once)
        self._pending: dict[int, PendingLookup] = {}
        self._serial = 0
        self._ended: deque[tuple[str, MachineHistory]] = deque(maxlen=MOST_ENDED)

    def machines(self) -> Iterator[tuple[str, StateMachine]]:
        """Iterate over the pending lookups."""
        for pending in tuple(self._pending.values()):
            yield pending.name, pending.machine

    def ended_histories(self) -> Iterator[tuple[str, MachineHistory]]:
        """Iterate over the histories of the lookups that ended last."""
        yield from tuple(self._ended)

    def receive(self, message: object) -> None:
        """Take new lookups, and answers."""
        match message:
            case FindBroker(topic, cluster_url, reply_to):
                self._find_broker(topic, cluster_url, reply_to)
            case BrokerQuery(command, answered):
                self._begin(command, None, LookupCallbacks(answered))
            case ConnectionFound(step, outcome):
                self._connection_found(step, outcome)
            case RequestAnswered(step, answer):
                failed = isinstance(answer, PulsarException)
                self._feed_if_current(step, LookupRefused(answer) if failed else LookupAnswered(answer))
            case ChangeService(service):
                self._change_service(service)
            case EndQueries():
                self._cancel(
                    [number for number, one in self._pending.items() if type(one.command) is not CommandLookupTopic]
                )
            case EndLookups():
                self._cancel(self._pending)
                self._give_up_http_requests()
                self.finish()
            case _:
                raise InternalError(f"lookups do not take {message!r}")

    def abandon(self, bug: InternalError) -> None:
        """Fail all lookups with the bug."""
        all_pending, self._pending = self._pending, {}
        self._counters.lookups -= len(all_pending)
        for pending in all_pending.values():
            pending.callbacks.answered(bug)

    def missed(self, message: object) -> None:
        """Answer a lookup that came too late."""
        error = self.bug or AlreadyClosed("the client is closed")
        match message:
            case FindBroker(_, _, reply_to):
                tell(reply_to.address, BrokerFound(reply_to.request, error))
            case BrokerQuery(_, answered):
                answered(error)
            case _:
                pass

    def _find_broker(self, topic: str, cluster_url: str | None, reply_to: ReplyTo) -> None:
        command = CommandLookupTopic(topic=topic, request_id=0)
        if self._settings.listener_name:
            command.advertised_listener_name = self._settings.listener_name

        def answered(outcome: Any) -> None:  # noqa: ANN401 - a target or an error
            tell(reply_to.address, BrokerFound(reply_to.request, outcome))

        def attempt_failed(error: PulsarException) -> None:
            tell(reply_to.address, LookupRetrying(reply_to.request, error))

        self._begin(command, cluster_url, LookupCallbacks(answered, attempt_failed))

    def _begin(self, command: Message, cluster_url: str | None, callbacks: LookupCallbacks) -> None:
        settings = self._settings
        backoff = settings.new_backoff(self.loop)
        machine = LookupMachine(command, tls=self._service.url.is_tls, backoff=backoff, timeout=settings.timeout)
        self._serial += 1
        self._counters.lookups += 1
        subject: str = getattr(command, "topic", "") or getattr(command, "namespace", "")
        name = f"lookup {self._serial} of {subject} ({type(command).__name__.removeprefix('Command')})"
        self._pending[self._serial] = PendingLookup(
            name, command, self.loop.now(), machine, self._service, cluster_url, callbacks
        )
        self._feed(self._serial, Enqueue())

    def _connection_found(self, step: LookupStep, outcome: ActorRef | PulsarException) -> None:
        pending = self._pending.get(step.lookup_id)
        if isinstance(outcome, PulsarException):
            self._feed_if_current(step, LookupRefused(outcome))
        elif pending is not None:
            pending.connection = outcome
            pending.asked_first = pending.asked_first or outcome
            self._feed_if_current(step, LookupAttached(pending.hosts))

    def _change_service(self, service: Service) -> None:
        self._service = service
        self._give_up_http_requests()
        for lookup_id, pending in list(self._pending.items()):
            pending.service = service
            self._feed(lookup_id, ServiceChanged(service.url.is_tls))

    def _give_up_http_requests(self) -> None:
        for executor in self._http_turns.executors:
            self.loop.give_up_executor(executor)
        self._http_turns = HttpTurns(len(self._http_turns.executors))

    def _cancel(self, lookup_ids: Iterable[int]) -> None:
        for lookup_id in sorted(lookup_ids, reverse=True):  # those that wait first: none of them is to run
            self._feed(lookup_id, Cancel())

    def _feed(self, lookup_id: int, event: Event) -> None:
        pending = self._pending.get(lookup_id)
        if pending is None:
            return
        for effect in self.handled(pending.name, pending.machine, event):
            self._perform(lookup_id, pending, effect)

    def _perform(self, lookup_id: int, pending: PendingLookup, effect: object) -> None:
        match effect:
            case StartTimer(event, delay):
                self.later(delay, self._feed_due, (lookup_id, event))
            case AcquireLookupPermit():
                self._acquire_permit(lookup_id)
            case ReleaseLookupPermit():
                self._release_permit(lookup_id)
            case AttachTo(target):
                self._request_connection(target, lookup_id, pending)
            case SendLookup():
                self._ask(effect, lookup_id, pending)
            case AttemptFailed(error):
                pending.callbacks.attempt_failed(error)
            case Found(command, target):
                url, _, number, home = pending.service
                cluster_url = pending.cluster_url
                home = home if cluster_url is None else MIGRATED
                found = target and target._replace(service=number, cluster=cluster_url, home=home, tls=url.is_tls)
                self._end(lookup_id, found or command)
            case NotFound(error):
                self._end(lookup_id, error)
            case _:
                raise InternalError(f"nobody performs {effect!r}")

    def _feed_if_current(self, step: LookupStep, event: Event) -> None:
        pending = self._pending.get(step.lookup_id)
        if pending is not None and pending.step == step.number:
            self._feed(step.lookup_id, event)

    def _feed_due(self, due: tuple[int, Event]) -> None:
        self._feed(*due)

    def _acquire_permit(self, lookup_id: int) -> None:
        permit = self._limiter.acquire(lookup_id)
        if permit is not LookupPermit.LATER:
            self._feed(lookup_id, LookupPermitGranted() if permit is LookupPermit.NOW else LookupPermitDenied())

    def _release_permit(self, lookup_id: int) -> None:
        following = self._limiter.release(lookup_id)
        if following is not None:
            self._feed(following, LookupPermitGranted())

    def _request_connection(self, target: LookupTarget, lookup_id: int, pending: PendingLookup) -> None:
        pending.step += 1
        if pending.is_over_http:
            pending.address = target.physical
            self._feed(lookup_id, LookupAttached())
        else:
            reply_to = ReplyTo(self.actor_ref, LookupStep(lookup_id, pending.step))
            if target == SERVICE_URL:
                former, pending.asked_first = pending.asked_first, None
                self.tell_guardian(RequestConnection(target, pending.cluster_url, reply_to, former))
            else:
                named = target._replace(service=pending.service.number)
                self.tell_guardian(RequestConnection(named, pending.cluster_url, reply_to))

    def _ask(self, effect: SendLookup, lookup_id: int, pending: PendingLookup) -> None:
        command, timeout, answer_within = effect
        if pending.is_over_http:
            self._http_turns.wait(lookup_id, QueuedRequest(command, self.loop.now() + timeout))
            self._send_over_http()
        else:
            assert pending.connection is not None  # noqa: S101 - the machine has been told of it
            step = LookupStep(lookup_id, pending.step)
            tell(pending.connection, SendRequest(command, ReplyTo(self.actor_ref, step), timeout, answer_within))

    def _send_over_http(self) -> None:
        """Send the requests whose turn it is."""
        while (turn := self._http_turns.take()) is not None:
            self._send_turn(*turn)

    def _send_turn(self, lookup_id: int, request: QueuedRequest, executor: str) -> None:
        from pulsar_actors.runtime.http_lookup import HttpLookup  # noqa: PLC0415 - few clients look up over HTTP

        pending, now = self._pending[lookup_id], self.loop.now
        step, access = LookupStep(lookup_id, pending.step), pending.service.access
        lookup = HttpLookup(
            request.command,
            self._hosts_in_turn(pending.service.url),
            pending.address,
            request.deadline,
            silence_may_end=self._settings.service_can_change or self._has_answered_over_http,
        )
        self.run_blocking(
            lambda: lookup.send(access, now),
            lambda outcome: self._answered_over_http(step, executor, outcome),
            timeout=max(0.0, request.deadline - now()),
            executor=executor,
        )

    def _hosts_in_turn(self, url: ServiceUrl) -> ServiceUrl:
        """Return the URL with its hosts rotated, so that each call begins with another host."""
        self._first_host += 1
        return url.starting_with(self._first_host)

    def _answered_over_http(
        self, step: LookupStep, executor: str, outcome: LookupAnswered | Redirected | Exception
    ) -> None:
        from pulsar_actors.runtime.http_lookup import is_of_a_host  # noqa: PLC0415 - few clients look up over HTTP

        self._has_answered_over_http |= is_of_a_host(outcome)
        self._http_turns.release(executor)
        self._send_over_http()
        match outcome:
            case PulsarException():
                self._feed_if_current(step, LookupRefused(outcome))
            case TimeoutError():
                self._feed_if_current(step, LookupRefused(Timeout(f"no host has answered over HTTP: {outcome}")))
            case Exception():
                raise outcome
            case _:
                self._feed_if_current(step, outcome)

    def _end(self, lookup_id: int, outcome: object) -> None:
        pending = self._pending.pop(lookup_id)
        self._http_turns.withdraw(lookup_id)
        self._ended.append((pending.name, pending.machine.history))
        self._counters.lookups -= 1
        if self._counters.observer is not None:
            self._observe(self._counters.observer, pending, failed=isinstance(outcome, PulsarException))
        pending.callbacks.answered(outcome)

    def _observe(self, observer: ClientObserver, pending: PendingLookup, *, failed: bool) -> None:
        kind = KINDS.get(type(pending.command))
        if kind is not None:
            observer.lookup_ended(LookupEnded(kind, pending.is_over_http, self.loop.now() - pending.began, failed))
