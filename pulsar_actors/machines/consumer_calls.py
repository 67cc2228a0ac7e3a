"""What a consumer's user asks of the broker to do, and waits for: to seek, and to unsubscribe.

To seek in a stored topic a broker closes its consumers. Where to subscribe again depends on whether the seek succeeds,
so its answer is awaited first; the seek is done when the consumer is bound again. Acknowledgements are sent before
SEEK and held after it: one that overtook it would skip messages of the new place. If the connection ends before the
answer, nobody knows whether the seek took effect; the call fails saying so, and the consumer lives on, rather than seek
again by itself and move a subscription that others may have moved since. An unsubscribe is treated alike, but for an
answer that is late: its caller is told that nobody knows, and the answer is awaited all the same. A consumer whose
subscription is gone gets nothing any longer, and has to hear of that.

A broker that is about to give the topic away may have forgotten the consumer already, and says that it finds none. Then
nothing was done, and the call is made again with the next binding.

A call that finds no binding waits for the next one and is sent then. It fails when it has waited for as long as the
user has agreed to, and so does a seek that is done but for the binding. What was never sent fails with a ConnectError,
for it was not done and may be repeated. However time runs out, the caller is told what went wrong last meanwhile.

The rows that name these guards and actions stand in `consumer.py`.
"""

from abc import abstractmethod
from typing import NamedTuple

from pulsar_actors.exceptions import (
    ConnectError,
    ConnectionLost,
    InvalidArgument,
    OutcomeUnknown,
    PulsarException,
    Timeout,
)
from pulsar_actors.machines.binding_events import BrokerClosed, Detach, Detached, Fail, Migrated
from pulsar_actors.machines.chart import Effects
from pulsar_actors.machines.consumer_events import (
    AskToSeek,
    AskToUnsubscribe,
    CallTimedOut,
    Done,
    Seek,
    SeekAnswered,
    SeekFailed,
    Unsubscribe,
    UnsubscribeAnswered,
    UnsubscribeFailed,
)
from pulsar_actors.machines.consumer_questions import Queries, Query
from pulsar_actors.machines.deliveries import Deliveries
from pulsar_actors.machines.ledgers.backoff import Backoff
from pulsar_actors.machines.ledgers.deadlines import LONGEST
from pulsar_actors.machines.ledgers.last_failure import after
from pulsar_actors.machines.ledgers.seek_command import impossible, seek_command
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandSubscribe,
    CommandUnsubscribe,
)


class Call(NamedTuple):
    """A seek or an unsubscribe on its way, and when its time is up; it waits until it is sent.

    `failure` is what went wrong last since it was made, or kept it from being sent.
    """

    request: Seek | Unsubscribe
    deadline: float
    is_sent: bool
    failure: PulsarException | None = None


