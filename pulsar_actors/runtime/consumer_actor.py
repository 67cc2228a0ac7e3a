"""The actor of one consumer on one topic partition.

What arrives goes through its machine into the hand-off queue, still as entries; callers open them. What callers leave,
acknowledgements and reports of what was handed out, goes to the machine before anything else that is heard: so a close,
a seek or the end of a connection never overtakes it.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from pulsar_actors.exceptions import InternalError, PulsarException
from pulsar_actors.machines.connection_events import Tell as Say
from pulsar_actors.machines.consumer import Consumer
from pulsar_actors.machines.consumer_events import (
    Acked,
    AcksAnswered,
    ActiveChange,
    ActiveChanged,
    AskToAck,
    AskToSeek,
    AskToSubscribe,
    AskToTellLast,
    AskToTellStats,
    AskToUnsubscribe,
    Attached,
    ClearQueue,
    DeadLetterFailed,
    DeadLetterSent,
    Done,
    EndReached,
    HandOver,
    LastTold,
    MarkEnd,
    MessagesArrived,
    NoteLeftOut,
    NotePassed,
    NotTold,
    Opened,
    SeekAnswered,
    SeekFailed,
    SendToDeadLetters,
    StatsTold,
    Subscribed,
    SubscribeRefused,
    SubscribeTimedOut,
    Tell,
    UnsubscribeAnswered,
    UnsubscribeFailed,
    WantedAgain,
)
from pulsar_actors.machines.entry_intake import Delivery, Incoming
from pulsar_actors.machines.ledgers.generations import Generation
from pulsar_actors.machines.ledgers.server_errors import refusal
from pulsar_actors.runtime.ack_box import AckBox, AcksLeft
from pulsar_actors.runtime.actor import tell
from pulsar_actors.runtime.binding_actor import BindingActor
from pulsar_actors.runtime.binding_messages import Place
from pulsar_actors.runtime.future import is_promise, settle
from pulsar_actors.runtime.hand_off import HandOff
from pulsar_actors.runtime.loop import Loop
from pulsar_actors.runtime.members import Bound
from pulsar_actors.runtime.outcomes import Outcomes, by_attempt
from pulsar_actors.runtime.ties import Ties
from pulsar_actors.wire.frames import message_limit
from pulsar_actors.wire.message_id import MessageId
from pulsar_actors.wire.PulsarApi_pb2 import (
    CommandAckResponse,
    CommandActiveConsumerChange,
    CommandConsumerStatsResponse,
    CommandGetLastMessageIdResponse,
    CommandMessage,
    CommandReachedEndOfTopic,
)


class Serve(NamedTuple):
    """Somebody waits for a message by a future."""


class After(NamedTuple):
    """Somebody has a future that is to end after so many seconds, on this loop, with what there is."""

    seconds: float
    end: Callable[[], object]


DeadLetterBox = Callable[[Delivery, Generation, Callable[[Exception | None], None]], None]
"""Send an entry to the dead letter topic, and say how that went. Called on the loop, answered from anywhere."""


class Wiring(NamedTuple):
    """What a consumer's actor shares with its callers, and whom else it tells."""

    hand_off: HandOff
    acks: AckBox
    dead_letters: DeadLetterBox | None
    active_change: Callable[[bool], None]
    arrived: Callable[[], None]  # there is something for a listener
    wanted_again: Callable[[WantedAgain], None] = lambda _: None


def _stats_answered(question: int, answer: CommandConsumerStatsResponse) -> StatsTold | NotTold:
    if answer.HasField("error_code"):
        return NotTold(question, refusal(answer.error_code, answer.error_message))
    return StatsTold(question, answer)


def _acks_answered(ack: int, answer: CommandAckResponse) -> AcksAnswered:
    return AcksAnswered(ack, refusal(answer.error, answer.message) if answer.HasField("error") else None)


