"""A topic list watcher: a broker reports the created and deleted topics of a namespace, for a pattern consumer.

Any broker of the cluster can be asked, through the service URL. It answers with the topics that match, and sends all
later changes. The watch ends with its connection. So the watcher starts again on another one, with a growing backoff,
and reports the changes meanwhile. Each report has the differences from the one before; the first has all topics. If a
host of the service URL does not watch, the next one is asked.

Not every broker supports this: an old one does not know the command, others have it switched off, or refuse a long
pattern. That ends the watch with an error, and the consumer has to list the topics at intervals. It should also do so
otherwise, at long intervals, because a busy broker may miss a change.

The broker alone decides which names match; a consumer that needs more than the broker's pattern filters again.

`connection` counts the requested connections. An event of an earlier one is stale, and does not reach the chart.
"""

from collections.abc import Iterable
from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import BrokerRefusal, OperationNotSupported, PulsarException
from pulsar_actors.machines.chart import INTERNAL, Chart, Effect, Effects, Ignore, Row
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.backoff import Backoff
from pulsar_actors.machines.trackers.server_errors import RetryVerdict, meaning_of
from pulsar_actors.named_tuple import NamedTuple
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandWatchTopicList,
    CommandWatchTopicListClose,
    CommandWatchTopicListSuccess,
    CommandWatchTopicUpdate,
)