class Calls(Queries):
    """The guards and actions for calls, in the order of the consumer's chart."""

    __slots__ = ("_call",)

    def __init__(
        self,
        command: CommandSubscribe,
        deliveries: Deliveries,
        backoff: Backoff,
        operation_timeout: float,
        *,
        tls: bool,
    ) -> None:
        super().__init__(command, deliveries, backoff, operation_timeout, tls=tls)
        self._call: Call | None = None

    @abstractmethod
    def watch_anew(self, now: float) -> Effects:
        """Set the timers that may have passed unheard while there was no use for them."""

    def blame(self, error: PulsarException) -> None:
        """Remember it for a call as well."""
        super().blame(error)
        self._call = None if self._call is None else self._call._replace(failure=error)

    def fail_calls(self, error: PulsarException) -> Effects:
        """Fail a seek or unsubscribe, whose answer is not waited for if it is on its way, and all questions."""
        unanswered = [Fail(query.token, error) for query in self._questions.drain()]
        waits = self.waiting_call() is not None
        return [*self._call_failed(error if waits else OutcomeUnknown(self._unknown(str(error)))), *unanswered]

    # Seek.

    def names_no_place(self, event: Seek, now: float) -> bool:
        """Hold for a target that no topic has."""
        return impossible(event.target) is not None

    def refuse_place(self, event: Seek, now: float) -> Effects:
        """Say what is wrong with it."""
        problem = impossible(event.target)
        assert problem is not None  # noqa: S101 - the guard has looked
        return [Fail(event.token, problem)]

    def ask_to_seek(self, event: Seek, now: float) -> Effects:
        """Send the acknowledgements that are held, then SEEK."""
        return self._send_seek(event, now + self._operation_timeout, now)

    def finish_seek(self, event: SeekAnswered, now: float) -> Effects:
        """Begin anew on the same binding: this broker closed nothing."""
        sought = self.deliveries.sought_while_bound(self._target())
        return [*sought, *self._call_done(), *self.ask_where_it_began(), *self.watch_anew(now)]

    def try_again_when_bound(self, event: SeekFailed | UnsubscribeFailed, now: float) -> Effects:
        """Bind anew, and make the call there if its caller still waits."""
        self._call = None if self._call is None else self._call._replace(is_sent=False)
        return [*self.let_go_refused(event, now), *([] if self._call is None else self._watch_call(now))]

    def fail_call(self, event: SeekFailed | UnsubscribeFailed, now: float) -> Effects:
        """Go on as if nothing had been asked. Subscribing again would bring back what an unsubscribe has deleted."""
        return [*self._call_failed(self._and_before(event.error)), *self.watch_anew(now)]

    def await_seek(self, event: BrokerClosed, now: float) -> Effects:
        """Remember where to go once the seek is answered."""
        self.unbound(now)
        return self.note_broker(event, now)

    def attach_sought(self, event: SeekAnswered, now: float) -> Effects:
        """Subscribe again at the new place, at the broker that was named."""
        return [*self.deliveries.sought(self._target()), *self.attach_assigned(event, now), *self._watch_call(now)]

    def look_up_sought(self, event: SeekAnswered, now: float) -> Effects:
        """Subscribe again at the new place."""
        sought = self.deliveries.sought(self._target())
        return [*sought, Detach(self.connection), self._look_up(), *self._watch_call(now)]

    def fail_seek_unbound(self, event: SeekFailed, now: float) -> Effects:
        """Subscribe again at the old place."""
        return [*self._call_failed(self._and_before(event.error)), *self.let_go_refused(event, now)]

    def lose_call_and_migrate(self, event: Migrated, now: float) -> Effects:
        """Do not wait for an answer: the old cluster's means nothing in the new one."""
        return [*self._call_lost("the topic migrated to another cluster"), *self.migrate(event, now)]

    def lose_call(self, event: Detached, now: float) -> Effects:
        """Tell the caller that nobody knows, and go on."""
        return [*self._call_lost(str(event.error)), *self.back_off(event, now)]

    def refuse_second_call(self, event: Seek | Unsubscribe, now: float) -> Effects:
        """Have one done before the next."""
        return [Fail(event.token, InvalidArgument(f"a running {self._name()} has to end first: wait for it"))]

    def a_call_waits(self, event: Seek | Unsubscribe, now: float) -> bool:
        """Hold while one waits to be sent, or a seek has succeeded and the consumer is not bound again yet."""
        return self._call is not None

    def keep_call(self, event: Seek | Unsubscribe, now: float) -> Effects:
        """Have it wait for the next binding."""
        self._call = Call(event, now + self._operation_timeout, is_sent=False, failure=self._last_error)
        return self._watch_call(now)

    def fail_late_call(self, event: CallTimedOut, now: float) -> Effects:
        """Say how far it came, and what there was instead of a binding."""
        what = f"the {self._name()} of {self.topic}"
        where = f"the consumer is {self.state.name}{self._before()}"
        if self.waiting_call() is not None:
            return self._call_failed(ConnectError(f"{what} was not sent in time: {where}"))
        return self._call_failed(Timeout(f"{what} is done, but there was no new subscription in time: {where}"))

    # Unsubscribe.

    def fail_unanswered_call(self, event: CallTimedOut, now: float) -> Effects:
        """Tell the caller that nobody knows. The answer may still come, and is heeded then."""
        return self._call_failed(Timeout(self._unknown(f"the broker has not answered in time{self._before()}")))

    def await_answer(self, event: Unsubscribe, now: float) -> Effects:
        """Wait for the answer for which the last caller has not waited to the end."""
        self._call = Call(event, now + self._operation_timeout, is_sent=True)
        return self._watch_call(now)

    def ask_to_unsubscribe(self, event: Unsubscribe, now: float) -> Effects:
        """Send the acknowledgements that are held, then UNSUBSCRIBE."""
        return self._send_unsubscribe(event, now + self._operation_timeout, now)

    def end_unsubscribed(self, event: UnsubscribeAnswered, now: float) -> Effects:
        """End: without its subscription a consumer is nothing."""
        return [*self._call_done(), *self._end(None)]

    def lose_call_and_let_go(self, event: BrokerClosed, now: float) -> Effects:
        """Tell the caller that nobody knows, and go on."""
        return [*self._call_lost("the broker closed the consumer"), *self.let_go_closed(event, now)]

    # The end.

    def turn_away(self, event: Seek | Unsubscribe | Query, now: float) -> Effects:
        """Say that it is too late."""
        return [Fail(event.token, self._over)]

    def waiting_call(self) -> Seek | Unsubscribe | None:
        """Give the call that waits for a binding, if one does."""
        return None if self._call is None or self._call.is_sent else self._call.request

    def send_waiting(self, now: float) -> Effects:
        """Send it, now that there is a binding."""
        assert self._call is not None  # noqa: S101 - the guard has looked
        request, deadline = self._call.request, self._call.deadline
        if isinstance(request, Seek):
            return self._send_seek(request, deadline, now)
        return self._send_unsubscribe(request, deadline, now)

    def end_sought(self) -> Effects:
        """End a seek that waited to be bound again."""
        self.timers.stop(CallTimedOut)
        return [] if self.waiting_call() is not None else self._call_done()

    def _send_seek(self, seek: Seek, deadline: float, now: float) -> Effects:
        command = seek_command(self._consumer_id, seek.target, self.deliveries.ledgers.acks.largest_batch)
        acks = self.deliveries.send_acks()
        self._call = Call(seek, deadline, is_sent=True, failure=self._failure())
        return [*acks, AskToSeek(self._next_attempt(), command, max(0.0, deadline - now))]

    def _send_unsubscribe(self, unsubscribe: Unsubscribe, deadline: float, now: float) -> Effects:
        command = CommandUnsubscribe(consumer_id=self._consumer_id, force=unsubscribe.force)
        acks = self.deliveries.send_acks()
        self._call = Call(unsubscribe, deadline, is_sent=True, failure=self._failure())
        return [*acks, AskToUnsubscribe(self._next_attempt(), command, LONGEST), *self._watch_call(now)]

    def _watch_call(self, now: float) -> Effects:
        """Set the timer that ends the caller's waiting."""
        assert self._call is not None  # noqa: S101 - it has just been made, or answered
        return [self.timers.start(CallTimedOut, max(0.0, self._call.deadline - now))]

    def _target(self) -> MessageId | int:
        request = self._request()
        assert isinstance(request, Seek)  # noqa: S101 - the states that come here hold a seek
        return request.target

    def _request(self) -> Seek | Unsubscribe | None:
        return None if self._call is None else self._call.request

    def _failure(self) -> PulsarException | None:
        return None if self._call is None else self._call.failure

    def _before(self) -> str:
        return after(self._failure())

    def _and_before(self, error: PulsarException) -> PulsarException:
        """Add to silence what there was before it; a refusal speaks for itself."""
        before = self._before()
        return Timeout(f"{error}{before}") if before and isinstance(error, Timeout) else error

    def _name(self) -> str:
        """Name the call; only an unsubscribe goes on without its caller."""
        return type(self._request() or Unsubscribe(None)).__name__.lower()

    def _call_done(self) -> Effects:
        self.timers.stop(CallTimedOut)
        call, self._call = self._call, None
        return [] if call is None else [Done(call.request.token)]

    def _call_failed(self, error: PulsarException) -> Effects:
        self.timers.stop(CallTimedOut)
        call, self._call = self._call, None
        return [] if call is None else [Fail(call.request.token, error)]

    def _call_lost(self, why: str) -> Effects:
        return self._call_failed(ConnectionLost(self._unknown(why)))

    def _unknown(self, why: str) -> str:
        return f"the {self._name()} may have taken effect, or not: {why}"
