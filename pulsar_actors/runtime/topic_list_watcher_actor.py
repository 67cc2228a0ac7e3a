"""The actor of a topic list watcher: a broker tells it which topics of a namespace are created and deleted.

It reports to one actor: `TopicsChanged` for each change, and `TopicListWatcherEnded` at its end. `CloseHandle` ends it.
"""

from typing import Any, ClassVar

from pulsar_actors.exceptions import InternalError, Misdirected, PulsarException
from pulsar_actors.machines import connection_events
from pulsar_actors.machines.connection_commands import WATCHER
from pulsar_actors.machines.connection_events import SendRequest
from pulsar_actors.machines.connection_handler_events import EndAtOnce
from pulsar_actors.machines.lookup import SERVICE_URL
from pulsar_actors.machines.topic_list_watcher import (
    AskToStopWatching,
    AskToWatch,
    AttachWatcher,
    DetachWatcher,
    ReportTopicChanges,
    StartWatching,
    StopWatching,
    TopicListWatcher,
    WatcherAttached,
    WatcherDetached,
    WatcherEnded,
    WatchRefused,
    WatchStarted,
    WatchUpdated,
)
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.runtime.actor import ActorRef, MachineActor, tell
from pulsar_actors.runtime.log import LOG
from pulsar_actors.runtime.messages import (
    ActorEnded,
    ActorStarted,
    AttachHandler,
    CloseHandle,
    CommandsReceived,
    ConnectionAssigned,
    ConnectionReady,
    ConnectionUnavailable,
    HandlerRef,
    Registration,
    ReplyTo,
    RequestAnswered,
)
from pulsar_actors.wire.PulsarApi_pb2 import CommandWatchTopicListSuccess

STOP_TIMEOUT = 30.0
"""The timeout in seconds of the request to stop. Its answer is ignored."""


class TopicsChanged(NamedTuple):
    """The topics that were created and deleted since the last report; in the first report, all topics."""

    watcher: ActorRef
    added: tuple[str, ...]
    removed: tuple[str, ...]


class TopicListWatcherEnded(NamedTuple):
    """The end of the reports, with an error unless the watcher was closed."""

    watcher: ActorRef
    error: PulsarException | None


class TopicListWatcherActor(MachineActor[TopicListWatcher]):
    """The actor of one watcher, which reports to `report_to`."""

    def __init__(self, registration: Registration, machine: TopicListWatcher, report_to: ActorRef) -> None:
        super().__init__(registration.loop, registration.guardian)
        self.machine = machine
        self._registration = registration
        self._report_to = report_to
        self._connection: ActorRef | None = None
        self._asked: ActorRef | None = None  # the connection of the last try

    def __str__(self) -> str:
        return f"the topic list watcher {self._registration.id}"

    def on_start(self) -> None:
        """Register with the guardian, which closes this actor with the client, and begin."""
        self.tell_guardian(ActorStarted(self.actor_ref))
        self.feed(StartWatching())

    def receive(self, message: object) -> None:
        """Take messages of the guardian, the connection and the multi-topics actor."""
        current = self.machine.connection
        match message:
            case ConnectionAssigned(number, connection):
                if number == current:
                    self._connection = self._asked = connection
                else:
                    tell(connection, connection_events.RemoveHandler(self._handler_ref(number)))
            case ConnectionReady(number, _, _, can_watch):
                self.feed(WatcherAttached(number, can_watch))
            case ConnectionUnavailable(number, error):
                if number == current:
                    self._connection = None
                self.feed(WatcherDetached(number, error))
            case CommandsReceived(number, commands):
                for command, _ in commands:
                    self.feed(WatchUpdated(number, command))
            case RequestAnswered(number, answer):
                self._answered(number, answer)
            case CloseHandle() | EndAtOnce():
                self.feed(StopWatching())
            case _:
                raise InternalError(f"a watch does not take {message!r}")

    def abandon(self, bug: InternalError) -> None:
        """Leave the connection, and report the bug."""
        self._detach(DetachWatcher())
        tell(self._report_to, TopicListWatcherEnded(self.actor_ref, bug))

    def missed(self, message: object) -> None:
        """Leave a connection that was assigned too late."""
        if isinstance(message, ConnectionAssigned):
            tell(message.connection, connection_events.RemoveHandler(self._handler_ref(message.number)))

    def over(self) -> None:
        """End the actor."""
        self.tell_guardian(ActorEnded(self.actor_ref))
        self.finish()

    def _answered(self, number: int, answer: Any) -> None:  # noqa: ANN401 - any answer
        if isinstance(answer, CommandWatchTopicListSuccess):
            self.feed(WatchStarted(number, answer))
        elif isinstance(answer, PulsarException):
            self.feed(WatchRefused(number, answer))
        else:
            self.feed(WatchRefused(number, Misdirected(f"the broker answered a watch with {type(answer).__name__}")))

    def _handler_ref(self, number: int) -> HandlerRef:
        return HandlerRef(WATCHER, self._registration.id, self.actor_ref, number)

    # One method for each effect.

    def _attach(self, effect: AttachWatcher) -> None:
        handler = self._handler_ref(effect.connection)
        self.tell_guardian(AttachHandler(SERVICE_URL, self._registration.slot, handler, self._asked))

    def _detach(self, _: DetachWatcher) -> None:
        if self._connection is not None:
            tell(self._connection, connection_events.RemoveHandler(self._handler_ref(self.machine.connection)))
        self._connection = None

    def _ask(self, effect: AskToWatch) -> None:
        if self._connection is not None:
            tell(
                self._connection,
                SendRequest(effect.command, ReplyTo(self.actor_ref, self.machine.connection), effect.timeout),
            )

    def _ask_to_stop(self, effect: AskToStopWatching) -> None:
        if self._connection is not None:
            tell(self._connection, SendRequest(effect.command, ReplyTo(self.actor_ref, None), STOP_TIMEOUT))

    def _report(self, effect: ReportTopicChanges) -> None:
        tell(self._report_to, TopicsChanged(self.actor_ref, effect.added, effect.removed))

    def _report_end(self, effect: WatcherEnded) -> None:
        if effect.error is not None:
            LOG.info("topics are not watched: %s", effect.error)
        tell(self._report_to, TopicListWatcherEnded(self.actor_ref, effect.error))

    PERFORMS: ClassVar = {
        AttachWatcher: _attach,
        DetachWatcher: _detach,
        AskToWatch: _ask,
        AskToStopWatching: _ask_to_stop,
        ReportTopicChanges: _report,
        WatcherEnded: _report_end,
    }
