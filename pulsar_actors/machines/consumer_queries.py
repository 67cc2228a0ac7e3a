"""The queries of a consumer: the ID of the topic's last message, and the broker's statistics of the consumer.

A query changes nothing at a broker. It waits for a binding. If the binding is lost before the answer, the query is sent
again with the next one, until its time limit is over. Its error then names the last failure while it was open.
"""

from enum import Enum, unique
from typing import Final

from pulsar_actors.exceptions import PulsarException, Timeout
from pulsar_actors.machines.chart import INTERNAL, Chart, Effects, Ignore, Row
from pulsar_actors.machines.connection_handler import ConnectionHandler
from pulsar_actors.machines.connection_handler_events import Fail
from pulsar_actors.machines.consumer_events import (
    AskToGetConsumerStats,
    AskToGetLastMessageId,
    Bound,
    Closing,
    ConsumerCallDone,
    ConsumerStatsAnswered,
    GetConsumerStats,
    GetLastMessageId,
    LastMessage,
    LastMessageIdAnswered,
    QueriesDue,
    QueryFailed,
    Unbound,
)
from pulsar_actors.machines.state_machine import StateMachine
from pulsar_actors.machines.trackers.pending_queries import LateQuery, PendingQueries, QueryToSend
from pulsar_actors.machines.trackers.server_errors import is_consumer_not_found, last_failure_text
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandConsumerStats,
    CommandConsumerStatsResponse,
    CommandGetLastMessageId,
)

Query = GetLastMessageId | GetConsumerStats

_QUERY_TEXTS: Final[dict[type, str]] = {
    GetLastMessageId: "which message of {} is the last",
    GetConsumerStats: "what the broker counts of a consumer of {}",
}


@unique
class State(Enum):
    """The states of a consumer's queries."""

    UNBOUND = "Queries wait for the next binding."
    BOUND = "Queries are sent as they come."
    OVER = "The consumer is closing or closed."


UNBOUND, BOUND, OVER = State

# fmt: off
ROWS: Final = (
    #   trigger                source            dest      guard                     does
    Row(Bound,                 UNBOUND,          BOUND,    None,                     "send_waiting"),
    Row(Unbound,               BOUND,            UNBOUND,  None,                     "unbind"),
    Row(GetLastMessageId,      BOUND,            INTERNAL, None,                     "send"),
    Row(GetConsumerStats,      BOUND,            INTERNAL, None,                     "send"),
    Row(LastMessageIdAnswered, BOUND,            INTERNAL, None,                     "answer_last_message_id"),
    Row(ConsumerStatsAnswered, BOUND,            INTERNAL, None,                     "answer_stats"),
    Row(QueryFailed,           BOUND,            INTERNAL, "broker_forgot_consumer", "send_again_when_bound"),
    Row(QueryFailed,           BOUND,            INTERNAL, "is_out_of_time",         "fail_late_query"),
    Row(QueryFailed,           BOUND,            INTERNAL, None,                     "fail_query"),
    Row(GetLastMessageId,      UNBOUND,          INTERNAL, None,                     "keep"),
    Row(GetConsumerStats,      UNBOUND,          INTERNAL, None,                     "keep"),
    Row(QueriesDue,            (UNBOUND, BOUND), INTERNAL, None,                     "fail_late_queries"),
    Row(Closing,               (UNBOUND, BOUND), OVER,     None,                     "fail_all"),
    Row(GetLastMessageId,      OVER,             INTERNAL, None,                     "fail_query_after_end"),
    Row(GetConsumerStats,      OVER,             INTERNAL, None,                     "fail_query_after_end"),
)

IGNORES: Final = (
    Ignore(Unbound, (UNBOUND, OVER)),
    Ignore(Closing, OVER),
    Ignore((LastMessageIdAnswered, ConsumerStatsAnswered, QueryFailed), (UNBOUND, OVER)),
    Ignore(QueriesDue, OVER),
)
# fmt: on

CHART: Final = Chart(
    "consumer_queries",
    states=State,
    initial=UNBOUND,
    final=(OVER,),
    ours=(GetLastMessageId, GetConsumerStats),
    rows=ROWS,
    ignores=IGNORES,
    inner=(Bound, Unbound, Closing),
)


