"""A watch of the topics of a namespace: whoever watches is told of those that come and go, while it lasts.

Any broker of the cluster can be asked, by the service URL. It gives the topics that match, and says from then on what
changes; a connection that ends ends that as well, so the watch begins again on another, after pauses that grow, and
tells what has changed meanwhile. The report is always of what has changed since the last one; the first has all.

Not every broker takes watches: an old one does not know the command, another has them switched off, or finds the
pattern too long. That ends the watch, with a reason, and whoever wanted it has to ask for the list now and then. They
should in any case, if seldom: a broker that is busy may forget to tell.

What a topic's name has to match is decided by the broker alone; whoever needs more looks at the names again.
"""

from collections.abc import Callable
from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import BrokerRefusal, OperationNotSupported
from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Event, Row
from pulsar_actors.machines.ledgers.backoff import Backoff
from pulsar_actors.machines.ledgers.server_errors import Verdict, meaning_of
from pulsar_actors.machines.ledgers.watched_topics import Difference, WatchedTopics
from pulsar_actors.machines.machine import StateMachine
from pulsar_actors.machines.topic_watch_events import (
    AskToStop,
    AskToWatch,
    Attach,
    Begin,
    Changed,
    End,
    Joined,
    Leave,
    Listed,
    Over,
    Parted,
    Refused,
    Report,
    RetryDue,
)
from pulsar_actors.wire.PulsarApi_pb2 import CommandWatchTopicList, CommandWatchTopicListClose


@unique
class State(Enum):
    """Where a watch can be."""

    IDLE = "Made, but not begun."
    ATTACHING = "Waits for a connection that can be used."
    ASKING = "Has asked, and waits for the list."
    WATCHING = "Is told of every change."
    WAITING = "Pauses before it tries again."
    OVER = "Ended, or refused for good."


IDLE, ATTACHING, ASKING, WATCHING, WAITING, OVER = State

# fmt: off
ROWS: Final = (
    #   trigger    source                           dest        guard            does
    Row(Begin,     IDLE,                            ATTACHING,  None,            "attach"),
    Row(Joined,    ATTACHING,                       ASKING,     "takes_watches", "ask"),
    Row(Joined,    ATTACHING,                       OVER,       None,            "end_unsupported"),
    Row(Parted,    ATTACHING,                       OVER,       "is_final",      "end_refused"),
    Row(Parted,    (ATTACHING, ASKING, WATCHING),   WAITING,    None,            "pause"),
    Row(Listed,    ASKING,                          WATCHING,   None,            "report_list"),
    Row(Refused,   ASKING,                          OVER,       "is_final",      "let_go_for_good"),
    Row(Refused,   ASKING,                          WAITING,    None,            "let_go"),
    Row(Changed,   WATCHING,                        INTERNAL,   None,            "report_change"),
    Row(RetryDue,  WAITING,                         ATTACHING,  None,            "attach"),

    # The end.
    Row(End,       (IDLE, WAITING),                 OVER,       None,            "end_apart"),
    Row(End,       ATTACHING,                       OVER,       None,            "leave"),
    Row(End,       (ASKING, WATCHING),              OVER,       None,            "stop"),

    # Too late, or too early to mean anything.
    Row(End,       OVER,                                        INTERNAL),
    Row(Joined,    (IDLE, ASKING, WATCHING, WAITING, OVER),     INTERNAL),
    Row(Parted,    (IDLE, WAITING, OVER),                       INTERNAL),
    Row(Listed,    (IDLE, ATTACHING, WATCHING, WAITING, OVER),  INTERNAL),
    Row(Refused,   (IDLE, ATTACHING, WATCHING, WAITING, OVER),  INTERNAL),
    Row(Changed,   (IDLE, ATTACHING, ASKING, WAITING, OVER),    INTERNAL),
    Row(RetryDue,  (IDLE, ATTACHING, ASKING, WATCHING, OVER),   INTERNAL),
)
# fmt: on

