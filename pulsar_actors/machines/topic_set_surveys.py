"""Which topics a topic set is of, and how many partitions each has, as far as lookups tell; a part of `topic_set.py`.

A survey is one look: a pattern has the namespace listed first, and then each topic that may have partitions is counted.
What a survey was not told stays as it was until the next one; answers to an earlier survey count for nothing.
"""

from pulsar_actors.exceptions import PulsarException, TopicNotFound
from pulsar_actors.machines.binding_events import Open
from pulsar_actors.machines.chart import Effect, Effects, Event
from pulsar_actors.machines.ledgers.fan_outs import about
from pulsar_actors.machines.topic_set_events import (
    Admit,
    CloseMember,
    Counted,
    CountPartitions,
    Grown,
    Listed,
    ListTopics,
    Stirred,
    SurveyDue,
)
from pulsar_actors.machines.topic_set_members import Members
from pulsar_actors.machines.topic_set_settings import TopicSetSettings


class Surveys(Members):
    """The guards and actions for what lookups answer, in the order of the chart."""

    __slots__ = ("_asked", "survey_number")

    def __init__(self, settings: TopicSetSettings) -> None:
        super().__init__(settings)
        self.survey_number: int = 0
        self._asked: dict[str, tuple[str, ...]] = {}  # topics that are being counted, as they were listed

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Drop answers to earlier surveys."""
        survey: int = getattr(event, "survey", self.survey_number)
        if survey != self.survey_number:
            return []
        return super().handle(event, now)

    # Getting to be there.

    def discover(self, event: Open, now: float) -> Effects:
        """Ask which topics there are, and how many partitions each has."""
        if self._settings.has_pattern:
            return self._ask_for_list()
        known = {topic: count for topic, count in self._settings.topics.items() if count is not None}
        for topic, partitions in known.items():
            self.roster.note(topic, partitions)
        return self._count({topic: () for topic in self._settings.topics if topic not in known})

    def is_fatal(self, event: Listed | Counted, now: float) -> bool:
        """Hold for an error, unless a topic that a pattern had found has gone."""
        outcome = event.outcome
        if isinstance(event, Counted) and isinstance(outcome, TopicNotFound) and self._was_found(event.topic):
            return False
        return isinstance(outcome, PulsarException)

    def fail_creation(self, event: Listed | Counted, now: float) -> Effects:
        """Say why there will be no set."""
        assert isinstance(event.outcome, PulsarException)  # noqa: S101 - the guard has looked
        return self._end(about(event.topic, event.outcome) if isinstance(event, Counted) else event.outcome)

    def leaves_nothing(self, event: Listed, now: float) -> bool:
        """Hold when no topic matches, and none is named."""
        return not self._listed(event)

    def begin_empty(self, event: Listed, now: float) -> Effects:
        """Be there, and wait for topics."""
        return self._be_there()

    def count_listed(self, event: Listed, now: float) -> Effects:
        """Ask for the partitions of what was found."""
        return self._count(self._listed(event))

    def is_last_answer(self, event: Counted, now: float) -> bool:
        """Hold when nothing else is asked for."""
        return event.topic in self._asked and len(self._asked) == 1

    def note_and_make(self, event: Counted, now: float) -> Effects:
        """Make the members, or the first of them."""
        self._note(event)
        return self._make_members()

    def note_count(self, event: Counted, now: float) -> Effects:
        """Wait for the others."""
        return self._note(event)

    # In use.

    def has_pattern(self, event: Stirred, now: float) -> bool:
        """Hold where topics come and go."""
        return self._settings.has_pattern

    def survey(self, event: SurveyDue | Stirred, now: float) -> Effects:
        """Look which topics there are by now, and how many partitions each has."""
        self.timers.stop(SurveyDue)
        self._stirred = False
        if self._settings.has_pattern:
            return self._ask_for_list()
        return self._count(dict.fromkeys(self.roster.partitioned, ()))

    def note_stir(self, event: Stirred, now: float) -> Effects:
        """Look again once this look has ended."""
        self._stirred = True
        return []

    def was_not_told(self, event: Listed, now: float) -> bool:
        """Hold for an error: nothing is known, so nothing changes."""
        return isinstance(event.outcome, PulsarException)

    def rest(self, event: Listed, now: float) -> Effects:
        """Look again later."""
        return self._rest()

    def leaves_nothing_to_ask(self, event: Listed, now: float) -> bool:
        """Hold when no topic is new, and none may have grown."""
        return not self._to_count(event)

    def sort_out_and_rest(self, event: Listed, now: float) -> Effects:
        """Close what belongs to topics that are gone, and make what is missing."""
        return [*self._drop_gone(event), *self._make_missing(), *self._rest()]

    def sort_out_and_count(self, event: Listed, now: float) -> Effects:
        """Close what belongs to topics that are gone, and ask for the partitions of the others."""
        gone = self._drop_gone(event)
        return [*gone, *self._count(self._to_count(event))]

    def note_and_grow(self, event: Counted, now: float) -> Effects:
        """Make the members that are missing by now, and look again later."""
        grown = self._note(event)
        return [*grown, *(self._have_places() if self._settings.lazy else self._make_missing()), *self._rest()]

    # What several of these share.

    def _stop_looking(self) -> None:
        self.survey_number += 1
        self.timers.stop(SurveyDue)

    def _listed(self, event: Listed) -> dict[str, tuple[str, ...]]:
        """Give what was found, each topic with the names that it was listed under, and those that are there anyway."""
        found = {} if isinstance(event.outcome, PulsarException) else event.outcome
        return {**dict.fromkeys(self._settings.topics, ()), **found}

    def _ask_for_list(self) -> Effects:
        self.survey_number += 1
        self._asked = {}
        return [ListTopics(self.survey_number)]

    def _count(self, topics: dict[str, tuple[str, ...]]) -> Effects:
        """Ask for the partitions of topics, each of which may have been listed under other names."""
        self.survey_number += not self._settings.has_pattern  # with a pattern it is the same look
        self._asked = topics
        return [CountPartitions(self.survey_number, topic, not self._was_found(topic)) for topic in topics]

    def _note(self, event: Counted) -> Effects:
        """Take note of an answer; what was not told now is asked again at the next look."""
        listed = self._asked.pop(event.topic, ())
        outcome = event.outcome
        if isinstance(outcome, int):
            has_grown = self.roster.note(event.topic, outcome, listed, anew=self._was_found(event.topic))
            outdated = self.roster.outdated(event.topic)
            self.roster.leave_some(outdated)
            grown = [Grown(event.topic, outcome)] if has_grown and outcome else []
            gone = tuple(self.roster.members[number].topic for number in outdated)
            closed = [*(CloseMember(number) for number in outdated), Admit({}, gone)] if outdated else []
            return [*grown, *closed]
        if isinstance(outcome, TopicNotFound) and listed:  # their names only look like those of partitions
            self.roster.note(event.topic, 0, listed)
        return []

    def _to_count(self, event: Listed) -> dict[str, tuple[str, ...]]:
        """Give the topics that are new, or may have more partitions than before, or others."""
        listed = self._listed(event).items()
        return {topic: names for topic, names in listed if not self.roster.is_known_as(topic, names or (topic,))}

    def _drop_gone(self, event: Listed) -> Effects:
        listed = self._listed(event)
        gone = [number for source in self.roster.sources if source not in listed for number in self.roster.drop(source)]
        if not gone:
            return []
        self.roster.leave_some(gone)
        topics = tuple(self.roster.members[number].topic for number in gone)
        return [*(CloseMember(number) for number in gone), Admit({}, gone=topics)]