class TopicsDifference(NamedTuple):
    """Topics that were created and deleted, each sorted."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


# Events of the client.


class StartWatching(NamedTuple):
    """Start to watch."""


class StopWatching(NamedTuple):
    """Stop watching."""


# Events of connections, of the broker and of timers.


class WatcherAttached(NamedTuple):
    """There is a connection; `can_watch` is a feature flag of the broker in CONNECTED."""

    connection: int
    can_watch: bool


class WatcherDetached(NamedTuple):
    """There is no connection, or it has ended."""

    connection: int
    error: PulsarException


class WatchStarted(NamedTuple):
    """The broker watches from now on. The answer has the topics that match now."""

    connection: int
    command: CommandWatchTopicListSuccess


class WatchRefused(NamedTuple):
    """The broker refused, or did not answer in time."""

    connection: int
    error: PulsarException


class WatchUpdated(NamedTuple):
    """Topics were created or deleted."""

    connection: int
    command: CommandWatchTopicUpdate


class WatchRetryDue(NamedTuple):
    """The backoff after a failed attempt is over."""

    generation: int


# Effects.


class AttachWatcher(NamedTuple):
    """Get a connection to the service URL; answer with `WatcherAttached` or `WatcherDetached` of the same number."""

    connection: int


class DetachWatcher(NamedTuple):
    """Stop using the connection."""


class AskToWatch(NamedTuple):
    """Send the request on the connection; answer with `WatchStarted` or `WatchRefused`."""

    command: CommandWatchTopicList
    timeout: float


class AskToStopWatching(NamedTuple):
    """Tell the broker to stop watching. Its answer is ignored."""

    command: CommandWatchTopicListClose


class ReportTopicChanges(NamedTuple):
    """Report the topics that were created and deleted since the last report."""

    added: tuple[str, ...]
    removed: tuple[str, ...]


class WatcherEnded(NamedTuple):
    """Report that the watch has ended; the error is the reason, and None after `StopWatching`."""

    error: PulsarException | None


class WatchedTopics:
    """The topics of one watch. Each created or deleted topic is reported once.

    The broker sends a list when a watch starts, and then changes; each with a hash of all its topics. If a request
    carries the last hash and nothing has changed, as after most reconnects, the list in the answer is empty. So an
    empty list counts only if its hash is new.
    """

    __slots__ = ("_topics", "hash")

    def __init__(self) -> None:
        self._topics: set[str] = set()
        self.hash: str | None = None

    def listed(self, topics: Iterable[str], topics_hash: str) -> TopicsDifference:
        """Replace the topics by a whole list; return the difference."""
        if topics_hash == self.hash:
            return TopicsDifference((), ())
        before, self._topics, self.hash = self._topics, set(topics), topics_hash
        return TopicsDifference(tuple(sorted(self._topics - before)), tuple(sorted(before - self._topics)))

    def changed(self, added: Iterable[str], removed: Iterable[str], topics_hash: str) -> TopicsDifference:
        """Apply a change.

        The cost does not depend on the number of topics: there may be thousands, and as many changes.
        """
        self.hash = topics_hash
        wanted = set(added)
        came, went = wanted - self._topics, self._topics.intersection(removed) - wanted
        self._topics |= came
        self._topics -= went
        return TopicsDifference(tuple(sorted(came)), tuple(sorted(went)))


@unique
class State(Enum):
    """The states of a watch."""

    IDLE = "Created, but not started."
    ATTACHING = "Waits for a connection."
    ASKING = "The request is sent; the broker has to answer with the list."
    WATCHING = "The broker sends every change."
    WAITING = "Backs off before it tries again."
    OVER = "Ended, or refused by an error that a retry cannot cure."


IDLE, ATTACHING, ASKING, WATCHING, WAITING, OVER = State

# fmt: off
ROWS: Final = (
    #   trigger          source                         dest       guard               does
    Row(StartWatching,   IDLE,                          ATTACHING, None,               "attach"),
    Row(WatcherAttached, ATTACHING,                     ASKING,    "supports_watches", "send_request"),
    Row(WatcherAttached, ATTACHING,                     OVER,      None,               "end_unsupported"),
    Row(WatcherDetached, ATTACHING,                     OVER,      "is_final",         "end_refused"),
    Row(WatcherDetached, (ATTACHING, ASKING, WATCHING), WAITING,   None,               "back_off"),
    Row(WatchStarted,    ASKING,                        WATCHING,  None,               "report_list"),
    Row(WatchRefused,    ASKING,                        OVER,      "is_final",         "detach_and_end"),
    Row(WatchRefused,    ASKING,                        WAITING,   None,               "detach_and_back_off"),
    Row(WatchUpdated,    WATCHING,                      INTERNAL,  None,               "report_change"),
    Row(WatchRetryDue,   WAITING,                       ATTACHING, None,               "attach"),

    # The end.
    Row(StopWatching, (IDLE, WAITING),    OVER, None, "end_detached"),
    Row(StopWatching, ATTACHING,          OVER, None, "detach_and_stop"),
    Row(StopWatching, (ASKING, WATCHING), OVER, None, "stop_broker"),
)

# Too late, or too early to mean anything.
IGNORES: Final = (
    #      events                        states
    Ignore(StopWatching,                 OVER),
    Ignore(WatcherAttached,              (IDLE, ASKING, WATCHING, WAITING, OVER)),
    Ignore(WatcherDetached,              (IDLE, WAITING, OVER)),
    Ignore((WatchStarted, WatchRefused), (IDLE, ATTACHING, WATCHING, WAITING, OVER)),
    Ignore(WatchUpdated,                 (IDLE, ATTACHING, ASKING, WAITING, OVER)),
    Ignore(WatchRetryDue,                (IDLE, ATTACHING, ASKING, WATCHING, OVER)),
)
# fmt: on

OURS: Final = (StartWatching, StopWatching)

CHART: Final = Chart(
    "topic_list_watcher", states=State, initial=IDLE, final=[OVER], ours=OURS, rows=ROWS, ignores=IGNORES
)


class TopicListWatcher(StateMachine, chart=CHART, current=("connection",)):
    """The guards and actions of the chart, in its order."""

    __slots__ = ("_backoff", "_namespace", "_pattern", "_timeout", "_topics", "_watcher_id", "connection")

    def __init__(self, watcher_id: int, namespace: str, pattern: str, *, backoff: Backoff, timeout: float) -> None:
        super().__init__()
        self.connection = 0
        self._watcher_id = watcher_id
        self._namespace = namespace
        self._pattern = pattern
        self._timeout = timeout
        self._backoff = backoff
        self._topics = WatchedTopics()

    def attach(self, event: StartWatching | WatchRetryDue, now: float) -> Effects:
        """Get a connection to any broker of the cluster."""
        self.connection += 1
        return [AttachWatcher(self.connection)]

    def supports_watches(self, event: WatcherAttached, now: float) -> bool:
        """Return whether the broker supports watching topics."""
        return event.can_watch

    def send_request(self, event: WatcherAttached, now: float) -> Effects:
        """Send the request, with the hash of the topics that are known."""
        command = CommandWatchTopicList(
            request_id=0,
            watcher_id=self._watcher_id,
            namespace=self._namespace,
            topics_pattern=self._pattern,
            topics_hash=self._topics.hash,
        )
        return [AskToWatch(command, self._timeout)]

    def end_unsupported(self, event: WatcherAttached, now: float) -> Effects:
        """End without the request: an old broker would end the connection over a command that it does not know."""
        return [DetachWatcher(), WatcherEnded(OperationNotSupported("the broker does not support topic list watchers"))]

    def is_final(self, event: WatchRefused | WatcherDetached, now: float) -> bool:
        """Return whether another try would fail in the same way."""
        if isinstance(event.error, BrokerRefusal):
            return meaning_of(event.error).lookup is RetryVerdict.FAIL
        return isinstance(event.error, OperationNotSupported)

    def end_refused(self, event: WatcherDetached, now: float) -> Effects:
        """End with the error."""
        return [WatcherEnded(event.error)]

    def back_off(self, event: WatcherDetached, now: float) -> Effects:
        """Wait longer than after the failure before."""
        return [self._back_off()]

    def report_list(self, event: WatchStarted, now: float) -> Effects:
        """Report what has changed since the last report."""
        command = event.command
        self._backoff.reset()
        return _report(self._topics.listed(command.topic, command.topics_hash))

    def detach_and_end(self, event: WatchRefused, now: float) -> Effects:
        """Leave the connection, and end with the error."""
        return [DetachWatcher(), WatcherEnded(event.error)]

    def detach_and_back_off(self, event: WatchRefused, now: float) -> Effects:
        """Leave the connection, and wait. If the broker starts the watch after all, the next request replaces it."""
        return [DetachWatcher(), self._back_off()]

    def report_change(self, event: WatchUpdated, now: float) -> Effects:
        """Report what has changed, leaving out what was reported already."""
        command = event.command
        return _report(self._topics.changed(command.new_topics, command.deleted_topics, command.topics_hash))

    def end_detached(self, event: StopWatching, now: float) -> Effects:
        """End. No broker has to stop."""
        return [WatcherEnded(None)]

    def detach_and_stop(self, event: StopWatching, now: float) -> Effects:
        """Leave the connection, and end."""
        return [DetachWatcher(), WatcherEnded(None)]

    def stop_broker(self, event: StopWatching, now: float) -> Effects:
        """Tell the broker to stop as well. Its answer changes nothing."""
        command = CommandWatchTopicListClose(request_id=0, watcher_id=self._watcher_id)
        return [AskToStopWatching(command), *self.detach_and_stop(event, now)]

    def _back_off(self) -> Effect:
        return self.timers.start(WatchRetryDue, self._backoff.next_delay())


def _report(difference: TopicsDifference) -> Effects:
    added, removed = difference
    return [ReportTopicChanges(added, removed)] if added or removed else []
