"""The state machine that finds the topics of a multi-topics handle, and the number of partitions of each.

A discovery has up to two steps. With a pattern, the topics of the namespace are listed first. Then a broker is asked
for the partitions of each topic that is new or may have changed. After a failure, the earlier numbers stay until the
next discovery. Answers to an earlier discovery are stale.

If a broker reports a change meanwhile, the discovery still runs to its end, and the next one follows soon. A restart
with each change could delay discovery for ever while topics are being created.

`multi_topics.py` starts the first discovery, and creates the missing members at the end of each.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import PulsarException, TopicNotFound
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.multi_topics_events import (
    CloseMember,
    CountPartitions,
    Discover,
    DiscoverLater,
    DiscoveryDue,
    ListTopics,
    MatchingTopicsListed,
    MultiTopicsSettings,
    PartitionsCounted,
    PartitionsGrown,
    StopDiscovery,
    TopicListChanged,
    UpdateMembers,
)
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.subscribed_topics import SubscribedTopics

TOPICS_CHANGED_PAUSE: Final = 0.5
"""Seconds between two discoveries, if topics were created or deleted during the first."""


@unique
class State(Enum):
    """The states of the discovery."""

    IDLE = "No discovery runs, and none is due."
    LISTING = "The topics of the namespace are being listed."
    COUNTING = "The partitions of topics are being counted."
    RESTING = "The topics are known; the next discovery starts after a pause, or when a broker reports a change."


IDLE, LISTING, COUNTING, RESTING = State

RUNNING: Final = (LISTING, COUNTING)

# fmt: off
ROWS: Final = (
    #   trigger               source               dest      guard                      does
    Row(Discover,             IDLE,                LISTING,  "has_pattern",             "list_topics"),
    Row(Discover,             IDLE,                COUNTING, None,                      "count_named"),
    Row(MatchingTopicsListed, LISTING,             IDLE,     "has_failed"),
    Row(MatchingTopicsListed, LISTING,             IDLE,     "leaves_nothing_to_count", "drop_gone"),
    Row(MatchingTopicsListed, LISTING,             COUNTING, None,                      "drop_gone_and_count"),
    Row(PartitionsCounted,    COUNTING,            IDLE,     "is_last_answer",          "note_count"),
    Row(PartitionsCounted,    COUNTING,            INTERNAL, None,                      "note_count"),
    Row(DiscoverLater,        IDLE,                RESTING,  "is_to_look_again",        "rest"),
    Row(DiscoveryDue,         RESTING,             LISTING,  "has_pattern",             "list_topics"),
    Row(DiscoveryDue,         RESTING,             COUNTING, None,                      "count_partitioned"),
    Row(TopicListChanged,     RESTING,             LISTING,  "has_pattern",             "list_topics"),
    Row(TopicListChanged,     RUNNING,             INTERNAL, None,                      "note_change"),
    Row(StopDiscovery,        (*RUNNING, RESTING), IDLE,     None,                      "stop"),
)

IGNORES: Final = (
    Ignore(TopicListChanged, (IDLE, RESTING)),  # without a pattern
    Ignore((DiscoverLater, StopDiscovery), IDLE),  # where nothing can change
    Ignore(MatchingTopicsListed, (IDLE, COUNTING, RESTING)),
    Ignore(PartitionsCounted, (IDLE, LISTING, RESTING)),
    Ignore(DiscoveryDue, (IDLE, *RUNNING)),
)
# fmt: on

CHART: Final = Chart(
    "partition_discovery",
    states=State,
    initial=IDLE,
    final=(),
    ours=(),
    rows=ROWS,
    ignores=IGNORES,
    inner=(Discover, DiscoverLater, StopDiscovery),
)


class PartitionDiscovery(StateMachine, chart=CHART, current=("discovery",)):
    """The discovery of one multi-topics handle: the guards and actions in the chart's order."""

    __slots__ = ("_counting", "_settings", "_subscribed", "_topics_changed", "discovery")

    def __init__(self, settings: MultiTopicsSettings, subscribed: SubscribedTopics, whole: StateMachine) -> None:
        super().__init__(whole)
        self.discovery = 0
        self._settings = settings
        self._subscribed = subscribed
        self._topics_changed = False  # True if topics changed during the current discovery
        self._counting: dict[str, tuple[str, ...]] = {}  # awaited topics, with their listed names

    def has_pattern(self, event: Discover | DiscoverLater | DiscoveryDue | TopicListChanged, now: float) -> bool:
        """Return whether there is a pattern, so that topics may be added and removed."""
        return self._settings.has_pattern

    def list_topics(self, event: Discover | DiscoveryDue | TopicListChanged, now: float) -> Effects:
        """List the topics of the namespace."""
        self._topics_changed = False
        self._renew()
        return [ListTopics(self.discovery)]

    def count_named(self, event: Discover, now: float) -> Effects:
        """Count the partitions of the named topics, unless the user's call has done so."""
        known = {topic: count for topic, count in self._settings.topics.items() if count is not None}
        for topic, partitions in known.items():
            self._subscribed.set_partitions(topic, partitions)
        self._renew()
        return self._count({topic: () for topic in self._settings.topics if topic not in known})

    def has_failed(self, event: MatchingTopicsListed, now: float) -> bool:
        """Return whether the answer is an error. Then nothing changes."""
        return isinstance(event.outcome, PulsarException)

    def leaves_nothing_to_count(self, event: MatchingTopicsListed, now: float) -> bool:
        """Return whether no topic is new, and none may have changed."""
        return not self._to_count(event)

    def drop_gone(self, event: MatchingTopicsListed, now: float) -> Effects:
        """Close the members of topics that are not listed any longer."""
        listed = self._listed(event)
        gone = [
            number
            for source in self._subscribed.sources
            if source not in listed
            for number in self._subscribed.drop_source(source)
        ]
        if not gone:
            return []
        self._subscribed.close_some(gone)
        topics = tuple(self._subscribed.members[number].topic for number in gone)
        return [*(CloseMember(number) for number in gone), UpdateMembers({}, gone=topics)]

    def drop_gone_and_count(self, event: MatchingTopicsListed, now: float) -> Effects:
        """Close the members of topics not listed any longer, and count partitions that may have changed."""
        gone = self.drop_gone(event, now)
        return [*gone, *self._count(self._to_count(event))]

    def is_last_answer(self, event: PartitionsCounted, now: float) -> bool:
        """Return whether no other answer is awaited."""
        return event.topic in self._counting and len(self._counting) == 1

    def note_count(self, event: PartitionsCounted, now: float) -> Effects:
        """Note the number of partitions, and close outdated members. After an error, count again next time."""
        listed = self._counting.pop(event.topic, ())
        outcome = event.outcome
        if isinstance(outcome, int):
            return self._set_partitions(event.topic, outcome, listed)
        if isinstance(outcome, TopicNotFound) and listed:  # their names only look like those of partitions
            self._subscribed.set_partitions(event.topic, 0, listed)
        return []

    def is_to_look_again(self, event: DiscoverLater, now: float) -> bool:
        """Check whether to look regularly, and for what may change: the topics of a pattern, or partitions."""
        return self._settings.look_again > 0 and (self._settings.has_pattern or bool(self._subscribed.partitioned))

    def rest(self, event: DiscoverLater, now: float) -> Effects:
        """Start the timer of the next discovery."""
        delay = self._settings.look_again
        return [self.timers.start(DiscoveryDue, min(delay, TOPICS_CHANGED_PAUSE) if self._topics_changed else delay)]

    def count_partitioned(self, event: DiscoveryDue, now: float) -> Effects:
        """Count the partitions of the partitioned topics, which may have grown."""
        self._topics_changed = False
        self._renew()
        return self._count(dict.fromkeys(self._subscribed.partitioned, ()))

    def note_change(self, event: TopicListChanged, now: float) -> Effects:
        """Discover again soon after this discovery."""
        self._topics_changed = True
        return []

    def stop(self, event: StopDiscovery, now: float) -> Effects:
        """Make answers and the timer stale."""
        self._renew()
        return []

    def _renew(self) -> None:
        """Make answers and the timer stale."""
        self.timers.stop(DiscoveryDue)
        self.discovery += 1
        self._counting = {}

    def _listed(self, event: MatchingTopicsListed) -> dict[str, tuple[str, ...]]:
        """Return the listed topics, each with the names it was listed as, and the named topics."""
        found = {} if isinstance(event.outcome, PulsarException) else event.outcome
        return {**dict.fromkeys(self._settings.topics, ()), **found}

    def _to_count(self, event: MatchingTopicsListed) -> dict[str, tuple[str, ...]]:
        """Return the topics that are new, or may have other partitions than before."""
        listed = self._listed(event).items()
        return {topic: names for topic, names in listed if not self._subscribed.is_known_as(topic, names or (topic,))}

    def _count(self, topics: dict[str, tuple[str, ...]]) -> Effects:
        self._counting = topics
        return [CountPartitions(self.discovery, topic, self._settings.names(topic)) for topic in topics]

    def _set_partitions(self, topic: str, partitions: int, listed: tuple[str, ...]) -> Effects:
        subscribed = self._subscribed
        has_grown = subscribed.set_partitions(topic, partitions, listed, anew=not self._settings.names(topic))
        outdated = subscribed.outdated(topic)
        subscribed.close_some(outdated)
        grown = [PartitionsGrown(topic, partitions)] if has_grown and partitions else []
        gone = tuple(subscribed.members[number].topic for number in outdated)
        closed = [*(CloseMember(number) for number in outdated), UpdateMembers({}, gone)] if outdated else []
        return [*grown, *closed]