class ConsumerActor(BindingActor[Consumer]):
    """One consumer."""

    def __init__(self, loop: Loop, place: Place, ties: Ties, machine: Consumer, wiring: Wiring) -> None:
        super().__init__(loop, place, ties)
        self.machine = machine
        self._wiring = wiring
        self._hand_off = wiring.hand_off
        self._acks = wiring.acks

    def receive(self, message: object) -> None:
        """Take first what callers have acknowledged, but for the news that they have."""
        if isinstance(message, AcksLeft):
            if message.delay:
                self.later(message.delay, self._empty_acks, None)
            else:
                self._empty_acks(None)
            return
        self._empty_acks(None)
        super().receive(message)

    def call(self, message: object) -> None:
        """Take what callers ask for."""
        match message:
            case Serve():
                self._hand_off.serve()
            case After(seconds, end):
                self.later(seconds, lambda _: end(), None)
            case _:
                self.feed(message)

    def bound(self, message: Bound) -> None:
        """Note the broker's limit, and ask it for the consumer."""
        self._hand_off.max_message_size = message_limit(message.max_message_size)
        opened, now_ms = self._hand_off.progress.opened, self.loop.wall_clock_ms()
        self.feed(Attached(message.number, opened, message.max_message_size, now_ms))

    def hear(self, commands: tuple[tuple[Any, memoryview], ...]) -> None:
        """Take messages, all of one read at once, and what else concerns the consumer, in its order."""
        incoming: list[Incoming] = []
        for command, rest in commands:
            if isinstance(command, CommandMessage):
                incoming.append(Incoming(command, rest))
                continue
            self._messages_arrived(incoming)
            incoming = []
            self._hear_news(command)
        self._messages_arrived(incoming)

    def end(self, error: PulsarException) -> None:
        """Hand out nothing more."""
        super().end(error)
        self._hand_off.end(error)
        self._wiring.arrived()

    def abandon(self, bug: InternalError) -> None:
        """Fail the acknowledgements that wait for an answer, too."""
        try:
            for token in self.machine.deliveries.ledgers.acks.abandon():
                settle(token, bug)
        finally:
            super().abandon(bug)

    def _messages_arrived(self, incoming: Sequence[Incoming]) -> None:
        if incoming:
            number, now_ms = self.machine.connection, self.loop.wall_clock_ms()
            self.feed(MessagesArrived(number, tuple(incoming), now_ms))

    def _hear_news(self, command: Any) -> None:  # noqa: ANN401 - any command to a consumer
        number = self.machine.connection
        if isinstance(command, CommandReachedEndOfTopic):
            self.feed(EndReached(number))
        elif isinstance(command, CommandActiveConsumerChange):
            self.feed(ActiveChanged(number, command.is_active))
        else:
            self.hear_closing(command)

    def _empty_acks(self, _: None) -> None:
        if self._acks:
            for event in self._acks.empty():
                self.feed(event)

    # One method for each effect.

    def _put_question(self, effect: AskToTellLast | AskToTellStats) -> None:
        self.ask(effect, effect.question)

    def _ask_to_ack(self, effect: AskToAck) -> None:
        self.ask(effect, effect.ack)

    def _tell_broker(self, effect: Tell) -> None:
        self.say(Say(effect.command))

    def _clear_queue(self, effect: ClearQueue) -> None:
        self._hand_off.clear(effect.generation)

    def _hand_over(self, effect: HandOver) -> None:
        self._hand_off.add(effect.entries)
        self._wiring.arrived()

    def _note_left_out(self, effect: NoteLeftOut) -> None:
        self._hand_off.progress.leave_out(effect.left_out)

    def _note_passed(self, effect: NotePassed) -> None:
        self._hand_off.progress.passed = effect.entry

    def _mark_end(self, effect: MarkEnd) -> None:
        self._hand_off.mark_end()
        self._wiring.arrived()

    def _change_activity(self, effect: ActiveChange) -> None:
        self._wiring.active_change(effect.is_active)

    def _tell_what_is_wanted_again(self, effect: WantedAgain) -> None:
        self._wiring.wanted_again(effect)

    def _send_to_dead_letters(self, effect: SendToDeadLetters) -> None:
        send = self._wiring.dead_letters
        assert send is not None  # noqa: S101 - only a consumer with a policy has dead letters
        generation = self._hand_off.generation
        for delivery in effect.entries:
            send(delivery, generation, self._dead_letter_report(delivery.message_id, generation))

    def _dead_letter_report(self, message_id: MessageId, generation: Generation) -> Callable[[Exception | None], None]:
        def report(error: Exception | None) -> None:
            tell(self.actor_ref, DeadLetterFailed(message_id) if error else DeadLetterSent(generation, message_id))

        return report

    def _acked(self, effect: Acked) -> None:
        for token in effect.tokens:
            if effect.error is None:
                self.debts.pay(token, None)
            else:
                self.debts.fail(token, effect.error)

    def _opened(self, effect: Opened) -> None:
        settle(self.created, None)

    def _done(self, effect: Done) -> None:
        done = effect.token
        assert is_promise(done)  # noqa: S101 - the token of a call
        self.debts.pay(done, effect.answer)

    OUTCOMES: ClassVar = {
        **BindingActor.OUTCOMES,
        AskToSubscribe: Outcomes(by_attempt(Subscribed), SubscribeRefused, by_attempt(SubscribeTimedOut)),
        AskToSeek: Outcomes(by_attempt(SeekAnswered), SeekFailed, SeekFailed),
        AskToUnsubscribe: Outcomes(by_attempt(UnsubscribeAnswered), UnsubscribeFailed, UnsubscribeFailed),
        AskToTellLast: Outcomes(LastTold, NotTold, NotTold, CommandGetLastMessageIdResponse),
        AskToTellStats: Outcomes(_stats_answered, NotTold, NotTold, CommandConsumerStatsResponse),
        AskToAck: Outcomes(_acks_answered, AcksAnswered, AcksAnswered, CommandAckResponse),
    }
    PERFORMS: ClassVar = {
        **BindingActor.PERFORMS,
        AskToSubscribe: BindingActor[Consumer].ask_attempt,
        AskToSeek: BindingActor[Consumer].ask_attempt,
        AskToUnsubscribe: BindingActor[Consumer].ask_attempt,
        AskToTellLast: _put_question,
        AskToTellStats: _put_question,
        AskToAck: _ask_to_ack,
        Tell: _tell_broker,
        ClearQueue: _clear_queue,
        HandOver: _hand_over,
        NoteLeftOut: _note_left_out,
        NotePassed: _note_passed,
        MarkEnd: _mark_end,
        ActiveChange: _change_activity,
        WantedAgain: _tell_what_is_wanted_again,
        SendToDeadLetters: _send_to_dead_letters,
        Acked: _acked,
        Opened: _opened,
        Done: _done,
    }