class ConsumerQueries(StateMachine, chart=CHART):
    """The queries of one consumer: the guards and actions in the chart's order."""

    __slots__ = ("_consumer_id", "_handler", "_queries")

    def __init__(self, handler: ConnectionHandler, consumer_id: int) -> None:
        super().__init__(handler)
        self._handler = handler
        self._consumer_id = consumer_id
        self._queries: PendingQueries[Query] = PendingQueries()

    def note_error(self, error: PulsarException) -> None:
        """Remember the error for each open query."""
        self._queries.note_failure(error)

    def send_waiting(self, event: Bound, now: float) -> Effects:
        """Send the queries that wait."""
        return self._send_waiting(now)

    def unbind(self, event: Unbound, now: float) -> Effects:
        """Mark all queries as unsent, for the next binding."""
        self._queries.unbind()
        return []

    def send(self, event: Query, now: float) -> Effects:
        """Send a query."""
        self._queries.add(event, event.deadline)
        return [*self._watch(now), *self._send_waiting(now)]

    def answer_last_message_id(self, event: LastMessageIdAnswered, now: float) -> Effects:
        """Complete the query with the ID of the last message."""
        command, acknowledged = event.command, None
        if command.HasField("consumer_mark_delete_position"):
            acknowledged = MessageId.from_data(command.consumer_mark_delete_position)
        return self._answer(event.query_number, LastMessage(MessageId.from_data(command.last_message_id), acknowledged))

    def answer_stats(self, event: ConsumerStatsAnswered, now: float) -> Effects:
        """Complete the query with the statistics."""
        return self._answer(event.query_number, event.command)

    def broker_forgot_consumer(self, event: QueryFailed, now: float) -> bool:
        """Return whether the broker does not know the consumer any longer."""
        return is_consumer_not_found(event.error)

    def send_again_when_bound(self, event: QueryFailed, now: float) -> Effects:
        """Keep the query for the next binding."""
        self._queries.retry_later(event.query_number, event.error)
        return []

    def is_out_of_time(self, event: QueryFailed, now: float) -> bool:
        """Return whether the broker did not answer in time."""
        return isinstance(event.error, Timeout)

    def fail_late_query(self, event: QueryFailed, now: float) -> Effects:
        """Fail the query, and name the last failure."""
        late = self._queries.late(event.query_number)
        return [] if late is None else [self._late(late)]

    def fail_query(self, event: QueryFailed, now: float) -> Effects:
        """Fail the query with the broker's error."""
        query = self._queries.answered(event.query_number)
        return [] if query is None else [Fail(query.token, event.error)]

    def keep(self, event: Query, now: float) -> Effects:
        """Keep the query for the next binding; its time limit runs."""
        self._queries.add(event, event.deadline, self._handler.last_error)
        return self._watch(now)

    def fail_late_queries(self, event: QueriesDue, now: float) -> Effects:
        """Fail the queries that are late, and name the last failure of each."""
        return [*(self._late(one) for one in self._queries.expire(now)), *self._watch(now)]

    def fail_all(self, event: Closing, now: float) -> Effects:
        """Fail all queries."""
        return [Fail(query.token, event.error) for query in self._queries.drain()]

    def fail_query_after_end(self, event: Query, now: float) -> Effects:
        """Fail a query after the end."""
        return [Fail(event.token, self._handler.ending)]

    def _send_waiting(self, now: float) -> Effects:
        return [self._request(query, now) for query in self._queries.take_unasked()]

    def _request(self, query: QueryToSend, now: float) -> AskToGetLastMessageId | AskToGetConsumerStats:
        left = max(0.0, query.deadline - now)
        if isinstance(query.token, GetConsumerStats):
            stats = CommandConsumerStats(consumer_id=self._consumer_id, request_id=0)
            return AskToGetConsumerStats(query.number, stats, left)
        last = CommandGetLastMessageId(consumer_id=self._consumer_id, request_id=0)
        return AskToGetLastMessageId(query.number, last, left)

    def _answer(self, query_number: int, answer: LastMessage | CommandConsumerStatsResponse) -> Effects:
        query = self._queries.answered(query_number)
        return [] if query is None else [ConsumerCallDone(query.token, answer)]

    def _late(self, late: LateQuery[Query]) -> Fail:
        query, handler = late.token, self._handler
        what = _QUERY_TEXTS[type(query)].format(handler.topic)
        where = f"the consumer is {handler.state_name}{last_failure_text(late.failure)}"
        return Fail(query.token, Timeout(f"{what} was not told in time: {where}"))

    def _watch(self, now: float) -> Effects:
        return self.timers.ensure(QueriesDue, self._queries.next_deadline(), now)