CHART: Final = Chart("topic_watch", states=State, initial=IDLE, final=[OVER], ours=(Begin, End), rows=ROWS)


class TopicWatch(StateMachine, chart=CHART):
    """The guards and actions of the chart, in its order."""

    __slots__ = ("_backoff", "_namespace", "_pattern", "_timeout", "_topics", "_watcher_id", "connection")

    def __init__(
        self, watcher_id: int, namespace: str, pattern: str, *, jitter: Callable[[], float], timeout: float
    ) -> None:
        super().__init__()
        self.connection = 0
        self._watcher_id = watcher_id
        self._namespace = namespace
        self._pattern = pattern
        self._timeout = timeout
        self._backoff = Backoff(jitter)
        self._topics = WatchedTopics()

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Drop whatever comes over an earlier connection."""
        if getattr(event, "connection", self.connection) != self.connection:
            return []
        return super().handle(event, now)

    def attach(self, event: Begin | RetryDue, now: float) -> Effects:
        """Join any connection to the cluster."""
        self.connection += 1
        return [Attach(self.connection)]

    def takes_watches(self, event: Joined, now: float) -> bool:
        """Hold when the broker has said so."""
        return event.can_watch

    def ask(self, event: Joined, now: float) -> Effects:
        """Ask, with the hash of what is known."""
        command = CommandWatchTopicList(
            request_id=0,
            watcher_id=self._watcher_id,
            namespace=self._namespace,
            topics_pattern=self._pattern,
            topics_hash=self._topics.hash,
        )
        return [AskToWatch(command, self._timeout)]

    def end_unsupported(self, event: Joined, now: float) -> Effects:
        """Send no command that the broker does not know: an old one would end the connection."""
        return [Leave(), Over(OperationNotSupported("the broker takes no watches of topics"))]

    def is_final(self, event: Refused | Parted, now: float) -> bool:
        """Hold for what trying again would not cure."""
        if isinstance(event.error, BrokerRefusal):
            return meaning_of(event.error).lookup is Verdict.FAIL
        return isinstance(event.error, OperationNotSupported)

    def end_refused(self, event: Parted, now: float) -> Effects:
        """Pass the error on."""
        return [Over(event.error)]

    def pause(self, event: Parted, now: float) -> Effects:
        """Wait a little longer than the last time."""
        return [self._pause()]

    def report_list(self, event: Listed, now: float) -> Effects:
        """Tell what has changed since it was last known."""
        command = event.command
        self._backoff.reset()
        return _report(self._topics.listed(command.topic, command.topics_hash))

    def let_go_for_good(self, event: Refused, now: float) -> Effects:
        """Keep the connection for others, and pass the error on."""
        return [Leave(), Over(event.error)]

    def let_go(self, event: Refused, now: float) -> Effects:
        """Keep the connection for others, and wait. What the broker may yet do, a later request finds done."""
        return [Leave(), self._pause()]

    def report_change(self, event: Changed, now: float) -> Effects:
        """Tell what is new of it."""
        command = event.command
        return _report(self._topics.changed(command.new_topics, command.deleted_topics, command.topics_hash))

    def end_apart(self, event: End, now: float) -> Effects:
        """Leave nothing behind: no broker is asked."""
        return [Over(None)]

    def leave(self, event: End, now: float) -> Effects:
        """Wait for the connection no longer."""
        return [Leave(), Over(None)]

    def stop(self, event: End, now: float) -> Effects:
        """Have the broker stop, too. Its answer changes nothing."""
        command = CommandWatchTopicListClose(request_id=0, watcher_id=self._watcher_id)
        return [AskToStop(command), *self.leave(event, now)]

    def _pause(self) -> Effect:
        return self.timers.start(RetryDue, self._backoff.next_delay())


def _report(difference: Difference) -> Effects:
    added, removed = difference
    return [Report(added, removed)] if added or removed else []
