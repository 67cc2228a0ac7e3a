"""What a consumer's user wants to be told by the broker: which message is the last, and what it counts of the consumer.

A question changes nothing at a broker. It waits for a binding, and is asked again on the next one if it loses its own,
until its time is up. A reader that starts at the end of its topic asks one of its own, once bound: the answer names the
entry behind which it began. Before that its user does not hear that it is there: would the connection be lost, it would
begin at an end that has moved, and miss what came.

The rows that name these guards and actions stand in `consumer.py`.
"""

from typing import Final

from pulsar_actors.exceptions import BrokerRefusal, ConsumerNotFound, PulsarException, Timeout
from pulsar_actors.machines.binding import Binding
from pulsar_actors.machines.binding_events import Fail
from pulsar_actors.machines.chart import Effects
from pulsar_actors.machines.consumer_events import (
    AskForLast,
    AskForStats,
    AskToTellLast,
    AskToTellStats,
    Done,
    LastMessage,
    LastTold,
    NotTold,
    Opened,
    QuestionsDue,
    SeekFailed,
    StatsTold,
    UnsubscribeFailed,
)
from pulsar_actors.machines.deliveries import Deliveries
from pulsar_actors.machines.ledgers.backoff import Backoff
from pulsar_actors.machines.ledgers.last_failure import after
from pulsar_actors.machines.ledgers.questions import Late, Questions
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandGetLastMessageId,
    CommandSubscribe,
)

OWN_QUESTION: Final = 0
"""Those of callers are counted from 1."""

NOT_FOUND: Final = "Consumer not found"
"""A broker's words for a consumer that it has forgotten. Their code, MetadataError, means many things."""

Query = AskForLast | AskForStats

_ASKED: Final[dict[type, str]] = {
    AskForLast: "which message of {} is the last",
    AskForStats: "what the broker counts of a consumer of {}",
}


class Queries(Binding):
    """The guards and actions for questions, in the order of the consumer's chart."""

    __slots__ = ("_consumer_id", "_questions", "_questions_at", "deliveries")

    def __init__(
        self,
        command: CommandSubscribe,
        deliveries: Deliveries,
        backoff: Backoff,
        operation_timeout: float,
        *,
        tls: bool,
    ) -> None:
        super().__init__(command.topic, backoff, operation_timeout, tls=tls)
        self.deliveries = deliveries
        self._consumer_id = command.consumer_id
        self._questions: Questions[Query] = Questions()
        self._questions_at: float | None = None

    def blame(self, error: PulsarException) -> None:
        """Remember it for every open question as well: it outlives the next binding."""
        super().blame(error)
        self._questions.note_failure(error)

    def has_lost_us(self, event: SeekFailed | UnsubscribeFailed | NotTold, now: float) -> bool:
        """Hold when the broker has no such consumer any longer: it was not asked in time, and did nothing."""
        error = event.error
        return isinstance(error, ConsumerNotFound) or (isinstance(error, BrokerRefusal) and error.reason == NOT_FOUND)

    def put_question(self, event: Query, now: float) -> Effects:
        """Ask at once."""
        return [*self.note_question(event, now), *self.ask_all(now)]

    def tells_the_start(self, event: LastTold, now: float) -> bool:
        """Hold for the answer to our own question, if the broker says as much."""
        return event.question == OWN_QUESTION and event.command.HasField("consumer_mark_delete_position")

    def note_start(self, event: LastTold, now: float) -> Effects:
        """Go on from there on the next binding, unless something is opened until then, and tell the user."""
        self.deliveries.ledgers.start.moor(MessageId.from_data(event.command.consumer_mark_delete_position))
        return self.announced()

    def is_our_own(self, event: LastTold | NotTold, now: float) -> bool:
        """Hold for our own question, which the broker cannot answer: it is too old, for example."""
        return event.question == OWN_QUESTION

    def announce(self, event: LastTold | NotTold, now: float) -> Effects:
        """Tell the user all the same: nobody can know where it began."""
        return self.announced()

    def announced(self) -> Effects:
        """Tell the user that there is a binding, if it is the first."""
        return [Opened()] if self._accepted() else []

    def answer_question(self, event: LastTold, now: float) -> Effects:
        """Give the answer to whoever asked."""
        command, acknowledged = event.command, None
        if command.HasField("consumer_mark_delete_position"):
            acknowledged = MessageId.from_data(command.consumer_mark_delete_position)
        last = LastMessage(MessageId.from_data(command.last_message_id), acknowledged)
        return self._answer(event.question, last)

    def pass_stats_on(self, event: StatsTold, now: float) -> Effects:
        """Give the answer to whoever asked."""
        return self._answer(event.question, event.command)

    def ask_again_when_bound(self, event: NotTold, now: float) -> Effects:
        """Keep it for the next binding, which cannot be far."""
        self._questions.put_off(event.question, event.error)
        return []

    def is_out_of_time(self, event: NotTold, now: float) -> bool:
        """Hold when the last asking had no answer, which is as if the question had been late without it."""
        return isinstance(event.error, Timeout)

    def fail_late_question(self, event: NotTold, now: float) -> Effects:
        """Say what there was instead of an answer."""
        late = self._questions.late(event.question)
        return [] if late is None else [self._fail_late(late)]

    def fail_question(self, event: NotTold, now: float) -> Effects:
        """Pass the error on."""
        query = self._questions.answered(event.question)
        return [] if query is None else [Fail(query.token, event.error)]

    def note_question(self, event: Query, now: float) -> Effects:
        """Keep it for the next binding; its time runs."""
        self._questions.add(event, event.deadline, None if self.is_bound else self._last_error)
        return self._watch_questions(now)

    def fail_late_questions(self, event: QuestionsDue, now: float) -> Effects:
        """Say what there was instead of an answer."""
        late = [self._fail_late(one) for one in self._questions.expire(now)]
        self._questions_at = None
        return [*late, *self._watch_questions(now)]

    def forget_failures(self) -> None:
        """Blame what went wrong before this binding for nothing, unless somebody has waited for a receipt since then.

        Questions and calls remember what went wrong while they waited.
        """
        if self.deliveries.receipts.next_deadline() is None:
            self._last_error = None

    def ask_where_it_began(self) -> Effects:
        """Put the question of a reader that has just begun at the end of its topic."""
        if not self.deliveries.starts_adrift:
            return []
        return [AskToTellLast(OWN_QUESTION, self._last_asked(), self._operation_timeout)]

    def ask_all(self, now: float) -> Effects:
        """Put the questions that wait to the broker."""
        return [self._asking(*asking, now) for asking in self._questions.take_unasked()]

    def _fail_late(self, late: Late[Query]) -> Fail:
        query, failure = late.token, late.failure
        what = _ASKED[type(query)].format(self.topic)
        where = f"the consumer is {self.state.name}{after(failure)}"
        return Fail(query.token, Timeout(f"{what} was not told in time: {where}"))

    def _asking(self, number: int, query: Query, deadline: float, now: float) -> AskToTellLast | AskToTellStats:
        left = max(0.0, deadline - now)
        if isinstance(query, AskForStats):
            return AskToTellStats(number, CommandConsumerStats(consumer_id=self._consumer_id, request_id=0), left)
        return AskToTellLast(number, self._last_asked(), left)

    def _last_asked(self) -> CommandGetLastMessageId:
        return CommandGetLastMessageId(consumer_id=self._consumer_id, request_id=0)

    def _answer(self, question: int, answer: LastMessage | CommandConsumerStatsResponse) -> Effects:
        query = self._questions.answered(question)
        return [] if query is None else [Done(query.token, answer)]

    def _watch_questions(self, now: float) -> Effects:
        """Set the timer for the question that is due first, unless it comes early enough already."""
        deadline = self._questions.next_deadline()
        if deadline is None or (self._questions_at is not None and self._questions_at <= deadline):
            return []
        self._questions_at = deadline
        return [self.timers.start(QuestionsDue, max(0.0, deadline - now))]
